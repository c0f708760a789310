#!/usr/bin/env python3
"""usage: notebook.py FOLDER TESTDATA [--part NAME]

A notebook as a script: every function of the package in FOLDER (tools/python) beside NumPy, h5py and safetensors, Keras 2.15,
Keras 3.6 and PyTorch. Each part runs under its own Python: PG_JUDGE_PYTHON, PG_KERAS2_PYTHON, PG_KERAS3_PYTHON,
PG_TORCH_PYTHON; those that are not there are left out, without any the test is skipped (77)."""
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER, TESTDATA = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
PARTS = {'files': 'PG_JUDGE_PYTHON', 'keras2': 'PG_KERAS2_PYTHON', 'keras3': 'PG_KERAS3_PYTHON', 'torch': 'PG_TORCH_PYTHON'}
here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(here), str(here.parent)]


def main():
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE='1', TF_CPP_MIN_LOG_LEVEL='3', CUDA_VISIBLE_DEVICES='-1', KERAS_BACKEND='tensorflow')
    ran, failed = 0, []
    for part, variable in PARTS.items():
        python = os.environ.get(variable, '')
        if not os.path.exists(python):
            print(f'{part}: no {variable}')
            continue
        ran += 1
        with tempfile.TemporaryDirectory() as d:
            if subprocess.run([python, __file__, *map(str, (FOLDER, TESTDATA)), '--part', part], cwd=d, env=env).returncode:
                failed.append(part)
    print(f'{ran} parts', 'failed: ' + ', '.join(failed) if failed else 'ok')
    sys.exit(bool(failed) if ran else 77)


if '--part' in sys.argv:
    from doc_files import lay_out
    lay_out(TESTDATA, '.')
    name = sys.argv[-1]
    __import__('notebook_' + name.rstrip('23'))
    print(f'{name}: ok', flush=True)
else:
    main()
