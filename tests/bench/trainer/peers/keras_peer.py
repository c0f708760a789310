#!/usr/bin/env python3
"""tf.keras or Keras 3 (KERAS_BACKEND): model.fit on arrays in memory.

usage: keras_peer.py MODEL [--impl tfkeras|keras3] [--mirrored | --horovod] [--steps N]
       keras_peer.py MODEL --export DIR     DIR/MODEL.json and DIR/MODEL.npz (x0, ..., y0), which pgfit takes
--mirrored: MirroredStrategy on two logical CPUs. --horovod: a process of one thread among those that mpirun started, with its part of
the batch."""
import argparse
import importlib.metadata
import os
import time

from specs import APPLICATIONS, BERT, DISTINCT, LEARNING_RATE, SPEC, UNET_BASE, VGG16, VGGSMALL, data, loss, optimizer, report

BEGUN = float(os.environ.get('BENCH_T0', time.time()))
ap = argparse.ArgumentParser()
ap.add_argument('model', choices=SPEC)
ap.add_argument('--impl', default='tfkeras')
ap.add_argument('--mirrored', action='store_true')
ap.add_argument('--horovod', action='store_true')
ap.add_argument('--steps', type=int)
ap.add_argument('--export')
a = ap.parse_args()
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('CUDA_VISIBLE_DEVICES', '')
import numpy as np  # noqa: E402
if a.impl == 'tfkeras':
    import tensorflow as tf
    from tensorflow import keras
    version = tf.__version__
else:
    import keras
    backend = keras.backend.backend()
    version = '%s on %s %s' % (keras.__version__, backend, importlib.metadata.version(backend))
if a.mirrored:
    cpus = tf.config.list_physical_devices('CPU')
    tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
if a.horovod:
    import horovod.tensorflow.keras as hvd
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
L = keras.layers


def vgg(x, plan, *widths):
    for v in plan:
        x = L.MaxPooling2D(2)(x) if v == 'M' else L.Conv2D(v, 3, padding='same', activation='relu')(x)
    x = L.Flatten()(x)
    for w in widths:
        x = L.Dense(w, activation='relu')(x)
    return x


def unet(x):
    def twice(x, n):
        for _ in range(2):
            x = L.Conv2D(n, 3, padding='same', activation='relu')(x)
        return x
    skips = []
    for i in range(4):
        skips.append(twice(x, UNET_BASE << i))
        x = L.MaxPooling2D(2)(skips[-1])
    x = twice(x, UNET_BASE << 4)
    for i in reversed(range(4)):
        x = L.Conv2DTranspose(UNET_BASE << i, 2, strides=2, padding='same')(x)
        x = twice(L.Concatenate()([x, skips[i]]), UNET_BASE << i)
    return L.Conv2D(1, 1, activation='sigmoid')(x)


def resnet18(x):
    def conv(x, n, stride, relu=True, size=3):
        x = L.BatchNormalization()(L.Conv2D(n, size, strides=stride, padding='same', use_bias=False)(x))
        return L.ReLU()(x) if relu else x
    x = conv(x, 64, 1)
    for n, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            y = conv(conv(x, n, stride), n, 1, relu=False)
            short = conv(x, n, stride, relu=False, size=1) if stride != 1 or x.shape[-1] != n else x
            x = L.ReLU()(L.Add()([y, short]))
    return L.GlobalAveragePooling2D()(x)


def bert(ids, positions):
    width = BERT['width']
    x = L.Add()([L.Embedding(BERT['vocab'], width)(ids), L.Embedding(BERT['seq'], width)(positions)])
    x = L.LayerNormalization(epsilon=1e-12)(x)
    for _ in range(BERT['layers']):
        h = L.MultiHeadAttention(BERT['heads'], width // BERT['heads'])(x, x)
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, h]))
        h = L.Dense(width)(L.Dense(BERT['ffn'], activation='gelu')(x))
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, h]))
    return L.Dense(width, activation='tanh')(L.Flatten()(L.Cropping1D((0, BERT['seq'] - 1))(x)))


def lenet(x):
    x = L.Conv2D(64, 3, activation='relu')(L.Conv2D(32, 3, activation='relu')(x))
    return L.Dense(128, activation='relu')(L.Flatten()(L.MaxPooling2D(2)(x)))


def towers(a, b):
    shared = L.LSTM(64)
    return L.Concatenate()([shared(a), shared(b)])


BODIES = {  # shapes of the inputs, what is between them and the last layer
    'mlp': ([(784,)], lambda x: L.Dense(512, activation='relu')(L.Dense(512, activation='relu')(x))),
    'lenet': ([(28, 28, 1)], lenet),
    'vggsmall': ([(32, 32, 3)], lambda x: vgg(x, VGGSMALL, 512)),
    'vgg16': ([(224, 224, 3)], lambda x: vgg(x, VGG16, 4096, 4096)),
    'unet': ([(128, 128, 1)], unet),
    'lstm2': ([(140, 256)] * 2, towers),
    'bertmini': ([(BERT['seq'],)] * 2, bert),
    'resnet18': ([(32, 32, 3)], resnet18),
}


def compiled(name, m):
    rule = getattr(keras.optimizers, optimizer(name))(LEARNING_RATE)
    m.compile(optimizer=hvd.DistributedOptimizer(rule) if a.horovod else rule, loss=loss(name))
    return m


def build(name):
    if name in APPLICATIONS:
        make = getattr(keras.applications, APPLICATIONS[name][0])
        return compiled(name, make(weights=None, input_shape=(96, 96, 3), classes=SPEC[name]['n_out']))
    shapes, body = BODIES[name]
    inputs = [keras.Input(s, **({'dtype': 'int32'} if name == 'bertmini' else {})) for s in shapes]
    x = body(*inputs)
    if name != 'unet':
        x = L.Dense(SPEC[name]['n_out'], activation='softmax')(x)
    return compiled(name, keras.Model(inputs, x))


class Clock(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.time())


batch, warm = SPEC[a.model]['batch'], SPEC[a.model]['warm']
n = warm + (a.steps or SPEC[a.model]['steps'])
x, y = data(a.model, batch, min(n, DISTINCT))
if a.model == 'bertmini':
    x.append(np.tile(np.arange(BERT['seq'], dtype='int64'), (len(y), 1)))
if n > DISTINCT:
    *x, y = (np.concatenate([v] * -(-n // DISTINCT))[:n * batch] for v in (*x, y))
if a.export:
    m = build(a.model)
    os.makedirs(a.export, exist_ok=True)
    path = os.path.join(a.export, a.model)
    np.savez(path + '.npz', y0=y, **{'x%d' % i: v for i, v in enumerate(x)})
    with open(path + '.json', 'w') as f:  # last: its presence says that both are whole
        f.write(m.to_json())
else:
    if a.mirrored:
        with tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1']).scope():
            m = build(a.model)
    else:
        m = build(a.model)
    clock = Clock()
    calls, part = [clock], batch
    if a.horovod:
        calls.append(hvd.callbacks.BroadcastGlobalVariablesCallback(0))
        part = batch // hvd.size()
        *x, y = (v[hvd.rank() * (len(v) // hvd.size()):][:len(v) // hvd.size()] for v in (*x, y))
    h = m.fit(x if len(x) > 1 else x[0], y, batch_size=part, verbose=0, shuffle=False, callbacks=calls)
    if a.horovod and hvd.rank() > 0:
        raise SystemExit
    report(a.model, version, batch, clock.ends, warm, BEGUN, float(h.history['loss'][-1]), int(m.count_params()))
