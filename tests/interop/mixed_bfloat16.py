#!/usr/bin/env python3
"""usage: mixed_bfloat16.py --tools DIR [--make DIR | --judge DIR]

200 steps with the policy mixed_bfloat16: real Keras trains with it, operation by operation and compiled by XLA, which rounds
in other places, and with float32; pgfit emulates it from the same weights. Two runs that round differently drift apart, so the
losses of pgfit may be as far from Keras' as those of Keras' two ways are from each other, and the first losses, before anything
drifts, must be as near as a few roundings. Keras then loads what pgfit saved: float32, and as good on all rows as its own.
Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77) without both. --make and --judge are the
halves that run under those."""
import json
import os
import subprocess
import sys

import both_keras

BATCH, STEPS = 32, 200
MODELS = ('mlp', 'cnn', 'transformer')
WAYS = {'plain': ('mixed_bfloat16', False), 'xla': ('mixed_bfloat16', True), 'float32': ('float32', False)}
NEAR = 2  # times what is between Keras' own ways
FIRST = 2 ** -6  # of a loss: some roundings of a bfloat16, which are 2^-9 each


def the_keras():
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import tensorflow as tf
    from tensorflow import keras
    tf.config.threading.set_intra_op_parallelism_threads(1)
    return keras


def body(keras, name):
    """(input, features)"""
    L = keras.layers
    if name == 'mlp':
        x = keras.Input((64,))
        return x, L.Dense(96, 'relu')(L.Dense(128, 'relu')(x))
    if name == 'cnn':
        x = keras.Input((12, 12, 3))
        h = L.ReLU()(L.BatchNormalization()(L.Conv2D(16, 3, padding='same', use_bias=False)(x)))
        h = L.MaxPooling2D()(L.Conv2D(24, 3, activation='relu')(h))
        return x, L.GlobalAveragePooling2D()(L.Conv2D(32, 3, activation='elu')(h))
    x = keras.Input((10, 24))
    h = L.Dense(32)(x)
    h = L.LayerNormalization()(L.Add()([h, L.MultiHeadAttention(4, 8)(h, h)]))
    h = L.LayerNormalization()(L.Add()([h, L.Dense(32)(L.Dense(64, 'gelu')(h))]))
    return x, L.GlobalAveragePooling1D()(h)


def model_of(keras, name, policy):
    keras.mixed_precision.set_global_policy(policy)
    x, h = body(keras, name)
    h = keras.layers.Dense(8, name='scores')(h)
    return keras.Model(x, keras.layers.Activation('softmax', dtype='float32', name='out')(h))


def data(np, shape):
    """Rows that a small network has sorted into classes: there is something to learn."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(BATCH * STEPS, *shape)).astype('f4')
    flat = x.reshape(len(x), -1)
    hidden = np.tanh(flat @ rng.normal(size=(flat.shape[1], 16)) / 4)
    return x, (hidden @ rng.normal(size=(16, 8))).argmax(1).astype('i4')


def train(keras, name, way, weights, x, y):
    policy, xla = WAYS[way]
    model = model_of(keras, name, policy)
    if weights is not None:
        model.set_weights(weights)
    model.compile(keras.optimizers.Adam(0.002), 'sparse_categorical_crossentropy', jit_compile=xla)
    losses = []

    class Each(keras.callbacks.Callback):  # the loss of a batch alone, not of all so far
        def on_train_batch_begin(self, batch, logs=None):
            model.reset_metrics()

        def on_train_batch_end(self, batch, logs=None):
            losses.append(float(logs['loss']))
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[Each()])
    return losses, model


def make(d):
    import numpy as np
    keras = the_keras()
    for name in MODELS:
        keras.utils.set_random_seed(7)
        first = model_of(keras, name, 'mixed_bfloat16')
        x, y = data(np, first.input_shape[1:])
        (d / f'{name}.json').write_text(first.to_json())
        first.save_weights(d / f'{name}.weights.h5')
        np.savez(d / f'{name}.npz', x0=x, y0=y)
        want = {}
        for way in WAYS:
            want[way], model = train(keras, name, way, first.get_weights(), x, y)
            if way == 'plain':
                want['after'] = float(model.evaluate(x, y, batch_size=256, verbose=0))
        (d / f'{name}.want').write_text(json.dumps(want))


def judge(d):
    import numpy as np
    keras = the_keras()
    bad = 0
    for name in MODELS:
        a, want = np.load(d / f'{name}.npz'), json.loads((d / f'{name}.want').read_text())
        model = model_of(keras, name, 'mixed_bfloat16')
        model.load_weights(d / f'{name}.out.weights.h5')
        model.compile(loss='sparse_categorical_crossentropy')
        got = float(model.evaluate(a['x0'], a['y0'], batch_size=256, verbose=0))
        print('%s: %.4f after training, Keras %.4f' % (name, got, want['after']))
        if any(str(w.dtype) not in ('float32', "<dtype: 'float32'>") for w in model.weights) or not got <= 1.05 * want['after']:
            bad += 1
            print(f'{name}: what pgfit saved has a loss of {got}, that of Keras {want["after"]}')
    sys.exit(bad != 0)


def apart(a, b):
    """Of the mean loss, what two runs are apart on average."""
    return sum(abs(p - q) for p, q in zip(a, b)) / sum(a)


def pgfit(tools, d, name, *more):
    r = subprocess.run([str(v) for v in [tools / 'pgfit', d / f'{name}.json', '--weights', d / f'{name}.weights.h5', '--data',
                        d / f'{name}.npz', '--loss', 'sparse_categorical_crossentropy', '--optimizer', 'adam:learning_rate=0.002',
                        '--batch-size', BATCH, '--no-shuffle', '--json=batch', *more]], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f'{name}: {r.stderr}')
    return [e['loss'] for e in map(json.loads, r.stdout.splitlines()) if e['event'] == 'batch']


def between(tools, d, major):
    bad = 0
    for name in MODELS:
        want = json.loads((d / f'{name}.want').read_text())
        got = pgfit(tools, d, name, '--precision', 'bfloat16=emulate', '-o', d / f'{name}.out.weights.h5')
        own, mine = apart(want['plain'], want['xla']), apart(want['plain'], got)
        first = max(abs(a - b) / a for a, b in zip(want['plain'][:3], got))
        print('Keras %d, %s: %.4f apart, Keras %.4f from itself and %.4f from float32; the first losses %.5f; loss %.3f to %.3f' % (
            major, name, mine, own, apart(want['plain'], want['float32']), first, got[0], sum(got[-20:]) / 20))
        if len(got) != STEPS or not mine <= NEAR * own or not first <= FIRST:
            bad += 1
            print(f'Keras {major}, {name}: too far')
        if got[:3] == pgfit(tools, d, name, '--steps-per-epoch', 3, '--precision', 'float32'):
            bad += 1
            print(f'{name}: that was float32')
    return bad


if __name__ == '__main__':
    both_keras.main(__file__, make, judge, between)
