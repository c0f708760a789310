#!/usr/bin/env python3
"""usage: torchrun.py --tools DIR --testdata DIR --plugin FILE [--only PART,PART]

Jobs of the real torchrun, on GPUs of plain C (tests/backend/cuda/host.h):

  numbers  an agent with 2 processes, two agents that find each other with 2 each: what one process gives on as many GPUs, but for rounding
  bits     --deterministic: the same bytes
  cpus     are refused, with what to do
  killed   a rank that is killed: the agent ends the others, starts all again, and they go on to the bytes of a run left alone; by two agents, too
  told     an agent that is told to end, as by a batch system: the state is kept, and gone on with

PG_TORCH_PYTHON names the Python of an environment that has it. Exit status 77: there is none."""
import argparse
import functools
import os
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
import time

import job
from job import expect, run, show

options = argparse.ArgumentParser()
for name in ('--tools', '--testdata', '--plugin'):
    options.add_argument(name, required=True, type=lambda p: pathlib.Path(p).resolve())
options.add_argument('--only')
options = options.parse_args()
tools = options.tools
compare, same = functools.partial(job.compare, tools), functools.partial(job.same, tools)
python = shutil.which(os.environ.get('PG_TORCH_PYTHON', ''))
torchrun = python and pathlib.Path(os.path.abspath(python)).parent / 'torchrun'
if not torchrun or not torchrun.exists():
    print('no torchrun: PG_TORCH_PYTHON names a Python of an environment that has PyTorch')
    sys.exit(77)
job.ENV.update(PG_CUDA_PLUGIN=str(options.plugin), FAKE_CUDA_DEVICES='4', FAKE_CUDA_NAME='GPU of plain C', PG_BUCKET_BYTES='4000', OMP_NUM_THREADS='1')
for k in [k for k in job.ENV if k.startswith('TORCHELASTIC_') or k in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT')]:
    del job.ENV[k]
GOLDEN = options.testdata / 'golden/mlp_digits'
EPOCHS = 80


def fit(epochs, *how):
    return [tools / 'pgfit', GOLDEN / 'model.json', '--weights', GOLDEN / 'init_weights.h5', '--data', GOLDEN / 'data.npz', '--loss',
            'categorical_crossentropy', '--optimizer', 'sgd:learning_rate=0.01', '--seed', '3', '--gpu-tune', '--batch-size', '50', '--csv', 'log.csv', '-q',
            '-o', 'out.weights.h5', '--force', '--epochs', epochs, *how]


def alone(epochs, n, *how):
    return job.left_alone(root, *fit(epochs, '--gpus', n, *how))


class Agents:
    """Of a job: torchrun of each machine, which find each other where the first one listens. Those of one machine share its GPUs."""
    n_jobs = 0

    def __init__(self, n, each, folder, command, *words):
        Agents.n_jobs += 1
        self.name = f'{os.getpid()}-torch-{Agents.n_jobs}'
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            meet = ['--rdzv-backend', 'c10d', '--rdzv-endpoint', f'localhost:{s.getsockname()[1]}', '--rdzv-id', self.name]
        own = folder / 'own.sh'
        own.write_text('#!/bin/sh\nexec "$@" --devices cuda:$(( GROUP_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK ))\n')
        own.chmod(0o755)
        argv = [torchrun, '--nnodes', n, '--nproc-per-node', each, *(meet if n > 1 else ['--standalone']), *words, '--no-python',
                *((own, *command) if n > 1 else (*command, '--devices', 'auto'))]
        self.n = n * each
        self.all = [job.start(argv, folder, {'PG_TEST_JOB': self.name}) for _ in range(n)]

    def begun(self, folder, rows):
        there = lambda: (len(found := job.processes(self.name)) == self.n and job.rows_of(folder) >= rows and found)
        return job.until(f'epoch {rows} by {self.n} ranks', self.all[0], there) or {}

    def finish(self):
        ends = [job.finish(p, 120) for p in self.all]
        self.status = [r.returncode for r in ends]
        self.said = [x for r in ends for x in job.said(r.stderr)]
        self.text = '\n'.join(map(show, ends))
        for pid in job.processes(self.name).values():
            expect('nobody is left', False, str(pid))
            os.kill(pid, signal.SIGKILL)
        return self


LAYOUTS = ((1, 2), (2, 2))


def numbers(folder):
    for n, each in LAYOUTS:
        a = Agents(n, each, folder, fit(2)).finish()
        expect(f'{n} x {each}', set(a.status) == {0}, a.text)
        same(f'{n} x {each}, but for rounding', folder / 'out.weights.h5', alone(2, n * each) / 'out.weights.h5', '--delta', '1e-6')


def bits(folder):
    for n, each in LAYOUTS:
        a = Agents(n, each, folder, fit(2, '--deterministic')).finish()
        expect(f'{n} x {each}', set(a.status) == {0}, a.text)
        compare(f'{n} x {each}', folder, alone(2, n * each, '--deterministic'))


def cpus(folder):
    r = run([torchrun, '--standalone', '--nproc-per-node', 2, '--no-python', *fit(2, '--devices', 'cpu:0')], folder)
    expect('CPUs', r.returncode != 0 and len(job.said(r.stderr)) == 1 and 'try: mpirun -np N pgfit' in r.stderr, show(r))


def killed(folder):
    for (n, each), victim in zip(LAYOUTS, (0, 3)):
        what, here = f'{n} x {each}, rank {victim} killed', folder / str(n)
        here.mkdir()
        a = Agents(n, each, here, fit(EPOCHS, '--deterministic', '--resume=auto', '--resume-every', '0.05', '--comm-timeout', '60'),
                   '--max-restarts', '1')
        found = a.begun(here, 3)
        if found:
            os.kill(found[victim], signal.SIGKILL)
        a.finish()
        expect(what, set(a.status) == {0}, a.text)
        expect(f'{what}: whoever speaks names it', all(f'rank {victim} on {socket.gethostname()} is gone' in x for x in a.said), str(a.said))
        compare(what, here, alone(EPOCHS, n * each, '--deterministic'))


def told(folder):
    how = '--deterministic', '--resume=auto'
    a = Agents(1, 2, folder, fit(EPOCHS, *how))
    a.begun(folder, 3)
    a.all[0].send_signal(signal.SIGTERM)
    a.finish()
    expect('told to end', 0 not in a.status and len(a.said) == 1 and 'saved resume.pg' in a.said[0], a.text)
    a = Agents(2, 2, folder, fit(EPOCHS, *how)).finish()
    expect('told to end: it goes on', set(a.status) == {0}, a.text)
    compare('told to end', folder, alone(EPOCHS, 4, '--deterministic'))


with tempfile.TemporaryDirectory() as root:
    for part in (numbers, bits, cpus, killed, told):
        if options.only and part.__name__ not in options.only.split(','):
            continue
        with tempfile.TemporaryDirectory(dir=root) as d:
            began = time.monotonic()
            part(pathlib.Path(d))
            print(f'{part.__name__}: {time.monotonic() - began:.1f} s', flush=True)
sys.exit(bool(job.bad))
