#!/usr/bin/env python3
"""usage: cli.py WEB TESTDATA [NAME...]

The golden tests of tests/cli with the tools of WEB/pg.wasm, which node runs on this machine's files as the page runs them on the user's."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
# What a page has not: the trainer, pipes and links, other locales, files that can be changed, threads of a shell.
LACKS = re.compile(r'pgfit|\.onnx|--in-place|mkfifo|ln -s|<&-|/dev/|LC_ALL|locale: C\b|--out-dir|--expect|--summary|\| *head|-json -|like -|model -|--version')

web, testdata = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
names = sys.argv[3:]
scripts = {p.stem for p in (here.parent / 'cli').glob('*.sh') if not LACKS.search(p.read_text())}
node = shutil.which('node')
if not node or not (web / 'pg.wasm').exists():
    sys.exit(77)
with tempfile.TemporaryDirectory() as d:
    for tool in ('pginfo', 'pgunwrap', 'pgwrap', 'pgsplit', 'pgjoin', 'pgconvert', 'pgdiff', 'pgcheck'):
        path = pathlib.Path(d) / tool
        path.write_text(f'#!/bin/sh\nexec {node} --no-warnings --experimental-default-type=module {here}/tool.mjs {web} {tool} "$@"\n')
        path.chmod(0o755)
    chosen = sorted(scripts & set(names) if names else scripts)
    print(f'{len(chosen)} golden tests of the tools, by node', flush=True)
    sys.exit(subprocess.run([sys.executable, here.parent / 'cli/run.py', testdata, d, *chosen]).returncode)
