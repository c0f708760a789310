#!/usr/bin/env python3
"""usage: clock_run.py --tools DIR --clockjump LIBRARY

A clock that is set back by a day, once or again and again, or forward, changes nothing of a training run:
weights, checkpoints that load, the table of epochs, --resume-every's saves; event files go on, and a resumed run
ends as one that saw no jump."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

options = argparse.ArgumentParser()
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--clockjump', required=True, type=pathlib.Path)
options = options.parse_args()
tools = options.tools.resolve()
bad = []


def expect(what, ok, text=''):
    if not ok:
        bad.append(what)
        print(f'FAIL {what}: {text}')


def command(*more):
    return [tools / 'pgfit', '--demo', 'digits', '--epochs', '8', '--batch-size', '32', '--deterministic',
            '--checkpoint', 'c/{epoch}.keras', '--keep', '2', '--csv', 'log.csv', '--tensorboard', 'logs',
            '--report', 'r.html', '--resume-every', '0.02', '-o', 'final.h5', '-q', *more]


def same(what, folder, want):
    expect(f'{what}: log.csv', (folder / 'log.csv').read_bytes() == (want / 'log.csv').read_bytes())
    for name in ('final.h5', 'c/8.keras'):
        r = subprocess.run([tools / 'pgdiff', folder / name, want / name], capture_output=True, text=True)
        expect(f'{what}: {name}', r.returncode == 0, r.stdout + r.stderr)
    expect(f'{what}: report', (folder / 'r.html').exists())
    expect(f'{what}: events', len(list((folder / 'logs/train').iterdir())) == 1)


with tempfile.TemporaryDirectory() as d:
    d = pathlib.Path(d)
    jumps = {'never': None, 'back': {'CJ_AFTER': '3'}, 'back again and again': {'CJ_AFTER': '1', 'CJ_EVERY': '2'},
             'forward': {'CJ_AFTER': '0', 'CJ_BY': '100000000'}}
    for what, jump in jumps.items():
        folder = d / what.replace(' ', '-')
        folder.mkdir()
        env = {**os.environ, 'LD_PRELOAD': str(options.clockjump.resolve()), **jump} if jump else None
        r = subprocess.run(command(), cwd=folder, env=env, capture_output=True, text=True, timeout=120)
        expect(f'{what}: status', r.returncode == 0 and not r.stderr, r.stderr)
        if r.returncode == 0:
            same(what, folder, d / 'never')
    log = next((d / 'forward/logs/train').iterdir()).name  # events.out.tfevents.SECONDS...
    expect('the clock did jump', int(log.split('.')[3]) > time.time() + 50000000, log)
    folder = d / 'resumed'
    folder.mkdir()
    run = subprocess.Popen(command(), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and not (folder / 'c/resume.pg').exists():
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    run.wait()
    env = {**os.environ, 'LD_PRELOAD': str(options.clockjump.resolve()), 'CJ_AFTER': '0'}
    r = subprocess.run(command('--resume=auto'), cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    expect('resumed: status', r.returncode == 0, r.stderr)
    if r.returncode == 0:
        same('resumed', folder, d / 'never')
sys.exit(bool(bad))
