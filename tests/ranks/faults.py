#!/usr/bin/env python3
"""usage: faults.py --mpi openmpi|mpich --tools DIR --testdata DIR [--only PART,PART]

What can happen to a job of several processes, and what is left of it:

  stopped   a rank that stands still (SIGSTOP): the others name it within --comm-timeout and end with status 4
  late      a rank that comes, but later than another one waits: the one that never came is named, not this one
  full      rank 0 cannot write any more, a checkpoint or the model: all end, with the words and the status of one process
  fewer     killed on 4 ranks, gone on with on 2, killed, gone on with by one process
  stateful  LSTM(stateful=True) over 2 ranks, interrupted: what it keeps is gone on with
  shares    where the ranks' time went: the table of -v and its twin in --json, which show who is slow

Whatever had happened, checkpoints load and --resume=auto ends with the bytes of one process that was left alone. Exit status 77: there
is no such mpirun, or libpg has no plug-in for it. PG_SHARE (pgbox.py) leaves out some."""
import argparse
import functools
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

import job
from job import chosen, expect, run, show

options = argparse.ArgumentParser()
options.add_argument('--mpi', required=True, choices=('openmpi', 'mpich'))
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--testdata', required=True, type=pathlib.Path)
options.add_argument('--only')
options = options.parse_args()
tools, testdata = options.tools.resolve(), options.testdata.resolve()
mpirun = job.mpirun_of(options.mpi, tools)
compare = functools.partial(job.compare, tools)
pgfit = tools / 'pgfit'
HOST = socket.gethostname()
TIMEOUT = 3  # seconds: --comm-timeout
MARGIN = 12  # seconds beside it, for others to be asked (1) and for the launcher, on a busy machine
EPOCHS = 60
DEMO = [pgfit, '--demo', 'digits', '--seed', '3', '--deterministic', '--devices', 'cpu:0', '--batch-size', '256', '--csv', 'log.csv', '-q']
WHOLE = [*DEMO, '--epochs', EPOCHS, '-o', 'out.weights.h5', '--force']
KEPT = ['--checkpoint', 'ckpt/{epoch:02d}.keras', '--save-freq', '50', '--resume=auto', '--resume-every', '0.05']  # rarer than epochs


def by_mpi(n, folder, *command):
    return job.Job([mpirun, '-np', n], n, folder, *command)


def whole(what, folder):
    """Checkpoints that have their names load; how many there are."""
    found = sorted((folder / 'ckpt').glob('[0-9]*.keras'))
    for p in found:
        r = subprocess.run([tools / 'pgcheck', p], capture_output=True, text=True)
        expect(f'{what}: {p.name} is whole', r.returncode == 0, r.stdout + r.stderr)
    return len(found)


def named(what, j, r, victim):
    """Survivors name the victim with its host, once each, and end with status 4. Where one has ended, mpirun may end the rest first:
    MPICH's kills them."""
    others = [k for k in range(j.n) if k != victim]
    text = show(r) + ''.join(f'\nrank {k}: status {j.status(k)}: {j.said(k)}' for k in range(j.n))
    expect(f'{what}: the job ends', r.returncode not in (0, 'HANG'), text)
    expect(f'{what}: in time', j.seconds < TIMEOUT + MARGIN, f'{j.seconds:.1f} s')
    expect(f'{what}: status 4', any(j.status(k) == 4 for k in others) and all(j.status(k) in (4, None) for k in others), text)
    for k in others:
        if j.status(k) == 4:
            expect(f'{what}: one message of rank {k}', len(j.said(k)) == 1, text)
        expect(f'{what}: rank {k} names it', all(f'rank {victim} on {HOST} ' in x for x in j.said(k)), text)
    expect(f'{what}: and nobody else', all(f'this process (rank {victim} on {HOST}) did not respond' in x for x in j.said(victim)), text)  # woken by mpirun
    if options.mpi == 'openmpi':  # Hydra's is of the processes that it killed
        expect(f"{what}: mpirun's status", r.returncode == 4, text)


def stopped(folder):
    n = 2
    for victim in (0, 1):
        what, here = f'rank {victim} of {n} stands still', folder / str(victim)
        here.mkdir()
        for trial in range(3):  # a run that was over before it could be stopped is begun anew
            j = by_mpi(n, here, *WHOLE, *KEPT, '--comm-timeout', TIMEOUT)
            found = j.begun(3 + trial)
            if found:
                os.kill(found[victim], signal.SIGSTOP)
            r = j.finish()
            if r.returncode != 0:
                break
            for p in ('log.csv', 'ckpt/resume.pg'):
                (here / p).unlink()
        named(what, j, r, victim)
        expect(f'{what}: a state to go on from', (here / 'ckpt/resume.pg').exists())
        r = run([mpirun, '-np', n, *WHOLE, *KEPT], here)
        expect(f'{what}: it goes on', r.returncode == 0, show(r))
        expect(f'{what}: checkpoints', whole(what, here) > 0)
        compare(what, here, job.left_alone(root, *WHOLE))


def late(folder):
    """Rank 1 stands still for so long that rank 0 waits longer than rank 1 does; rank 2 never comes."""
    j = by_mpi(4, folder, *[x for x in DEMO if x != '--deterministic'], '--epochs', 100000, '--comm-timeout', TIMEOUT)
    found = j.begun(2)
    if found:
        os.kill(found[1], signal.SIGSTOP)
        time.sleep(0.5)  # the others wait now
        os.kill(found[2], signal.SIGSTOP)
        time.sleep(1.2)
        os.kill(found[1], signal.SIGCONT)
    named('a rank that is late', j, j.finish(), 2)


def full(folder):
    """The size of files that rank 0 may write is limited while it runs: disks that fill up give the same error to the same calls."""
    cases = {'a checkpoint': ['--epochs', 12, '--checkpoint', 'ckpt/{epoch:02d}.keras'],
             'the model': ['--epochs', EPOCHS, '-o', 'out.keras', '--resume=never']}
    for what, more in cases.items():
        told = []
        for n in (1, 2):
            here = folder / f'{what.split()[-1]}{n}'
            here.mkdir()
            j = by_mpi(n, here, *DEMO, *more, '--comm-timeout', 60)
            found = j.begun(2)
            if expect(f'{what} of {n}: a run to limit', found, ''):
                resource.prlimit(found[0], resource.RLIMIT_FSIZE, (16384, 16384))
            r = j.finish()
            text = show(r) + ''.join(f'\nrank {k}: status {j.status(k)}: {j.said(k)}' for k in range(n))
            expect(f'{what} of {n}: nobody is waited for', r.returncode not in (0, 'HANG') and j.seconds < 60, text)
            expect(f'{what} of {n}: the others are silent', not any(j.said(k) for k in range(1, n)), text)
            told.append((j.status(0), [re.sub(r'/\d+', '/N', x).replace(f'rank 0 on {HOST}: ', '') for x in j.said(0)]))
            expect(f'{what} of {n}: nothing half-written', not (here / 'out.keras').exists() and not list(here.rglob('.*.pg-*')), text)
            if 'ckpt' in str(more):
                expect(f'{what} of {n}: those before stay', whole(what, here) > 0)
        expect(f'{what}: as by one process', told[0] == told[1] and len(told[0][1]) == 1, str(told))


def fewer(folder):
    for n in (4, 2):
        for trial in range(3):
            j = by_mpi(n, folder, *WHOLE, *KEPT, '--comm-timeout', TIMEOUT)
            found = j.begun(job.rows_of(folder) + 3)
            if found:
                os.kill(found[n - 1], signal.SIGKILL)
            r = j.finish()
            if expect(f'killed on {n}', r.returncode not in (0, 'HANG'), show(r)):
                break
            return
    expect('there is something left to do', job.rows_of(folder) < EPOCHS, '')
    r = run([*WHOLE, *KEPT], folder)
    expect('gone on with by one process', r.returncode == 0, show(r))
    compare('by 4, 2 and 1', folder, job.left_alone(root, *WHOLE))


def stateful(folder):
    golden = testdata / 'golden/lstm_stateful'
    command = [pgfit, golden / 'model.json', '--data', golden / 'data.npz', '--loss', 'mse', '--batch-size', '8', '--no-shuffle', '--seed', '3',
               '--deterministic', '--devices', 'cpu:0', '--csv', 'log.csv', '-q', '--epochs', 800, '-o', 'out.weights.h5', '--force']
    alone, here = folder / 'alone', folder / 'here'
    alone.mkdir(), here.mkdir()
    r = run(command, alone)
    expect('a stateful LSTM by one process', r.returncode == 0, show(r))
    for trial in range(2):
        j = by_mpi(2, here, *command, '--resume=auto', '--resume-every', '0.05')
        found = j.begun(job.rows_of(here) + 5)
        expect('a stateful LSTM: a run to disturb', found, show(j.finish()) if not found else '')
        if found and trial == 0:
            for pid in found.values():  # as a launcher tells them to leave; the state is kept at that step
                os.kill(pid, signal.SIGTERM)
        elif found:
            os.kill(found[1], signal.SIGKILL)
        r = j.finish()
        expect('a stateful LSTM: disturbed', r.returncode not in (0, 'HANG'), show(r))
        if found and trial == 0:
            expect('a stateful LSTM: interrupted', j.status(0) in (130, None), show(r))
    r = run([mpirun, '-np', 2, *command, '--resume=auto'], here)
    expect('a stateful LSTM goes on', r.returncode == 0, show(r))
    compare('a stateful LSTM', here, alone)


def slowed(folder, victim, *more):
    """A job of two, one of which runs a quarter of the time."""
    large = ['--batch-size', 1024, '--epochs', 40]  # steps that compute, more than they exchange
    j = by_mpi(2, folder, *[x for x in DEMO if x != '-q'], *large, '--resume=never', *more)
    found = j.begun(1)
    while found and j.p.poll() is None:
        try:
            os.kill(found[victim], signal.SIGSTOP)
            time.sleep(0.03)
            os.kill(found[victim], signal.SIGCONT)
        except ProcessLookupError:
            break
        time.sleep(0.01)
    r = j.finish()
    expect('a slow rank', r.returncode == 0, show(r))
    return r.stdout


def slow_one(what, ranks, victim, rounding):
    """Of rows (rank, host, compute, exchange, waiting, input)."""
    expect(f'{what}: ranks', [x[0] for x in ranks] == [0, 1] and all(x[1] == HOST for x in ranks), str(ranks))
    for x in ranks:
        expect(f'{what}: shares', all(-1e-9 <= v <= 1 for v in x[2:]) and abs(sum(x[2:]) - 1) <= rounding, str(x))
    if len(ranks) == 2:
        slow, fast = ranks[victim], ranks[1 - victim]
        expect(f'{what}: who is slow', slow[2] > fast[2] and slow[3] + slow[4] < fast[3] + fast[4], str(ranks))


def shares(folder):
    end = [e for e in map(json.loads, slowed(folder, 0, '--json').splitlines()) if e['event'] == 'end']
    rows = [(x['rank'], x['host'], x['compute'], x['exchange'], x['waiting'], x['input']) for x in end[0]['ranks']] if end else []
    slow_one('--json', rows, 0, 1e-6)
    text = slowed(folder, 1, '-v')
    expect('-v: heads', re.search(r'^ +rank +host +compute +exchange +waiting +input$', text, re.M), text)
    rows = re.findall(r'^ +(\d+) +(\S+) +(\d+) % +(\d+) % +(\d+) % +(\d+) %$', text, re.M)
    slow_one('-v', [(int(x[0]), x[1], *(int(v) / 100 for v in x[2:])) for x in rows], 1, 0.021)


with tempfile.TemporaryDirectory() as root:
    for part in (stopped, late, full, fewer, stateful, shares):
        if options.only and part.__name__ not in options.only.split(',') or not chosen(options.mpi + part.__name__):
            continue
        with tempfile.TemporaryDirectory(dir=root) as d:
            began = time.monotonic()
            part(pathlib.Path(d))
            print(f'{part.__name__}: {time.monotonic() - began:.1f} s', flush=True)
sys.exit(bool(job.bad))
