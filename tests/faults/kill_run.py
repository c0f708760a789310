#!/usr/bin/env python3
"""usage: kill_run.py --tools DIR [--kills N] [--seed N]

A training run that is killed (kill -9) at N random moments, each time started again by the same command
with --resume=auto and on another number of devices, ends with the same bytes as one that was left
alone: final weights, every checkpoint, the table of its epochs, the events for TensorBoard. At every moment each checkpoint that has
its name is whole: pgcheck loads it. Then the same with SIGINT, which saves where it stands and exits 130."""
import argparse
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

options = argparse.ArgumentParser()
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--kills', type=int, default=10)
options.add_argument('--seed', type=int, default=random.randrange(1 << 30))
options = options.parse_args()
tools = options.tools.resolve()
dice = random.Random(options.seed)
print(f'seed {options.seed}')
bad = []
EPOCHS = 10
START = 0.05  # seconds that a run has for its beginning, at least


def expect(what, ok, text=''):
    if not ok:
        bad.append(what)
        print(f'FAIL {what}: {text}')


def command(devices, *more):
    return [tools / 'pgfit', '--demo', 'digits', '--epochs', str(EPOCHS), '--batch-size', '32', '--seed', '3',
            '--deterministic', '--devices', devices, '--checkpoint', 'ckpt/{epoch:02d}.keras', '--csv', 'log.csv',
            '--reduce-lr', 'monitor=val_loss,patience=1,factor=0.5', '--tensorboard', 'logs', '--tensorboard-every', '7',
            '--histogram-freq', '2', '-o', 'final.weights.h5', '--force', '-q',
            *more]


def whole(folder):
    """Checkpoints under their names load; what is being written has other names."""
    for p in sorted((folder / 'ckpt').glob('[0-9]*.keras')):
        r = subprocess.run([tools / 'pgcheck', p], capture_output=True, text=True)
        expect(f'{p.name} is whole', r.returncode == 0, r.stderr)


def events(folder):
    """Records of the newest event file, without their times; older ones are of runs that were begun anew."""
    data, out, at = max(folder.iterdir(), key=lambda p: p.stat().st_mtime_ns).read_bytes(), [], 0
    while at < len(data):
        n = int.from_bytes(data[at:at + 8], 'little')
        expect('records are whole', at + 16 + n <= len(data))
        out.append(data[at + 12 + 9:at + 12 + n])
        at += 16 + n
    return b'\n'.join(out)


def result(folder):
    """Names and contents; .keras holds the time of its writing, so tensors stand for it."""
    out = {'log.csv': (folder / 'log.csv').read_bytes(),
           **{f'events of {name}': events(folder / 'logs' / name) for name in ('train', 'validation')}}
    for p in [folder / 'final.weights.h5', *sorted((folder / 'ckpt').glob('[0-9]*.keras'))]:
        out[p.name] = p
    return out


def compare(what, got, want):
    expect(f'{what}: files', got.keys() == want.keys(), f'{sorted(got)} instead of {sorted(want)}')
    for name in got.keys() & want.keys():
        if isinstance(want[name], bytes):
            expect(f'{what}: {name}', got[name] == want[name], f'{got[name][:2000]}\n{want[name][:2000]}')
            continue
        r = subprocess.run([tools / 'pgdiff', got[name], want[name]], capture_output=True, text=True)
        expect(f'{what}: {name}', r.returncode == 0, r.stdout + r.stderr)


def interrupted(folder, n, how, seconds):
    """Runs to the end with n interruptions on the way; tells how many hit a run that was going on."""
    folder.mkdir()
    hits, status = 0, None
    while status != 0:
        devices = dice.choice(['cpu:0', 'cpu:0,cpu:0', 'cpu:0,cpu:0,cpu:0'])
        run = subprocess.Popen(command(devices, '--resume=auto', '--resume-every', '0.02'), cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if hits < n:
            time.sleep(START + dice.uniform(0, 1.2 * seconds / n))
            run.send_signal(how)
        message = run.communicate(timeout=300)[1]
        status = run.returncode
        hits += status in (-how, 130)
        if how == signal.SIGINT and status == 130:
            expect('the message names the file', 'resume.pg' in message, message)
        elif status not in (0, -how):
            expect('the run', False, f'status {status}: {message}')
            return hits
        whole(folder)
    return hits


with tempfile.TemporaryDirectory() as d:
    alone = pathlib.Path(d) / 'alone'
    alone.mkdir()
    began = time.monotonic()
    r = subprocess.run(command('cpu:0'), cwd=alone, capture_output=True, text=True)
    seconds = time.monotonic() - began
    expect('a run left alone', r.returncode == 0, r.stderr)
    want = result(alone)
    expect('it wrote all its files', len(want) == 4 + EPOCHS, str(sorted(want)))
    for how, n in ((signal.SIGKILL, options.kills), (signal.SIGINT, 3)):
        for trial in range(5):  # a run may be over before it was hit often enough
            folder = pathlib.Path(d) / f'{how.name}-{trial}'
            hits = interrupted(folder, n, how, seconds)
            compare(how.name, result(folder), want)
            left = [p.name for p in folder.rglob('*') if '.pg-' in p.name]
            expect(f'{how.name}: nothing is left', not left, str(left))
            if hits == n or bad:
                break
        print(f'{how.name}: {hits} of {n}')
        expect(f'{how.name} hit', hits == n, f'{hits} of {n} times')
sys.exit(bool(bad))
