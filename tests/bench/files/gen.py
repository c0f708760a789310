#!/usr/bin/env python3
"""usage: gen.py [--scale F] FOLDER [NAME...]

Makes the inputs of the benchmark: old-style HDF5 as Keras writes it, saved from a parallel wrapper. The root lists the
wrapper's layers; one of them, model_1, holds all tensors as model_1/<layer>/<kernel:0|bias:0>. NAME.layers.json lists
[layer, kernel shape, bias shape] for the peers that build a model. --scale shrinks the bytes (tiny: the tensors)."""
import argparse
import json
import pathlib
import zlib

import h5py
import numpy as np
from h5names import put_names


def chain(widths):
    """Shapes of dense layers, one fed by the other."""
    return [((a, b), (b,)) for a, b in zip(widths, widths[1:])]


MODELS = {
    'resnet': lambda: chain([208] + [64, 256, 512, 512, 1024, 208] * 5),  # 60 tensors, 23 MB
    'vgg': lambda: chain([192] * 5 + [384] * 11 + [16, 25088, 4096, 4096, 1000]),  # 40, 503 MB, one of 411 MB
    'bert': lambda: chain([30522] + [4352 if i % 6 == 5 else 1088 for i in range(200)]),  # 400, 2.0 GB
    'tiny': lambda: chain([35] * 10001),  # 20,000 of 2.5 kB
    'huge': lambda: chain([22361, 22361]),  # 2, one of 2.0 GB
}
VARIANTS = {'vgg_full': ('vgg', {'full': True}), 'vgg_gz': ('vgg', {'gzip': True})}


def scaled(name, layers, f):
    if name == 'tiny':
        return layers[:max(5, int(len(layers) * f))]
    shrink = lambda n: max(4, int(n * f ** 0.5))
    return [((shrink(a), shrink(b)), (shrink(b),)) for (a, b), _ in layers]


def entry(name, class_name, config, calls):
    return {'name': name, 'class_name': class_name, 'config': dict(config, name=name),
            'inbound_nodes': [[[c, k, 0, {}]] for c, k in calls]}


def wrapper_config(layers):
    """model_config as multi_gpu_model of Keras 2.2 makes it."""
    last = layers[-1][0]
    names = ['input_1'] + [n for n, k, b in layers]
    inputs = entry('input_1', 'InputLayer', {'batch_input_shape': [None, layers[0][1][0]], 'dtype': 'float32',
                                             'sparse': False}, [])
    inner = [inputs] + [entry(n, 'Dense', {'trainable': True, 'units': b[0], 'activation': 'linear', 'use_bias': True},
                              [(before, 0)]) for before, (n, k, b) in zip(names, layers)]
    ends = {'input_layers': [['input_1', 0, 0]], 'output_layers': [[last, 0, 0]]}
    model = entry('model_1', 'Model', dict(ends, layers=inner), [('lambda_1', 0), ('lambda_2', 0)])
    slices = [entry(f'lambda_{i + 1}', 'Lambda', {
        'trainable': True, 'function': ['4wIAAAA=\n', None, None], 'function_type': 'lambda', 'output_shape': None,
        'output_shape_type': 'raw', 'arguments': {'i': i, 'parts': 2}}, [('input_1', 0)]) for i in (0, 1)]
    merge = entry(last, 'Concatenate', {'trainable': True, 'axis': 0}, [])
    merge['inbound_nodes'] = [[['model_1', 1, 0, {}], ['model_1', 2, 0, {}]]]
    return {'class_name': 'Model', 'config': dict(ends, name='model_2', layers=[inputs, *slices, model, merge])}


TRAINING = {'optimizer_config': {'class_name': 'Adam', 'config': {'lr': 0.001}}, 'loss': 'mse', 'metrics': [],
            'sample_weight_mode': None, 'loss_weights': None}


class Writer:
    def __init__(self, f, name, gzip):
        self.rng = np.random.default_rng(zlib.crc32(name.split('_')[0].encode()))
        self.file, self.gzip, self.n_bytes = f, gzip, 0

    def add(self, group, name, shape):
        big = self.gzip and np.prod(shape) > 4096
        values = self.rng.standard_normal(shape, dtype=np.float32)
        values *= 0.05
        group.create_dataset(name, data=values, **({'chunks': True, 'compression': 'gzip', 'shuffle': True} if big else {}))
        self.n_bytes += values.nbytes

    def add_adam(self, layers):
        """The optimizer's state: a counter, then two slots of every weight."""
        group = self.file.create_group('optimizer_weights')
        slots = [(f'training/Adam/{slot}/{n}/{w}_{slot}:0', s) for slot in ('m', 'v') for n, k, b in layers
                 for w, s in (('kernel', k), ('bias', b))]
        put_names(group, 'weight_names', ['training/Adam/iterations:0'] + [name for name, _ in slots])
        group['training/Adam/iterations:0'] = np.int64(12345)
        for name, shape in slots:
            self.add(group, name, shape)


def make(folder, name, layers, full=False, gzip=False):
    layers = [(f'dense_{i}', k, b) for i, (k, b) in enumerate(layers, 1)]
    last = layers[-1][0]
    with h5py.File(folder / f'{name}.h5', 'w', libver=('earliest', 'latest')) as f:
        w = Writer(f, name, gzip)
        root = f.create_group('model_weights') if full else f
        put_names(root, 'layer_names', ['input_1', 'lambda_1', 'lambda_2', 'model_1', last])
        for group in {root, f}:
            group.attrs['backend'], group.attrs['keras_version'] = b'tensorflow', b'2.2.4'
        for empty in ('input_1', 'lambda_1', 'lambda_2', last):
            put_names(root.create_group(empty), 'weight_names', [])
        model = root.create_group('model_1')
        put_names(model, 'weight_names', [f'{n}/{w}' for n, k, b in layers for w in ('kernel:0', 'bias:0')])
        for n, kernel, bias in layers:
            w.add(model, f'{n}/kernel:0', kernel)
            w.add(model, f'{n}/bias:0', bias)
        if full:
            f.attrs['model_config'] = json.dumps(wrapper_config(layers)).encode()
            f.attrs['training_config'] = json.dumps(TRAINING).encode()
            w.add_adam(layers)
    (folder / f'{name}.layers.json').write_text(json.dumps(layers))
    print(f'{name:9} {(folder / f"{name}.h5").stat().st_size:12} bytes, {len(layers)} layers, {w.n_bytes} bytes of tensors')


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--scale', type=float, default=1)
parser.add_argument('folder', type=pathlib.Path)
parser.add_argument('names', nargs='*', metavar='NAME', help=f'of {" ".join([*MODELS, *VARIANTS])} (all)')
args = parser.parse_args()
args.folder.mkdir(parents=True, exist_ok=True)
for name in args.names or [*MODELS, *VARIANTS]:
    model, how = VARIANTS.get(name, (name, {}))
    layers = MODELS[model]()
    make(args.folder, name, scaled(model, layers, args.scale) if args.scale != 1 else layers, **how)
