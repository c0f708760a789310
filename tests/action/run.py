#!/usr/bin/env python3
"""usage: run.py --root DIR --testdata DIR --tools DIR | --wheel FILE

tools/action/action.yml, run step by step as GitHub's runner does it: each `run` is a file for `bash --noprofile --norc -eo pipefail`,
with fresh files for outputs, paths and the summary, and what the steps print is searched for workflow commands by the runner's rules.
.pre-commit-hooks.yaml, run by pre-commit itself. Judges that nobody here wrote: the schema of check-jsonschema, markdown-it-py
for the summary, pip, pre-commit. --tools: a wheel of pgcheck alone stands in for the real one.

Needs PyYAML and the judges, here or in the Python of PG_PACKAGES_PYTHON; else it is skipped (77)."""
import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

if not all(importlib.util.find_spec(m) for m in ('yaml', 'check_jsonschema', 'markdown_it', 'pre_commit')):
    judge = os.environ.pop('PG_PACKAGES_PYTHON', '')  # once
    if not os.path.exists(judge):
        print('needs PyYAML, check-jsonschema, markdown-it-py and pre-commit, or PG_PACKAGES_PYTHON')
        sys.exit(77)
    os.execv(judge, [judge, *sys.argv])
import markdown_it  # noqa: E402
import yaml  # noqa: E402

parser = argparse.ArgumentParser()
for name in 'root', 'testdata', 'tools', 'wheel':
    parser.add_argument('--' + name, required=name in ('root', 'testdata'), type=lambda p: pathlib.Path(p).resolve())
args = parser.parse_args()
action = args.root / 'tools/action'
files = args.testdata / 'files/keras-2.2.4/cnn4-g2'
n_bad = n_ran = 0


def expect(what, ok, *text):
    global n_bad, n_ran
    n_ran += 1
    if not ok:
        n_bad += 1
        print(f'FAIL {what}:', *text, sep='\n')


def stand_in(folder):
    """A wheel by its own rules: pip puts what lies in NAME.data/scripts into bin/."""
    path = folder / 'pgfit-0.0-py3-none-any.whl'
    with zipfile.ZipFile(path, 'w') as z:
        z.write(args.tools / 'pgcheck', 'pgfit-0.0.data/scripts/pgcheck')
        z.writestr('pgfit-0.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: pgfit\nVersion: 0.0\n')
        z.writestr('pgfit-0.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        z.writestr('pgfit-0.0.dist-info/RECORD', ''.join(n + ',,\n' for n in z.namelist() + ['pgfit-0.0.dist-info/RECORD']))
    return path


# ---- the runner ----

def decoded(text, is_property):
    for code, char in (('%0D', '\r'), ('%0A', '\n')) + ((('%3A', ':'), ('%2C', ',')) if is_property else ()) + (('%25', '%'),):
        text = text.replace(code, char)
    return text


def commands(log):
    """The workflow commands that the runner finds: lines that begin with "::", blanks before it left out; none between
    ::stop-commands::TOKEN and ::TOKEN::, and "##[" anywhere in other lines, as in old days."""
    found, token = [], None
    for line in log.splitlines():
        m = re.fullmatch(r'::([\w-]+)(?: (.*?))?::(.*)', line.lstrip())
        if token:
            token = None if line.strip() == f'::{token}::' else token
        elif m and m.group(1) == 'stop-commands':
            token = m.group(3)
        elif m:
            pairs = (p.partition('=') for p in (m.group(2) or '').split(',') if p)
            found.append((m.group(1), {k.strip(): decoded(v, True) for k, _, v in pairs}, decoded(m.group(3), False)))
        elif '##[' in line:
            found.append(('old', {}, line))
    return found


class Run:
    def __init__(self, top, workspace, **inputs):
        self.ok, self.log, self.summary, self.path, steps = True, '', '', os.environ['PATH'], {}
        temp = top / 'runner'
        temp.mkdir(exist_ok=True)
        described = yaml.safe_load((action / 'action.yml').read_text())
        values = {k: v.get('default', '') for k, v in described['inputs'].items()}
        values.update({k.replace('_', '-'): v for k, v in inputs.items()})
        unknown = set(values) - set(described['inputs'])
        assert not unknown, unknown

        def filled(text):
            text = re.sub(r'\$\{\{ inputs\.([\w-]+) \}\}', lambda m: values[m.group(1)], text)
            return re.sub(r'\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}', lambda m: steps.get(m.group(1), {}).get(m.group(2), ''), text)
        for step in described['runs']['steps']:
            place = pathlib.Path(tempfile.mkdtemp(dir=temp))
            env = {'PATH': self.path, 'HOME': os.environ['HOME'], 'LC_ALL': 'C.UTF-8', 'CI': 'true', 'GITHUB_ACTIONS': 'true', 'RUNNER_TEMP': str(temp),
                   'GITHUB_WORKSPACE': str(workspace), 'GITHUB_ACTION_PATH': str(action), **{k: v for k, v in os.environ.items() if k.startswith('PIP_')}}
            for name in 'GITHUB_OUTPUT', 'GITHUB_PATH', 'GITHUB_STEP_SUMMARY', 'GITHUB_ENV', 'GITHUB_STATE':
                env[name] = str(place / name)
                pathlib.Path(env[name]).touch()
            env.update({k: filled(v) for k, v in step.get('env', {}).items()})
            assert step['shell'] == 'bash'
            (place / 'step.sh').write_text(filled(step['run']))
            r = subprocess.run(['bash', '--noprofile', '--norc', '-eo', 'pipefail', place / 'step.sh'], env=env, cwd=workspace, text=True, errors='replace',
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
            self.log += r.stdout
            for line in (place / 'GITHUB_OUTPUT').read_text().splitlines():
                steps.setdefault(step.get('id'), {}).update([line.split('=', 1)])
            self.summary += (place / 'GITHUB_STEP_SUMMARY').read_text()
            self.path = ':'.join((place / 'GITHUB_PATH').read_text().split() + [self.path])
            self.ok = r.returncode == 0
            if not self.ok:
                break
        self.outputs = {k: filled(v['value']) for k, v in described['outputs'].items()}
        self.commands = commands(self.log)

    def of(self, kind):
        return [(p, text) for k, p, text in self.commands if k == kind]

    def table(self):
        """Rows of the summary as a renderer of Markdown shows them; HTML in it only where we put it."""
        tokens = markdown_it.MarkdownIt('commonmark').enable('table').parse(self.summary)
        rows = []
        for t in tokens:
            if t.type == 'tr_open':
                rows.append([])
            elif t.type == 'inline' and rows and t.level > 3:
                html = [c.content for c in t.children if c.type == 'html_inline']
                expect('no HTML from a name', set(html) <= {'<br>'}, html)
                rows[-1].append(''.join('\n' if c.type == 'html_inline' else c.content for c in t.children))
        return rows[1:]


def try_action(top, wheel):
    space = top / 'work space'
    (space / 'a b/deep').mkdir(parents=True)
    good = [space / 'top.h5', space / 'a b/c d.h5', space / 'a b/deep/[1]*.h5']
    for path in good:
        shutil.copy(files / 'template_weights.h5', path)
    shutil.copy(files / 'template.json', space / 'model.json')
    shutil.copy(wheel, space)
    wheel = 'pgfit-*.whl'
    fine = Run(top, space, wheel=wheel, files='  **/*.h5\n\n a b/*.h5\n')
    expect('good files: the job goes on', fine.ok, fine.log)
    expect('outputs', fine.outputs == {'files': '3', 'status': '0'}, fine.outputs)
    expect('no annotation', fine.commands == [], fine.log)
    expect('a row for each', sorted(r[:2] for r in fine.table()) == sorted([str(p.relative_to(space)), 'passed'] for p in good), fine.summary)
    expect('later steps find the tools', shutil.which('pgcheck', path=fine.path) == str(top / 'runner/pgfit/bin/pgcheck'), fine.path)
    one = Run(top, space, wheel=wheel, files='a b/deep/[1]*.h5', model='model.json', device='cpu:0', options='--strict\n  --sha256=sums', jobs='1')
    expect('options reach pgcheck', not one.ok and 'sums' in one.log, one.log)
    one = Run(top, space, wheel=wheel, files='a b/deep/[1]*.h5', model='model.json', device='cpu:0', options='--strict\n')
    expect('a name with marks of patterns is a name; a model, and a reload', one.ok and one.outputs['files'] == '1', one.log)

    odd = space / 'odd,%0A:`|<b>\n::set-output name=x::y\n##[add-path]z.h5'
    shutil.copy(files / 'wrapper_weights.h5', odd)
    (space / 'half.h5').write_bytes((args.testdata / 'negative/truncated_half.h5').read_bytes())
    bad = Run(top, space, wheel=wheel, files='*.h5', model='model.json')
    expect('bad files: the job fails', not bad.ok and bad.outputs == {'files': '3', 'status': '2'}, bad.outputs, bad.log)
    expect('annotations, and no other commands', {k for k, _, _ in bad.commands} == {'error'}, bad.log)
    shown = str(odd.relative_to(space)).replace('\n', '\\x0a')
    where = [(p['file'], p['title']) for p, _ in bad.of('error')]
    expect('each at its file, with a title', sorted(where) == sorted([('half.h5', 'pgcheck: container'), (shown, 'pgcheck: structure'), (shown, 'pgcheck: wrapper')]), where)
    text = dict(zip(where, (t for _, t in bad.of('error'))))[shown, 'pgcheck: structure']
    expect('the lines of a message', text.startswith('file has 1 layer with weights, model.json has 4\n') and len(text.splitlines()) >= 4, text)
    rows = bad.table()
    expect('what failed stands first', [r[:2] for r in rows] == [['half.h5', 'error'], [shown, 'failed'], ['top.h5', 'passed']], rows)
    expect('and why', rows[0][2].startswith('container: truncated: holds 10,556 of 21,112 bytes'), rows)

    for if_none, ok, kinds in ('error', False, {'warning', 'error'}), ('warning', True, {'warning'}), ('ignore', True, {'notice'}):
        none = Run(top, space, wheel=wheel, files='no such/**/*.h5\n', if_none=if_none)
        expect(f'nothing matches, {if_none}', none.ok == ok and {k for k, _, _ in none.commands} == kinds and none.outputs['files'] == '0', none.log)
    some = Run(top, space, wheel=wheel, files='top.h5\nno*such')
    expect('one pattern without a file is told', some.ok and [t for _, t in some.of('warning')] == ['no file matches no*such'], some.log)
    wrong = Run(top, space, wheel=wheel, files='top.h5', options='--no-such-option\n')
    expect('an option that is none', not wrong.ok and wrong.outputs['status'] == '2' and 'no-such-option' in wrong.log, wrong.log)
    expect('a missing wheel', not Run(top, space, wheel='none-*.whl', files='top.h5').ok)


# ---- pre-commit ----

def try_pre_commit(top, wheel):
    hooks, repo = top / 'hooks', top / 'repo'
    env = {**os.environ, 'PATH': f'{top}/runner/pgfit/bin:{os.environ["PATH"]}', 'PRE_COMMIT_HOME': str(top / 'pre-commit'), 'GIT_CONFIG_GLOBAL': '/dev/null',
           'GIT_AUTHOR_NAME': 'a', 'GIT_AUTHOR_EMAIL': 'a@b', 'GIT_COMMITTER_NAME': 'a', 'GIT_COMMITTER_EMAIL': 'a@b'}

    def run(*command, cwd=repo):
        return subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)

    def hook(*more):
        return run(sys.executable, '-m', 'pre_commit', *more, '--color=never')
    for folder in hooks, repo:
        folder.mkdir()
        run('git', 'init', '-q', cwd=folder)
    shutil.copy(args.root / '.pre-commit-hooks.yaml', hooks)
    r = run(sys.executable, '-m', 'pre_commit', 'validate-manifest', hooks / '.pre-commit-hooks.yaml')
    expect('pre-commit takes the manifest', r.returncode == 0, r.stdout)
    run('git', 'add', '.', cwd=hooks)
    run('git', 'commit', '-q', '-m', 'hooks', cwd=hooks)
    shutil.copy(files / 'template_weights.h5', repo / 'good one.h5')
    shutil.copy(files / 'template.json', repo / 'model.json')
    run('git', 'add', '.')
    r = hook('try-repo', str(hooks), 'pgcheck')
    expect('a good file passes', r.returncode == 0 and 'Passed' in r.stdout, r.stdout)
    shutil.copy(files / 'wrapper_weights.h5', repo / 'parallel.h5')
    run('git', 'add', '.')
    r = hook('try-repo', str(hooks), 'pgcheck')
    expect('a bad one does not, and says why', r.returncode == 1 and '2 replicas of "model_1"' in r.stdout and '1 of 2 files passed' in r.stdout, r.stdout)
    run('git', 'rm', '-q', '--cached', 'parallel.h5', 'good one.h5')
    r = hook('try-repo', str(hooks), 'pgcheck')
    expect('other files are none of its business', r.returncode == 0 and 'no files to check' in r.stdout, r.stdout)

    page = (args.root / 'tools/man/pg-ci.7.md').read_text()
    config = next(b for b in re.findall(r'```yaml\n(.*?)```', page, re.S) if 'repo: local' in b)
    (repo / '.pre-commit-config.yaml').write_text(config.replace('[pgfit]', f'["{wheel}"]'))
    env['PATH'] = os.environ['PATH']
    run('git', 'add', '.')
    r = hook('run', '--all-files')
    expect('the page: pre-commit installs the wheel itself', r.returncode == 1 and '1 of 2 files passed' in r.stdout, r.stdout)


for path, schema in (action / 'action.yml', 'vendor.github-actions'),:
    r = subprocess.run([sys.executable, '-m', 'check_jsonschema', '--builtin-schema', schema, path], capture_output=True, text=True)
    expect(f'{path.name} follows its schema', r.returncode == 0, r.stdout, r.stderr)
with tempfile.TemporaryDirectory() as d:
    top = pathlib.Path(d).resolve()
    wheel = args.wheel or stand_in(top)
    try_action(top, wheel)
    try_pre_commit(top, wheel)
print(f'{n_ran - n_bad} of {n_ran} passed')
sys.exit(bool(n_bad))
