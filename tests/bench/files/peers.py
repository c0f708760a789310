#!/usr/bin/env python3
"""usage: peers.py JOB ARGUMENT...

What people do without these tools, as short as they would write it."""
import json
import os
import sys

from h5names import by_layer, get_names, nested, put_names, weights_root


def tensors(f):
    group = nested(f)
    return {f'{layer}/{w}': group[layer][w][()] for layer in group for w in group[layer]}


def unwrap(source, target, copy_layers=False):
    """Tensor by tensor into the layout of the template; or layer by layer with H5Ocopy."""
    import h5py
    with h5py.File(source) as a, h5py.File(target, 'w') as b:
        group = nested(a)
        layers = by_layer(get_names(group, 'weight_names'))
        put_names(b, 'layer_names', list(layers))
        for name in ('backend', 'keras_version'):
            b.attrs[name] = weights_root(a).attrs[name]
        for layer, names in layers.items():
            g = b.create_group(layer)
            put_names(g, 'weight_names', names)
            if copy_layers:
                group.copy(layer, g)
            else:
                for name in names:
                    g.create_dataset(name, data=group[name][()])


def copy_unwrap(source, target):
    unwrap(source, target, copy_layers=True)


def info(source):
    import h5py
    found = []
    with h5py.File(source) as f:
        f.visititems(lambda name, o: found.append((name, o.shape, o.dtype)) if isinstance(o, h5py.Dataset) else None)
    print(len(found))


def stats(source):
    import h5py
    import numpy as np
    with h5py.File(source) as f:
        group = nested(f)
        for layer in group:
            for w in group[layer]:
                a = group[layer][w][()]
                r = (a.min(), a.max(), a.mean(dtype=np.float64), a.std(dtype=np.float64), np.isnan(a).sum())
    print(r)


def diff(one, other):
    import h5py
    import numpy as np
    changed = 0
    with h5py.File(one) as f, h5py.File(other) as g:
        a, b = nested(f), nested(g)
        for layer in a:
            for w in a[layer]:
                x, y = a[layer][w][()], b[layer][w][()]
                if not np.array_equal(x, y):
                    changed += bool(np.abs(x - y).max())
    print(changed)


def change(source, target):
    """A copy in which every tensor is another one."""
    import shutil

    import h5py
    shutil.copyfile(source, target)
    with h5py.File(target, 'r+') as f:
        group = nested(f)
        for layer in group:
            for w in group[layer]:
                group[layer][w][...] = group[layer][w][()] * 1.001


def npy_split(source, folder):
    import h5py
    import numpy as np
    os.makedirs(folder, exist_ok=True)
    names = []
    with h5py.File(source) as f:
        group = nested(f)
        for layer in group:
            for w in group[layer]:
                np.save(os.path.join(folder, f'{len(names):05}.npy'), group[layer][w][()])
                names.append(f'{layer}/{w}')
    with open(os.path.join(folder, 'names.json'), 'w') as f:
        json.dump(names, f)


def npy_join(folder, target):
    import h5py
    import numpy as np
    with open(os.path.join(folder, 'names.json')) as f:
        names = json.load(f)
    with h5py.File(target, 'w') as b:
        for i, name in enumerate(names):
            b.create_dataset(f'{name.rsplit("/", 1)[0]}/{name}', data=np.load(os.path.join(folder, f'{i:05}.npy')))


def hub_split(source, folder, size):
    """huggingface_hub's plan, one save_file() per shard."""
    import h5py
    from huggingface_hub import split_state_dict_into_shards_factory
    from safetensors.numpy import save_file
    os.makedirs(folder, exist_ok=True)
    with h5py.File(source) as f:
        state = tensors(f)
    plan = split_state_dict_into_shards_factory(state, get_storage_size=lambda t: t.nbytes, max_shard_size=size,
                                                filename_pattern='model{suffix}.safetensors')
    for name, keys in plan.filename_to_tensors.items():
        save_file({k: state[k] for k in keys}, os.path.join(folder, name))
    with open(os.path.join(folder, 'model.safetensors.index.json'), 'w') as f:
        json.dump({'metadata': plan.metadata, 'weight_map': plan.tensor_to_filename}, f)


def to_safetensors(source, target):
    import h5py
    from safetensors.numpy import save_file
    with h5py.File(source) as f:
        save_file(tensors(f), target)


def keras_model(keras, layers):
    inputs = [keras.Input((kernel[0],)) for name, kernel, bias in layers]
    outputs = [keras.layers.Dense(kernel[1], name=name, kernel_initializer='zeros')(x)
               for x, (name, kernel, bias) in zip(inputs, layers)]
    return inputs, keras.Model(inputs, outputs, name='model_1')


def keras_unwrap(layers, source, target):
    """Keras 2.15: the wrapper is built, loaded, and its template saved."""
    import keras
    with open(layers) as f:
        layers = json.load(f)
    inputs, model = keras_model(keras, layers)
    outer = [keras.Input(x.shape[1:]) for x in inputs]
    keras.Model(outer, model(outer)).load_weights(source)
    model.save_weights(target)


def keras_save(layers, source, target, shard_gb=None):
    """Keras 3: the template is built, filled and saved."""
    import h5py
    import keras
    with open(layers) as f:
        layers = json.load(f)
    model = keras_model(keras, layers)[1]
    with h5py.File(source) as f:
        for name, kernel, bias in layers:
            g = nested(f)[name][name] if name in nested(f)[name] else nested(f)[name]
            model.get_layer(name).set_weights([g['kernel:0'][()], g['bias:0'][()]])
    model.save_weights(target, **({'max_shard_size': float(shard_gb)} if shard_gb else {}))


os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('CUDA_VISIBLE_DEVICES', '')
JOBS = {f.__name__: f for f in (unwrap, copy_unwrap, info, stats, diff, change, npy_split, npy_join, hub_split, to_safetensors,
                                keras_unwrap, keras_save)}
if len(sys.argv) < 3 or sys.argv[1] not in JOBS:
    sys.exit(f'{__doc__}\njobs: {" ".join(JOBS)}')
JOBS[sys.argv[1]](*sys.argv[2:])
