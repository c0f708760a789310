#!/usr/bin/env python3
"""drivers.py PGFIT PLUGIN FOLDER MODEL DATA: what pgfit says with the real pg-cuda.so where there is no driver, and with
one that is too old (libcuda.so.1 in FOLDER)."""
import ctypes
import os
import subprocess
import sys

pgfit, plugin, folder, model, data = sys.argv[1:]
command = [pgfit, model, '--data', data, '--loss', 'mse', '--devices', 'cuda:0']
bad = 0


def says(words, **env):
    global bad
    r = subprocess.run(command, capture_output=True, text=True, env={**os.environ, 'PG_CUDA_PLUGIN': plugin, **env})
    if r.returncode != 3 or not r.stderr.startswith('pgfit: cuda:0: ' + words):
        print(f'exit {r.returncode}, not 3 with "{words}": {r.stderr}')
        bad = 1


try:
    ctypes.CDLL('libcuda.so.1')
except OSError:  # else there is one
    says('no NVIDIA driver: libcuda.so.1 is missing; install the package nvidia-driver', LD_LIBRARY_PATH='')
says('the NVIDIA driver is too old: it is for CUDA 11.4 and this build for ', LD_LIBRARY_PATH=folder)
sys.exit(bad)
