#!/usr/bin/env python3
"""usage: powersgd.py --tools DIR --testdata DIR

What --compress powersgd costs in the loss, beside PyTorch's own PowerSGD: the same model, weights, rows and order, by two processes.
Both begin with random factors, PyTorch with three seeds and after two steps, so losses are not the same, but what they lose is.

PG_TORCH_PYTHON names the Python of an environment that has torch and h5py. Exit status 77: there is none, or no Open MPI."""
import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile

import job
from job import expect, run, show

EPOCHS, LEARNING_RATE = 12, 0.05

options = argparse.ArgumentParser()
for name in ('--tools', '--testdata'):
    options.add_argument(name, required=True, type=lambda p: pathlib.Path(p).resolve())
options = options.parse_args()
python = shutil.which(os.environ.get('PG_TORCH_PYTHON', ''))
if not python:
    print('no PyTorch: PG_TORCH_PYTHON names a Python of an environment that has it')
    sys.exit(77)
mpirun = job.mpirun_of('openmpi', options.tools)
golden = options.testdata / 'golden/mlp_digits'


def ours(folder, factors):
    r = run([mpirun, '-np', 2, options.tools / 'pgfit', golden / 'model.json', '--weights', golden / 'init_weights.h5', '--data', golden / 'data.npz',
             '--loss', 'categorical_crossentropy', '--optimizer', f'sgd:learning_rate={LEARNING_RATE}', '--seed', 3, '-j', 1, '--devices', 'cpu:0',
             '--no-shuffle', '--batch-size', 50, '--epochs', EPOCHS, '-o', 'out.weights.h5', '--force', '--json',
             *(['--compress', f'powersgd:rank={factors}'] if factors else [])], folder, 60)
    losses = [json.loads(x)['loss'] for x in r.stdout.splitlines() if x.startswith('{"event": "epoch"')]
    expect(f'pgfit, rank {factors}', r.returncode == 0 and len(losses) == EPOCHS, show(r))
    return losses


def cost(losses, exact):
    """The mean over epochs of what the loss is larger."""
    return sum(a / b - 1 for a, b in zip(losses, exact, strict=True)) / EPOCHS


r = run([python, pathlib.Path(__file__).parent / 'powersgd_peer.py', golden, EPOCHS, LEARNING_RATE], None, 120, {'GLOO_SOCKET_IFNAME': 'lo'})
theirs = [json.loads(x.removeprefix('losses ')) for x in r.stdout.splitlines() if x.startswith('losses ')]  # gloo prints, too
if expect('PyTorch', r.returncode == 0 and len(theirs) == 10, show(r)):
    with tempfile.TemporaryDirectory() as folder:
        mine = {factors: ours(pathlib.Path(folder), factors) for factors in (0, 1, 2, 4)}
    exact = theirs[0][2]
    expect('without compression', all(abs(a / b - 1) < 1e-4 for a, b in zip(mine[0], exact, strict=True)), f'{mine[0]}, PyTorch {exact}')
    for factors in (1, 2, 4):
        costs = [cost(losses, exact) for f, _, losses in theirs if f == factors]
        own = cost(mine[factors], mine[0])
        print(f'rank {factors}: the loss is {own:.2%} larger, by PyTorch {", ".join(f"{c:.2%}" for c in costs)}')
        expect(f'rank {factors}: as PyTorch', min(costs) / 3 < own < 1.5 * max(costs), f'{own}, PyTorch {costs}')
sys.exit(bool(job.bad))
