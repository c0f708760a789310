#!/usr/bin/env python3
"""usage: run.py --tools FOLDER --testdata FOLDER

Splits and joins every file of testdata that the library reads: pgdiff finds both the same, and h5diff
where it is installed; .keras members and safetensors are the same bytes. Then kills splits at many
moments, runs the same command again and wants the folder of a run that nobody disturbed."""
import argparse
import filecmp
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

parser = argparse.ArgumentParser()
parser.add_argument('--tools', required=True, type=pathlib.Path)
parser.add_argument('--testdata', required=True, type=pathlib.Path)
args = parser.parse_args()
h5diff = shutil.which('h5diff')
bad = []


def run(tool, *operands):
    return subprocess.run([args.tools / tool, *operands], capture_output=True, text=True)


def fail(what, r=None):
    bad.append(what)
    print(f'FAIL {what}' + (f'\n{r.stdout}{r.stderr}' if r else ''))


def tree(folder):
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob('*')) if p.is_file()}


def same_file(a, b):
    """Equal for what the format promises; a text that says how they differ, or None."""
    if a.name.endswith('.safetensors'):
        return None if filecmp.cmp(a, b, shallow=False) else 'bytes differ'
    if a.suffix == '.keras':
        with zipfile.ZipFile(a) as x, zipfile.ZipFile(b) as y:
            for name in x.namelist():
                if not name.endswith(('.h5', '/')) and x.read(name) != y.read(name):
                    return f'{name} differs'
        return None
    if h5diff and a.suffix == '.h5':
        r = subprocess.run([h5diff, a, b], capture_output=True, text=True)
        return None if r.returncode == 0 and not r.stdout else f'h5diff: {r.stdout}{r.stderr}'
    return None


def round_trip(path, out, formats):
    for form in formats:
        shutil.rmtree(out, ignore_errors=True)
        r = run('pgsplit', '-q', '--no-sync', '--format', form, '--max-shard-size', '2KB', path,
                out / 'split')
        if 'one of several shards' in r.stderr:
            return None
        if r.returncode:
            return fail(f'{path} as {form}: pgsplit exit {r.returncode}', r)
        sharded = path.name.endswith('.weights.json')
        back = out / ('back.weights.h5' if sharded else 'back' + path.suffix)
        r = run('pgjoin', '-q', '--no-sync', out / 'split', back)
        if r.returncode:
            return fail(f'{path} as {form}: pgjoin exit {r.returncode}', r)
        r = run('pgdiff', '-q', path, back)
        if r.returncode and 'holds no tensors' not in r.stderr:
            return fail(f'{path} as {form}: pgdiff exit {r.returncode}', r)
        why = None if sharded else same_file(path, back)
        if why:
            return fail(f'{path} as {form}: {why}')


def round_trips(out):
    names = [p for p in sorted(args.testdata.rglob('*'))
             if p.name.endswith(('.h5', '.keras', '.safetensors', '.weights.json'))]
    n = 0
    for path in names:
        if run('pginfo', '--json', path).returncode:
            continue  # damaged, or nothing of ours
        n += 1
        round_trip(path, out, ['npy', 'npz'] if n % 8 == 0 else ['npy'])
    print(f'{n} files split and joined')
    if n < 100:
        fail(f'only {n} files are readable')


def killed(out):
    path = args.testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_model.h5'
    command = [args.tools / 'pgsplit', '-q', '--max-shard-size', '20B', '--sha256', path]
    start = time.monotonic()
    subprocess.run([*command, out / 'whole'], check=True)
    took = time.monotonic() - start
    want, partial = tree(out / 'whole'), 0
    for i in range(12):
        folder = out / f'killed{i}'
        p = subprocess.Popen([*command, folder])
        time.sleep(took * (i + 1) / 13)
        p.kill()
        p.wait()
        partial += folder.exists() and 'manifest.json' not in tree(folder)
        r = subprocess.run([*command, folder], capture_output=True, text=True)
        whole = 'earlier split' in r.stderr  # the kill came too late
        if r.returncode and not whole:
            fail(f'kill {i}: exit {r.returncode}', r)
        elif tree(folder) != want:
            fail(f'kill {i}: another folder than that of a run in peace')
    print(f'12 kills, {partial} of them half-way')


with tempfile.TemporaryDirectory() as d:
    round_trips(pathlib.Path(d) / 'trip')
    killed(pathlib.Path(d))
sys.exit(bool(bad))
