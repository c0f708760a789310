#!/usr/bin/env python3
"""usage: sweep_run.py --tools DIR --faultrun PROGRAM [--every N] [--jobs N]

Every system call by which a training run changes its folder (checkpoints, their links, the state of the
run, its tables, the final weights) is failed in turn: killed before it, killed after it, ENOSPC once and
from there on, EIO. After a kill the same command with --resume=auto ends in the same weights as a run
that was left alone. After an error the training has gone on: the status is 0, or 2 with a message that names the file; a
second run with --resume=auto ends in the same weights. What has a checkpoint's name always loads.
Prints how many of how many passed; 77 (skipped) where programs may not be traced."""
import argparse
import concurrent.futures
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

options = argparse.ArgumentParser()
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--faultrun', required=True, type=pathlib.Path)
options.add_argument('--every', type=int, default=4, help='every N-th call; of the kills, four times as many')
options.add_argument('--jobs', type=int, default=2)
options = options.parse_args()
tools = options.tools.resolve()
faultrun = options.faultrun.resolve()
RUN = [tools / 'pgfit', '--demo', 'digits', '--epochs', '2', '--batch-size', '256', '--deterministic', '--threads', '1',
       '--checkpoint', 'ckpt/{epoch}.h5', '--save-weights-only', '--keep', '1', '--csv', 'log.csv', '--tensorboard',
       'logs', '--resume=auto', '--resume-every', '0.001', '-o', 'final.h5', '--force', '-q']
FAULTS = {'kill': ['-a', 'kill'], 'killafter': ['-a', 'killafter'], 'half': ['-a', 'half'],
          'ENOSPC': ['-a', 'ENOSPC'], 'EIO': ['-a', 'EIO'], 'full': ['-s', '-a', 'ENOSPC']}


def run(folder, fault=()):
    command = [faultrun, '-w', '-p', folder, *fault, '--', *RUN] if fault else RUN
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def differs(a, b):
    r = subprocess.run([tools / 'pgdiff', a, b], capture_output=True, text=True)
    return r.stdout + r.stderr if r.returncode else ''


def trial(root, n, fault, want):
    """What was wrong, or ''."""
    folder = root / f'{fault}-{n}'
    folder.mkdir()
    killed = fault in ('kill', 'killafter', 'half')
    try:
        r = run(folder, [*FAULTS[fault], '-n', str(n)])
        message = [line for line in r.stderr.splitlines() if not line.startswith('faultrun:')]
        if r.returncode not in ((137, 0) if killed else (0, 2)):
            return f'status {r.returncode}: {r.stderr}'
        if r.returncode == 2 and not any(line.startswith('pgfit: ') for line in message):
            return f'status 2 without a message: {r.stderr}'
        if r.returncode == 0 and differs(folder / 'final.h5', want):
            return 'status 0 and other weights'
        for p in (folder / 'ckpt').glob('[0-9].h5'):
            c = subprocess.run([tools / 'pginfo', p], capture_output=True, text=True)
            if c.returncode:
                return f'{p.name}: {c.stderr}'
        over = r.returncode == 2 and ' is missing: ' in r.stderr  # there is no next save that could bring it
        r = run(folder)
        if r.returncode and not (over and ' is missing: ' in r.stderr):
            return f'going on: {r.returncode}: {r.stderr}'
        return differs(folder / 'final.h5', want)
    finally:
        shutil.rmtree(folder)


def count_calls(folder):
    folder.mkdir()
    r = run(folder, ['-t', '100'])
    m = re.search(r'counted=(\d+)', r.stderr)
    return int(m.group(1)) if m and r.returncode == 0 else 0


with tempfile.TemporaryDirectory() as d:
    root = pathlib.Path(d).resolve()
    (root / 'alone').mkdir()
    r = run(root / 'alone')
    if r.returncode:
        sys.exit(f'a run left alone: {r.stderr}')
    n_calls = count_calls(root / 'counted')
    if not n_calls:
        print('programs cannot be traced here')
        sys.exit(77)
    want = root / 'alone/final.h5'
    plan = [(n, fault) for fault in FAULTS
            for step in [max(1, options.every // 4) if fault == 'kill' else options.every]
            for n in range(random.randint(1, step), n_calls + 1, step)]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        todo = {pool.submit(trial, root, n, fault, want): (n, fault) for n, fault in plan}
        for t in concurrent.futures.as_completed(todo):
            if t.result():
                bad += 1
                print('FAIL call {} {}: '.format(*todo[t]) + t.result())
    print(f'{n_calls} calls: {len(plan) - bad} of {len(plan)} trials')
sys.exit(bool(bad))
