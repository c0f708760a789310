#!/usr/bin/env python3
"""usage: verify.py WRAPPED RESULT

RESULT (unwrapped .h5, .safetensors, or the folder of a split) must hold exactly the tensors of the model inside
WRAPPED, in its order. Nothing of this project judges here."""
import json
import pathlib
import sys

import h5py
import numpy as np
from h5names import by_layer, get_names, nested, text, weights_root


def check_h5(a, path):
    with h5py.File(path) as f:
        b, group = weights_root(f), nested(a)
        layers = by_layer(get_names(group, 'weight_names'))
        listed = get_names(b, 'layer_names')
        heavy = {layer: get_names(b[layer], 'weight_names') for layer in listed}
        assert {k: v for k, v in heavy.items() if v} == layers
        assert [k for k, v in heavy.items() if v] == list(layers) and sorted(b) == sorted(listed)
        for name in ('backend', 'keras_version'):
            assert text(b.attrs[name]) == text(weights_root(a).attrs[name])
        for layer, names in layers.items():
            for name in names:
                yield name, group[name], b[layer][name][()]


def check_npy(a, folder):
    manifest = json.loads((folder / 'manifest.json').read_text())
    names = get_names(nested(a), 'weight_names')
    assert [t['name'] for t in manifest['tensors']] == names
    for name, t in zip(names, manifest['tensors']):
        parts = [np.load(folder / p['path']) for p in t['files']]
        yield name, nested(a)[name], parts[0] if len(parts) == 1 else np.concatenate(parts)


def check_safetensors(a, path):
    from safetensors.numpy import load_file
    found = load_file(path)
    names = get_names(nested(a), 'weight_names')
    assert len(found) == len(names)
    for name in names:
        key = next(k for k in (name, name.replace(':0', ''), name.replace('/', '.').replace(':0', '')) if k in found)
        yield name, nested(a)[name], found[key]


source, result = (pathlib.Path(p) for p in sys.argv[1:3])
n = 0
with h5py.File(source) as f:
    for name, x, y in (check_npy(f, result) if result.is_dir() else check_safetensors(f, result)
                       if result.suffix == '.safetensors' else check_h5(f, result)):
        assert x.shape == y.shape and x.dtype == y.dtype and x[()].tobytes() == y.tobytes(), name
        n += 1
    assert n == len(get_names(nested(f), 'weight_names'))
