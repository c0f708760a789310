#!/usr/bin/env python3
"""usage: fit_metrics.py --tools DIR [--make DIR | --judge DIR]

Every metric that Keras exports, with its parameters: real Keras compiles small models with many of them each, saves
them, trains and evaluates; pgfit goes on from the file and must log the same numbers under the same names, epoch by
epoch, with sample weights and without, on one device and on three lanes alike. Keras then loads what pgfit saved and
goes on under the same names. Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77)
without both. --make and --judge are the halves that run under those."""
import json
import subprocess
import sys

import both_keras
import fit_files

BATCH, EPOCHS = 8, 2
MODELS = ('labels', 'classes', 'values', 'pixels', 'one', 'sure', 'softly', 'shaped')
SURE = ('sure', 'softly', 'shaped')  # and wrong
WEIGHTED = ('labels', 'values')  # trained once more, with weights of rows


NO_CLASSES = ('Metric', 'Loss', 'Reduction', 'Optimizer', 'LossScaleOptimizer')  # of which files hold no objects, or wrappers


def metrics_of(keras, name, major, weighted):
    m = keras.metrics
    # an array of counts in Keras 3's logs is the variable itself, which validation then overwrites
    counts = [m.TruePositives(), m.TrueNegatives(0.3), m.FalsePositives([0.2, 0.6] if major == 2 else 0.2), m.FalseNegatives(name='missed')]
    at = [m.PrecisionAtRecall(0.6), m.RecallAtPrecision(0.5, num_thresholds=50), m.SensitivityAtSpecificity(0.4),
          m.SpecificityAtSensitivity(0.7, num_thresholds=1, name='spec')]
    if name == 'labels':
        return [m.AUC(), m.AUC(curve='PR'), m.AUC(multi_label=True, num_labels=4, name='each'), m.AUC(num_thresholds=11, summation_method='minoring'),
                m.AUC(curve='PR', summation_method='majoring'), m.AUC(thresholds=[0.7, 0.1, 0.4]), m.BinaryAccuracy(threshold=0.4),
                *([m.AUC(multi_label=True, label_weights=[1., 2., 3., 0.5], curve='PR'), m.AUC(label_weights=[1., 2., 3., 0.5])]
                  if major == 2 else []),  # Keras 3.6 cannot save them
                m.Precision(), m.Recall(thresholds=[0.3, 0.5]), m.Precision(class_id=2),
                m.BinaryCrossentropy(label_smoothing=0.1), *([] if weighted else [m.BinaryIoU()]),  # its weights would not fit
                *([] if weighted and major == 2 else [m.F1Score(average='micro', threshold=0.5)]),  # nor here
                *counts, *at]
    if name == 'classes':
        return ['accuracy', m.CategoricalAccuracy(name='right'), m.TopKCategoricalAccuracy(k=2, name='top2'), 'top_k_categorical_accuracy', m.Precision(top_k=2),
                m.Recall(top_k=1, class_id=1), m.Recall(top_k=3, thresholds=0.2),
                *([] if weighted and major == 2 else [m.F1Score(), m.F1Score(average='macro', name='f1_macro'), m.FBetaScore(average='weighted', beta=2.0)]),
                m.OneHotIoU(num_classes=6, target_class_ids=[0, 3]), m.OneHotMeanIoU(num_classes=6),
                m.CategoricalCrossentropy(label_smoothing=0.2), m.KLDivergence(), m.CategoricalHinge(), m.CosineSimilarity(name='cosine'), 'cosine_similarity']
    if name == 'values':
        return [m.RootMeanSquaredError(), m.MeanSquaredError(), m.MeanAbsoluteError(name='mae'), m.MeanAbsolutePercentageError(), m.LogCoshError(),
                m.MeanSquaredLogarithmicError(), m.R2Score(), m.R2Score(class_aggregation=None, name='r2_each'),
                m.R2Score(class_aggregation='variance_weighted_average', name='r2_weighted'), m.Poisson(), m.Hinge(), m.SquaredHinge(),
                m.Accuracy(), *([m.MeanRelativeError([1., 2., 0.5])] if major == 2 else [])]
    if name == 'pixels':
        return ['accuracy', m.SparseCategoricalAccuracy(name='right'), m.SparseTopKCategoricalAccuracy(k=2),
                *([] if weighted else [m.MeanIoU(num_classes=5, sparse_y_pred=False),
                                       m.IoU(num_classes=5, target_class_ids=[1, 2], sparse_y_pred=False, ignore_class=2)]), m.SparseCategoricalCrossentropy()]
    if name in SURE:  # their probabilities are clipped, their logits are not
        return [m.CategoricalCrossentropy(), m.CategoricalCrossentropy(from_logits=True, name='of_logits'), 'binary_crossentropy'][:2 + (name != 'shaped')]
    return ['acc', 'AUC', m.BinaryIoU(target_class_ids=[1], threshold=0.3, name='hit'), m.Precision(thresholds=0.4), m.MeanIoU(num_classes=2), m.AUC(from_logits=True, name='squashed'), m.BinaryCrossentropy(from_logits=True, name='of_logits')]


def build(keras, name):
    L = keras.layers
    i = keras.Input((4, 3) if name == 'pixels' else (6,), name='x')
    units, act, loss = {'labels': (4, 'sigmoid', 'binary_crossentropy'), 'classes': (6, 'softmax', 'categorical_crossentropy'),
                        'values': (3, 'softplus', 'mse'), 'pixels': (5, 'softmax', 'sparse_categorical_crossentropy'),
                        'one': (1, 'sigmoid', 'binary_crossentropy'), 'sure': (4, 'sigmoid', 'binary_crossentropy'),
                        'softly': (4, 'softmax', 'categorical_crossentropy'), 'shaped': (4, 'softmax', 'mse')}[name]
    if name in SURE:
        out = L.Dense(units, act, kernel_initializer=keras.initializers.RandomNormal(stddev=12.), name='out')(i)
        return keras.Model(i, L.Reshape((units,), name='same')(out) if name == 'shaped' else out), loss
    return keras.Model(i, L.Dense(units, act, name='out')(L.Dense(5, 'tanh')(i))), loss


def make(d):
    import numpy as np
    keras, major = fit_files.the_keras()
    rng = np.random.default_rng(4)
    for name in MODELS:
        keras.utils.set_random_seed(7)
        model, loss = build(keras, name)
        data = {}
        for part, n in (('', 27), ('val', 11)):
            data['x' + part + '0'] = rng.normal(size=(n, 4, 3) if name == 'pixels' else (n, 6)).astype('f4')
            data['y' + part + '0'] = {
                'labels': lambda: rng.integers(0, 2, (n, 4)).astype('f4'), 'classes': lambda: np.eye(6, dtype='f4')[rng.integers(0, 6, n)],
                'values': lambda: rng.uniform(0.1, 2, size=(n, 3)).astype('f4'), 'pixels': lambda: rng.integers(0, 5, (n, 4)).astype('i4'),
                'one': lambda: rng.integers(0, 2, (n, 1)).astype('f4')}.get(name, lambda: np.eye(4, dtype='f4')[rng.integers(0, 4, n)])()
        np.savez(d / f'{name}.npz', **data)
        np.savez(d / f'{name}.w.npz', **data, w0=rng.uniform(0.1, 2, 27).astype('f4'), wval0=rng.uniform(0.1, 2, 11).astype('f4'))
        for kind in ('', '.w')[:1 + (name in WEIGHTED)]:
            a = np.load(d / f'{name}{kind}.npz')
            fresh = keras.models.clone_model(model)
            fresh.set_weights(model.get_weights())
            of = 'weighted_metrics' if kind else 'metrics'
            keras.backend.clear_session()  # names are counted from the start
            fresh.compile(keras.optimizers.SGD(0.3), loss, **{of: metrics_of(keras, name, major, kind)})
            fresh.save(d / f'{name}{kind}.keras')
            fresh.save(d / f'{name}{kind}.init.h5')
            keras.backend.clear_session()
            # to save builds "accuracy" for targets like the outputs, and these may be classes
            fresh.compile(keras.optimizers.SGD(0.3), loss, **{of: metrics_of(keras, name, major, kind)})
            extra = {'sample_weight': a['w0']} if kind else {}
            val = (a['xval0'], a['yval0']) + ((a['wval0'],) if kind else ())
            past = fresh.fit(a['x0'], a['y0'], batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, validation_data=val,
                             validation_batch_size=BATCH, **extra).history
            (d / f'{name}{kind}.json').write_text(json.dumps({k: np.asarray(v, 'f8').tolist() for k, v in past.items()}))


    classes = {of: sorted(n for n, c in vars(getattr(keras, of)).items() if isinstance(c, type) and n not in NO_CLASSES)
               for of in ('metrics', 'losses', 'optimizers')}
    (d / 'exported.json').write_text(json.dumps(classes))


def judge(d):
    import numpy as np
    keras, major = fit_files.the_keras()
    bad = 0
    for name in MODELS:
        a, want = np.load(d / f'{name}.npz'), json.loads((d / f'{name}.json').read_text())
        for file in ('out.keras', 'out.h5')[:4 - major]:  # Keras 3.6 goes on with no optimizer of an .h5
            try:
                model = keras.models.load_model(d / f'{name}.{file}')
                got = model.fit(a['x0'], a['y0'], verbose=0).history
            except Exception as e:
                bad += 1
                print(f'{name}.{file}: {type(e).__name__}: {e}'[:900])
                continue
            if sorted(got) != sorted(key for key in want if not key.startswith('val_')):
                bad += 1
                print(f'{name}.{file}: Keras trains it as {list(got)}')
    sys.exit(bad != 0)


def differ(what, epochs, want):
    bad = 0
    for key, values in want.items():
        for e, value in enumerate(values):
            for k, v in enumerate(value if isinstance(value, list) else [value]):
                name = f'{key}[{k}]' if isinstance(value, list) and len(value) > 1 else key
                got = epochs[e].get(name)
                if got is None or not abs(got - v) <= 2e-6 + 2e-5 * abs(v):
                    bad += 1
                    print(f'{what}: epoch {e + 1}: {name} is {got}, Keras has {v}')
    return bad


def unknown(tools, d, major):
    """Every class that Keras exports is known by name, if only to be refused."""
    bad = 0
    for of, names in json.loads((d / 'exported.json').read_text()).items():
        assert len(names) > 8
        option = {'metrics': '--metrics', 'losses': '--loss', 'optimizers': '--optimizer'}[of]
        for name in names:
            loss = [] if of == 'losses' else ['--loss', 'mse']
            r = subprocess.run([str(v) for v in [tools / 'pgfit', d / 'labels.keras', '--data', d / 'labels.npz', '--dry-run', option, name, *loss]],
                               capture_output=True, text=True)
            if 'unknown' in r.stderr:
                bad += 1
                print(f'Keras {major}: {r.stderr}')
    return bad


def between(tools, d, major):
    bad = unknown(tools, d, major)
    for name in MODELS:
        for kind, how in (('', []), ('', ['--deterministic', '--devices', 'cpu:0,cpu:1,cpu:2']), ('.w', [])):
            if kind and name not in WEIGHTED:
                continue
            for form in ('keras', 'init.h5')[:1 if how else 2]:
                out = ['-o', d / f'{name}.out.{"h5" if form == "init.h5" else form}', '--full-model', '-f'] if not kind and not how else []
                r = subprocess.run([str(v) for v in [tools / 'pgfit', d / f'{name}{kind}.{form}', '--data', d / f'{name}{kind}.npz', '--val',
                                    d / f'{name}{kind}.npz', '--batch-size', BATCH, '--epochs', EPOCHS, '--no-shuffle', '--json', *how, *out]],
                                   capture_output=True, text=True)
                what = f'Keras {major}, {name}{kind}.{form}{" by three" if how else ""}'
                if r.returncode:
                    bad += 1
                    print(what, r.stderr)
                    continue
                epochs = [e for e in map(json.loads, r.stdout.splitlines()) if e['event'] == 'epoch']
                bad += differ(what, epochs, json.loads((d / f'{name}{kind}.json').read_text()))
    return bad


if __name__ == '__main__':
    both_keras.main(__file__, make, judge, between)
