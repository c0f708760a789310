#!/usr/bin/env python3
"""usage: smoke_trainer.py TOOLS

The benchmark of tests/bench/trainer still starts: one model, one peer, three steps, and a table with a ratio in it. Needs a
Keras to make the model (PG_KERAS2_PYTHON or PG_KERAS3_PYTHON); without one the test is skipped (exit 77). No time is looked at."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

trainer = pathlib.Path(__file__).resolve().parent / 'trainer'
peer = next((p for p, v in (('tfkeras', 'PG_KERAS2_PYTHON'), ('keras3-tf', 'PG_KERAS3_PYTHON')) if os.environ.get(v)), None)
if not peer:
    print('no environment with Keras (PG_KERAS2_PYTHON, PG_KERAS3_PYTHON)')
    sys.exit(77)
with tempfile.TemporaryDirectory() as d:
    table = pathlib.Path(d) / 'results.md'
    command = [sys.executable, trainer / 'run.py', '--tools', sys.argv[1], '--work', d, '--report', table, '--models', 'mlp',
               '--peers', peer, '--rounds', '1', '--steps', '3']
    subprocess.run(command, check=True)
    samples = (pathlib.Path(d) / 'samples.jsonl').read_text()
    subprocess.run(command, check=True)
    assert samples == (pathlib.Path(d) / 'samples.jsonl').read_text(), 'what was measured is measured again'
    text = table.read_text()
    print(text)
    assert re.search(r'^\| MLP .*\*\*\d+\.\d\d\*\*', text, re.M), 'no ratio'
    assert 'What did not run' not in text
