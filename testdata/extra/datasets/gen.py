#!/usr/bin/env python3
"""usage: gen.py (Keras 2.15, numpy, h5py)

Data files of a few rows under the names that people give their arrays, written by numpy.savez,
numpy.savez_compressed and h5py: what keras.datasets.mnist, MedMNIST, scikit-learn and a course's HDF5
files call them; and the model that trains on them."""
import os
import pathlib

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import h5py
import numpy as np
from tensorflow import keras

here = pathlib.Path(__file__).parent
rng = np.random.default_rng(25)


def pictures(n, *last):
    return rng.integers(0, 256, (n, 6, 6, *last)).astype('u1')


def classes(n, *last):
    return rng.integers(0, 4, (n, *last)).astype('u1')


mnist = {'x_train': pictures(20), 'y_train': classes(20), 'x_test': pictures(7), 'y_test': classes(7)}
np.savez(here / 'mnist.npz', **mnist)
np.savez_compressed(here / 'medmnist.npz', **{f'{part}_{kind}': make(n, *last) for part, n in
                                              [('train', 20), ('val', 5), ('test', 7)]
                                              for kind, make, last in [('images', pictures, ()), ('labels', classes, (1,))]})
x, y = pictures(20).astype('f4') / 255, classes(20).astype('i8')
np.savez(here / 'capital.npz', X=x, y=y)
np.savez(here / 'sklearn.npz', data=x, target=y, target_names=np.array(['ant', 'bee', 'cat', 'dog']), version=np.array(3))
np.savez(here / 'positional.npz', x, y)
np.savez(here / 'positional4.npz', x, y, x[:7], y[:7])
np.savez(here / 'two.npz', data=x, images=x * 2, labels=y)
np.savez(here / 'odd.npz', pictures=x, digits=y)
np.savez(here / 'texts.npz', x_train=x, y_train=np.array(['ant', 'bee'] * 10))
with h5py.File(here / 'course.h5', 'w') as f:
    f['train_set_x'], f['train_set_y'], f['list_classes'] = x, y, np.array([b'ant', b'bee', b'cat', b'dog'])
keras.utils.set_random_seed(7)
model = keras.Sequential([keras.Input((6, 6), name='pixels'), keras.layers.Flatten(),
                          keras.layers.Dense(4, 'softmax', name='probs')], name='small')
(here / 'model.json').write_text(model.to_json())
model.save_weights(here / 'init.h5')
scaled = keras.Sequential([keras.Input((6, 6), name='pixels'), keras.layers.Rescaling(1 / 255), keras.layers.Flatten(),
                           keras.layers.Dense(4, 'softmax', name='probs')], name='scaled')
(here / 'scaled.json').write_text(scaled.to_json())
