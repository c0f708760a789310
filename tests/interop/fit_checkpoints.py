#!/usr/bin/env python3
"""usage: fit_checkpoints.py --tools DIR [--make DIR | --judge DIR]

Real Keras goes on from pgfit's checkpoints. Keras makes a compiled model; pgfit trains it for four epochs with a
learning rate that changes, and keeps a checkpoint of each. Keras loads that of the second, fits two more epochs,
and must see the losses that pgfit saw in its third and fourth, and the validation's; weights-only checkpoints
must give the validation loss that stands in their names.
Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77) without both."""
import csv
import re
import sys

import both_keras
import fit_files
from fit_files import BATCH, build, compile_, data, the_keras

CASES = (('dense', 'adam', 'new'), ('dense', 'momentum', 'new'), ('dense', 'rmsprop', 'new'), ('deep', 'amsgrad', 'new'),
         ('two', 'adam', 'new'), ('sequential', 'adam', 'legacy'))
RATES = (0.01, 0.002, 0.002, 0.002)


def cases(major):
    for kind, optimizer, family in CASES:
        if family == 'new' or major == 2:
            yield f'{kind}_{optimizer}_{family}', kind, optimizer, family


def full_suffixes(major, family):
    """Keras 2.15 stores no legacy optimizer in a .keras; Keras 3.6 takes up none from an .h5."""
    return ('.h5',) if family == 'legacy' else ('.keras',) if major == 3 else ('.keras', '.h5')


def make(d):
    import numpy as np
    keras, major = the_keras()
    for name, kind, optimizer, family in cases(major):
        xs, ys = data(np, kind)
        arrays = {f'x{i}': x for i, x in enumerate(xs)} | {f'y{i}': y for i, y in enumerate(ys)}
        np.savez(d / f'{kind}.npz', **arrays)
        np.savez(d / f'{kind}_val.npz', **{k: a[:8][::-1] for k, a in arrays.items()})
        model = build(keras, kind)
        compile_(keras, model, kind, optimizer, family)
        model.save(d / f'{name}{full_suffixes(major, family)[0]}')


def judge(d):
    import numpy as np
    keras, major = the_keras()
    n = bad = 0

    def compare(what, got, want):
        nonlocal n, bad
        n += 1
        if not np.allclose(got, want, rtol=2e-5, atol=1e-7):
            bad += 1
            print(f'{what}: Keras sees {got}, pgfit saw {want}')

    for name, kind, optimizer, family in cases(major):
        xs, ys = data(np, kind)
        x, y = (xs if len(xs) > 1 else xs[0]), (ys if len(ys) > 1 else ys[0])
        val = (xs[0][:8][::-1], [a[:8][::-1] for a in ys] if len(ys) > 1 else ys[0][:8][::-1])
        for suffix in full_suffixes(major, family):
            with open(d / f'{name}{suffix}.csv') as f:
                log = list(csv.DictReader(f))
            model = keras.models.load_model(d / f'c/{name}/2{suffix}')
            rate = model.optimizer.learning_rate
            compare(f'{name}{suffix} rate', float(np.array(rate)), RATES[1])
            past = model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, initial_epoch=2, epochs=4,
                             validation_data=val, validation_batch_size=BATCH).history
            for key in ('loss', 'val_loss'):
                compare(f'{name}{suffix} {key}', past[key], [float(row[key]) for row in log[2:]])
        weights = sorted((d / f'c/{name}').glob('w-*.weights.h5'))
        for path in weights:
            model = build(keras, kind)
            compile_(keras, model, kind, optimizer, family)
            model.load_weights(path)
            got = model.evaluate(*val, batch_size=BATCH, verbose=0, return_dict=True)['loss']
            want = float(re.fullmatch(r'w-\d-(.*)\.weights\.h5', path.name).group(1))
            compare(path.name, got, want)
        compare(f'{name} weights-only checkpoints', len(weights), 4)
    print(f'Keras {major}: {n} comparisons, {bad} differences')
    sys.exit(bad != 0)


def train(tools, d, name, kind, family, major):
    ok = True
    (d / 'rates').write_text(''.join(f'{r}\n' for r in RATES))
    source = d / f'{name}{full_suffixes(major, family)[0]}'
    fit = [tools / 'pgfit', source, '--data', d / f'{kind}.npz', '--val', d / f'{kind}_val.npz', '--batch-size', BATCH,
           '--no-shuffle', '--epochs', 4, '--schedule', f'table:{d / "rates"}', '--verify', 'all', '-q']
    for suffix in full_suffixes(major, family):
        ok &= fit_files.run(*fit, '--csv', d / f'{name}{suffix}.csv', '--checkpoint', f'{d}/c/{name}/{{epoch}}{suffix}')
    ok &= fit_files.run(*fit, '--checkpoint', f'{d}/c/{name}/w-{{epoch}}-{{val_loss}}.weights.h5', '--save-weights-only')
    return ok


def between(tools, d, major):
    return sum(not train(tools, d, case, kind, family, major) for case, kind, _, family in cases(major))


if __name__ == '__main__':
    both_keras.main(__file__, make, judge, between)
