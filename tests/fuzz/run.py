#!/usr/bin/env python3
"""Builds the fuzz targets with clang's libFuzzer and runs them, two at a time.

  run.py [--build DIR] [--seconds N] [--plain] [TARGET ...]      default: every target for 60 s

Needs clang. Prints what each executed. What it finds is kept in DIR/finds/TARGET, and the exit status is 1. Inputs
that reach new code are kept in DIR/work/TARGET for the next run."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import targets

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / 'tests/fuzz'


def build(folder, names, plain):
    sanitize = 'none' if plain else 'address,undefined'
    if not (folder / 'build.ninja').exists():
        subprocess.run(['meson', 'setup', folder, ROOT, '-Dfuzz=libfuzzer', f'-Db_sanitize={sanitize}',
                        '-Db_lundef=false', '-Donednn=disabled', '-Dcuda=disabled', '-Dmpi=disabled'],
                       env=dict(os.environ, CC='clang'), check=True)
    subprocess.run(['meson', 'compile', '-C', folder] + [f'fuzz_{n}' for n in names], check=True)


def gather(folder, name, t):
    """Seeds in one folder, the short ones of testdata among them."""
    seeds = folder / 'seeds' / name
    seeds.mkdir(parents=True, exist_ok=True)
    for pattern in t.seeds:
        for k, path in enumerate(sorted((ROOT / 'testdata').rglob(pattern))):
            if path.is_file() and path.stat().st_size <= t.max_len:
                (seeds / f'{k}-{path.name}').write_bytes(path.read_bytes())
    return [seeds] + [d for d in [HERE / 'corpus' / name] if d.is_dir()]


def fuzz(folder, name, seconds):
    t = targets.TARGETS[name]
    finds, work = folder / 'finds' / name, folder / 'work' / name
    for d in (finds, work):
        d.mkdir(parents=True, exist_ok=True)
    command = [folder / 'tests/fuzz' / f'fuzz_{name}', work, *gather(folder, name, t), f'-max_total_time={seconds}',
               f'-max_len={t.max_len}', '-timeout=10', '-malloc_limit_mb=512', '-rss_limit_mb=1024',
               '-print_final_stats=1', '-reload=0', f'-artifact_prefix={finds}/']
    if t.dict:
        command.append(f'-dict={HERE / t.dict}.dict')
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    n = re.findall(r'stat::number_of_executed_units:\s*(\d+)', r.stdout)
    return r.returncode, int(n[-1]) if n else 0, r.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build-fuzz')
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--plain', action='store_true', help='without sanitizers: faster, sees less')
    parser.add_argument('names', nargs='*', metavar='TARGET')
    a = parser.parse_args()
    names = a.names or sorted(targets.TARGETS)
    unknown = [n for n in names if n not in targets.TARGETS]
    if unknown:
        parser.error(f'no target {unknown[0]}; one of {" ".join(targets.TARGETS)}')
    folder = a.build.resolve()
    build(folder, names, a.plain)
    found = total = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = {n: pool.submit(fuzz, folder, n, a.seconds) for n in names}
        for name, run in runs.items():
            code, n, text = run.result()
            total += n
            print(f'{name:12} {n:12,} executions', flush=True)
            if code:
                found += 1
                print(text[-6000:])
                print(f'{name}: found something, kept in {folder}/finds/{name}', flush=True)
    print(f'{"in all":12} {total:12,} executions, {found} targets found something')
    return 1 if found else 0


sys.exit(main())
