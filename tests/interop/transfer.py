#!/usr/bin/env python3
"""usage: transfer.py --tools DIR [--make DIR | --judge DIR]

Transfer learning beside real Keras. Keras makes a trained model, its base, and a new model around that base; pgfit starts the
new one with --init-from, --freeze and --replace-head. At a rate of 0 it shows where it starts: what was taken must have the
bits of Keras' file, what is frozen must say so when Keras loads it. Then both train one epoch from there, and must agree;
what is frozen keeps its bits, statistics of BatchNormalization among them. Which layers --init-from takes from a legacy .h5
is what load_weights(by_name=True, skip_mismatch=True) of 2.15 takes.
Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77) without both."""
import subprocess
import sys

import both_keras
from fit_files import the_keras

ROWS, BATCH, LOSS = 24, 8, 'sparse_categorical_crossentropy'
# name: (model of pgfit, options, frozen layers, layers that start with the file's values, new layers)
CASES = {
    'nested': ('nest.json', ['--init-from', 'full.h5', '--freeze', 'base'], ['c1', 'bn1', 'c2'], ['c1', 'bn1', 'c2'],
               ['mid', 'newcls']),
    'fromzip': ('nest.json', ['--init-from', 'full.keras', '--freeze', 'base,!c2,mid'], ['c1', 'bn1', 'mid'], ['c1', 'bn1', 'c2'],
                ['mid', 'newcls']),
    'head': ('full.keras', ['--replace-head', '3', '--freeze', '*,!cls'], ['c1', 'bn1', 'c2'], ['c1', 'bn1', 'c2'], ['cls']),
    'headh5': ('full.h5', ['--replace-head', '3', '--freeze', 'c1,bn1'], ['c1', 'bn1'], ['c1', 'bn1', 'c2'], ['cls']),
}


def layers_of(model):
    for layer in model.layers:
        if hasattr(layer, 'layers'):
            yield from layers_of(layer)
        else:
            yield layer


def full(keras):
    L = keras.layers
    x = i = keras.Input((8, 8, 3), name='img')
    x = L.Conv2D(4, 3, activation='relu', name='c1')(x)
    x = L.BatchNormalization(name='bn1')(x)
    x = L.Conv2D(6, 3, activation='relu', name='c2')(x)
    x = L.GlobalAveragePooling2D(name='gap')(x)
    base = keras.Model(i, x, name='base')
    return base, keras.Model(i, L.Dense(7, activation='softmax', name='cls')(base.output), name='full')


def make(d):
    import numpy as np
    keras, major = the_keras()
    L = keras.layers
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    x = rng.random((ROWS, 8, 8, 3), 'f')
    np.savez(d / 'rows.npz', x0=x, y0=rng.integers(0, 3, ROWS))
    base, model = full(keras)
    model.compile('sgd', 'sparse_categorical_crossentropy')
    model.fit(x, rng.integers(0, 7, ROWS), verbose=0)
    for suffix in ('keras', 'h5'):
        model.save(d / f'full.{suffix}')
    y = base(i := keras.Input((8, 8, 3), name='in2'))
    y = L.Dropout(0.0)(L.Dense(5, name='mid', activation='relu')(y))
    y = L.Activation('softmax')(L.Dense(3, name='newcls')(y))
    (d / 'nest.json').write_text(keras.Model(i, y, name='nest').to_json())
    if major == 2:  # by name: another kernel, another name, a layer more
        x = i = keras.Input((8, 8, 3))
        x = L.BatchNormalization(name='bn1')(L.Conv2D(4, 3, name='c1')(x))
        x = L.GlobalAveragePooling2D()(L.Conv2D(5, 3, name='c2')(L.Conv2D(6, 3, name='c3')(x)))
        other = keras.Model(i, L.Dense(3, name='cls')(x), name='other')
        (d / 'other.json').write_text(other.to_json())
        other.save_weights(d / 'other_before.h5')
        other.load_weights(d / 'full.h5', by_name=True, skip_mismatch=True)
        other.save_weights(d / 'other_after.h5')


def judge(d):
    import numpy as np
    keras, major = the_keras()
    model = keras.models.load_model(d / 'full.keras')
    source = {x.name: x.get_weights() for x in model.layers}
    rows = np.load(d / 'rows.npz')
    n = bad = 0

    def check(what, ok):
        nonlocal n, bad
        n += 1
        if not ok:
            bad += 1
            print('differs:', what)

    for name, (_, _, frozen, taken, new) in CASES.items():
        suffix = 'h5' if name == 'headh5' else 'keras'
        start = keras.models.load_model(d / f'{name}_0.{suffix}')
        end = keras.models.load_model(d / f'{name}_1.{suffix}')
        there = {x.name: x for x in layers_of(start)}
        ours = {x.name: x.get_weights() for x in layers_of(end)}
        for layer in taken:
            check(f'{name}: {layer} is that of the file',
                  all(np.array_equal(a, b) for a, b in zip(there[layer].get_weights()[:2], source[layer][:2])))
        check(f'{name}: frozen', [k for k, x in there.items() if x.weights and not x.trainable_weights] == frozen)
        before = {k: x.get_weights() for k, x in there.items()}
        for layer in new:
            check(f'{name}: {layer} starts anew', np.any(before[layer][0] != 0) and not np.any(before[layer][1]))
        start.compile(keras.optimizers.SGD(0.1), LOSS)
        start.fit(rows['x0'], rows['y0'], batch_size=BATCH, shuffle=False, verbose=0)
        for layer, x in there.items():
            for k, (a, b) in enumerate(zip(x.get_weights(), ours[layer])):
                check(f'{name}: {layer}[{k}] after an epoch, {np.abs(a - b).max()}', np.allclose(a, b, rtol=1e-4, atol=2e-6))
        for layer in frozen:
            check(f'{name}: {layer} stays', all(np.array_equal(a, b) for a, b in zip(ours[layer], before[layer])))
    if major == 2:
        import h5py
        with h5py.File(d / 'other_before.h5') as f, h5py.File(d / 'other_after.h5') as g, h5py.File(d / 'other_0.h5') as h:
            for layer in ('c1', 'bn1', 'c2', 'c3', 'cls'):
                for k in f[layer][layer]:
                    was, keras_has, we_have = (np.array(x[layer][layer][k]) for x in (f, g, h))
                    check(f'by name: {layer}/{k}', np.array_equal(was, keras_has) or np.array_equal(keras_has, we_have))
            check('by name: c1 was taken', np.array_equal(h['c1/c1/kernel:0'], source['c1'][0]))
    print(f'Keras {major}: {n} comparisons, {bad} differences')
    sys.exit(bad != 0)


def between(tools, d, major):
    bad, pgfit = 0, tools.resolve() / 'pgfit'
    for name, (model, options, *_) in CASES.items():
        suffix = ['h5', '--full-model'] if name == 'headh5' else ['keras']
        for k, rate in enumerate((0, 0.1)):
            argv = [pgfit, model, *options, '--data', 'rows.npz', '--no-shuffle', '--batch-size', str(BATCH), '--loss', LOSS,
                    '--optimizer', f'sgd:learning_rate={rate}', '--seed', '3', '-q', '-o',
                    f'{name}_{k}.{suffix[0]}', *suffix[1:]]
            bad += subprocess.run(argv, cwd=d, stderr=subprocess.DEVNULL).returncode != 0
    if major == 2:
        said = subprocess.run([pgfit, 'other.json', '--init-from', 'full.h5', '--freeze', 'bn1', '--data', 'rows.npz',
                               '--optimizer', 'sgd:learning_rate=0', '--loss', LOSS, '-o', 'other_0.h5'], cwd=d,
                              capture_output=True, text=True)
        for line in ('2 layers taken by name', 'not taken: c2: its kernel is (3, 3, 4, 6), the model expects (3, 3, 6, 5)',
                     'not taken: cls: its kernel is (6, 7), the model expects (5, 3)', 'has nothing for: c3'):
            if line not in said.stdout + said.stderr:
                bad += 1
                print(f'pgfit does not say "{line}": {said.stdout}{said.stderr}')
    return bad


if __name__ == '__main__':
    both_keras.main(__file__, make, judge, between)
