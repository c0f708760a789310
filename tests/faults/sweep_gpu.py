#!/usr/bin/env python3
"""A training run on a GPU of plain C (tests/backend/cuda/host.h) of which a call fails: of the runtime, of a library, of a
kernel; once, or that and all after it.

usage: sweep_gpu.py --tools DIR --testdata DIR --plugin pg-cuda-fake.so [--every N]
  --every  try only every N-th call (default 1); all with PG_FAULTS=all in the environment

The run ends with one line that says what failed, and exit status 5 for a device that fails while it works, 2 or 3 while it
is opened; it neither hangs nor crashes. Checkpoints that it wrote before load and pass pgcheck. Prints N of N."""
import argparse
import collections
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pgbox import Folder, run  # noqa: E402

options = argparse.ArgumentParser()
options.add_argument('--tools', required=True)
options.add_argument('--testdata', required=True)
options.add_argument('--plugin', required=True)
options.add_argument('--every', type=int, default=1)
options = options.parse_args()
tools, golden = os.path.abspath(options.tools), os.path.join(os.path.abspath(options.testdata), 'golden', 'mlp_digits')
every = 1 if os.environ.get('PG_FAULTS') == 'all' else options.every
# With one way of doing the same, or several of which the fastest is looked for (host.h); on two, a bucket for each variable.
# What follows the devices is where layers are placed.
RUNS = [('cuda:0', ''), ('cuda:0', 'slow fast'), ('cuda:0,cuda:0', ''), ('cuda:0,cuda:1', ''), ('cuda:0 fc2=cuda:1', '')]


def fit(folder, devices, plans, **more):
    devices, _, place = devices.partition(' ')
    env = dict(os.environ, FAKE_CUDA_PLANS=plans, PG_CUDA_PLUGIN=os.path.abspath(options.plugin), FAKE_CUDA_PATIENCE='2',
               PG_BUCKET_BYTES='1', LC_ALL='C.UTF-8', **more)
    return run([os.path.join(tools, 'pgfit'), golden + '/model.json', '--weights', golden + '/init_weights.h5',
                '--loss', 'categorical_crossentropy', '--data', golden + '/data.npz', '--devices', devices, '--place', place, '--gpu-tune', '--epochs', '2',
                '-q', '--checkpoint', folder / 'c-{epoch}.h5', '-o', folder / 'o.h5'], env=env, cwd=folder.path, timeout=60)


def complaint(r, folder):
    names = folder.names()
    if r.rc not in (0, 2, 3, 5):
        return 'exit status %s' % r.rc
    if r.rc == 0 and (r.err or 'o.h5' not in names):
        return 'exit 0 without its output'
    if r.rc != 0 and (len(r.heads) != 1 or not re.match(r'pgfit: .*\w{3}', r.heads[0])):
        return 'not one clear line'
    for name in names:
        if re.fullmatch(r'c-\d\.h5', name):
            check = subprocess.run([os.path.join(tools, 'pgcheck'), folder / name], capture_output=True, text=True)
            if check.returncode:
                return '%s: %s' % (name, check.stdout + check.stderr)
    return None


def one(job):
    devices, plans, call = job
    with Folder() as folder:
        r = fit(folder, devices, plans, FAKE_CUDA_FAIL_AT=call)
        why = complaint(r, folder)
        return r.rc, why and '%s %s, call %s: %s\n%s' % (devices, plans, call, why, r.show())


def n_calls(devices, plans):
    """Of a run that nothing happens to: the last call that there is to fail. Failures of trials end well, so it is looked for
    where all later ones fail too."""
    lo, hi = 1, 1 << 16
    while lo < hi:
        mid = (lo + hi) // 2
        with Folder() as folder:
            r = fit(folder, devices, plans, FAKE_CUDA_FAIL_AT='%d+' % mid)
        lo, hi = (lo, mid) if r.rc == 0 else (mid + 1, hi)
    return lo - 1


jobs = [(d, p, '%d%s' % (k, s)) for d, p in RUNS for k in range(1, n_calls(d, p) + 1, every) for s in ('', '+')]
with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    results = list(pool.map(one, jobs))
bad = [why for _, why in results if why]
for why in bad[:10]:
    print('FAIL', why)
ends = collections.Counter(rc for rc, _ in results)
print('%d of %d runs end well (%s)' % (len(jobs) - len(bad), len(jobs), ', '.join('exit %s: %d' % x for x in sorted(ends.items()))))
sys.exit(bool(bad) or len(jobs) < 20)
