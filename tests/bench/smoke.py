#!/usr/bin/env python3
"""usage: smoke.py TOOLS

The benchmark of tests/bench/files still starts: its inputs at a five-hundredth, one round of our tools in every kind of
suite, the outputs judged by h5py, numpy and safetensors (PG_JUDGE_PYTHON; without it the test is skipped, exit 77).
No time is looked at."""
import os
import pathlib
import subprocess
import sys
import tempfile

files = pathlib.Path(__file__).resolve().parent / 'files'
python = os.environ.get('PG_JUDGE_PYTHON')
if not python:
    print('no environment for h5py and numpy (PG_JUDGE_PYTHON)')
    sys.exit(77)
ours = ['pginfo', 'pginfo --stats', 'pgcheck', 'pgcheck of shards with CRC-32', 'pgsplit --no-sync', 'pgsplit --no-sync --sha256',
        'pgsplit --no-sync -j 2', 'pgsplit --no-sync --format safetensors', 'pgjoin --no-sync', 'pgconvert --no-sync', 'pgdiff',
        'pgunwrap --no-sync', 'pgwrap --no-sync']
with tempfile.TemporaryDirectory() as d:
    subprocess.run([python, files / 'gen.py', '--scale', '0.002', f'{d}/data', 'resnet', 'vgg_full'], check=True)
    suites = [f'{kind}-resnet' for kind in ('info', 'stats', 'split', 'join', 'convert', 'diff', 'changed', 'unwrap', 'wrap')]
    r = subprocess.run([python, files / 'run.py', *suites, 'unwrap-full', '--data', f'{d}/data', '--tmp', f'{d}/tmp', '--tools',
                        sys.argv[1], '--py', python, '-r', '1', '--only', ','.join(ours)])
sys.exit(r.returncode)
