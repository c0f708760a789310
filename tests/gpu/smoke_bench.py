#!/usr/bin/env python3
"""smoke_bench.py PGFIT: the GPUs' benchmark runs, without a GPU: both programs' figures are there, and a second run measures
nothing again. Needs PG_TORCH_PYTHON, skips (77) without."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

python = os.environ.get('PG_TORCH_PYTHON', '')
if not os.access(python, os.X_OK):
    print('needs PG_TORCH_PYTHON')
    sys.exit(77)
with tempfile.TemporaryDirectory() as d:
    out = pathlib.Path(d, 'bench.jsonl')
    command = [python, pathlib.Path(__file__).with_name('bench.py'), '--pgfit', sys.argv[1], '--device', 'cpu:0', '--models', 'lstm2',
               '--precisions', 'f32', '--peers', 'eager', '--tiny', '--out', out]
    first, second = [subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout for _ in range(2)]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
modes = [row['mode'] for row in rows if row['samples_per_s'] > 0 and row['first_step_s'] > 0]
print(first)
sys.exit(modes != ['pgfit', 'tuned', 'eager'] or '(eager)' not in first or first != second)
