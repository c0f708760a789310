#!/usr/bin/env python3
"""usage: run.py --tools FOLDER --tmp FOLDER [KIND...] [--gb 2] [--rounds 5] [-o results.md]

Times pgjoin on checkpoints of parallel training beside cp of the same bytes and beside what the framework's users do today, in
interleaved rounds, and takes the largest memory of each. KIND: dcp, dcp-2d (cut along both axes), zero, tf, flax, orbax; those whose
Python is not there (PG_TORCH_PYTHON, PG_DEEPSPEED_PYTHON, PG_KERAS2_PYTHON, PG_JAX_PYTHON) are left out and named. The framework runs in the first
round only. The first output of pgjoin is compared with the framework's, tensor by tensor (PG_JUDGE_PYTHON)."""
import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

here = pathlib.Path(__file__).resolve().parent
PYTHON = {'dcp': 'PG_TORCH_PYTHON', 'dcp-2d': 'PG_TORCH_PYTHON', 'zero': 'PG_DEEPSPEED_PYTHON', 'tf': 'PG_KERAS2_PYTHON', 'flax': 'PG_JAX_PYTHON', 'orbax': 'PG_JAX_PYTHON'}
NAME = {'dcp': 'torch DCP, 4 ranks', 'dcp-2d': 'torch DCP, 2 x 2 ranks', 'zero': 'DeepSpeed ZeRO-3, 4 ranks', 'tf': 'TensorFlow', 'flax': 'Flax', 'orbax': 'Orbax, 4 devices'}
SAME = """
import sys
from safetensors import safe_open
a, b = (safe_open(p, 'np') for p in sys.argv[1:])
assert sorted(a.keys()) == sorted(b.keys()), (sorted(a.keys())[:3], sorted(b.keys())[:3])
for k in a.keys():
    x, y = a.get_tensor(k), b.get_tensor(k)
    assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes(), k
"""
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('kinds', nargs='*', metavar='KIND', default=list(PYTHON))
parser.add_argument('--tools', type=pathlib.Path, required=True)
parser.add_argument('--tmp', type=pathlib.Path, required=True, help='on the file system to be measured')
parser.add_argument('--gb', type=float, default=2)
parser.add_argument('--rounds', type=int, default=5)
parser.add_argument('-o', '--output', type=pathlib.Path)
args = parser.parse_args()


def measure(command, quiet=False):
    """Seconds, and bytes of memory."""
    start = time.monotonic()
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL if quiet else None)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f'{command}: status {status}')
    return time.monotonic() - start, usage.ru_maxrss * 1024


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    os.sync()  # its dirty pages are not the next case's


def bench(kind, python):
    source, out, made = args.tmp / kind, args.tmp / 'out.safetensors', args.tmp / 'made.safetensors'
    subprocess.run([python, here / 'frameworks.py', 'make', kind, source, str(args.gb)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    os.sync()
    given = source / 'flax_model.msgpack' if kind == 'flax' else source
    join = [args.tools / 'pgjoin', '-q', '--no-sync']
    cases = {'cp': ['cp', '-r', '--reflink=never', source, args.tmp / 'copy'], 'control': ['cp', '-r', '--reflink=never', source, args.tmp / 'copy'],
             'write': [*join, '--skip-verify', given, out], 'proof': [*join, given, out]}
    samples = {name: [] for name in cases}
    for k in range(args.rounds):
        for name, command in cases.items():
            samples[name].append(measure(command))
            if k == 0 and name == 'write':
                samples['peer'] = [measure([python, here / 'frameworks.py', 'join', kind, source, made], quiet=True)]
                if kind != 'tf':
                    subprocess.run([os.environ.get('PG_JUDGE_PYTHON', python), '-c', SAME, out, made], check=True)
                remove(made)
                remove(made.with_name(made.name + '.pt'))
            remove(args.tmp / 'copy') if (args.tmp / 'copy').exists() else None
            remove(out)
    remove(source)
    return {name: (min(s[0] for s in v), max(s[1] for s in v)) for name, v in samples.items()}


def row(kind, r):
    cp, peer = r['cp'][0], r['peer']
    return (f"| {NAME[kind]} | {r['write'][0] / cp:.2f} | {r['proof'][0] / cp:.2f} | {r['control'][0] / cp:.2f} | {r['proof'][1] / 1e6:.0f} | "
            f"{r['proof'][0] / peer[0]:.3f} | {r['proof'][1] / peer[1]:.4f} | {peer[0]:.1f} s, {peer[1] / 1e9:.1f} GB |")


def main():
    rows = []
    for kind in args.kinds:
        python = os.environ.get(PYTHON[kind], '')
        if not os.path.exists(python):
            print(f'{kind}: no {PYTHON[kind]}', file=sys.stderr)
            continue
        rows.append(row(kind, bench(kind, python)))
        print(rows[-1], flush=True)
    cpu = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo') if line.startswith('model name')), platform.machine())
    avx512 = 'with' if 'avx512f' in open('/proc/cpuinfo').read() else 'without'
    text = '\n'.join([
        f'{args.gb:g} GB of float32, {cpu}, {avx512} AVX-512, {os.cpu_count()} cores, {time.strftime("%Y-%m-%d")}, least of {args.rounds} rounds.', '',
        '| checkpoint | write / cp | with proof / cp | cp / cp | MB | of the framework\'s time | of its memory | the framework |',
        '|---|---|---|---|---|---|---|---|', *rows, ''])
    if args.output:
        args.output.write_text(text)
    return 0 if rows else 77


sys.exit(main())
