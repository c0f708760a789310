#!/usr/bin/env python3
"""Builds the fuzz targets with clang's libFuzzer and runs them.

  run.py [--build DIR] [--seconds N] [--jobs N] [--sanitize WHAT] [--ledger] [TARGET ...]

Default: every target for 60 s, two at a time, with AddressSanitizer and UndefinedBehaviorSanitizer in build-fuzz;
--sanitize undefined and none, several times faster, have folders of their own. Needs clang. Prints what each executed.
What it finds is kept in DIR/finds/TARGET, and the exit status is 1. Inputs that reach new code are kept in
DIR/work/TARGET for the next run. --ledger adds the executions to ledger.tsv. A target that is named twice runs twice."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import ledger
import targets

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / 'tests/fuzz'
# --sanitize: folder, and the name of such a build in the ledger
BUILDS = {'address,undefined': ('build-fuzz', 'clang-asan-ubsan'),
          'undefined': ('build-fuzz-undefined', 'clang-ubsan'),
          'none': ('build-fuzz-none', 'clang')}


def build(folder, names, sanitize, jobs):
    if not (folder / 'build.ninja').exists():
        subprocess.run(['meson', 'setup', folder, ROOT, '-Dfuzz=libfuzzer', f'-Db_sanitize={sanitize}',
                        '-Db_lundef=false', '-Donednn=disabled', '-Dcuda=disabled', '-Dmpi=disabled'],
                       env=dict(os.environ, CC='clang'), check=True)
    options = json.loads((folder / 'meson-info/intro-buildoptions.json').read_text())
    if sanitize not in [o['value'] for o in options if o['name'] == 'b_sanitize']:
        sys.exit(f'{folder} is not built with --sanitize {sanitize}')
    subprocess.run(['meson', 'compile', '-C', folder, '-j', str(jobs)] + [f'fuzz_{n}' for n in sorted(set(names))], check=True)


def gather(folder, name, t):
    """Seeds in one folder, the short ones of testdata among them."""
    seeds = folder / 'seeds' / name
    seeds.mkdir(parents=True, exist_ok=True)
    for pattern in t.seeds:
        for k, path in enumerate(sorted((ROOT / 'testdata').rglob(pattern))):
            if path.is_file() and path.stat().st_size <= t.max_len:
                (seeds / f'{k}-{path.name}').write_bytes(path.read_bytes())
    return [seeds] + [d for d in [HERE / 'corpus' / name] if d.is_dir()]


def dictionary(folder, t):
    """Of the formats that a file is made of; libFuzzer takes one only."""
    path = folder / 'seeds' / ('-'.join(t.dicts) + '.dict')
    path.write_text(''.join((HERE / f'{d}.dict').read_text() for d in t.dicts))
    return path


def fuzz(folder, name, seconds):
    t = targets.TARGETS[name]
    finds, work = folder / 'finds' / name, folder / 'work' / name
    for d in (finds, work):
        d.mkdir(parents=True, exist_ok=True)
    # Entropic's bookkeeping took up to half of the time, and no more was found with it.
    command = [folder / 'tests/fuzz' / f'fuzz_{name}', work, *gather(folder, name, t), f'-max_total_time={seconds}',
               f'-max_len={t.max_len}', '-timeout=10', '-malloc_limit_mb=512', '-rss_limit_mb=1024', '-entropic=0',
               '-print_final_stats=1', '-reload=0', f'-artifact_prefix={finds}/']
    if t.dicts:
        command.append(f'-dict={dictionary(folder, t)}')
    memory = '/dev/shm' if os.access('/dev/shm', os.W_OK) else '/tmp' # what libpg unpacks goes there
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                       env=dict(os.environ, TMPDIR=memory))
    n = re.findall(r'stat::number_of_executed_units:\s*(\d+)', r.stdout)
    return r.returncode, int(n[-1]) if n else 0, r.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path)
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--sanitize', choices=BUILDS, default='address,undefined')
    parser.add_argument('--ledger', action='store_true')
    parser.add_argument('names', nargs='*', metavar='TARGET')
    a = parser.parse_args()
    names = a.names or sorted(targets.TARGETS)
    unknown = [n for n in names if n not in targets.TARGETS]
    if unknown:
        parser.error(f'no target {unknown[0]}; one of {" ".join(targets.TARGETS)}')
    changed = [n for n in names if a.ledger and ledger.is_changed(ROOT, n)]
    if changed:
        parser.error(f'--ledger: the parser of {changed[0]} is changed, but not committed')
    folder, kind = BUILDS[a.sanitize]
    folder = (a.build or ROOT / folder).resolve()
    commit = ledger.git(ROOT, 'rev-parse', '--short=7', 'HEAD')
    build(folder, names, a.sanitize, a.jobs)
    found = total = 0
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for name, run in [(n, pool.submit(fuzz, folder, n, a.seconds)) for n in names]:
            code, n, text = run.result()
            total += n
            print(f'{name:12} {n:12,} executions', flush=True)
            if a.ledger and n:
                ledger.add(ROOT, commit, name, kind, n, code != 0)
            if code:
                found += 1
                print(text[-6000:])
                print(f'{name}: found something, kept in {folder}/finds/{name}', flush=True)
    print(f'{"in all":12} {total:12,} executions, {found} targets found something')
    return 1 if found else 0


sys.exit(main())
