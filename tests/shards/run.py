#!/usr/bin/env python3
"""usage: run.py --tools FOLDER --testdata FOLDER [--no-kills]

Splits and joins every file of testdata that the library reads: pgdiff finds both the same, h5diff and
h5dump where they are installed; .keras members and safetensors are the same bytes. Then kills pgsplit, pgjoin and
pgconvert at many moments, or lets their writes fail, runs the same command again and wants what a run
leaves that nobody disturbed."""
import argparse
import filecmp
import hashlib
import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pgbox import chosen  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument('--tools', required=True, type=pathlib.Path)
parser.add_argument('--testdata', required=True, type=pathlib.Path)
parser.add_argument('--no-kills', action='store_true', help='a sanitizer learns nothing from them')
args = parser.parse_args()
kills = 0 if args.no_kills else 12
h5diff, h5dump = shutil.which('h5diff'), shutil.which('h5dump')
bad = []


def run(tool, *operands):
    return subprocess.run([args.tools / tool, *operands], capture_output=True, text=True)


def fail(what, r=None):
    bad.append(what)
    print(f'FAIL {what}' + (f'\n{r.stdout}{r.stderr}' if r else ''))


def tree(folder):
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob('*')) if p.is_file()}


def st_header(path):
    """Metadata, and what is said of each tensor but where it is."""
    raw = path.read_bytes()
    head = json.loads(raw[8:8 + int.from_bytes(raw[:8], 'little')])
    return {k: v if k == '__metadata__' else (v['dtype'], v['shape']) for k, v in head.items()}


def same_file(a, b, form):
    """Equal for what the format promises; a text that says how they differ, or None."""
    if a.name.endswith('.safetensors'):
        if form == 'safetensors':  # their order may be another
            return None if st_header(a) == st_header(b) else 'headers differ'
        return None if filecmp.cmp(a, b, shallow=False) else 'bytes differ'
    if a.suffix == '.keras':
        with zipfile.ZipFile(a) as x, zipfile.ZipFile(b) as y:
            for name in x.namelist():
                if not name.endswith(('.h5', '/')) and x.read(name) != y.read(name):
                    return f'{name} differs'
        return None
    if h5diff and a.suffix == '.h5':
        r = subprocess.run([h5diff, a, b], capture_output=True, text=True)
        if r.returncode or r.stdout:
            return f'h5diff: {r.stdout}{r.stderr}'
    if h5dump and a.suffix == '.h5':  # h5diff looks only at attributes that both have
        x, y = (subprocess.run([h5dump, '-A', f], capture_output=True).stdout.split(b'\n', 1)[1] for f in (a, b))
        return None if x == y else 'h5dump -A differs'
    return None


def h5_contents(path):
    """{name: 'group', 'dataset' or 'attribute'} of all that is in an HDF5 file."""
    text = subprocess.run([h5dump, '-n', '1', path], capture_output=True, text=True, check=True).stdout
    return {name: kind for kind, name in re.findall(r'(?m)^ (group|dataset|attribute) +(.*?) *$', text)}


def h5_show(path, names, kind):
    """Attributes with their values; of datasets, the types and shapes alone."""
    how = {'attribute': ['-a'], 'dataset': ['-H', '-d']}[kind]
    options = [x for n in names for x in (*how[:-1], how[-1], n)]
    text = subprocess.run([h5dump, *options, path], capture_output=True, text=True, check=True).stdout.split('\n', 1)[1]
    return re.sub(r'(?ms)^   ATTRIBUTE .*?^   \}\n', '', text)


def is_kept(path, name, kind):
    """Numbers of the types that weights have; of attributes, texts, too."""
    first = re.search(r'DATATYPE  (\w+)', h5_show(path, [name], kind))[1]
    return bool(re.match('H5T_(IEEE_F|STD_[IU])' + '|H5T_STRING$' * (kind == 'attribute'), first))


def same_but_left_out(a, b, note):
    """b lacks the values that the note counts, because no weight has their types or because they stand beside the weights, and the
    attributes of those, and groups that held nothing else."""
    if not h5diff or not h5dump:
        return None
    had, has = h5_contents(a), h5_contents(b)
    gone = {n: kind for n, kind in had.items() if n not in has}
    values = {n for n, kind in gone.items() if kind != 'group' and not is_kept(a, n, kind)}
    beside = {n for n in gone.keys() - values if gone[n] == 'dataset'}
    left = values | beside
    more = {n for n in gone.keys() - left if not (n.rpartition('/')[0] in left if gone[n] == 'attribute' else any(x.startswith(n + '/') for x in left))}
    told = {what: (int(n), {'/' + x.replace('@', '/') for x in names.split(', ') if x != '...'})
            for n, what, names in re.findall(r'(\d+) (dataset|value)s? [^(]*\(([^)]*)\)', note)}
    for what, real in ('value', values), ('dataset', beside):
        n, named = told.get(what, (0, set()))
        if n != len(real) or not named <= real:
            more |= real
    if has.keys() - had.keys() or more:
        return f'left out: {sorted(left | more)}, new: {sorted(has.keys() - had.keys())}; told: {note}'
    for kind in ('attribute', 'dataset'):
        both = [n for n, k in had.items() if n in has and k == kind]
        if h5_show(a, both, kind) != h5_show(b, both, kind):
            return f'an {kind} differs'
    r = subprocess.run([h5diff, '-v', a, b], capture_output=True, text=True)  # its status tells of what is left out, too
    if 'not comparable' in r.stdout or set(re.findall(r'(\d+) differences? found', r.stdout)) != {'0'}:
        return f'h5diff: {r.stdout}{r.stderr}'
    return None


def round_trip(path, out, formats):
    for form in formats:
        shutil.rmtree(out, ignore_errors=True)
        r = split = run('pgsplit', '-q', '--no-sync', '--format', form, '--max-shard-size', '2KB', path, out / 'split')
        if form == 'keras' and 'Keras cuts files of the .weights.h5 layout only' in r.stderr:
            continue
        if 'one of several shards' in r.stderr:
            return None
        if form in ('npy', 'npz') and 'NumPy has no float8' in r.stderr and not (out / 'split').exists():
            continue
        if r.returncode:
            return fail(f'{path} as {form}: pgsplit exit {r.returncode}', r)
        sharded = path.name.endswith('.weights.json')  # safetensors know one byte order
        of_ranks = path.name.startswith('shard-') and path.suffix == '.safetensors'  # stands for the files of all ranks
        other_order = form == 'safetensors' and 'big-endian' in path.parts
        back = out / ('back.weights.h5' if sharded else 'back' + path.suffix)
        r = run('pgjoin', '-q', '--no-sync', out / 'split', back)
        if r.returncode:
            return fail(f'{path} as {form}: pgjoin exit {r.returncode}', r)
        r = run('pgdiff', '-q', path, back)
        if r.returncode and 'holds no tensors' not in r.stderr:
            return fail(f'{path} as {form}: pgdiff exit {r.returncode}', r)
        note = next((x for x in split.stderr.split('\n') if 'left out: ' in x and (' of types that no weight has' in x or ' beside the weights' in x)), None)
        why = None if sharded or of_ranks or other_order else same_but_left_out(path, back, note) if note else same_file(path, back, form)
        if why:
            return fail(f'{path} as {form}: {why}')


def round_trips(out):
    names = [p for p in sorted(args.testdata.rglob('*'))
             if p.name.endswith(('.h5', '.keras', '.safetensors', '.weights.json')) and
             chosen(p.relative_to(args.testdata).as_posix())]
    n = 0
    for path in names:
        if run('pginfo', '--json', path).returncode:
            continue  # damaged, or nothing of ours
        n += 1
        round_trip(path, out, ['npy', 'safetensors', 'keras'] + ['npz'] * (n % 8 == 0))
    print(f'{n} files split and joined')
    if n < len(names) // 2:
        fail(f'only {n} of {len(names)} files are readable')


def kill_splits(out):
    """The same command after a kill completes, and leaves the folder of a run in peace."""
    h5, v3 = args.testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_model.h5', 'files/keras-2.15.0-native/cnn4/template.weights.h5'
    partial = 0
    for form, path, limit in (('npy', h5, ['--max-shard-size', '20B']), ('npz', h5, ['--max-tensors', '1']),
                              ('safetensors', h5, ['--max-tensors', '1']),
                              ('keras', args.testdata / v3, ['--max-tensors', '1'])):
        command = [args.tools / 'pgsplit', '-q', '--format', form, *limit, '--sha256', path]
        start = time.monotonic()
        subprocess.run([*command, out / f'whole-{form}'], check=True, stderr=subprocess.DEVNULL)
        took = time.monotonic() - start
        want = tree(out / f'whole-{form}')
        last = [n for n in want if n.endswith('.json') and (form != 'safetensors' or 'index' in n)][0]
        for i in range(kills):
            folder = out / f'{form}{i}'
            p = subprocess.Popen([*command, '-j', str(1 + i % 2 * 4), folder], stderr=subprocess.DEVNULL)
            time.sleep(took * (i + 1) / (kills + 1))
            p.kill()
            p.wait()
            partial += folder.exists() and last not in tree(folder)
            r = subprocess.run([*command, '-j', '3', folder], capture_output=True, text=True)
            whole = 'earlier split' in r.stderr  # the kill came too late
            if r.returncode and not whole:
                fail(f'{form}, kill {i}: exit {r.returncode}', r)
            elif tree(folder) != want:
                fail(f'{form}, kill {i}: another folder than that of a run in peace')
    print(f'{4 * kills} kills of pgsplit, {partial} of them half-way')


def kill_writers(out):
    """A killed pgjoin or pgconvert leaves no output, or the whole one; the same command completes."""
    h5 = args.testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_model.h5'
    template = h5.with_name('template_model.h5')
    late = 0
    for what, command, name in (('join', ['pgjoin', '-q', out / 'whole-npy'], 'back.h5'),
                                ('join-st', ['pgjoin', '-q', out / 'whole-safetensors'], 'back.h5'),
                                ('convert', ['pgconvert', '-q', template], 'a.safetensors'),
                                ('convert-v3', ['pgconvert', '-q', template], 'a.weights.h5')):
        command[0] = args.tools / command[0]
        folder = out / what
        folder.mkdir()
        start = time.monotonic()
        subprocess.run([*command, folder / name], check=True, stdout=subprocess.DEVNULL)
        took = time.monotonic() - start
        want = (folder / name).read_bytes()
        for i in range(kills):
            (folder / name).unlink(missing_ok=True)
            p = subprocess.Popen([*command, folder / name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(took * (i + 1) / (kills + 1))
            p.kill()
            p.wait()
            if (folder / name).exists():
                late += 1
                if (folder / name).read_bytes() != want:
                    fail(f'{what}, kill {i}: a broken output')
                (folder / name).unlink()
            r = subprocess.run([*command, folder / name], capture_output=True, text=True)
            if r.returncode or (folder / name).read_bytes() != want or len(list(folder.iterdir())) != 1:
                fail(f'{what}, kill {i}: exit {r.returncode}, {sorted(map(str, folder.iterdir()))}', r)
    print(f'{4 * kills} kills of writers, {late} of them too late')


def spoil(folder, how):
    """Spoils the first and the last shard (or exchanges the first two); their names."""
    files = sorted(p for p in folder.rglob('*') if p.is_file() and p.suffix != '.json')
    some = files[:2] if how == 'swapped' else [files[0], files[-1]]
    old = [p.read_bytes() for p in some]
    for p, data in zip(some, old[::-1]):
        if how == 'missing':
            p.unlink()
        elif how == 'swapped':
            p.write_bytes(data)
        elif how == 'cut':
            p.write_bytes(p.read_bytes()[:p.stat().st_size * 2 // 3])
        else:
            data = bytearray(p.read_bytes())
            data[200 if p.suffix == '.npz' else -3] ^= 1
            p.write_bytes(data)
    return [p.relative_to(folder).as_posix() for p in some]


def spoiled(out):
    """Missing, damaged, cut and exchanged shards: all are named, nothing is written."""
    h5 = args.testdata / 'files/keras-2.2.4/cnn4-g2/template_model.h5'
    v3 = args.testdata / 'files/keras-2.15.0-native/cnn4/template.weights.h5'
    st = args.testdata / 'files/pytorch/cnn/single.safetensors'
    n = 0
    for form, path, name in (('npy', h5, 'x.h5'), ('npz', h5, 'x.h5'), ('safetensors', h5, 'x.h5'), ('safetensors', h5, 'x.safetensors'),
                             ('safetensors', st, 'x.safetensors'), ('keras', v3, 'x.weights.h5')):
        for how in ('missing', 'damaged', 'cut', 'swapped'):
            for manifest in (True, False) if form in ('safetensors', 'keras') and how != 'damaged' and name != 'x.h5' else (True,):
                folder = out / f'spoiled{n}'
                n += 1
                run('pgsplit', '-q', '--no-sync', '--format', form, '--max-tensors', '2', path, folder)
                if not manifest:  # as others write them
                    (folder / 'manifest.json').unlink()
                names = spoil(folder, how)
                r = run('pgjoin', folder, out / name)
                if not manifest and form == 'keras' and how == 'swapped':
                    names = names[:1]  # the first shard has all groups, so it can stand for the second
                told = [x for x in names if f'  {"missing" if how == "missing" else "damaged"}  {x}' in r.stderr]
                if r.returncode != 2 or told != names or r.stderr.count('\n  ') != len(names) or 'try: copy' not in r.stderr:
                    fail(f'{form} to {name}, {how}, manifest {manifest}: {names}', r)
                if (out / name).exists():
                    fail(f'{form} to {name}, {how}: an output')
                    (out / name).unlink()
                for command in (('pgconvert', folder, out / 'x.safetensors'), ('pgconvert', '--dtype', 'float16', folder, out / 'x.safetensors'),
                                ('pgconvert', '--to', 'npy', folder, out / 'again'), ('pgsplit', folder, out / 'again')):
                    if not manifest:
                        continue
                    r = run(*command)
                    told = [x for x in names if f'  {"missing" if how == "missing" else "damaged"}  {x}' in r.stderr]
                    if r.returncode != 2 or told != names or 'try: copy' not in r.stderr or (out / 'x.safetensors').exists() or (out / 'again').exists():
                        fail(f'{form}, {how}: {" ".join(map(str, command))}: {names}', r)
                        (out / 'x.safetensors').unlink(missing_ok=True)
    print(f'{n} spoiled splits')


def choices(out):
    """--only, --max-tensors and --dry-run in every format."""
    h5 = args.testdata / 'files/keras-2.2.4/cnn4-g2/template_model.h5'
    v3 = args.testdata / 'files/keras-2.15.0-native/cnn4/template.weights.h5'
    for form, path, name, glob in (('npy', h5, 'o.h5', 'dense_1*'), ('npz', h5, 'o.h5', 'dense_1*'), ('safetensors', h5, 'o.h5', 'dense_1*'),
                                   ('safetensors', h5, 'o.safetensors', 'dense_1*'), ('keras', v3, 'o.weights.h5', '*dense_1*')):
        what = f'{form} to {name}'
        folder, back = out / f'choice-{form}-{name}', out / name
        command = ['pgsplit', '--no-sync', '--format', form, '--max-tensors', '3', path, folder]
        r = run(command[0], '-n', '--json', *command[1:])
        if r.returncode or folder.exists():
            fail(f'{what}: --dry-run writes', r)
        plan = json.loads(r.stdout)['files']
        r = run(command[0], '--json', *command[1:])
        done = json.loads(r.stdout)['files']
        if [f['path'] for f in plan] != [f['path'] for f in done] or [f['bytes'] for f in plan if not f['path'].endswith('.json')] != \
                [f['bytes'] for f in done if not f['path'].endswith('.json')]:
            fail(f'{what}: --dry-run plans {plan}, then {done}')
        if any(f['bytes'] != (folder / f['path']).stat().st_size for f in done):
            fail(f'{what}: other sizes than told')
        if form != 'npy' and any(f['tensors'] > 3 for f in done if not f['path'].endswith('.json')):
            fail(f'{what}: more than 3 tensors in a shard')
        r = run('pgjoin', '-n', folder, back)
        if r.returncode or back.exists():
            fail(f'{what}: pgjoin --dry-run', r)
        r = run('pgjoin', '-q', '--only', glob, folder, back)
        got = [t['name'] for t in json.loads(run('pginfo', '--json', back).stdout or '{"tensors": []}')['tensors']]
        if r.returncode or len(got) != 2 or not all('dense_1' in t for t in got):
            fail(f'{what}: --only gives {got}', r)
        back.unlink(missing_ok=True)
        r = run('pgjoin', '--only', 'nothing*', folder, back)
        if r.returncode != 2 or 'no tensor matches' not in r.stderr or back.exists():
            fail(f'{what}: --only of nothing', r)


def full_disk(out):
    """A limit on file sizes stands for a disk that is full: one line, nothing broken is left, and the same command completes."""
    h5 = args.testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_model.h5'
    v3 = args.testdata / 'files/keras-2.15.0-native/cnn4/template.weights.h5'
    st = out / 'whole-safetensors'
    n = 0
    for name, command, target in [
            *[(f'split-{f}', ['pgsplit', '--format', f, '--max-shard-size', '3KB', v3 if f == 'keras' else h5], 'folder')
              for f in ('npy', 'npz', 'safetensors', 'keras')],
            ('join', ['pgjoin', out / 'whole-npy'], 'back.h5'), ('join-st', ['pgjoin', st], 'back.h5'),
            ('join-flat', ['pgjoin', st], 'back.safetensors'),
            ('convert', ['pgconvert', h5.with_name('template_model.h5')], 'a.weights.h5'),
            ('convert-st', ['pgconvert', h5.with_name('template_model.h5')], 'a.safetensors')]:
        command = [args.tools / command[0], '-q', *command[1:]]
        peace = out / f'peace-{name}'
        peace.mkdir()
        subprocess.run([*command, peace / target], check=True, stdout=subprocess.DEVNULL)
        for limit in (0, 300, 1000, 2500, 4096, 20000):
            folder = out / f'full-{name}-{limit}'
            folder.mkdir()
            r = subprocess.run([*command, folder / target], capture_output=True, text=True,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)))
            left = tree(folder)
            if r.returncode:
                n += 1
                if r.returncode != 2 or 'File too large' not in r.stderr or r.stderr.count('pgsplit: ') > 1:
                    fail(f'{name}, {limit} bytes: exit {r.returncode}', r)
                if target != 'folder' and left or any('.pg-' in f for f in left):
                    fail(f'{name}, {limit} bytes: leaves {list(left)}')
                r = subprocess.run([*command, folder / target], capture_output=True, text=True)
            if r.returncode or tree(folder) != tree(peace):
                fail(f'{name}, {limit} bytes: the same command gives another result', r)
    print(f'{n} writes met a limit')


with tempfile.TemporaryDirectory() as d:
    round_trips(pathlib.Path(d) / 'trip')
    kill_splits(pathlib.Path(d))
    kill_writers(pathlib.Path(d))
    full_disk(pathlib.Path(d))
    spoiled(pathlib.Path(d))
    choices(pathlib.Path(d))
sys.exit(bool(bad))
