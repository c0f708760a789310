#!/usr/bin/env python3
"""usage: fit_losses.py --tools DIR [--make DIR | --judge DIR]

Losses as objects with their parameters, each of an output of its own: real Keras compiles two models with them, saves,
and trains with row weights; pgfit goes on from the file, and its losses and weights must be Keras' own. Keras then
loads what pgfit saved and evaluates the same. Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras
3.6), skips (77) without both. --make and --judge are the halves that run under those."""
import json
import subprocess
import sys

import both_keras
import fit_files

BATCH, EPOCHS = 8, 3
MODELS = ('means', 'sums')


def losses_of(keras, name):
    """(loss, last activation, targets) by output, in the order that Keras 3 has of a dict"""
    L = keras.losses
    if name == 'sums':
        return {'a': (L.MeanSquaredError(reduction='sum'), 'linear', 'numbers'),
                'b': (L.SparseCategoricalCrossentropy(reduction='sum', from_logits=True), 'linear', 'classes'),
                'c': (L.BinaryCrossentropy(reduction='sum', label_smoothing=0.1), 'sigmoid', 'labels')}
    # Keras 3.6 leaves Huber's delta out of the file
    return dict(sorted({'huber': (L.Huber(delta=1.0 if hasattr(L, 'Dice') else 0.4), 'linear', 'numbers'),
            'smooth': (L.BinaryCrossentropy(label_smoothing=0.2), 'sigmoid', 'labels'),
            'bce': (L.BinaryCrossentropy(from_logits=True, label_smoothing=0.1), 'linear', 'labels'),
            'cce': (L.CategoricalCrossentropy(from_logits=True), 'linear', 'one_hot'),
            'sparse': (L.SparseCategoricalCrossentropy(from_logits=True), 'linear', 'classes'),
            'holes': (L.SparseCategoricalCrossentropy(ignore_class=-1), 'softmax', 'holes'),
            'focal': (L.BinaryFocalCrossentropy(gamma=1.5), 'sigmoid', 'labels'),
            'balanced': (L.BinaryFocalCrossentropy(apply_class_balancing=True, alpha=0.4, from_logits=True), 'linear', 'labels'),
            'clipped': (L.BinaryFocalCrossentropy(), 'hard_sigmoid', 'labels'),
            'classes': (L.CategoricalFocalCrossentropy(alpha=0.5), 'softmax', 'one_hot'),
            'logits': (L.CategoricalFocalCrossentropy(from_logits=True, label_smoothing=0.1), 'linear', 'one_hot'),
            'cosine': (L.CosineSimilarity(), 'linear', 'numbers')}.items()))


def targets(np, rng, kind, n):
    if kind == 'numbers':
        return rng.normal(size=(n, 4)).astype('f4')
    if kind == 'labels':
        return rng.integers(0, 2, (n, 4)).astype('f4')
    classes = rng.integers(0, 4, n).astype('i4')
    if kind == 'holes':
        classes[::3] = -1
    return np.eye(4, dtype='f4')[classes] if kind == 'one_hot' else classes


def make(d):
    import numpy as np
    keras, _ = fit_files.the_keras()
    rng = np.random.default_rng(5)
    for name in MODELS:
        losses = losses_of(keras, name)
        keras.utils.set_random_seed(7)
        i = keras.Input((6,), name='x')
        h = keras.layers.Dense(5, 'tanh', name='h')(i)
        model = keras.Model(i, [keras.layers.Dense(4, act, name=k)(h) for k, (_, act, _) in losses.items()])
        x = rng.normal(size=(27, 6)).astype('f4')
        ys = [targets(np, rng, kind, 27) for _, _, kind in losses.values()]
        weights = {k: rng.uniform(0.5, 1.5, 27).astype('f4') for k in losses}
        np.savez(d / f'{name}.npz', x0=x, **{f'y{k}': y for k, y in enumerate(ys)}, **{f'w{k}': w for k, w in enumerate(weights.values())})
        model.compile(keras.optimizers.SGD(0.02 if name == 'sums' else 0.1), {k: loss for k, (loss, _, _) in losses.items()},
                      loss_weights={k: 1 + 0.25 * i for i, k in enumerate(losses)})
        model.save(d / f'{name}.keras')
        model.save(d / f'{name}.h5')
        past = model.fit(x, ys, sample_weight=list(weights.values()), batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0).history
        measured = model.evaluate(x, ys, batch_size=BATCH, verbose=0, return_dict=True)
        model.save_weights(d / f'{name}.want.weights.h5')
        (d / f'{name}.json').write_text(json.dumps({'fit': past, 'evaluate': measured}))


def judge(d):
    import numpy as np
    keras, _ = fit_files.the_keras()
    bad = 0
    for name in MODELS:
        a, want = np.load(d / f'{name}.npz'), json.loads((d / f'{name}.json').read_text())['evaluate']
        n = sum(k.startswith('y') for k in a.files)
        for file in ('out.keras', 'out.h5'):
            model = keras.models.load_model(d / f'{name}.{file}')
            got = model.evaluate(a['x0'], [a[f'y{k}'] for k in range(n)], batch_size=BATCH, verbose=0, return_dict=True)
            for key, v in want.items():
                if not abs(got.get(key, float('nan')) - v) <= 1e-6 + 5e-5 * abs(v):
                    bad += 1
                    print(f'{name}.{file}: {key} is {got.get(key)}, Keras has {v}')
    sys.exit(bad != 0)


def between(tools, d, major):
    bad = 0
    for name in MODELS:
        want = json.loads((d / f'{name}.json').read_text())['fit']
        for source, out in (('keras', 'out.keras'), ('h5', 'out.h5')):
            r = subprocess.run([str(v) for v in [tools / 'pgfit', d / f'{name}.{source}', '--data', d / f'{name}.npz', '--batch-size', BATCH, '--epochs',
                                EPOCHS, '--no-shuffle', '--json', '--full-model', '-o', d / f'{name}.{out}']], capture_output=True, text=True)
            if r.returncode:
                bad += 1
                print(f'Keras {major}, {name}.{source}: {r.stderr}')
                continue
            epochs = [e for e in map(json.loads, r.stdout.splitlines()) if e['event'] == 'epoch']
            for key, values in want.items():
                for e, v in enumerate(values):
                    got = epochs[e].get(key, float('nan'))
                    if not abs(got - v) <= 2e-6 + 3e-5 * abs(v):
                        bad += 1
                        print(f'Keras {major}, {name}.{source}: epoch {e + 1}: {key} is {got}, Keras has {v}')
    return bad


if __name__ == '__main__':
    both_keras.main(__file__, make, judge, between)
