#!/usr/bin/env python3
"""Times predictions of pgfit beside Keras, ONNX Runtime and OpenVINO, in one interleaved run, and writes a table.

usage: predict.py --tools DIR [--work DIR] [--rounds N] [--models NAME,...] [--report FILE] [--readme FILE]

PG_KERAS2_PYTHON makes the models and is a peer; PG_TORCH_PYTHON (torch, torchvision, onnx) makes them as ONNX files, PG_ORT_PYTHON
(onnxruntime, onnx, sympy) and PG_OPENVINO_PYTHON (openvino, nncf) run those, in float32 and in int8. A row: the least time of some
passes over all rows; of pgfit the difference between predicting all rows and a fourth of them, so that what comes before and behind is
out. First: from the start of the process to the prediction of one row (of pgfit to the end of the process). Error: of the outputs in int8
against those of the same program in float32; the weights are random, so that it tells of the arithmetic only, and in the ONNX files others
than in the Keras models."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, 'peers'))
import report  # noqa: E402
from run import alone, measure  # noqa: E402

PEER = os.path.join(HERE, 'peers/predict_peer.py')
TITLES = {'resnet50': 'ResNet-50 224×224', 'mobilenetv2': 'MobileNetV2 224×224', 'bertmini': 'BERT-mini, 128 tokens'}
ROWS = {'resnet50': 64, 'mobilenetv2': 128, 'bertmini': 256}
BATCHES = (1, 32)
PEERS = {'keras': 'Keras', 'onnx': 'ONNX Runtime', 'openvino': 'OpenVINO'}
ON_ONNX = {'onnx': 'PG_ORT_PYTHON', 'openvino': 'PG_OPENVINO_PYTHON'}
INT8 = {'pgfit-int8': 'pgfit', 'onnx-int8': 'ONNX Runtime', 'openvino-int8': 'OpenVINO'}
MAKES = (('make', 'PG_KERAS2_PYTHON', '', '-1.npz'), ('export', 'PG_TORCH_PYTHON', '', '.onnx'),  # of which file, and which
         ('quantize-onnx', 'PG_ORT_PYTHON', '.onnx', '-int8.onnx'), ('quantize-openvino', 'PG_OPENVINO_PYTHON', '.onnx', '-int8.xml'))
MARKS = '<!-- speed of predictions: from here -->', '<!-- speed of predictions: to here -->'
INT8_MARKS = '<!-- speed of predictions in int8: from here -->', '<!-- speed of predictions in int8: to here -->'


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--tools', required=True)
    ap.add_argument('--work', default=os.path.join(tempfile.gettempdir(), 'pg-bench-predict'))
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--models', default=','.join(TITLES))
    ap.add_argument('--report', default=os.path.join(HERE, 'predictions.md'))
    ap.add_argument('--readme', help='put the table between the marks of this file')
    a = ap.parse_args()
    a.models = a.models.split(',')
    os.makedirs(a.work, exist_ok=True)
    return a


def make(a, python):
    for m in a.models:
        for what, variable, of, suffix in MAKES:
            there = [not x or os.path.exists(os.path.join(a.work, m + x)) for x in (of, suffix)]
            if python[variable] and there == [True, False]:
                subprocess.run([python[variable], PEER, what, m, a.work], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cut(a, model):
    """A fourth of the rows, in a file."""
    path = os.path.join(a.work, model + '-fourth.npz')
    code = 'import numpy as n, sys; x = n.load(sys.argv[1]); n.savez(sys.argv[2], **{k: v[:len(v) // 4] for k, v in x.items()})'
    if not os.path.exists(path):
        subprocess.run([os.environ['PG_KERAS2_PYTHON'], '-c', code, os.path.join(a.work, model + '.npz'), path], check=True)
    return path


def seconds(a, name, model, rows, batch):
    """The whole process."""
    out = os.path.join(a.work, '%s-%s.npz' % (model, name))
    begun = time.time()
    rc, _, errors, _, _, _ = measure([os.path.join(a.tools, 'pgfit'), '-q', os.path.join(a.work, model + '.keras'), '--predict', rows, '--out', out,
                                      '--force', '--batch-size', str(batch), *['--quantize', 'int8'] * (name in INT8)], {}, 300, alone)
    if rc:
        sys.exit('%s, %s: %s' % (name, model, errors.strip()))
    return time.time() - begun


def ours(a, name, model, batch, least):
    """least: of this program, model and batch so far; a difference of two times is less than either where one of them was disturbed. Leaves
    the outputs of all rows."""
    path = os.path.join(a.work, model)
    for _ in range(3):
        for part, rows in ('first', path + '-1.npz'), ('few', cut(a, model)), ('all', path + '.npz'):
            least[part] = min(least.get(part, 1e9), seconds(a, name, model, rows, 1 if part == 'first' else batch))
    return least['first'], (least['all'] - least['few']) / (ROWS[model] * 3 / 4) * 1e3


def theirs(python, what, a, model, batch):
    rc, lines, errors, _, _, _ = measure([python, PEER, what, model, a.work, str(batch)], {}, 300, alone)
    found = [json.loads(x) for _, x in lines if x.startswith('{')]
    if rc or not found:
        sys.exit('%s, %s: %s' % (what, model, errors.strip()[-300:]))
    return found[-1]['first'], found[-1]['row_ms'], found[-1]['ver']


def python_of(python, name):
    return python[ON_ONNX.get(name.removesuffix('-int8'), 'PG_KERAS2_PYTHON')]


def programs(a, python, model, batch, least):
    runs = {}
    for name in ('pgfit', *PEERS, *INT8):
        if name.startswith('pgfit'):
            runs[name] = lambda name=name: ours(a, name, model, batch, least.setdefault((model, batch, name), {}))
        elif name == 'keras' or python_of(python, name) and os.path.exists(os.path.join(a.work, model + '.onnx')):
            runs[name] = lambda name=name: theirs(python_of(python, name), name, a, model, batch)
    return runs


def error(python, name, a, model):
    """In percent."""
    r = subprocess.run([python_of(python, name), PEER, 'error-' + name.removesuffix('-int8'), model, a.work], capture_output=True, text=True, check=True)
    return json.loads(r.stdout.splitlines()[-1])['error'] * 100


def table_in_int8(a, python, best):
    rows = []
    for model in a.models:
        errors = ' / '.join('%.2f' % error(python, n, a, model) if (model, BATCHES[0], n) in best else '–' for n in INT8)
        for batch in BATCHES:
            ours_, *others = (best.get((model, batch, n), (None, None))[1] for n in INT8)
            whole = best[model, batch, 'pgfit'][1]
            rows.append([TITLES[model], str(batch), *(report.number(x) for x in (whole, ours_, *others)), *(report.ratio(x, ours_) for x in (whole, *others)), errors])
    _, *peers = INT8.values()
    return report.table(['model', 'batch', 'pgfit in float32, ms/row', 'pgfit', *peers, 'float32 / pgfit', *(x + ' / pgfit' for x in peers), 'error, %'], rows)


def in_int8(table):
    return ['## In int8', '',
            'pgfit with `--quantize int8`; ONNX Runtime quantized statically per channel of the kernels, BERT-mini dynamically; OpenVINO by NNCF. Errors in the order of '
            'the columns: of the outputs of all rows against the same program in float32, in percent of their norm; of logits (logarithms of probabilities) without '
            'their mean over the classes. The weights are random, and the peers have others than pgfit: this is the error of the arithmetic. What it does to the '
            'accuracy of a trained model is judged by a test.', '', *table]


def at_ceiling(a, model, batch, top):
    """The share of its time that predicting would take if no operation of a layer were slower than a core is at best."""
    path = os.path.join(a.work, model)
    r = subprocess.run([os.path.join(a.tools, 'pgfit'), path + '.keras', '--predict', path + '.npz', '--out', os.path.join(a.work, 'y.npz'), '--force',
                        '--batch-size', str(batch), '--profile=layers', '--json'], capture_output=True, text=True, check=True)
    ops = [o for o in map(json.loads, r.stdout.splitlines()) if o['event'] == 'profile']
    return sum(o['seconds'] * min(1, report.reached(o, top) or 1) for o in ops) / sum(o['seconds'] for o in ops)


def ceilings(a, best):
    """Ratios as they are, and as they would be then; none if bench_ceiling is not built."""
    path = os.path.join(a.tools, '../tests/bench_ceiling')
    if not os.path.exists(path):
        return []
    top = json.loads(subprocess.run([path], capture_output=True, text=True, check=True).stdout)
    rows = []
    for model in a.models:
        for batch in BATCHES:
            row, share = best[model, batch, 'pgfit'][1], at_ceiling(a, model, batch, top)
            theirs = [best.get((model, batch, n), (None, None))[1] for n in ON_ONNX]
            rows.append([TITLES[model], str(batch), '%.0f %%' % (100 * share), *(x for t in theirs for x in (report.ratio(t, row), report.ratio(t, row * share)))])
    return ['## How far it can be', '',
            'The ratio to each; beside it the one that there would be if every operation of every layer were as fast as `bench_ceiling` (products of 512 x 512 x '
            '512: %.0f GFLOP/s; copies: %.0f GB/s, of a core while all work). What is faster, as convolutions by Winograd are, stays as it is.' % (top['gflops'], top['gbytes']), '',
            *report.table(['model', 'batch', 'time at the ceiling', *(x for n in ON_ONNX for x in (PEERS[n] + ' / pgfit', 'at the ceiling'))], rows)]


def main():
    a = arguments()
    python = {v: os.environ.get(v) for v in ('PG_KERAS2_PYTHON', 'PG_TORCH_PYTHON', *ON_ONNX.values())}
    if not python['PG_KERAS2_PYTHON']:
        sys.exit('PG_KERAS2_PYTHON makes the models, and is not set')
    make(a, python)
    best, least, load, versions = {}, {}, [], []
    for _ in range(a.rounds):
        for model in a.models:
            for batch in BATCHES:
                for name, run in programs(a, python, model, batch, least).items():
                    load.append(os.getloadavg()[0])
                    first, row, *version = run()
                    versions += version
                    at = best.setdefault((model, batch, name), [first, row])
                    at[0], at[1] = (first, row) if name.startswith('pgfit') else (min(at[0], first), min(at[1], row))
                    print(model, batch, name, '%.3f s, %.3f ms' % (first, row), flush=True)
    rows = []
    for model in a.models:
        for batch in BATCHES:
            ours_, *others = (best.get((model, batch, n), (None, None)) for n in ('pgfit', *PEERS))
            rows.append([TITLES[model], str(batch), *(report.number(x[1]) for x in (ours_, *others)), *(report.ratio(x[1], ours_[1]) for x in others),
                         ' / '.join(report.number(x[0]) for x in (ours_, *others))])
    table = report.table(['model', 'batch', 'pgfit, ms/row', *PEERS.values(), *(x + ' / pgfit' for x in PEERS.values()), 'first prediction, s'], rows)
    int8 = table_in_int8(a, python, best)
    text = ['# Predictions beside Keras, ONNX Runtime and OpenVINO', '', report.machine([{'load': round(x, 1), 'when': time.time()} for x in load])[0], '',
            'Least of %d rounds of one interleaved run, float32; %s. The first prediction in the order of the columns.'
            % (a.rounds, ', '.join(dict.fromkeys(versions))), '', *table, *in_int8(int8), *ceilings(a, best)]
    with open(a.report, 'w') as f:
        f.write('\n'.join(text))
    if a.readme:
        report.put(a.readme, MARKS, table[:-1])
        report.put(a.readme, INT8_MARKS, int8[:-1])
    print('\n'.join(text))


if __name__ == '__main__':
    main()
