#!/usr/bin/env python3
"""usage: fit_logs.py --tools DIR [--make DIR | --judge DIR]

What real Keras and pgfit log of a model with two outputs and loss weights whose last batch is smaller: every
number of every epoch of fit(), those of evaluate(), under the same names. Keras compiles and saves; pgfit goes on
from the file of the model that was never trained, and has nothing to tell of its optimizer. The metrics of the full
.h5 that pgfit writes for Keras 2.15 are what Keras' own has, and Keras trains it further under the same names.
Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77) without both. --make and
--judge are the halves that run under those."""
import json
import subprocess
import sys

import both_keras
import fit_files

BATCH, EPOCHS = 8, 3
WEIGHTED = {2: {'reg': ['mae', 'mse']}}  # the first name is taken, the second is not
SHARES = {'plain': None, 'weighted': {'cls': 2.0, 'reg': 0.25}}


def make(d):
    import numpy as np
    keras, major = fit_files.the_keras()
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
                      metrics={'cls': ['accuracy', 'categorical_crossentropy'], 'reg': ['mae']},
                      weighted_metrics=WEIGHTED.get(major))
        model.save(d / f'{name}.keras')
        if major == 2:
            model.save(d / f'{name}.h5')
        measured = model.evaluate(vx, vy, batch_size=BATCH, verbose=0, return_dict=True)
        past = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, validation_data=(vx, vy),
                         validation_batch_size=BATCH).history
        (d / f'{name}.json').write_text(json.dumps({'evaluate': measured, 'fit': past}))


def judge(d):
    import h5py
    import numpy as np
    keras, _ = fit_files.the_keras()
    bad = 0
    a = np.load(d / 'train.npz')
    for name in SHARES:
        want = json.loads((d / f'{name}.json').read_text())['fit']
        metrics = []
        for file in ('h5', 'out.h5'):
            with h5py.File(d / f'{name}.{file}') as f:
                text = json.loads(f.attrs['training_config'])
            metrics.append([text['metrics'], text['weighted_metrics']])
        if metrics[0] != metrics[1]:
            bad += 1
            print(f'{name}: metrics {metrics[1]}, Keras writes {metrics[0]}')
        got = keras.models.load_model(d / f'{name}.out.h5').fit(a['x0'], [a['y0'], a['y1']], verbose=0).history
        if list(got) != [key for key in want if not key.startswith('val_')]:
            bad += 1
            print(f'{name}: Keras trains it as {list(got)}')
    sys.exit(bad != 0)


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
    more = ['--full-model', '-o', d / f'{name}.out.h5'] if (d / f'{name}.h5').exists() else []
    told = events(tools, *fit, *more, '--data', d / 'train.npz', '--val', d / 'val.npz', '--epochs', EPOCHS, '--no-shuffle')
    epochs = [e for e in told if e['event'] == 'epoch']
    measured = [e for e in events(tools, *fit, '--data', d / 'val.npz', '--evaluate') if e['event'] == 'evaluate']
    n = bad = 0
    for key, values in want['fit'].items():
        for k, v in enumerate(values):
            n += 1
            bad += differ(f'{name}: {key} of epoch {k}', epochs[k].get(key, float('nan')), v)
    if more:  # what it wrote itself, and what Keras did, is read again
        for file in (d / f'{name}.out.h5', d / f'{name}.h5'):
            told = events(tools, file, *fit[1:], '--data', d / 'val.npz', '--evaluate')
            if [e for e in told if e['event'] == 'evaluate'][0].keys() != measured[0].keys():
                bad += 1
                print(f'{file.name}: {told}')
    for key, v in want['evaluate'].items():
        n += 1
        bad += differ(f'{name}: {key} of evaluate()', measured[0].get(key, float('nan')), v)
    return n, bad


def between(tools, d, major):
    counts = [compare(tools, d, case) for case in SHARES]
    print(f'Keras {major}: {sum(n for n, _ in counts)} numbers, {sum(b for _, b in counts)} differences')
    return sum(b for _, b in counts)


if __name__ == '__main__':
    both_keras.main(__file__, make, judge, between, judges=(2,))
