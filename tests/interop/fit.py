#!/usr/bin/env python3
"""usage: fit.py --tools DIR [--keras]

Trains small dense models with real Keras and with pgfit from the same weights, in the same order, and
compares the final weights: every optimizer of both families, every loss, regularizers, constraints,
clipping. Needs PG_KERAS2_PYTHON (TensorFlow 2.15) and skips (77) without it. --keras is the half that
runs under that Python: it writes models, data and Keras' results."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

OPTIMIZERS = {  # name: (family, Keras' class, config)
    'sgd': ('new', 'SGD', {'learning_rate': 0.1}),
    'sgd_nesterov': ('new', 'SGD', {'learning_rate': 0.1, 'momentum': 0.9, 'nesterov': True}),
    'rmsprop': ('new', 'RMSprop', {'learning_rate': 0.01}),
    'rmsprop_centered': ('new', 'RMSprop', {'learning_rate': 0.01, 'momentum': 0.5, 'centered': True}),
    'adam': ('new', 'Adam', {'learning_rate': 0.01}),
    'adam_amsgrad': ('new', 'Adam', {'learning_rate': 0.01, 'amsgrad': True}),
    'adamw': ('new', 'AdamW', {'learning_rate': 0.01, 'weight_decay': 0.1}),
    'adagrad': ('new', 'Adagrad', {'learning_rate': 0.1}),
    'adadelta': ('new', 'Adadelta', {'learning_rate': 1.0}),
    'adamax': ('new', 'Adamax', {'learning_rate': 0.01}),
    'nadam': ('new', 'Nadam', {'learning_rate': 0.01}),
    'clipnorm': ('new', 'SGD', {'learning_rate': 0.1, 'clipnorm': 0.05}),
    'global_clipnorm': ('new', 'SGD', {'learning_rate': 0.1, 'global_clipnorm': 0.05}),
    'clipvalue': ('new', 'SGD', {'learning_rate': 0.1, 'clipvalue': 0.01}),
    'legacy_sgd_decay': ('legacy', 'SGD', {'learning_rate': 0.1, 'decay': 0.1, 'momentum': 0.9}),
    'legacy_rmsprop': ('legacy', 'RMSprop', {'learning_rate': 0.01}),
    'legacy_rmsprop_momentum': ('legacy', 'RMSprop', {'learning_rate': 0.01, 'momentum': 0.9}),
    'legacy_adam': ('legacy', 'Adam', {'learning_rate': 0.01, 'decay': 0.01}),
    'legacy_amsgrad': ('legacy', 'Adam', {'learning_rate': 0.01, 'amsgrad': True}),
    'legacy_adagrad': ('legacy', 'Adagrad', {'learning_rate': 0.1}),
    'legacy_adadelta': ('legacy', 'Adadelta', {'learning_rate': 1.0}),
    'legacy_adamax': ('legacy', 'Adamax', {'learning_rate': 0.01}),
    'legacy_nadam': ('legacy', 'Nadam', {'learning_rate': 0.01}),
    'legacy_clip_both': ('legacy', 'SGD', {'learning_rate': 0.1, 'clipvalue': 0.01, 'clipnorm': 0.02}),
}
LOSSES = {  # name: last activation
    'mean_squared_error': 'linear', 'mean_absolute_error': 'linear', 'log_cosh': 'linear', 'huber': 'linear',
    'mean_absolute_percentage_error': 'linear', 'mean_squared_logarithmic_error': 'sigmoid', 'poisson': 'softplus',
    'hinge': 'tanh', 'squared_hinge': 'tanh', 'categorical_hinge': 'linear', 'cosine_similarity': 'linear',
    'kl_divergence': 'softmax', 'categorical_crossentropy': 'softmax', 'binary_crossentropy': 'sigmoid',
    'sparse_categorical_crossentropy': 'softmax', 'binary_crossentropy+relu': 'hard_sigmoid',
}
REGULARIZED = {'l1': "l1(0.01)", 'l2': "l2(0.02)", 'l1_l2': "l1_l2(0.01, 0.03)"}
CONSTRAINED = {'max_norm': "max_norm(0.5)", 'non_neg': "non_neg()", 'unit_norm': "unit_norm(axis=[0, 1])",
               'min_max_norm': "min_max_norm(0.3, 0.6, rate=0.7)"}
BATCH, EPOCHS = 8, 2


def cases():
    """(name, loss, last activation, optimizer, regularizer, constraint)"""
    for name in OPTIMIZERS:
        yield name, 'mean_squared_error', 'linear', name, None, None
    for loss, act in LOSSES.items():
        yield 'loss_' + loss, loss.split('+')[0], act, 'adam', None, None
    for name, text in REGULARIZED.items():
        yield name, 'mean_squared_error', 'linear', 'sgd', text, None
    for name, text in REGULARIZED.items():
        yield 'activity_' + name, 'mean_squared_error', 'linear', 'sgd', text, None
    for name, text in CONSTRAINED.items():
        yield name, 'mean_squared_error', 'linear', 'sgd', None, text


def run_keras(d):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras
    tf.config.threading.set_intra_op_parallelism_threads(1)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 6)).astype('f4')
    for name, loss, act, optimizer, regularizer, constraint in cases():
        keras.utils.set_random_seed(7)
        reg = eval('keras.regularizers.' + regularizer) if regularizer else None
        con = eval('keras.constraints.' + constraint) if constraint else None
        of_values = dict(activity_regularizer=reg) if name.startswith('activity_') else dict(kernel_regularizer=reg, bias_regularizer=reg)
        inputs = keras.Input((6,), name='x')
        h = keras.layers.Dense(5, 'tanh', kernel_constraint=con, **of_values)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(4, act, kernel_constraint=con)(h))
        family, cls, config = OPTIMIZERS[optimizer]
        opt = getattr(keras.optimizers.legacy if family == 'legacy' else keras.optimizers, cls)(**config)
        y = rng.normal(size=(20, 4)).astype('f4')
        if act in ('sigmoid', 'softplus'):
            y = np.abs(y)
        if 'crossentropy' in loss or 'hinge' in loss or loss == 'kl_divergence':
            y = np.eye(4, dtype='f4')[rng.integers(0, 4, 20)]
        if loss.startswith('sparse'):
            y = y.argmax(1).astype('i4')
        np.savez(d / f'{name}.npz', x0=x, y0=y)
        (d / f'{name}.json').write_text(model.to_json())
        model.save_weights(d / f'{name}.init.h5')
        # Keras 2.15's graph mode multiplies Nadam's momentum schedule once per variable instead of once per
        # step (a counter that is a Python int); run eagerly, it computes what it documents.
        model.compile(opt, loss, run_eagerly=cls == 'Nadam')
        history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
        np.savez(d / f'{name}.want.npz', *model.get_weights())
        (d / f'{name}.loss').write_text(json.dumps(history.history['loss']))


def main():
    import argparse
    p = argparse.ArgumentParser()
    p.add_argument('--tools', type=pathlib.Path)
    p.add_argument('--keras', type=pathlib.Path)
    a = p.parse_args()
    if a.keras:
        return run_keras(a.keras)
    keras, judge = os.environ.get('PG_KERAS2_PYTHON'), os.environ.get('PG_JUDGE_PYTHON')
    if not keras or not judge:
        print('needs PG_KERAS2_PYTHON and PG_JUDGE_PYTHON')
        sys.exit(77)
    if not os.environ.get('PG_FIT_JUDGE'):
        os.environ['PG_FIT_JUDGE'] = '1'
        os.execv(judge, [judge, __file__, '--tools', str(a.tools)])
    import h5py
    import numpy as np
    bad = n = 0
    with tempfile.TemporaryDirectory() as t:
        d = pathlib.Path(t)
        subprocess.run([keras, __file__, '--keras', d], check=True)
        for name, loss, act, optimizer, _, _ in cases():
            family, cls, config = OPTIMIZERS[optimizer]
            text = cls + ':' + ','.join(f'{k}={v}' for k, v in config.items())
            r = subprocess.run([a.tools / 'pgfit', d / f'{name}.json', '--data', d / f'{name}.npz', '--weights',
                                d / f'{name}.init.h5', '--loss', loss, '--optimizer', text, '--optimizer-rules', family,
                                '--batch-size', str(BATCH), '--epochs', str(EPOCHS), '--no-shuffle', '--json', '-o',
                                d / f'{name}.h5'], capture_output=True, text=True)
            n += 1
            if r.returncode:
                bad += 1
                print(f'{name}: {r.stderr}')
                continue
            events = [json.loads(line) for line in r.stdout.splitlines()]
            losses = [e['loss'] for e in events if e['event'] == 'epoch']
            want_losses = json.loads((d / f'{name}.loss').read_text())
            want = np.load(d / f'{name}.want.npz')
            start, got = h5py.File(d / f'{name}.init.h5'), h5py.File(d / f'{name}.h5')
            names = [(layer, w) for layer in got.attrs['layer_names'] for w in got[layer].attrs['weight_names']]
            assert len(names) == len(want.files) > 0
            for k, (layer, w) in enumerate(names):
                change = np.abs(want[f'arr_{k}'] - start[layer][w][()]).max()
                off = np.abs(want[f'arr_{k}'] - got[layer][w][()]).max()
                if not off <= max(2e-6, 1e-4 * change):
                    bad += 1
                    print(f'{name}: {w} is off by {off:.3g}, it moved by {change:.3g}')
            if not np.allclose(losses, want_losses, rtol=2e-5, atol=1e-6):
                bad += 1
                print(f'{name}: losses {losses}, Keras has {want_losses}')
    print(f'{n} runs, {bad} differences')
    sys.exit(bad != 0)


if __name__ == '__main__':
    main()
