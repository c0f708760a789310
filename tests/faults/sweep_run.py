#!/usr/bin/env python3
"""usage: sweep_run.py --tools DIR --faultrun PROGRAM [--every N] [--jobs N]

Every system call by which a training run changes its folder (checkpoints, their links, the state of the
run, its tables, the final weights) is failed in turn: killed before it, killed after it, ENOSPC once and
from there on, EIO. After a kill the same command with --resume=auto ends in the same weights as a run
that was left alone. After an error the training has gone on: the status is 0, or 2 with a message that names the file; a
second run with --resume=auto ends in the same weights. What has a checkpoint's name always loads.
Prints how many of how many passed; 77 (skipped) where programs may not be traced."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import sweep

options = sweep.options(__doc__, ('--every', dict(type=int, default=4, help='every N-th call; of the kills, four times as many')))
tools = options.tools
RUN = [tools / 'pgfit', '--demo', 'digits', '--epochs', '2', '--batch-size', '256', '--deterministic', '--threads', '1',
       '--checkpoint', 'ckpt/{epoch}.h5', '--save-weights-only', '--keep', '1', '--csv', 'log.csv', '--tensorboard',
       'logs', '--resume=auto', '--resume-every', '0.001', '-o', 'final.h5', '--force', '-q']
FAULTS = [*sweep.KILLS, 'ENOSPC', 'EIO', 'ENOSPC+']


def run(folder, fault=()):
    return sweep.run(RUN, folder, [options.faultrun, '-w', '-p', folder, *fault] if fault else None)


def differs(a, b):
    r = subprocess.run([tools / 'pgdiff', a, b], capture_output=True, text=True)
    return r.stdout + r.stderr if r.returncode else ''


def trial(root, n, fault, want):
    """What was wrong, or ''."""
    folder = root / f'{fault}-{n}'
    folder.mkdir()
    killed = fault in sweep.KILLS
    try:
        r = run(folder, [*sweep.FAULTS[fault], '-n', str(n)])
        if r.status not in ((137, 0) if killed else (0, 2)):
            return str(r)
        if r.status == 2 and 'pgfit: ' not in r.err:
            return f'status 2 without a message: {r.err}'
        if r.status == 0 and differs(folder / 'final.h5', want):
            return 'status 0 and other weights'
        for p in (folder / 'ckpt').glob('[0-9].h5'):
            c = subprocess.run([tools / 'pginfo', p], capture_output=True, text=True)
            if c.returncode:
                return f'{p.name}: {c.stderr}'
        over = r.status == 2 and ' is missing: ' in r.err  # there is no next save that could bring it
        r = run(folder)
        if r.status and not (over and ' is missing: ' in r.err):
            return f'going on: {r}'
        return differs(folder / 'final.h5', want)
    finally:
        shutil.rmtree(folder)


def main():
    with tempfile.TemporaryDirectory() as d:
        root = pathlib.Path(d).resolve()
        (root / 'alone').mkdir()
        (root / 'counted').mkdir()
        r = run(root / 'alone')
        if r.status:
            sys.exit(f'a run left alone: {r}')
        n_calls = run(root / 'counted', ['-t', '100']).counted
        if not n_calls:
            sweep.cannot_trace()
        want = root / 'alone/final.h5'
        plan = [job for fault in FAULTS for job in
                sweep.every(n_calls, 1 if options.all else max(1, options.every // 4) if fault == 'kill' else options.every, fault)]
        good = sweep.judge_all('run', lambda n, fault: trial(root, n, fault, want), plan, options.jobs)
        print(f'{n_calls} calls: {good} of {len(plan)} trials ({n_calls * len(FAULTS)} possible)')
    return good != len(plan)


sys.exit(main())
