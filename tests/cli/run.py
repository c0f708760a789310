#!/usr/bin/env python3
"""usage: run.py TESTDATA TOOLS [--update] [--threads] [NAME...]

Runs every NAME.sh beside this file in an empty folder; stdout, stderr and exit status must equal
NAME.out, NAME.err (default: empty) and NAME.exit (default: 0), where VERSION stands for that of the tools. --update rewrites them: read the
diff before committing it. --threads leaves out what has one thread. A script may ask for a locale in its first line: "# locale: C"."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
args = [a for a in sys.argv[1:] if not a.startswith('--')]
testdata, tools, names = os.path.abspath(args[0]), os.path.abspath(args[1]), args[2:]
env = {'PATH': tools + ':/usr/bin:/bin', 'TESTDATA': testdata, 'HOME': '/nonexistent',
       'OMP_WAIT_POLICY': 'passive', # several tests share the cores
       'PG_CUDA_PLUGIN': '/nowhere/pg-cuda.so', # what this machine has is no part of what is expected
       **{k: os.environ[k] for k in ('PG_ISA', 'ONEDNN_MAX_CPU_ISA') if k in os.environ},
       'CPU_SECONDS': '60' if '--threads' in sys.argv else '15',  # with threads: under ThreadSanitizer
       'ASAN_OPTIONS': 'abort_on_error=0:exitcode=99:detect_leaks=1',
       'UBSAN_OPTIONS': 'halt_on_error=1:exitcode=99'}
version = subprocess.run(['pginfo', '--version'], env=env, capture_output=True, text=True).stdout.split()[2]
own = re.compile(rf'(?<![\d.]){re.escape(version)}(?![\d.])')  # as no other part of what is expected changes with it
bad = 0
for script in sorted(here.glob('*.sh')):
    if names and script.stem not in names:
        continue
    text = script.read_text()
    if '--threads' in sys.argv and not re.search(r'pgfit|-j', text):
        continue
    locale = 'C' if text.startswith('# locale: C\n') else 'C.UTF-8'
    with tempfile.TemporaryDirectory() as d:
        r = subprocess.run(['sh', '-e', script], cwd=d, env={**env, 'LC_ALL': locale, 'TMPDIR': d},
                           capture_output=True, timeout=600)
    got = {'.out': r.stdout.decode(errors='backslashreplace'),
           '.err': r.stderr.decode(errors='backslashreplace'), '.exit': f'{r.returncode}\n'}
    for suffix, output in got.items():
        output = own.sub('VERSION', output.replace(testdata, 'TESTDATA'))
        golden = script.with_suffix(suffix)
        default = '0\n' if suffix == '.exit' else ''
        want = golden.read_text() if golden.exists() else default
        if output == want:
            continue
        if '--update' in sys.argv:
            golden.write_text(output) if output != default else golden.unlink(missing_ok=True)
            continue
        bad += 1
        print(f'--- {golden.name}: expected\n{want}--- got\n{output}')
sys.exit(bad != 0)
