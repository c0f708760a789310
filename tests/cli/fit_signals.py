#!/usr/bin/env python3
"""usage: fit_signals.py TOOLS

pgfit that is told to stop by SIGTERM, and told again and again while it stops, as Slurm does at the end of a job's time: it keeps its state
and says so once, and goes on to the bytes of a run that nobody disturbed."""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

pgfit = pathlib.Path(sys.argv[1]).resolve() / 'pgfit'
command = [pgfit, '--demo', 'digits', '--seed', '3', '--deterministic', '--batch-size', '256', '--csv', 'log.csv', '-q', '-o', 'out.h5', '--force',
           '-j', '1', '--devices', 'cpu:0']
bad = 0


def expect(what, ok, text=''):
    global bad
    if not ok:
        bad += 1
        print(f'FAIL {what}: {text}')


with tempfile.TemporaryDirectory() as d:
    begun = time.monotonic()
    subprocess.run(command + ['--epochs', '1'], cwd=d, check=True)
    enough = max(8, min(60, int(3 / (time.monotonic() - begun))))  # to be stopped in the middle; an epoch takes 2 s under TSan
    command += ['--epochs', str(enough), '--resume=auto']
    one, other = pathlib.Path(d) / 'one', pathlib.Path(d) / 'other'
    one.mkdir(), other.mkdir()
    log, state = other / 'log.csv', other / 'resume.pg'
    p = subprocess.Popen(command, cwd=other, stderr=subprocess.PIPE, text=True)
    while p.poll() is None and (not log.exists() or log.read_bytes().count(b'\n') < 3):
        time.sleep(0.002)
    expect('it is still there', p.poll() is None)
    while p.poll() is None:
        p.send_signal(signal.SIGTERM)
        time.sleep(0.0005)
    said = p.stderr.read()
    expect('status', p.returncode == 130, f'{p.returncode} {said}')
    expect('it says once where it stopped', said.count('pgfit: interrupted in epoch') == 1 and 'saved resume.pg' in said, said)
    expect('its state', state.exists())
    for folder in one, other:
        r = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        expect('a run', r.returncode == 0, r.stderr)
    expect('the same bytes', (one / 'out.h5').read_bytes() == (other / 'out.h5').read_bytes())
    expect('the same log', (one / 'log.csv').read_bytes() == log.read_bytes(), log.read_text())
sys.exit(bool(bad))
