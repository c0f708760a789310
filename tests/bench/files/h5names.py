"""Keras' lists of names in HDF5 attributes, cut into numbered ones where they are too long."""
import numpy as np

LIMIT = 64512  # bytes of one attribute, as Keras has it


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def get_names(group, name):
    if name in group.attrs:
        return [text(x) for x in group.attrs[name]]
    out, i = [], 0
    while f'{name}{i}' in group.attrs:
        out += [text(x) for x in group.attrs[f'{name}{i}']]
        i += 1
    return out


def put_names(group, name, values):
    array = np.array([v.encode() for v in values]) if values else np.array([], dtype='S1')
    n = 1
    while any(part.nbytes > LIMIT for part in np.array_split(array, n)):
        n += 1
    for i, part in enumerate(np.array_split(array, n)):
        group.attrs[name if n == 1 else f'{name}{i}'] = part


def weights_root(f):
    return f['model_weights'] if 'model_weights' in f else f


def nested(f):
    """The group of the model inside the wrapper."""
    return weights_root(f)['model_1']


def by_layer(names):
    layers = {}
    for name in names:
        layers.setdefault(name.rsplit('/', 1)[0], []).append(name)
    return layers
