#!/usr/bin/env python3
"""usage: memory.py TESTDATA TOOLS

The file tools take no more memory for a model of ten times the tensors. The forecast of pgfit --dry-run against the peak of the run itself: within 5 %, or 8 MB where that is more. A
batch that no machine has room for is refused before training."""
import array
import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

testdata, tools = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
golden = testdata / 'golden'
os.environ.pop('MALLOC_PERTURB_', None)  # it makes memory resident that the program never touches
bad = 0
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def of(run, loss, *more):
    return [golden / run / 'model.json', '--data', golden / run / 'data.npz', '--loss', loss, *more]


def peak_of(args, cwd=None):
    """Exit status, and the largest resident set in bytes. A shell starts the program, because what is started from here counts
    Python's own set as its first; the shell ends, and we inherit its child."""
    shell = subprocess.run(['sh', '-c', '"$@" >/dev/null & echo $!', 'sh', *(str(a) for a in args)], cwd=cwd, capture_output=True,
                           text=True, check=True)
    _, status, usage = os.wait4(int(shell.stdout), 0)
    return status, usage.ru_maxrss * 1024


def judge(good, text):
    global bad
    bad += not good
    print(f'{"ok" if good else "FAIL":5}{text}')


# ---- file tools ----

def write_model(folder, n_layers):
    """A model of n_layers layers of 4 MB each, trained by one row, and the same in a wrapper."""
    layer = lambda i: {'class_name': 'Dense', 'config': {'name': f'd{i}', 'units': 1024, 'activation': 'linear', 'use_bias': True}}
    layers = [layer(i) for i in range(n_layers)]
    layers[0]['config']['batch_input_shape'] = [None, 1024]
    model = {'class_name': 'Sequential', 'keras_version': '2.2.4', 'backend': 'tensorflow', 'config': {'name': 'm', 'layers': layers}}
    (folder / 'm.json').write_text(json.dumps(model))
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1024), }"
    row = b'\x93NUMPY\1\0\x76\0' + head.ljust(117) + b'\n' + array.array('f', [0.5] * 1024).tobytes()
    for name in 'x', 'y':
        (folder / f'{name}.npy').write_bytes(row)
    run = lambda *args: subprocess.run([str(a) for a in args], cwd=folder, check=True, capture_output=True)
    run(tools / 'pgfit', 'm.json', '--data', 'x.npy,y.npy', '--loss', 'mse', '--optimizer', 'SGD', '-q', '-o', 'm.h5')
    run(tools / 'pgwrap', '--gpus', '2', 'm.h5', 'wrapped.h5')


def write_ranks(folder, n_tensors):
    """As many tensors of 4 MB, each cut by four ranks, as HuggingFaceStorageWriter of torch.distributed.checkpoint leaves them."""
    (folder / 'ranks').mkdir()
    for rank in range(4):
        starts = {f't{i}': {'saved_offsets': [256 * rank, 0]} for i in range(n_tensors)}
        head = {f't{i}': {'dtype': 'F32', 'shape': [256, 1024], 'data_offsets': [i << 20, (i + 1) << 20]} for i in range(n_tensors)}
        text = json.dumps({'__metadata__': {'DCP_SHARDING_INFO': json.dumps(starts)}, **head}).encode()
        with open(folder / f'ranks/shard-{rank + 1:05}-model-00001-of-00001.safetensors', 'wb') as f:
            f.write(struct.pack('<Q', len(text)) + text)
            for i in range(n_tensors):
                f.write(bytes([rank, i, 0, 1]) * (1 << 18))


CHAIN = [  # each takes what the one before it wrote
    ['pgunwrap', 'wrapped.h5', 'single.h5'],
    ['pgsplit', 'single.h5', 'shards'],
    ['pgjoin', 'shards', 'joined.h5'],
    ['pgdiff', 'single.h5', 'joined.h5'],
    ['pgconvert', '--model', 'm.json', 'single.h5', 'single.onnx'],
    ['pgjoin', '--rules', 'ranks=4', 'ranks', 'joined.safetensors'],
    ['pgjoin', '--rules', 'ranks=4', '--dtype', 'bfloat16', '--max-shard-size', '8MB', 'ranks', 'cut/'],
]
ROOM = 4e6  # beside the tensors: names, and what the allocator keeps
with tempfile.TemporaryDirectory() as d:
    peaks = []
    for n_layers in 1, 10:
        folder = pathlib.Path(d) / str(n_layers)
        folder.mkdir()
        write_model(folder, n_layers)
        write_ranks(folder, n_layers)
        peaks.append([peak_of([tools / command, *args], folder) for command, *args in CHAIN])
    size = (pathlib.Path(d) / '10/single.h5').stat().st_size
    judge(size > 40e6, f'the larger model has {size / 1e6:.1f} MB')
    for command, (st1, small), (st2, large) in zip(CHAIN, *peaks):
        judge(st1 == st2 == 0 and large - small < ROOM,
              f'{" ".join(command)}: peak {small / 1e6:.1f} MB, for ten times the tensors {large / 1e6:.1f} MB')

# ---- pgfit ----

RUNS = {
    'digits': ['--demo', 'digits', '--epochs', '2'],
    'digits, 2 devices': ['--demo', 'digits', '--epochs', '2', '--batch-size', '1024', '--devices', 'cpu:0,cpu:1'],
    'unet_seg': of('unet_seg', 'mse', '--batch-size', '32'),
    'bert_mini': of('bert_mini', 'sparse_categorical_crossentropy', '--batch-size', '64'),
}
for name, args in RUNS.items():
    args = [tools / 'pgfit', '-j', '2', *args]
    plan = json.loads(subprocess.run([*args, '--dry-run', '--json'], capture_output=True, check=True).stdout)
    status, peak = peak_of([*args, '-q'])
    judge(status == 0 and abs(plan['total'] - peak) <= max(0.05 * peak, 8e6) and plan['largest_batch'] > 0,
          f'{name}: forecast {plan["total"] / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB')

with tempfile.TemporaryDirectory() as d:  # 10^12 numbers in every row
    layers = [{'class_name': 'Dense', 'config': {'name': 'd', 'units': 64, 'batch_input_shape': [None, 64]}},
              {'class_name': 'RepeatVector', 'config': {'name': 'r', 'n': 1000000000}},
              {'class_name': 'GlobalAveragePooling1D', 'config': {'name': 'p'}},
              {'class_name': 'Dense', 'config': {'name': 'e', 'units': 10, 'activation': 'softmax'}}]
    model = {'class_name': 'Sequential', 'keras_version': '2.15.0', 'config': {'name': 'large', 'layers': layers}}
    (pathlib.Path(d) / 'large.json').write_text(json.dumps(model))
    r = subprocess.run([tools / 'pgfit', 'large.json', '--data', golden / 'mlp_digits/data.npz', '--loss', 'mse'], cwd=d,
                       capture_output=True, text=True)
    good = r.returncode == 2 and 'out of memory: a batch of 32 needs' in r.stderr
    judge(good, 'too large' if good else f'too large: {r}')
sys.exit(bad != 0)
