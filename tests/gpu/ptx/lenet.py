#!/usr/bin/env python3
"""lenet.py PGFIT: steps of LeNet on the CPU and over the kernels' PTX (PG_CUDA_PLUGIN), with convolutions by the library that
stands in for cuDNN and by kernels of our own: what is learned is the same but for rounding."""
import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

ROWS, STEPS = 33, 2  # the second batch has one row


def layer(kind, name, **config):
    return {'class_name': kind, 'config': {'name': name, **config}}


def model():
    def conv(name, filters, padding, **more):
        return layer('Conv2D', name, filters=filters, kernel_size=[5, 5], padding=padding, activation='relu', **more)
    layers = [conv('c1', 6, 'same', batch_input_shape=[None, 28, 28, 1]), layer('MaxPooling2D', 'p1'), conv('c2', 16, 'valid'),
              layer('AveragePooling2D', 'p2'), layer('Flatten', 'f'), layer('Dense', 'd1', units=120, activation='tanh'),
              layer('Dense', 'd2', units=84, activation='tanh'), layer('Dense', 'd3', units=10, activation='softmax')]
    return {'class_name': 'Sequential', 'keras_version': '2.15.0', 'backend': 'tensorflow',
            'config': {'name': 'lenet', 'layers': layers}}


def npy(code, shape, values):
    head = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}"
    head += ' ' * (63 - (10 + len(head)) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + values.tobytes()


def data(path):
    state = 1
    x = array.array('f')
    for _ in range(ROWS * 28 * 28):
        state = (state * 1664525 + 1013904223) % 2**32
        x.append(state / 2**31 - 1)
    with zipfile.ZipFile(path, 'w') as z:
        z.writestr('x0.npy', npy('<f4', (ROWS, 28, 28, 1), x))
        z.writestr('y0.npy', npy('<i4', (ROWS,), array.array('i', [k * 7 % 10 for k in range(ROWS)])))


def weights(path):
    """Of a safetensors file."""
    raw = pathlib.Path(path).read_bytes()
    n = int.from_bytes(raw[:8], 'little')
    for name, of in sorted(json.loads(raw[8:8 + n]).items()):
        if name != '__metadata__':
            begin, end = of['data_offsets']
            yield name, array.array('f', raw[8 + n + begin:8 + n + end])


def train(folder, pgfit, device, start, refused=''):
    out = f'{folder}/{device.replace(":", "")}{"-own" if refused else ""}.safetensors'
    command = [pgfit, f'{folder}/model.json', '--data', f'{folder}/data.npz', '--loss', 'sparse_categorical_crossentropy',
               '--optimizer', 'adam', '--batch-size', str(ROWS - 1), '--epochs', '1', '--seed', '7', '--no-shuffle', '--deterministic',
               '--devices', device, '--gpu-tune', '-o', out, '--force', *start]
    r = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, FAKE_CUDA_REFUSES=refused))
    if r.returncode != 0:
        sys.exit(f'{" ".join(command)}: exit {r.returncode}\n{r.stderr}')
    return dict(weights(out))


def main():
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, 'model.json').write_text(json.dumps(model()))
        data(f'{folder}/data.npz')
        want = train(folder, sys.argv[1], 'cpu:0', [])
        for refused in ('', 'conv bias epilogue'):
            got = train(folder, sys.argv[1], 'cuda:0', [], refused)
            assert got.keys() == want.keys()
            worst = max(abs(a - b) for name in want for a, b in zip(want[name], got[name]))
            print(f'{len(want)} tensors, {"own convolutions" if refused else "a library"}: off by {worst:.2g}')
            if not worst < 1e-5:
                sys.exit('LeNet learns something else over PTX')


main()
