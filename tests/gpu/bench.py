#!/usr/bin/env python3
"""bench.py --pgfit FILE [--python FILE] [--seconds N] [--out FILE]: training speed on one GPU, beside PyTorch, JAX and what
predictions.md says.

Every measurement is one process; those of a model, batch and precision run one after the other. pgfit, without and with
--gpu-tune ("tuned"), is given data of two batches that come again and times each step itself, data included; the first ten are
not counted. Peers (peers/) have their data on the device. A peer whose packages --python does not have is left out and named. A
line of JSON per measurement goes to --out; what stands there is not measured again, so that the same command goes on where it had
no more time. Nothing is begun after --seconds.
--tiny: small batches and peers on any device, to see that all this runs. Needs numpy."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE / 'peers')]
from predict import gpu_of, read  # noqa: E402
from specs import MODELS, MOMENTUM, data  # noqa: E402

WARM, STEPS = 10, 30
PRECISIONS = {'bf16': 'bfloat16', 'tf32': 'tf32', 'f32': 'float32'}  # as peers call them
OURS = ('pgfit', 'tuned')
PEERS = {  # script, package
    'eager': ('torch_peer.py', 'torch'),
    'compile': ('torch_peer.py', 'torch'),
    'jax': ('jax_peer.py', 'jax, keras'),
}


def write_data(path, model, n):
    import numpy as np
    x, y = data(model, n)
    np.savez(path, y0=y, **{f'x{i}': v for i, v in enumerate(x)})


def gpu_memory(pid):
    """MiB that the process holds on GPUs, or None."""
    try:
        r = subprocess.run(['nvidia-smi', '--query-compute-apps=pid,used_memory', '--format=csv,noheader,nounits'],
                           capture_output=True, text=True, timeout=5)
        return sum(int(line.split(',')[1]) for line in r.stdout.splitlines() if int(line.split(',')[0]) == pid) or None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def gpu_name():
    """Of the first one, or nothing."""
    try:
        r = subprocess.run(['nvidia-smi', '--query-gpu=name', '--format=csv,noheader'], capture_output=True, text=True, timeout=5)
        return r.stdout.partition('\n')[0]
    except (OSError, subprocess.TimeoutExpired):
        return ''


def measure(a, mode, model, batch, precision, path):
    _, optimizer, loss = MODELS[model]
    command = [a.pgfit, str(HERE / 'models' / f'{model}.json'), '--data', str(path), '--loss', loss,
               '--optimizer', optimizer + (f':momentum={MOMENTUM}' if optimizer == 'SGD' else ''),
               '--devices', a.device, '--precision', PRECISIONS[precision], '--batch-size', str(batch), '--json=batch',
               '--epochs', str((WARM + STEPS) // 2), '--no-shuffle', *['--gpu-tune'] * (mode == 'tuned')]
    begun = time.time()
    with tempfile.TemporaryFile('w+') as errors:
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        ms, first, memory, value = [], None, None, None
        for line in p.stdout:
            if not line.startswith('{"event": "batch"'):
                continue
            event = json.loads(line)
            first = first or time.time() - begun
            ms.append(event['ms'])
            value = event['loss']
            if len(ms) == WARM:
                memory = gpu_memory(p.pid)
        if p.wait() != 0 or len(ms) <= WARM:
            errors.seek(0)
            return {'error': errors.read().strip()[-300:] or f'exit {p.returncode}'}
    ms = sorted(ms[WARM:])
    median = ms[len(ms) // 2]
    return {'samples_per_s': round(batch * 1e3 / median, 2), 'step_ms': median, 'min_ms': ms[0], 'first_step_s': round(first, 2),
            'peak_mem_bytes': memory and memory << 20, 'loss': value}


def measure_peer(a, mode, model, batch, precision):
    command = [a.python, str(HERE / 'peers' / PEERS[mode][0]), model, '--batch', str(batch), '--mode', mode, '--precision', precision]
    try:
        r = subprocess.run(command + ['--tiny'] * a.tiny, capture_output=True, text=True, timeout=300)
        return json.loads(r.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {'error': 'no end within 300 s'}
    except (ValueError, IndexError):
        return {'error': (r.stderr.strip().splitlines() or [f'exit {r.returncode}'])[-1][-300:]}


def table(rows, predicted):
    """A line for each of pgfit's measurements; what was predicted, and its rate by that of the best peer."""
    out = [f'{"model":10}{"batch":>6}  {"precision":10}{"mode":6}{"samples/s":>10}{"ms":>9}{"predicted":>10}{"first s":>9}{"MiB":>8}  by the best peer']
    for row in (r for r in rows if r['mode'] in OURS):
        key = [row[k] for k in ('model', 'batch', 'precision')]
        start = f'{key[0]:10}{key[1]:6}  {key[2]:10}{row["mode"]:6}'
        if 'error' in row:
            out.append(start + row['error'])
            continue
        peers = [r for r in rows if r['mode'] not in OURS and [r[k] for k in ('model', 'batch', 'precision')] == key and 'samples_per_s' in r]
        best = max(peers, key=lambda r: r['samples_per_s'], default=None)
        memory, ms = row['peak_mem_bytes'], predicted.get(tuple(key))
        out.append(f'{start}{row["samples_per_s"]:10.1f}{row["step_ms"]:9.2f}{"-" if ms is None else format(ms[OURS.index(row["mode"])], ".2f"):>10}' +
                   f'{row["first_step_s"]:9.2f}{memory >> 20 if memory else "-":>8}  ' +
                   (f'{row["samples_per_s"] / best["samples_per_s"]:.2f} ({best["mode"]})' if best else '-'))
    return '\n'.join(out)


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--pgfit', required=True)
    ap.add_argument('--python', default=sys.executable, help='with torch, or jax and keras')
    ap.add_argument('--peers', default=','.join(PEERS))
    ap.add_argument('--device', default='cuda:0')
    ap.add_argument('--models', default=','.join(MODELS))
    ap.add_argument('--precisions', default='bf16,f32,tf32')
    ap.add_argument('--seconds', type=float, default=150)
    ap.add_argument('--out', default=os.devnull)
    ap.add_argument('--tiny', action='store_true')
    return ap.parse_args()


def main():
    a = arguments()
    until, left = time.time() + a.seconds, []
    rows = []
    if os.path.isfile(a.out):
        with open(a.out) as f:
            rows = [row for row in map(json.loads, f) if 'error' not in row]
    modes = list(OURS)
    gpu = gpu_of(gpu_name())
    predicted = {key[1:]: ms for key, ms in read().items() if key[0] == gpu}
    for mode in filter(None, a.peers.split(',')):
        packages = PEERS[mode][1]
        if subprocess.run([a.python, '-c', f'import {packages}'], env=dict(os.environ, KERAS_BACKEND='jax'), capture_output=True).returncode == 0:
            modes.append(mode)
        else:
            print(f'{mode}: left out, {a.python} has no {packages}')
    with open(a.out, 'a') as out, tempfile.TemporaryDirectory() as work:
        for precision in a.precisions.split(','):
            for model in a.models.split(','):
                for batch in (2,) if a.tiny else MODELS[model][0]:
                    path = pathlib.Path(work, f'{model}.{batch}.npz')
                    for mode in modes:
                        row = {'model': model, 'batch': batch, 'mode': mode, 'precision': precision}
                        if any(all(r.get(k) == v for k, v in row.items()) for r in rows):
                            continue
                        if time.time() >= until:
                            left.append(f'{model}/{batch}/{precision}/{mode}')
                            continue
                        if mode in OURS:
                            if not path.exists():
                                write_data(path, model, 2 * batch)
                            row.update(measure(a, mode, model, batch, precision, path))
                        else:
                            row.update(measure_peer(a, mode, model, batch, precision))
                        rows.append(row)
                        out.write(json.dumps(row) + '\n')
                        out.flush()
                    path.unlink(missing_ok=True)
    print(table(rows, predicted))
    if left:
        print('left out, no time:', ' '.join(left))
    return any('error' in row for row in rows if row['mode'] in OURS)


sys.exit(main())
