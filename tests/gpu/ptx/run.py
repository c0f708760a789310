#!/usr/bin/env python3
"""run.py: the tests of operations and of training over the kernels' PTX (README.md), by seeds: orders of threads and blocks,
errors of approximate instructions. In the end every line of kernels.def must have run. PG_SHARE takes a part of the runs,
and then only their results count.

  --plugin FILE      pg-cuda-ptx.so, for programs that open it
  --kernels FILE     kernels.def
  --optimizers FILE  optimizers.def
  --jobs N           runs at the same time
  --seeds N          how many for a test of operations
  --with NAME=PROGRAM[,ARGUMENT...]  a test of operations
  --once NAME=PROGRAM[,ARGUMENT...]  one that is long: by one seed"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import pgbox

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--plugin', required=True)
parser.add_argument('--kernels', type=pathlib.Path, required=True)
parser.add_argument('--optimizers', type=pathlib.Path, required=True)
parser.add_argument('--jobs', type=int, default=os.cpu_count())
parser.add_argument('--seeds', type=int, default=3)
parser.add_argument('--with', dest='tests', action='append', default=[])
parser.add_argument('--once', action='append', default=[])
options = parser.parse_args()


def names():
    text = options.kernels.read_text()
    listed = re.findall(r'^PGK_(?:MAP|ROWS|LINES)\((\w+)\)', text, re.M)
    return listed + ['update_' + n for n in re.findall(r'^PG_OPTIMIZER\((\w+)', options.optimizers.read_text(), re.M)]


def run(what, command, seed, log):
    begun = time.monotonic()
    env = dict(os.environ, PG_CUDA_PLUGIN=options.plugin, PG_TUNE='1', PTX_SEED=str(seed), PTX_LOG=log, OMP_WAIT_POLICY='passive')
    r = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    return what, seed, r.returncode, r.stdout, time.monotonic() - begun


def count(log):
    """Launches of each kernel of kernels.def: "accumulate 12"."""
    n = {}
    for line in pathlib.Path(log).read_text().splitlines():
        name, times = line.split()
        n[name] = n.get(name, 0) + int(times)
    return n


def main():
    todo = []
    for test in options.once + options.tests: # the long ones first
        what, _, command = test.partition('=')
        seeds = [options.seeds] if test in options.once else range(options.seeds)
        todo += [(what, command.split(','), seed) for seed in seeds if pgbox.chosen(f'{what} {seed}')]
    bad = 0
    with tempfile.NamedTemporaryFile(suffix='.log') as log, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for work in concurrent.futures.as_completed([pool.submit(run, *t, log.name) for t in todo]):
            what, seed, status, text, seconds = work.result()
            print(f'{what}, seed {seed}: {"ok" if status == 0 else f"FAILED ({status})"}, {seconds:.1f} s', flush=True)
            if status != 0:
                bad += 1
                print(''.join(line + '\n' for line in text.splitlines()[-12:]), flush=True)
        n = count(log.name)
    missing = [name for name in names() if n.get(name, 0) == 0]
    print(f'{sum(n.values())} launches of {sum(1 for k in names() if n.get(k))} of {len(names())} kernels')
    if missing and len(todo) == len(options.once) + options.seeds * len(options.tests):
        print('no launch of', ', '.join(missing))
        bad += 1
    return bad != 0


sys.exit(main())
