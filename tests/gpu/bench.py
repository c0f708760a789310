#!/usr/bin/env python3
"""bench.py --pgfit FILE [--peers FILE] [--seconds N] [--models A,B] [--out FILE]: training speed on one GPU.

Every measurement is one process. Data are random, two batches that come again; a step is timed by pgfit itself, the first
ten are not counted. --peers: a program that prints a JSON line per measurement (model, batch, mode, precision,
samples_per_s, first_step_s, peak_mem_bytes), run with the same Python; the last column is ours by the best of its modes.
One line of JSON per measurement goes to --out. Needs numpy. Nothing is begun after --seconds."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
IMAGES, WARM, STEPS = (224, 224, 3), 10, 30
MODELS = {  # batches, optimizer, loss
    'resnet50': ((64, 256), 'SGD:momentum=0.9', 'sparse_categorical_crossentropy'),
    'vgg16': ((64, 256), 'Adam', 'sparse_categorical_crossentropy'),
    'unet': ((32,), 'Adam', 'binary_crossentropy'),
    'bert': ((64,), 'Adam', 'sparse_categorical_crossentropy'),
    'lstm2': ((32, 256), 'RMSprop', 'sparse_categorical_crossentropy'),
}
PRECISIONS = {'bf16': 'bfloat16', 'tf32': 'tf32', 'f32': 'float32'}  # as peers call them


def write_data(path, model, n):
    import numpy as np
    r = np.random.default_rng(0)
    if model == 'bert':
        x = [r.integers(0, 30522, (n, 128)).astype('int32'), np.tile(np.arange(128, dtype='int32'), (n, 1))]
        y = r.integers(0, 2, n)
    elif model == 'lstm2':
        x, y = [r.standard_normal((n, 140, 256), dtype='f4') for _ in range(2)], r.integers(0, 50, n)
    elif model == 'unet':
        x = [r.standard_normal((n, 256, 256, 1), dtype='f4')]
        y = (r.standard_normal((n, 256, 256, 1), dtype='f4') > 0).astype('f4')
    else:
        x, y = [r.standard_normal((n, *IMAGES), dtype='f4')], r.integers(0, 1000, n)
    np.savez(path, y0=y, **{f'x{i}': v for i, v in enumerate(x)})


def gpu_memory(pid):
    """MiB that the process holds on GPUs, or None."""
    try:
        r = subprocess.run(['nvidia-smi', '--query-compute-apps=pid,used_memory', '--format=csv,noheader,nounits'],
                           capture_output=True, text=True, timeout=5)
        return sum(int(line.split(',')[1]) for line in r.stdout.splitlines() if int(line.split(',')[0]) == pid) or None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def measure(a, model, batch, precision, data):
    _, optimizer, loss = MODELS[model]
    command = [a.pgfit, str(HERE / 'models' / f'{model}.json'), '--data', str(data), '--optimizer', optimizer, '--loss', loss,
               '--devices', a.device, '--precision', precision, '--batch-size', str(batch), '--json=batch',
               '--epochs', str((WARM + STEPS) // 2), '--no-shuffle']
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


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--pgfit', required=True)
    ap.add_argument('--peers')
    ap.add_argument('--device', default='cuda:0')
    ap.add_argument('--models', default=','.join(MODELS))
    ap.add_argument('--precisions', default='bf16,tf32,f32')
    ap.add_argument('--seconds', type=float, default=150)
    ap.add_argument('--out', default=os.devnull)
    a = ap.parse_args()
    until, rows, left = time.time() + a.seconds, [], []
    with open(a.out, 'a') as out, tempfile.TemporaryDirectory() as work:
        for model in a.models.split(','):
            for batch in MODELS[model][0]:
                data = pathlib.Path(work, 'data.npz')
                if time.time() < until:
                    write_data(data, model, 2 * batch)
                for precision in a.precisions.split(','):
                    if time.time() >= until:
                        left.append(f'{model}/{batch}/{precision}')
                        continue
                    row = {'model': model, 'batch': batch, 'mode': 'pgfit', 'precision': precision,
                           **measure(a, model, batch, PRECISIONS[precision], data)}
                    out.write(json.dumps(row) + '\n')
                    out.flush()
                    rows.append(row)
        if a.peers:
            r = subprocess.run([sys.executable, a.peers, '--models', a.models, '--precisions', a.precisions,
                                '--seconds', str(a.seconds)], stdout=subprocess.PIPE, text=True)
            out.write(r.stdout)
            rows += [json.loads(line) for line in r.stdout.splitlines() if line.startswith('{') and '"mode"' in line]
    print(f'{"model":10}{"batch":>6}  {"precision":10}{"samples/s":>10}{"ms":>9}{"first s":>9}{"MiB":>8}  by the best peer')
    for row in rows:
        if row['mode'] != 'pgfit':
            continue
        key = [row[k] for k in ('model', 'batch', 'precision')]
        if 'error' in row:
            print(f'{key[0]:10}{key[1]:6}  {key[2]:10}{row["error"]}')
            continue
        same = [r['samples_per_s'] for r in rows if r['mode'] != 'pgfit' and [r.get(k) for k in ('model', 'batch', 'precision')] == key
                and 'samples_per_s' in r]
        ratio = f'{row["samples_per_s"] / max(same):.2f}' if same else '-'
        memory = row['peak_mem_bytes']
        print(f'{key[0]:10}{key[1]:6}  {key[2]:10}{row["samples_per_s"]:10.1f}{row["step_ms"]:9.2f}{row["first_step_s"]:9.2f}'
              f'{memory >> 20 if memory else "-":>8}  {ratio}')
    if left:
        print('left out, no time:', ' '.join(left))
    return any('error' in row for row in rows if row['mode'] == 'pgfit')


sys.exit(main())
