#!/usr/bin/env python3
"""beside.py PROGRAM: where a program of a Python package (beside_main.c) finds a plug-in that another package has, in the
layouts that pip makes, and where it does not look."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FILE = 'pg-cuda.so'
bad = 0


def case(what, expected, *others, program='bin/pgfit', called=None, cwd='.', top='top'):
    """expected: where the file is that is to be found, None: none of the others is."""
    global bad
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(os.path.realpath(folder)) / top
        places = [root / p for p in (expected, *others) if p]
        for path in [*places, root / program, root / (called or program), root / cwd / '.']:
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sys.argv[1], root / program)
        if called:
            (root / called).symlink_to(root / program)
        for path in places:
            (path / FILE).parent.mkdir(parents=True, exist_ok=True)
            (path / FILE).touch()
        r = subprocess.run([root / (called or program), FILE], capture_output=True, text=True, cwd=root / cwd)
        found = os.path.realpath(r.stdout.strip()) if r.returncode == 0 else None
        if found != (str(root / expected / FILE) if expected else None):
            bad += 1
            print(f'{what}: {found}, {r.stderr}')


case('an environment', 'lib/python3.11/site-packages/pgfit_cuda13')
case('packages of Debian\'s Python', 'lib/python3.11/dist-packages/pgfit_cuda13')
case('pip install --target', 'pgfit_cuda13')
case('a link to the program', 'env/lib/python3.9/site-packages/pgfit_cuda13', program='env/bin/pgfit', called='home/pgfit')
case('of several Pythons the newest', 'lib/python3.12/site-packages/pgfit_cuda13', 'lib/python3.9/site-packages/pgfit_cuda13',
     'lib/python3.11/site-packages/pgfit_cuda13')
case('a name full of patterns', 'lib/python3.11/site-packages/pgfit_cuda13', top='a [b]*? \\c')
case('what lies with the library comes first', 'libexec/libpg', 'lib/python3.11/site-packages/pgfit_cuda13')
case('nothing', None)
case('no package of pgfit\'s', None, 'lib/python3.11/site-packages/other_cuda13', 'lib/python3.11/site-packages')
case('not beside the environment', None, 'pgfit_cuda13', 'lib/python3.11/site-packages/pgfit_cuda13', program='env/bin/pgfit')
case('not where a program lies that no package has', None, 'pgfit_cuda13', 'downloads/pgfit_cuda13', program='downloads/pgfit')
case('not in the current folder', None, 'here/pgfit_cuda13', 'here/lib/python3.11/site-packages/pgfit_cuda13', cwd='here',
     program='env/bin/pgfit')
sys.exit(bool(bad))
