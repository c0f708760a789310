#!/usr/bin/env python3
"""usage: fit_files.py --tools DIR [--make DIR | --judge DIR]

Files between real Keras and pgfit. Keras trains an epoch and saves; pgfit goes on from that file for an epoch
and saves in every format; Keras loads each of these strictly, predicts, and where it is a full model trains a
third epoch. Everything must be what three epochs of Keras alone give: weights, optimizer variables, predictions.
PG_SHARE (pgbox.py) leaves out some optimizers.
Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77) without both. --make and
--judge are the halves that run under those."""
import json
import os
import subprocess
import sys

import both_keras

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pgbox import chosen  # noqa: E402

OPTIMIZERS = {  # name: (class, config, only new or only legacy)
    'adam': ('Adam', {'learning_rate': 0.01}, None),
    'amsgrad': ('Adam', {'learning_rate': 0.01, 'amsgrad': True, 'clipvalue': 0.5}, None),
    'sgd': ('SGD', {'learning_rate': 0.1}, None),
    'momentum': ('SGD', {'learning_rate': 0.1, 'momentum': 0.9, 'nesterov': True}, None),
    'rmsprop': ('RMSprop', {'learning_rate': 0.01}, None),
    'centered': ('RMSprop', {'learning_rate': 0.01, 'momentum': 0.5, 'centered': True}, None),
    'adagrad': ('Adagrad', {'learning_rate': 0.1}, None),
    'adadelta': ('Adadelta', {'learning_rate': 1.0}, None),
    'adamax': ('Adamax', {'learning_rate': 0.01}, None),
    'nadam': ('Nadam', {'learning_rate': 0.01}, None),
    'adamw': ('AdamW', {'learning_rate': 0.01, 'weight_decay': 0.1}, 'new'),
    'lion': ('Lion', {'learning_rate': 0.01, 'weight_decay': 0.1}, 'new'),
    'ftrl': ('Ftrl', {'learning_rate': 0.1, 'l1_regularization_strength': 0.01, 'l2_regularization_strength': 0.02,
                      'l2_shrinkage_regularization_strength': 0.03, 'beta': 0.1}, None),
    'ema': ('Adam', {'learning_rate': 0.01, 'use_ema': True, 'ema_momentum': 0.8, 'ema_overwrite_frequency': 2}, 'new'),
    'ema_end': ('SGD', {'learning_rate': 0.1, 'momentum': 0.5, 'use_ema': True, 'ema_momentum': 0.7, 'weight_decay': 0.05}, 'new'),
    'decay': ('SGD', {'learning_rate': 0.1, 'momentum': 0.9, 'decay': 0.1}, 'legacy'),
    'exponential': ('SGD', {'learning_rate': ('ExponentialDecay', 0.1, 4, 0.5, True), 'momentum': 0.9}, 'new'),
    'inverse': ('SGD', {'learning_rate': ('InverseTimeDecay', 0.1, 2, 0.5), 'momentum': 0.9}, 'new'),
    'piecewise': ('Adam', {'learning_rate': ('PiecewiseConstantDecay', [2, 4, 7], [0.1, 0.03, 0.01, 0.003])}, None),
    'cosine': ('SGD', {'learning_rate': ('CosineDecay', 0.01, 6, 0.1, None, 0.1, 3), 'momentum': 0.9}, None),
    'restarts': ('SGD', {'learning_rate': ('CosineDecayRestarts', 0.1, 3, 1.5, 0.9), 'momentum': 0.9}, 'new'),
    'polynomial': ('SGD', {'learning_rate': ('PolynomialDecay', 0.1, 4, 0.01, 0.5, True), 'momentum': 0.9}, 'new'),
}
BATCH = 4


def cases(major):
    """(name, model, optimizer, family)"""
    for name, (_, _, only) in OPTIMIZERS.items():
        for family in ('new', 'legacy') if major == 2 else ('new',):
            # Keras 2.15 does not store what Nadam needs to go on.
            if only in (None, family) and (name, major) != ('nadam', 2) and chosen(name + family):
                yield f'{name}_{family}', 'dense', name, family
    for model in ('deep', 'two', 'smooth', 'sequential'):
        yield model, model, 'adam', 'new'


def data(np, model):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 6)).astype('f4')
    if model == 'deep':
        x = rng.normal(size=(12, 5, 6)).astype('f4')
    y = np.eye(3, dtype='f4')[rng.integers(0, 3, 12)]
    return [x], [y, rng.normal(size=(12, 1)).astype('f4')] if model == 'two' else [y]


def build(keras, kind):
    layers = keras.layers
    keras.utils.set_random_seed(7)
    if kind == 'sequential':
        return keras.Sequential([keras.Input((6,)), layers.Dense(5, 'tanh'), layers.Dense(3, 'softmax')])
    if kind == 'deep':
        x = keras.Input((5, 6), name='x')
        inner = keras.Sequential([keras.Input((6,)), layers.Dense(5, 'tanh', name='c'), layers.Dense(4, name='b')], name='inner')
        h = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
        h = layers.GRU(6)(h)
        h = layers.Dense(6, 'tanh', trainable=False, name='frozen')(h)
        h = inner(layers.BatchNormalization()(h))
        return keras.Model(x, layers.Dense(3, 'softmax', name='a')(h))
    x = keras.Input((6,), name='x')
    h = layers.Dense(5, 'tanh', name='h')(x)
    out = layers.Dense(3, 'softmax', name='out')(h)
    return keras.Model(x, [out, layers.Dense(1, name='side')(h)] if kind == 'two' else out)


def compile_(keras, model, kind, optimizer, family):
    cls, config, _ = OPTIMIZERS[optimizer]
    if isinstance(config['learning_rate'], tuple):
        schedule, *args = config['learning_rate']
        args = [schedule if a is None else a for a in args]  # the name, which Keras 3 needs
        config = dict(config, learning_rate=getattr(keras.optimizers.schedules, schedule)(*args))
    opt = getattr(keras.optimizers.legacy if family == 'legacy' else keras.optimizers, cls)(**config)
    if kind == 'two':
        model.compile(opt, {'out': 'categorical_crossentropy', 'side': 'mse'}, loss_weights={'out': 1.0, 'side': 0.3},
                      metrics={'out': ['accuracy'], 'side': ['mae']})
    elif kind == 'smooth':
        model.compile(opt, keras.losses.CategoricalCrossentropy(label_smoothing=0.1), metrics=['accuracy'])
    else:
        model.compile(opt, 'categorical_crossentropy', metrics=['accuracy'])


def the_keras():
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.get_logger().setLevel('ERROR')
    if tf.__version__ < '2.16':
        return tf.keras, 2
    import keras
    return keras, 3


def state(model):
    v = model.optimizer.variables
    return [x.numpy() for x in (v() if callable(v) else v)]


def fit(model, xs, ys):
    model.fit(xs if len(xs) > 1 else xs[0], ys if len(ys) > 1 else ys[0], batch_size=BATCH, shuffle=False, verbose=0)


def make(d):
    import numpy as np
    keras, major = the_keras()
    for name, kind, optimizer, family in cases(major):
        xs, ys = data(np, kind)
        np.savez(d / f'{kind}.npz', **{f'x{i}': x for i, x in enumerate(xs)}, **{f'y{i}': y for i, y in enumerate(ys)})
        model = build(keras, kind)
        compile_(keras, model, kind, optimizer, family)
        fit(model, xs, ys)
        model.save(d / f'{name}.keras')
        model.save_weights(d / f'{name}.weights.h5')
        (d / f'{name}.json').write_text(model.to_json())
        if major == 2:  # names of Keras 3.6's optimizer variables may clash in its own .h5
            model.save(d / f'{name}.h5')
        start = model.get_weights()
        fit(model, xs, ys)
        np.savez(d / f'{name}.start.npz', *start)
        np.savez(d / f'{name}.second.npz', *model.get_weights())
        np.savez(d / f'{name}.state.npz', *state(model))
        fit(model, xs, ys)
        np.savez(d / f'{name}.third.npz', *model.get_weights())


class Judge:
    def __init__(self, np, d):
        self.np, self.d, self.n, self.bad = np, d, 0, 0

    def fail(self, what, why):
        self.bad += 1
        print(f'{what}: {why}')

    def compare(self, what, got, name, stage):
        """Variables against Keras' own, by how far they moved."""
        self.n += 1
        want, start = (self.np.load(self.d / f'{name}.{s}.npz') for s in (stage, 'start' if stage != 'state' else stage))
        if len(got) != len(want.files):
            return self.fail(what, f'{len(got)} variables for {len(want.files)}')
        for i, g in enumerate(got):
            w = want[f'arr_{i}'].astype('f8')
            moved = self.np.abs(w - start[f'arr_{i}']).max() if stage != 'state' else self.np.abs(w).max()
            off = self.np.abs(w - g).max()
            if not off <= max(3e-6, 2e-4 * moved):
                self.fail(what, f'{stage} variable {i} is off by {off:.3g}, of {moved:.3g}')


def judge(d):
    import numpy as np
    keras, major = the_keras()
    j = Judge(np, d)
    for name, kind, optimizer, family in cases(major):
        xs, ys = data(np, kind)
        model = build(keras, kind)
        for file in ('out.weights.h5', 'out_w.h5'):
            what = f'{name}.{file}'
            if major == 3 and file.endswith('_w.h5') and kind == 'deep':
                continue  # Keras 3 reads no recurrent layers from legacy weights
            model.set_weights([np.zeros_like(w) for w in model.get_weights()])
            model.load_weights(d / what)
            j.compare(what, model.get_weights(), name, 'second')
        predicted = model.predict(xs[0], verbose=0)
        for file in ('out.keras', 'out.h5'):
            what = f'{name}.{file}'
            if not (d / what).exists():
                continue
            full = keras.models.load_model(d / what)
            j.compare(what, full.get_weights(), name, 'second')
            got = full.predict(xs[0], verbose=0)
            if not all(np.allclose(a, b, atol=1e-6) for a, b in zip(predicted, got)):
                j.fail(what, 'predictions differ')
            # Keras 2.15 stores no legacy optimizer in a .keras, and Keras 3.6 takes none up from an .h5.
            if (family == 'legacy' and file == 'out.keras') or (major == 3 and file == 'out.h5'):
                continue
            if optimizer != 'sgd':  # whose variables are written and never read
                j.compare(what, state(full), name, 'state')
            fit(full, xs, ys)
            j.compare(what, full.get_weights(), name, 'third')
    print(f'Keras {major}: {j.n} comparisons, {j.bad} differences')
    sys.exit(j.bad != 0)


def run(tool, *args):
    r = subprocess.run([tool, *map(str, args)], capture_output=True, text=True)
    if r.returncode:
        print('$', *args, '\n', r.stdout, r.stderr)
    return r.returncode == 0


def go_on(tools, d, name, kind, family, major):
    """One epoch by pgfit: from the full models, and the weights through every format."""
    ok = True
    # a .keras lacks the state of legacy optimizers
    source = d / (f'{name}.h5' if family == 'legacy' else f'{name}.keras')
    fit = [tools / 'pgfit', source, '--data', d / f'{kind}.npz', '--batch-size', BATCH, '--no-shuffle']
    for out in ('out.keras', 'out.weights.h5', 'out.safetensors'):
        ok &= run(*fit, '-o', d / f'{name}.{out}')
    ok &= run(*fit, '-o', d / f'{name}.out_w.h5')
    if major == 2 and family == 'new':  # the other container brings the same
        fit[1] = d / f'{name}.h5'
    ok &= run(*fit, '--full-model', '-o', d / f'{name}.out.h5')
    loss = 'out=categorical_crossentropy' if kind == 'two' else 'categorical_crossentropy'
    for weights in ('out.keras', 'out.weights.h5', 'out.safetensors', 'out_w.h5'):
        ok &= run(tools / 'pgfit', d / f'{name}.json', '--weights', d / f'{name}.{weights}', '--data', d / f'{kind}.npz',
                  '--loss', loss, '--optimizer', 'sgd:learning_rate=0', '-f', '-o', d / 'again.h5')
        if kind != 'deep':  # its moving averages move
            ok &= run(tools / 'pgdiff', d / 'again.h5', d / f'{name}.out_w.h5')
    return ok


def between(tools, d, major):
    return sum(not go_on(tools, d, name, kind, family, major) for name, kind, _, family in cases(major))


if __name__ == '__main__':
    both_keras.main(__file__, make, judge, between)
