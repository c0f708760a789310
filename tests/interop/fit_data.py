#!/usr/bin/env python3
"""usage: fit_data.py --tools DIR [--keras]

What fit() does with its data: weights of rows and classes, weighted metrics, steps, validation, several
outputs. Real Keras and pgfit train from the same weights in the same order; the whole history, the final
weights, evaluate() and predict() must agree. The same data as HDF5, CSV, IDX and .npy pairs must give the
same bits. Needs PG_KERAS2_PYTHON (TensorFlow 2.15) and PG_JUDGE_PYTHON and skips (77) without them.
--keras is the half that runs under Keras' Python: it writes models, data and Keras' results."""
import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

BATCH = 8
# name: (outputs as (activation, units), loss, arguments of fit(), pgfit's options, weights of rows?)
CASES = {
    'sample_weights': (['softmax', 4], 'sparse_categorical_crossentropy', {}, [], True),
    'class_weight': (['softmax', 4], 'sparse_categorical_crossentropy', {'class_weight': {0: 1., 1: 5., 2: .5, 3: 0.}},
                     ['--class-weight', '0=1,1=5,2=0.5,3=0'], False),
    'class_weight_one_hot': (['softmax', 4], 'categorical_crossentropy', {'class_weight': {0: 1., 1: 5., 2: .5, 3: 2.}},
                             ['--class-weight', '0=1,1=5,2=0.5,3=2'], False),
    'class_weight_binary': (['sigmoid', 1], 'binary_crossentropy', {'class_weight': {0: .3, 1: 2.}},
                            ['--class-weight', '0=0.3,1=2'], False),
    'both_weights': (['softmax', 4], 'sparse_categorical_crossentropy', {'class_weight': {0: 1., 1: 5., 2: .5, 3: 2.}},
                     ['--class-weight', '0=1,1=5,2=0.5,3=2'], True),
    'steps': (['softmax', 4], 'sparse_categorical_crossentropy', {'steps_per_epoch': 2}, ['--steps-per-epoch', '2'], False),
    'validation': (['softmax', 4], 'sparse_categorical_crossentropy',
                   {'validation_freq': 2, 'validation_steps': 1, 'initial_epoch': 1},
                   ['--validation-freq', '2', '--validation-steps', '1', '--initial-epoch', '1'], True),
    'split': (['softmax', 4], 'sparse_categorical_crossentropy', {'validation_split': .3}, ['--validation-split', '0.3'], True),
    'two_outputs': (['softmax', 4, 'sigmoid', 2], {'one': 'categorical_crossentropy', 'two': 'binary_crossentropy'}, {},
                    [], True),
}
EPOCHS = 4


def run_keras(d):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras
    tf.config.threading.set_intra_op_parallelism_threads(1)
    rng = np.random.default_rng(2)
    for name, (outputs, loss, fit, _, weighted) in CASES.items():
        keras.utils.set_random_seed(7)
        n_out = len(outputs) // 2
        inputs = keras.Input((6,), name='x')
        h = keras.layers.Dense(5, 'tanh')(inputs)
        outs = [keras.layers.Dense(outputs[2 * k + 1], outputs[2 * k], name=['one', 'two'][k])(h) for k in range(n_out)]
        model = keras.Model(inputs, outs)
        arrays = {}
        for val, n in [('', 27), ('val', 13)]:
            arrays[f'x{val}0'] = rng.normal(size=(n, 6)).astype('f4')
            for k in range(n_out):
                act, units = outputs[2 * k], outputs[2 * k + 1]
                one = loss if isinstance(loss, str) else loss[['one', 'two'][k]]
                classes = rng.integers(0, max(units, 2), n)
                arrays[f'y{val}{k}'] = (classes if one.startswith('sparse') or units == 1 else
                                        np.eye(units, dtype='f4')[classes])
                if weighted:
                    arrays[f'w{val}{k}'] = rng.choice([0., .5, 1., 3.], n).astype('f4')
        split = 'validation_split' in fit
        np.savez(d / f'{name}.npz', **{k: v for k, v in arrays.items() if not (split and 'val' in k)})
        (d / f'{name}.json').write_text(model.to_json())
        model.save_weights(d / f'{name}.init.h5')
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=['accuracy', 'mse'] if n_out > 1 or 'cat' not in str(loss)
                      else ['accuracy'], weighted_metrics=['accuracy'])

        def of(stem):
            found = [arrays[f'{stem}{k}'] for k in range(n_out) if f'{stem}{k}' in arrays]
            return None if not found else found if n_out > 1 else found[0]
        more = dict(fit)
        if not split:
            more['validation_data'] = (arrays['xval0'], of('yval')) + ((of('wval'),) if weighted else ())
        train_weights = of('w')
        if train_weights is not None and 'class_weight' in fit:  # 2.15 means to multiply them, and stumbles over a shape
            train_weights = train_weights * np.array([more['class_weight'][c] for c in arrays['y0']], 'f4')
            del more['class_weight']
        history = model.fit(arrays['x0'], of('y'), sample_weight=train_weights, batch_size=BATCH, epochs=EPOCHS, shuffle=False,
                            verbose=0, **more)
        (d / f'{name}.history').write_text(json.dumps(history.history))
        test = model.evaluate(arrays['x0'], of('y'), sample_weight=of('w'), batch_size=BATCH, verbose=0, return_dict=True)
        (d / f'{name}.test').write_text(json.dumps(test))
        model.save_weights(d / f'{name}.want.h5')
        p = model.predict(arrays['x0'], batch_size=BATCH, verbose=0)
        np.savez(d / f'{name}.predicted.npz', *(p if n_out > 1 else [p]))


def pgfit(a, *args):
    r = subprocess.run([a.tools / 'pgfit', *map(str, args)], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr)
    return [json.loads(line) for line in r.stdout.splitlines()] if '--json' in args else r.stdout


def differences(a, d, name):
    """What pgfit does otherwise than Keras in one case."""
    import h5py
    import numpy as np
    outputs, loss, _, options, _ = CASES[name]
    n_out = len(outputs) // 2
    loss = loss if isinstance(loss, str) else ','.join(f'{k}={v}' for k, v in loss.items())
    metrics = 'accuracy,mse' if n_out > 1 or 'cat' not in loss else 'accuracy'
    common = [d / f'{name}.json', '--loss', loss, '--metrics', metrics, '--weighted-metrics', 'accuracy', '--batch-size', BATCH]
    data = ['--data', d / f'{name}.npz']
    val = [] if '--validation-split' in options else ['--val', d / f'{name}.npz']
    lines = pgfit(a, *common, *data, *val, *options, '--weights', d / f'{name}.init.h5', '--optimizer', 'Adam:learning_rate=0.01',
                  '--optimizer-rules', 'new', '--epochs', EPOCHS, '--no-shuffle', '--json', '-o', d / f'{name}.h5')
    epochs = [line for line in lines if line.get('event') == 'epoch']
    want = json.loads((d / f'{name}.history').read_text())
    for key, values in want.items():
        got = [e[key] for e in epochs if key in e]
        if len(got) != len(values) or not np.allclose(got, values, rtol=3e-5, atol=2e-6):
            yield f'{key} is {got}, Keras has {values}'
    order = [k for k in epochs[-1] if k in want]
    if order != [k for k in want if k in order]:
        yield f'logs are in the order {order}, Keras has {list(want)}'
    got, wanted = h5py.File(d / f'{name}.h5'), h5py.File(d / f'{name}.want.h5')
    for layer in got.attrs['layer_names']:
        for w in got[layer].attrs['weight_names']:
            off = np.abs(got[layer][w][()] - wanted[layer][w][()]).max()
            if not off <= 5e-6:
                yield f'{w} is off by {off:.3g}'
    test = json.loads((d / f'{name}.test').read_text())
    [line] = pgfit(a, *common, *data, '--weights', d / f'{name}.want.h5', '--evaluate', '--json')
    for key, value in test.items():
        if not np.isclose(line.get(key, np.nan), value, rtol=3e-5, atol=2e-6):
            yield f'evaluate: {key} is {line.get(key)}, Keras has {value}'
    pgfit(a, d / f'{name}.json', '--weights', d / f'{name}.want.h5', '--predict', d / f'{name}.npz', '--out',
          d / f'{name}.out.npz')
    out, predicted = np.load(d / f'{name}.out.npz'), np.load(d / f'{name}.predicted.npz')
    for k in range(n_out):
        if out[f'y{k}'].dtype != np.float32 or not np.allclose(out[f'y{k}'], predicted[f'arr_{k}'], atol=2e-6):
            yield f'predictions y{k} differ'


def write_idx(path, array, code):
    with gzip.open(path, 'wb') if path.suffix == '.gz' else open(path, 'wb') as f:
        f.write(struct.pack('>HBB', 0, code, array.ndim) + struct.pack(f'>{array.ndim}I', *array.shape))
        f.write(array.astype(array.dtype.newbyteorder('>')).tobytes())


def source_differences(a, d):
    """The same data from other kinds of files."""
    import h5py
    import numpy as np
    z = np.load(d / 'steps.npz')
    x, y = z['x0'], z['y0']
    np.save(d / 'x.npy', x)
    np.save(d / 'y.npy', y)
    np.save(d / 'big.npy', x.astype('>f8'))
    with h5py.File(d / 'plain.h5', 'w') as f:
        f['x0'], f['y0'] = x, y
    with h5py.File(d / 'chunks.h5', 'w') as f:
        f.create_dataset('x0', data=x, chunks=(5, 4), compression='gzip', shuffle=True)
        f.create_dataset('y0', data=y, chunks=(4,), compression='gzip')
    table = np.c_[x.astype('f8'), y]
    np.savetxt(d / 'bare.csv', table, delimiter=',', fmt='%.17g')
    np.savetxt(d / 'named.csv', table[:, [6, 0, 1, 2, 3, 4, 5]], delimiter=';', fmt='%.17g', header='one;a;b;c;d;e;f', comments='')
    write_idx(d / 'x.idx', x, 0x0d)
    write_idx(d / 'y.idx.gz', y.astype('u1'), 0x08)
    first = None
    for data in ['steps.npz', 'x.npy,y.npy', 'big.npy,y.npy', 'plain.h5', 'chunks.h5', 'bare.csv', 'named.csv', 'x.idx,y.idx.gz']:
        files = ','.join(str(d / f) for f in data.split(','))
        lines = pgfit(a, d / 'steps.json', '--weights', d / 'steps.init.h5', '--data', files, '--loss',
                      'sparse_categorical_crossentropy', '--batch-size', BATCH, '--seed', 3, '--json', '--threads', 1)
        losses = [line['loss'] for line in lines if line.get('event') == 'epoch']
        first = first or losses
        if losses != first:
            yield f'{data}: loss {losses}, from the .npz {first}'


# name of the file: how Keras is given its arrays, and pgfit
LAYOUTS = {
    'mnist.npz': (('x_train', 'y_train'), ('x_test', 'y_test'), ['--val', 'test']),
    'medmnist.npz': (('train_images', 'train_labels'), ('val_images', 'val_labels'), ['--val', 'val']),
    'capital.npz': (('X', 'y'), None, []),
    'sklearn.npz': (('data', 'target'), None, []),
    'positional.npz': (('arr_0', 'arr_1'), None, []),
    'two.npz': (('images', 'labels'), None, ['--x', 'images', '--y', 'labels']),
}
DATASETS = pathlib.Path(__file__).resolve().parents[2] / 'testdata' / 'extra' / 'datasets'


def keras_on_layouts(d):
    import numpy as np
    from tensorflow import keras
    found = {}
    for name, (train, val, _) in LAYOUTS.items():
        z = np.load(DATASETS / name)
        model = keras.models.model_from_json((DATASETS / 'model.json').read_text())
        model.load_weights(DATASETS / 'init.h5')
        model.compile(keras.optimizers.Adam(0.0001), 'sparse_categorical_crossentropy', metrics=['accuracy'])
        found[name] = model.fit(*(z[k] for k in train), validation_data=val and tuple(z[k] for k in val),
                                batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0).history
    (d / 'layouts').write_text(json.dumps(found))


def layout_differences(a, d):
    """Files whose arrays have other names: Keras gets them by hand."""
    import numpy as np
    for name, want in json.loads((d / 'layouts').read_text()).items():
        lines = pgfit(a, DATASETS / 'model.json', '--weights', DATASETS / 'init.h5', '--data', DATASETS / name, *LAYOUTS[name][2],
                      '--loss', 'sparse_categorical_crossentropy', '--metrics', 'accuracy', '--batch-size', BATCH, '--optimizer',
                      'Adam:learning_rate=0.0001', '--optimizer-rules', 'new', '--epochs', EPOCHS, '--no-shuffle', '--json')
        epochs = [line for line in lines if line.get('event') == 'epoch']
        for key, values in want.items():
            got = [e.get(key, np.nan) for e in epochs]
            if len(got) != len(values) or not np.allclose(got, values, rtol=3e-5, atol=2e-6):
                yield f'{name}: {key} is {got}, Keras has {values}'


def main():
    import argparse
    p = argparse.ArgumentParser()
    p.add_argument('--tools', type=pathlib.Path)
    p.add_argument('--keras', type=pathlib.Path)
    a = p.parse_args()
    if a.keras:
        run_keras(a.keras)
        return keras_on_layouts(a.keras)
    keras, judge = os.environ.get('PG_KERAS2_PYTHON'), os.environ.get('PG_JUDGE_PYTHON')
    if not keras or not judge:
        print('needs PG_KERAS2_PYTHON and PG_JUDGE_PYTHON')
        sys.exit(77)
    if not os.environ.get('PG_FIT_JUDGE'):
        os.environ['PG_FIT_JUDGE'] = '1'
        os.execv(judge, [judge, __file__, '--tools', str(a.tools)])
    bad = 0
    with tempfile.TemporaryDirectory() as t:
        d = pathlib.Path(t)
        subprocess.run([keras, __file__, '--keras', d], check=True)
        for name in CASES:
            for text in differences(a, d, name):
                bad += 1
                print(f'{name}: {text}')
        for text in [*source_differences(a, d), *layout_differences(a, d)]:
            bad += 1
            print(text)
    print(f'{len(CASES) + len(LAYOUTS)} runs, {bad} differences')
    sys.exit(bad != 0)


if __name__ == '__main__':
    main()
