#!/usr/bin/env python3
"""usage: hints.py TESTDATA TOOLS [NAME...]

Runs what the tools propose. Every NAME.sh beside this file whose golden output shows a "try:" line runs once more, with a
program in front of each tool that, as soon as the tool ends, runs each hint that it gave: in a copy of the folder as it is
at that moment. The hint must exit with 0. Every line of a golden output must have been run, or stand in one of the tables:

  a command               runs as it is, without the explanation in brackets behind it; names in capitals (OUT, WHOLE) are file
                          names like any other; those of PLACES become a file
  --option VALUE          the command that failed, with this option; "A, B" are two hints
  WORDS                   what people must do themselves

A line of a table that nothing needs is an error, too. PG_SHARE (pgbox.py) leaves out some scripts."""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here.parent))
from pgbox import chosen  # noqa: E402

# The user's own file that a hint can only call by a word: for a script (or for all), the word and what stands for it.
CNN = 'TESTDATA/files/keras-2.2.4/cnn4-g2/'
MLP = 'TESTDATA/golden/mlp_digits/'
PLACES = {
    '': {'FORMAT': 'h5'},
    'check_errors': {'model.json': CNN + 'template.json', 'x.npy': 'TESTDATA/files/keras-2.2.4/cnn4-g2/x0.npy',
                     'y.npy': 'TESTDATA/files/keras-2.2.4/cnn4-g2/y0.npy'},
    'convert_layout_refusals': {'model.json': MLP + 'model.json'},
    'convert_refusals': {'model.json': MLP + 'model.json'},
    'inspect_verdicts': {'MODEL': 'TESTDATA/negative/tta_model.h5'},
    'pytorch_within': {'PLAIN': 'TESTDATA/extra/within/plain.safetensors'},
    'pytorch_words': {'PLAIN': 'TESTDATA/extra/wrapped/plain.safetensors'},
    'split_half_written': {'MODEL': 'TESTDATA/files/keras-2.2.4/cnnbn-g2/template.json'},
    'unwrap_refusals': {'MODEL': 'TESTDATA/negative/tta_model.h5'},
    'inspect_modern': {'model.json': 'TESTDATA/modern/tf-mirrored/model.json'},
    'tensorflow_roots': {'model.json': 'TESTDATA/modern/tf-roots/wrapper/template.json'},
    'fit_errors': {'WEIGHTS': MLP + 'init_weights.h5'},
    'fit_resume': {'CHECKPOINT': 'bj/1.keras', 'FILE': 'digits.npz'},
    'unwrap_in_place_refusals': {'WRAPPER': 'weights.h5'},
}
# Hints that are no commands, or none for this machine.
WORDS = {
    '(download or|if you trust the file,|save it|convert it to safetensors|wait for it|copy these files) .*|copy these files again':
        'for people: the file comes from elsewhere',
    '--rules (ranks=N|megatron-lm-0,heads=N)|megatron-core, megatron-lm-3, .*|(leave it out; .*)?as-saved, unstack, .*|give one of them: .*/iter_.*': 'only the user knows',
    'compare with a full model .*|a (name that ends in|model\'s JSON|\\.weights\\.h5 does not store) .*': 'says what to give, not how',
    'in Python[:,] .*|python (-m )?\\S*(zero_to_fp32|torch\\.distributed).*': 'needs another program',
    'name the files (of all|as) .*|load it in the job that wrote it .*': 'for people: files that lost their names, or say too little',
    'git lfs pull': 'needs a repository and a server',
    'unset PG_CUDA_PLUGIN, .*|--gpus 1 --precision .*|--devices cuda:0 where .*': 'needs a GPU',
    'link=100Gbit; .*|cores=1,speedup=9999': 'a part of the value of --plan',
    'pgconvert --rename, where .*': 'needs a table of the names',
    '--x NAME --y NAME': 'the line before lists the names, of which only the user knows the meaning',
}
# Commands that may refuse where the test stands: script, hint, why.
REFUSES = {
    ('inspect_modern', 'pgconvert --model model.json tf out.h5', 'the model of the test is another one'),
    ('convert_refusals', '.*make_parallel-rnn.*', 'the model of the other lines is not its'),
    ('split_half_written', '.* rescued.h5 .*', 'one of its tensors is lost'),
    ('unwrap_like_refusals', '.* --like rnn.json .*', 'the model of the test is another one'),
    ('fit_resume', '.*--resume=bj/resume.pg', 'the run is over, and its output is somebody else\'s now'),
    ('usage_errors', 'pgunwrap --out-dir DIR one.h5 .*', 'the files do not exist, as always in this test'),
    ('pytorch_parts', '.*--like PLAIN --part \\. dino.*', 'teacher and student together are no model that has a file'),
    ('pytorch_within', 'pgdiff --by-order .*', 'both have the same model in another order of names'),
    ('pytorch_words', '.*--like PLAIN user_replicas.*', 'a list of one copy, which is no wrapper of the bare model'),
    ('fit_transfer', '--(replace-head|freeze) .*', 'then the loss does not fit the rows, which is said next'),
}
# What a script does to the lines before they are shown.
SHOWN = {'long_paths': ('a+', 'a')}


# ---- in front of a tool ----

def pump(source, to, seen):
    while data := os.read(source, 65536):
        seen.append(data)
        try:
            os.write(to, data)
        except OSError:  # /dev/full
            pass


def run_tool(name):
    """The tool itself: its streams are passed on as they come, SIGTERM too."""
    real = os.path.join(os.environ['PG_HINT_TOOLS'], name)
    p = subprocess.Popen([real, *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(signal.SIGTERM, lambda n, _: p.send_signal(n))
    seen = [], []
    pumps = [threading.Thread(target=pump, args=(f.fileno(), to, s)) for f, to, s in ((p.stdout, 1, seen[0]), (p.stderr, 2, seen[1]))]
    for t in pumps:
        t.start()
    for t in pumps:
        t.join()
    return p.wait(), [b''.join(s).decode(errors='backslashreplace') for s in seen]


def with_option(argv, words):
    """The command with --option VALUE: in the place of its own one, or behind all others."""
    option, value = words[0].split('=')[0], words[1:]
    argv = list(argv)
    for i, a in enumerate(argv):
        if a == option and value:
            del argv[i:i + 2]
            break
        if a.split('=')[0] == option:
            del argv[i]
            break
    return argv + words


def commands_of(hint, argv, places):
    """The command lines that a hint proposes; none if it is words."""
    hint = re.sub(r'   \(.*\)$', '', hint)
    hint = re.sub(r', or --.*$', '', hint)  # the first of several ways
    for word, stands in places.items():
        hint = re.sub(r'(?<![\w./])%s(?![\w./])' % re.escape(word), lambda m: shlex.quote(stands), hint)
    if hint.startswith('--'):
        return [shlex.join(with_option(argv, shlex.split(h))) for h in re.split(r', (?=--)', hint)]
    if not re.match(r'(pg[a-z]+|cd|mkdir|gunzip) ', hint):
        return []
    return [hint]


def run_hint(command, top):
    """In a copy of the folder of the test, which takes its name meanwhile (a run that is resumed goes by that), or of the folder
    outside of it where the tool ran."""
    cwd, log = os.getcwd(), os.path.dirname(os.environ['PG_HINT_LOG'])
    inside = os.path.commonpath([cwd, top]) == top
    aside, copy = os.path.join(log, 'aside'), top if inside else os.path.join(log, 'copy')
    if inside:
        os.rename(top, aside)
    try:
        subprocess.run(['cp', '-a', aside if inside else cwd, copy], check=True)
        p = subprocess.Popen(['sh', '-c', command], cwd=cwd if inside else copy, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors='backslashreplace', start_new_session=True,
                             env={**os.environ, 'PATH': os.environ['PG_HINT_TOOLS'] + ':/usr/bin:/bin'})
        try:
            out, err = p.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)  # the shell, and what it started
            out, err = p.communicate()
            return -signal.SIGKILL, 'still running after 300 s: ' + err[-1500:]
        return p.returncode, out[-500:] + err[-1500:]
    finally:
        shutil.rmtree(copy)
        if inside:
            os.rename(aside, top)


def in_front(name):
    rc, texts = run_tool(name)
    top, places = os.environ['PG_HINT_TOP'], json.loads(os.environ['PG_HINT_PLACES'])
    for hint in re.findall(r'^try: (.*)$', '\n'.join(texts), re.M):
        runs = [(c, *run_hint(c, top)) for c in commands_of(hint, [name, *sys.argv[1:]], places)]
        with open(os.environ['PG_HINT_LOG'], 'a') as f:
            f.write(json.dumps({'hint': hint, 'runs': runs}) + '\n')
    if rc < 0:
        signal.signal(-rc, signal.SIG_DFL)
        os.kill(os.getpid(), -rc)
    sys.exit(rc)


# ---- the test ----

def shown(script):
    """The hints that the golden outputs of a script show."""
    texts = [script.with_suffix(s).read_text() for s in ('.out', '.err') if script.with_suffix(s).exists()]
    return re.findall(r'^try: (.*)$', '\n'.join(texts), re.M)


def run_script(script, testdata, tools, top, log):
    front = os.path.join(log, 'front')
    os.mkdir(front)
    for tool in (t for t in os.listdir(tools) if re.fullmatch('pg[a-z]+', t)):
        path = os.path.join(front, tool)
        with open(path, 'w') as f:
            f.write('#!/bin/sh\nexec %s -S -E %s --in-front %s "$@"\n' % (shlex.quote(sys.executable), shlex.quote(os.path.abspath(__file__)), tool))
        os.chmod(path, 0o755)
    text = script.read_text()
    places = {k: v.replace('TESTDATA', testdata) for k, v in {**PLACES.get('', {}), **PLACES.get(script.stem, {})}.items()}
    env = {'PATH': front + ':' + tools + ':/usr/bin:/bin', 'TESTDATA': testdata, 'HOME': '/nonexistent', 'OMP_WAIT_POLICY': 'passive',
           'PG_CUDA_PLUGIN': '/nowhere/pg-cuda.so', 'LC_ALL': 'C' if text.startswith('# locale: C\n') else 'C.UTF-8', 'TMPDIR': top,
           'PG_HINT_TOOLS': tools, 'PG_HINT_TOP': top, 'PG_HINT_LOG': os.path.join(log, 'log'), 'PG_HINT_PLACES': json.dumps(places)}
    slow = os.path.join(log, 'script')  # a second is too short for a tool and what is in front of it
    pathlib.Path(slow).write_text(text.replace('sleep 1\n', 'sleep 5\n'))
    subprocess.run(['sh', '-e', slow], cwd=top, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    path = os.path.join(log, 'log')
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []


def main():
    testdata, tools, names = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    bad, n, unused = 0, 0, set(WORDS) | set(REFUSES)

    def fail(*lines):
        nonlocal bad
        bad += 1
        print(*lines, sep='\n  ')

    for script in sorted(here.glob('*.sh')):
        golden = shown(script)
        if names and script.stem not in names or not golden or not names and not chosen(script.stem):
            continue
        with tempfile.TemporaryDirectory() as log:
            top = os.path.join(os.path.realpath(log), 'top')
            os.mkdir(top)
            tried = run_script(script, testdata, tools, top, log)
        seen = set()
        for t in tried:
            hint = t['hint'].replace(testdata, 'TESTDATA').replace(top, 'HERE')
            seen.add(re.sub(*SHOWN.get(script.stem, ('$^', '')), hint))
            words = [w for w in WORDS if re.fullmatch(w, hint)]
            may = [k for k in REFUSES if k[0] == script.stem and re.fullmatch(k[1], hint)]
            unused -= set(words) | set(may)
            if not t['runs'] and not words:
                fail(f'{script.stem}: neither a command nor in WORDS:', hint)
            for command, rc, said in t['runs'] if not words else ():
                n += 1
                if rc and not may:
                    fail(f'{script.stem}: exit {rc}', 'try: ' + hint, '$ ' + command, said)
        for hint in set(golden) - seen:
            fail(f'{script.stem}: the golden output shows a hint that was not run', hint)
    for entry in unused if not names and 'PG_SHARE' not in os.environ else ():
        fail('nothing needs this line of a table', repr(entry))
    print(f'{n} hints ran, {bad} problems')
    sys.exit(bad != 0)


if __name__ == '__main__':
    if sys.argv[1:2] == ['--in-front']:
        name = sys.argv.pop(2)
        sys.argv.pop(1)
        in_front(name)
    main()
