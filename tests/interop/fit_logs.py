#!/usr/bin/env python3
"""usage: fit_logs.py --tools DIR [--make DIR]

What real Keras and pgfit log of a model with two outputs and loss weights whose last batch is smaller: every
number of every epoch of fit(), those of evaluate(), under the same names. Keras compiles and saves; pgfit goes on
from the file of the model that was never trained, and has nothing to tell of its optimizer. Needs
PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77) without both. --make is the half
that runs under those."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import fit_files

BATCH, EPOCHS = 8, 3
SHARES = {'plain': None, 'weighted': {'cls': 2.0, 'reg': 0.25}}


def make(d):
    import numpy as np
    keras, _ = fit_files.the_keras()
    rng = np.random.default_rng(2)
    for name, n in (('train', 27), ('val', 11)):
        np.savez(d / f'{name}.npz', x0=rng.normal(size=(n, 6)).astype('f4'), y0=np.eye(3, dtype='f4')[rng.integers(0, 3, n)],
                 y1=rng.normal(size=(n, 1)).astype('f4'))
    (x, *y), (vx, *vy) = ([a[k] for k in ('x0', 'y0', 'y1')] for a in (np.load(d / 'train.npz'), np.load(d / 'val.npz')))
    for name, shares in SHARES.items():
        keras.utils.set_random_seed(7)
        i = keras.Input((6,), name='x')
        h = keras.layers.Dense(5, 'tanh', kernel_regularizer=keras.regularizers.l2(0.01))(i)
        model = keras.Model(i, [keras.layers.Dense(3, 'softmax', name='cls')(h), keras.layers.Dense(1, name='reg')(h)])
        model.compile(keras.optimizers.Adam(0.02), {'cls': 'categorical_crossentropy', 'reg': 'mse'}, loss_weights=shares,
                      metrics={'cls': ['accuracy'], 'reg': ['mae']})
        model.save(d / f'{name}.keras')
        measured = model.evaluate(vx, vy, batch_size=BATCH, verbose=0, return_dict=True)
        past = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, validation_data=(vx, vy),
                         validation_batch_size=BATCH).history
        (d / f'{name}.json').write_text(json.dumps({'evaluate': measured, 'fit': past}))


def differ(what, got, want):
    if abs(got - want) <= 1e-6 + 2e-5 * abs(want):
        return 0
    print(f'{what}: {got}, Keras has {want}')
    return 1


def events(tools, *args):
    r = subprocess.run([tools / 'pgfit', *map(str, args), '--json'], capture_output=True, text=True)
    if r.returncode or 'starts anew' in r.stdout + r.stderr:
        print('$', *args, '\n', r.stdout, r.stderr)
        sys.exit(1)
    return [json.loads(line) for line in r.stdout.splitlines()]


def compare(tools, d, name):
    want = json.loads((d / f'{name}.json').read_text())
    fit = [d / f'{name}.keras', '--batch-size', BATCH]
    told = events(tools, *fit, '--data', d / 'train.npz', '--val', d / 'val.npz', '--epochs', EPOCHS, '--no-shuffle')
    epochs = [e for e in told if e['event'] == 'epoch']
    measured = [e for e in events(tools, *fit, '--data', d / 'val.npz', '--evaluate') if e['event'] == 'evaluate']
    n = bad = 0
    for key, values in want['fit'].items():
        for k, v in enumerate(values):
            n += 1
            bad += differ(f'{name}: {key} of epoch {k}', epochs[k].get(key, float('nan')), v)
    for key, v in want['evaluate'].items():
        n += 1
        bad += differ(f'{name}: {key} of evaluate()', measured[0].get(key, float('nan')), v)
    return n, bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--tools', type=pathlib.Path)
    p.add_argument('--make', type=pathlib.Path)
    a = p.parse_args()
    if a.make:
        return make(a.make)
    pythons = {m: os.environ.get(f'PG_KERAS{m}_PYTHON') for m in (2, 3)}
    if not any(pythons.values()):
        print('needs PG_KERAS2_PYTHON or PG_KERAS3_PYTHON')
        sys.exit(77)
    failed = 0
    for major, python in pythons.items():
        if not python:
            continue
        with tempfile.TemporaryDirectory() as name:
            d = pathlib.Path(name)
            subprocess.run([python, '-W', 'ignore', __file__, '--make', d], check=True)
            counts = [compare(a.tools, d, case) for case in SHARES]
        print(f'Keras {major}: {sum(n for n, _ in counts)} numbers, {sum(b for _, b in counts)} differences')
        failed += sum(b for _, b in counts)
    sys.exit(failed != 0)


if __name__ == '__main__':
    main()
