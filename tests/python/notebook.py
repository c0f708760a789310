#!/usr/bin/env python3
"""usage: notebook.py FOLDER TESTDATA [--part NAME]

A notebook as a script: every function of the package in FOLDER (tools/python) beside NumPy, h5py and safetensors, Keras 2.15,
Keras 3.6 and PyTorch. Each part runs under its own Python: PG_JUDGE_PYTHON, PG_KERAS2_PYTHON, PG_KERAS3_PYTHON,
PG_TORCH_PYTHON; those that are not there are left out, without any the test is skipped (77)."""
import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

FOLDER, TESTDATA = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
PARTS = {'files': 'PG_JUDGE_PYTHON', 'keras2': 'PG_KERAS2_PYTHON', 'keras3': 'PG_KERAS3_PYTHON', 'torch': 'PG_TORCH_PYTHON'}
here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(here), str(here.parent)]


def untried():
    """Public functions that no part calls."""
    import pgfit
    names = ['pgfit.Trainer'] + [f'pgfit.{name}' for name, value in vars(pgfit).items() if isinstance(value, types.FunctionType)]
    for module in ('keras', 'torch'):
        listed = re.search(r'^__all__ = (.*)', (FOLDER / f'pgfit/{module}.py').read_text(), re.M)[1]
        names += [f'pgfit.{module}.{name}' for name in ast.literal_eval(listed) if not name.endswith('Error')]
    script = ''.join(part.read_text() for part in here.glob('notebook_*.py'))
    return [name for name in names if name + '(' not in script]


def main():
    left = untried()
    if left:
        sys.exit('no part calls ' + ', '.join(left))
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
