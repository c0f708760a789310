#!/usr/bin/env python3
"""usage: run.py --tools FOLDER [MODEL...] [--rounds 3] [--seconds 4] [-o results.md]

Ten models of Keras 2.15 as ONNX, by pgconvert and by tf2onnx (PG_TF2ONNX_PYTHON: with tensorflow, keras, tf2onnx, onnxruntime): nodes
of the graph, bytes of the file, time to convert and ONNX Runtime's time for a row, in interleaved rounds. tf2onnx's time is that of
loading the model and converting it, in a process that has imported TensorFlow before; pgconvert's that of the whole process."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent
MODELS = ('MLP', 'CNN', 'LSTM', 'BiGRU', 'Transformer', 'U-Net', 'MobileNetV2', 'ResNet50', 'EfficientNetB0', 'InceptionV3')
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('models', nargs='*', metavar='MODEL', default=list(MODELS))
parser.add_argument('--tools', type=pathlib.Path, required=True)
parser.add_argument('--rounds', type=int, default=3)
parser.add_argument('--seconds', type=float, default=4)
parser.add_argument('-o', '--output', type=pathlib.Path)
args = parser.parse_args()
python = os.environ.get('PG_TF2ONNX_PYTHON')
if not python:
    sys.exit('no tf2onnx: set PG_TF2ONNX_PYTHON')


def inside(*command):
    done = subprocess.run([python, here / 'inside.py', *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'{command}: {done.stderr[-2000:]}')
    return json.loads(done.stdout.strip().splitlines()[-1])


def bench(name):
    with tempfile.TemporaryDirectory() as folder:
        row = {'name': name, **inside('make', name, folder), 'ours_s': [], 'theirs_s': [], 'rounds': []}
        for _ in range(args.rounds):
            began = time.monotonic()
            subprocess.run([args.tools / 'pgconvert', '-q', '-f', '--fold-bn', folder + '/model.h5', folder + '/ours.onnx'], check=True)
            row['ours_s'].append(time.monotonic() - began)
            row['theirs_s'].append(inside('convert', folder)['seconds'])
            row['rounds'].append(inside('time', folder, args.seconds))
    return row


def best(row, who, what):
    return min(r[who][what] for r in row['rounds'])


def line(row):
    last = row['rounds'][-1]
    ms = [best(row, who, 'ms') for who in ('ours', 'theirs')]
    nodes, size = ([last[who][k] for who in ('ours', 'theirs')] for k in ('nodes', 'bytes'))
    seconds = [min(row[who + '_s']) for who in ('ours', 'theirs')]
    return (f"| {row['name']} | {row['parameters']:,} | {nodes[0]} | {nodes[1]} | {size[0]:,} | {size[0] / size[1]:.4f} | {seconds[0]:.3f} | "
            f"{seconds[1]:.2f} | {seconds[0] / seconds[1]:.3f} | {ms[0]:.3f} | {ms[1]:.3f} | **{ms[0] / ms[1]:.2f}** | {last['ours']['off']:.0e} | {last['theirs']['off']:.0e} |")


def machine():
    info = pathlib.Path('/proc/cpuinfo').read_text()
    model = next((x.split(':', 1)[1].strip() for x in info.splitlines() if x.startswith('model name')), platform.machine())
    return f"{model}, {os.cpu_count()} cores, {'with' if 'avx512f' in info else 'without'} AVX-512"


rows = []
for name in args.models:
    rows.append(bench(name))
    print(line(rows[-1]), flush=True)
text = f"""# pgconvert and tf2onnx

{machine()}; {datetime.date.today()}; tf2onnx {subprocess.run([python, '-c', 'import tf2onnx; print(tf2onnx.__version__)'], stdout=subprocess.PIPE,
stderr=subprocess.DEVNULL, text=True).stdout.strip()}, ONNX Runtime {rows[0]['rounds'][0]['onnxruntime']} on one thread, one row a run. Made by
`run.py --rounds {args.rounds} --seconds {args.seconds:g}`; times are the smallest of the rounds (of ONNX Runtime: of their medians). First ours, then theirs;
quotients are ours / theirs. *off*: largest difference to Keras, of the largest number.

| model | parameters | nodes | theirs | bytes | / theirs | convert, s | theirs | / theirs | run, ms | theirs | / theirs | off | theirs |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
""" + '\n'.join(map(line, rows)) + '\n'
if args.output:
    args.output.write_text(text)
