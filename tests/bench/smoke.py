#!/usr/bin/env python3
"""usage: smoke.py TOOLS

The benchmark of tests/bench/files still starts: one round of all of it with inputs at a five-hundredth, the outputs judged
by h5py, numpy and safetensors (PG_JUDGE_PYTHON; without it the test is skipped, exit 77), every row in the table. No time
is looked at."""
import os
import pathlib
import subprocess
import sys
import tempfile

files = pathlib.Path(__file__).resolve().parent / 'files'
sys.path.insert(0, str(files))
import report  # noqa: E402
from rows import ROWS  # noqa: E402

python = os.environ.get('PG_JUDGE_PYTHON')
if not python:
    print('no environment for h5py and numpy (PG_JUDGE_PYTHON)')
    sys.exit(77)
with tempfile.TemporaryDirectory() as d:
    readme = pathlib.Path(d, 'README.md')
    readme.write_text('before\n\n' + '\n'.join(report.MARKS) + '\n\nafter\n')
    r = subprocess.run([sys.executable, files / 'table.py', '--tools', sys.argv[1], '--work', f'{d}/work', '--scale', '0.002', '--rounds', '1',
                        '--systems', '', '--py', python, '--readme', readme])
    text = readme.read_text()
    missing = [row.what for row in ROWS if '' in row.systems and f'| {row.what} |' not in text]
    whole = text.startswith('before\n\n' + report.MARKS[0]) and text.endswith(report.MARKS[1] + '\n\nafter\n')
if missing or not whole:
    print('no row of:', ', '.join(missing) or 'a whole README')
sys.exit(r.returncode or bool(missing) or not whole)
