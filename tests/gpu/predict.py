#!/usr/bin/env python3
"""What a training step of the benchmark's models should take on GPUs that are not here, and where the time goes.

usage: predict.py GPU_COSTS PLUGIN [--models NAME,...]     writes predictions.md to standard output

GPU_COSTS is tests/gpu/gpu_costs, PLUGIN the GPU of plain C (pg-cuda-fake.so). A call of a step takes what is longest: its
operations at the GPU's rate, its bytes at the bandwidth of the GPU's memory, or its kernels, of which each takes KERNEL at
least. "At least" is the sum of the first two at the rates of the data sheet: no program that does the same operations is
faster. "Expected" takes the shares of those rates that good kernels reach (REACHED), and without recorded steps no less than
LAUNCH for each kernel, which the host spends while the GPU works."""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE / 'peers'))
from specs import MODELS, MOMENTUM  # noqa: E402

# Bytes and operations per second: NVIDIA's data sheets "H100 Tensor Core GPU" and "H200 Tensor Core GPU", SXM; for tensor cores
# half of the figures with sparsity.
GPUS = {'H100': {'memory': 3.35e12, 'f32': 66.9e12, 'tf32': 494.7e12, 'bf16': 989.4e12},
        'H200': {'memory': 4.8e12, 'f32': 66.9e12, 'tf32': 494.7e12, 'bf16': 989.4e12}}
REACHED = {'memory': 0.8, 'f32': 0.75, 'tf32': 0.55, 'bf16': 0.55}  # assumed
KERNEL = 2.5e-6  # assumed: of a kernel with next to nothing to do, up to the start of the next one
LAUNCH = 4e-6    # assumed; NVIDIA's "Getting Started with CUDA Graphs" measures 3.8 us for each of many small kernels
PRECISIONS = {'bf16': '2', 'tf32': '1', 'f32': '4'}  # as pg_train_opts.precision
BOUNDS = ('compute', 'memory', 'launches')


def costs(program, plugin, model, batch, precision):
    """What gpu_costs writes; "calls" get the number of their launches, and "prepares" is that before the first."""
    _, optimizer, loss = MODELS[model] if model in MODELS else (None, 'SGD', 'categorical_crossentropy')
    path = HERE / 'models' / f'{model}.json' if model in MODELS else model
    optimizer = optimizer.lower() + (f':momentum={MOMENTUM}' if optimizer == 'SGD' else '')
    with tempfile.NamedTemporaryFile('r') as log:
        env = dict(os.environ, PG_CUDA_PLUGIN=str(plugin), FAKE_CUDA_LOG=log.name)
        said = subprocess.run([program, path, loss, optimizer, str(batch), PRECISIONS[precision], 'cuda:0'], env=env,
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        launches = [0]
        for line in log:
            launches[-1] += line.startswith('record ')
            launches += [0] * line.startswith('drop recording')
    found = json.loads(said)
    found['prepares'] = launches[0]
    found['calls'] = [(*call, n) for call, n in zip(found['calls'], launches[1:])]
    return found


def work(found, precision):
    """All of a step as (operations, bytes, launches): preparing weights, calls, the optimizer's update of each variable."""
    each = 2 if precision == 'bf16' else 4
    prepared = found['prepared'] * (1 + 4 / each)
    update = 4 * found['elements'] * (3 + 2 * found['slots'])
    return [(0, prepared, found['prepares']), *(call[1:] for call in found['calls']), (0, update, found['variables'])]


def seconds(parts, gpu, precision, reached=None):
    """Of a step on the GPU, by what bounds it. reached None: at the rates of the data sheet, launches are free."""
    rates, reached, kernel = GPUS[gpu], reached or dict.fromkeys(REACHED, 1), KERNEL if reached else 0
    out = dict.fromkeys(BOUNDS, 0.0)
    for flops, size, launches in parts:
        times = flops / (rates[precision] * reached[precision]), size / (rates['memory'] * reached['memory']), launches * kernel
        out[BOUNDS[times.index(max(times))]] += max(times)
    return out


def predict(parts, gpu, precision):
    """Milliseconds: at least, expected, expected where steps are recorded; and shares of the last by bound."""
    least = sum(seconds(parts, gpu, precision).values())
    by_bound = seconds(parts, gpu, precision, REACHED)
    recorded = sum(by_bound.values())
    host = LAUNCH * sum(p[2] for p in parts)
    return least * 1e3, max(recorded, host) * 1e3, recorded * 1e3, {b: s / recorded for b, s in by_bound.items()}


HEAD = """# What steps on a GPU should take

Written by `predict.py` on {date}, before any measurement; `bench.py` prints it beside what it measures. Operations
and bytes are those of the calls of pgfit's own CUDA back end; launches are what these record, a library's call counted as one. Rates:
NVIDIA's data sheets "H100 Tensor Core GPU" and "H200 Tensor Core GPU" (SXM): 3.35 and 4.8 TB/s; 66.9 TFLOP/s in float32, 494.7 in
TF32, 989.4 in bfloat16, without sparsity.

- *least*: every call at the data sheet's rates, nothing for launches. A measurement below it means that the count is wrong.
- *default*: {memory:.0%} of the memory's rate, {f32:.0%} of float32's, {tf32:.0%} of the tensor cores', {kernel:.1f} us for each kernel at least, and
  for the step no less than {launch:.0f} us for each launch, which the host spends. These shares and times are assumed.
- *tuned*: the same with recorded steps (`--gpu-tune`), without the host's part. What trials find is not in it: recurrent layers
  and attention by cuDNN take fewer launches than ours.
- Shares are those of *tuned*: calls that are bound by arithmetic, by memory, or by the number of their kernels. The optimizer
  and the preparation of weights count; copies of the batch to the GPU do not.
"""
COLUMNS = ('GPU', 'model', 'batch', 'precision', 'GFLOP', 'GB', 'launches', 'least, ms', 'default, ms', 'tuned, ms', *BOUNDS)


def row(gpu, model, batch, precision, parts):
    least, default, tuned, shares = predict(parts, gpu, precision)
    flops, size, launches = (sum(p[k] for p in parts) for k in range(3))
    return [gpu, model, str(batch), precision, f'{flops / 1e9:.0f}', f'{size / 1e9:.1f}', str(launches), f'{least:.2f}', f'{default:.2f}',
            f'{tuned:.2f}', *(f'{shares[b]:.0%}' for b in BOUNDS)]


def read(path=HERE / 'predictions.md'):
    """{(GPU, model, batch, precision): (milliseconds by default, tuned)}"""
    found = {}
    for line in pathlib.Path(path).read_text(encoding='utf-8').splitlines():
        cells = [c.strip() for c in line.strip('|').split('|')]
        if len(cells) == len(COLUMNS) and cells[0] in GPUS:
            found[cells[0], cells[1], int(cells[2]), cells[3]] = float(cells[8]), float(cells[9])
    return found


def gpu_of(name):
    """The GPU above that a device's name says, or None: "NVIDIA H100 PCIe" is another one."""
    return next((g for g in GPUS if re.search(rf'\b{g}\b(?! (PCIe|NVL))', name)), None)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('costs')
    options.add_argument('plugin', type=os.path.abspath)
    options.add_argument('--models', default=','.join(MODELS))
    options = options.parse_args()
    rows = []
    for model in options.models.split(','):
        for batch in MODELS[model][0]:
            for precision in PRECISIONS:
                parts = work(costs(options.costs, options.plugin, model, batch, precision), precision)
                rows += [row(gpu, model, batch, precision, parts) for gpu in GPUS]
    rows.sort(key=lambda r: list(GPUS).index(r[0]))
    print(HEAD.format(date=datetime.date.today().strftime('%-d %B %Y'), kernel=KERNEL * 1e6, launch=LAUNCH * 1e6, **REACHED))
    for cells in (COLUMNS, ['---'] * 4 + ['---:'] * (len(COLUMNS) - 4), *rows):
        print('| ' + ' | '.join(cells) + ' |')


if __name__ == '__main__':
    main()
