#!/usr/bin/env python3
"""usage: callbacks.py --tools DIR [--keras DIR | --keras3 DIR]

Keras' callbacks and learning rate schedules: real Keras 2.15 and pgfit train one model from the same weights, in
the same order, with the same callbacks, and must decide the same: learning rates of all epochs, the last epoch,
CSV files (format exactly, numbers within a tolerance), the names of checkpoints, final weights. Learning rates are
so high that the curves go up and down. Callbacks that only Keras 3 has are judged by Keras 3.6, with whole checkpoints: weights,
and the optimizer's state. Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), and PG_JUDGE_PYTHON,
skips (77) without. --keras and --keras3 are the halves that run under the former."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

BATCH, EPOCHS, RATE = 20, 14, 2.5


def reduce_lr(**config):
    return 'ReduceLROnPlateau', config


def stop(**config):
    return 'EarlyStopping', config


def checkpoint(filepath, **config):
    return 'ModelCheckpoint', dict(config, filepath=filepath, save_weights_only=True)


CASES = {  # name: callbacks
    'plain': [],
    'reduce': [reduce_lr(factor=0.5, patience=1)],
    'reduce_two': [reduce_lr(factor=0.3, patience=2, min_delta=0.02)],
    'reduce_cooldown': [reduce_lr(factor=0.7, patience=1, cooldown=2)],
    'reduce_least': [reduce_lr(factor=0.5, patience=1, min_lr=0.9)],
    'reduce_accuracy': [reduce_lr(monitor='val_accuracy', factor=0.5, patience=1)],
    'reduce_wrong_way': [reduce_lr(monitor='val_accuracy', mode='min', factor=0.5, patience=2)],
    'reduce_training': [reduce_lr(monitor='loss', mode='auto', factor=0.8, patience=0)],
    'stop': [stop(patience=2)],
    'stop_at_once': [stop()],
    'stop_accuracy': [stop(monitor='val_accuracy', patience=3, restore_best_weights=True)],
    'stop_delta': [stop(patience=3, min_delta=0.1, restore_best_weights=True)],
    'stop_baseline': [stop(patience=4, baseline=0.43, restore_best_weights=True)],
    'stop_baseline_beaten': [stop(patience=3, baseline=0.8, restore_best_weights=True)],
    'stop_baseline_late': [stop(monitor='val_accuracy', patience=6, baseline=0.75, restore_best_weights=True)],
    'stop_later': [stop(patience=1, start_from_epoch=6, restore_best_weights=True)],
    'stop_max': [stop(mode='max', patience=2, restore_best_weights=True)],
    'stop_never': [stop(patience=40, restore_best_weights=True)],
    'both': [reduce_lr(factor=0.5, patience=1, cooldown=1), stop(patience=4, restore_best_weights=True)],
    'table': [('table', [0.5, 1.0, 2.5, 2.0, 0.7, 0.3, 0.1])],
    'epoch': [('epoch', 0.8)],
    'scheduled_reduce': [('epoch', 0.9), reduce_lr(factor=0.5, patience=1)],
    'validation_now_and_then': [reduce_lr(factor=0.5, patience=1), stop(patience=3)],
    'save_all': [checkpoint('{epoch:02d}-{val_accuracy:.2f}.h5')],
    'save_best': [checkpoint('{epoch:02d}.h5', save_best_only=True)],
    'save_best_accuracy': [checkpoint('w-{epoch}.h5', save_best_only=True, monitor='val_accuracy')],
    'save_max': [checkpoint('{epoch:03d}.h5', save_best_only=True, mode='max')],
    'save_threshold': [checkpoint('{epoch:02d}.h5', save_best_only=True, initial_value_threshold=0.6)],
    'save_period': [checkpoint('{epoch:02d}.h5', period=3)],
    'save_period_best': [checkpoint('{epoch:02d}.h5', period=2, save_best_only=True)],
    'save_batches': [checkpoint('{epoch:02d}-{batch:02d}.h5', save_freq=7)],
    'save_batches_best': [checkpoint('{epoch}-{batch}.h5', save_freq=4, save_best_only=True, monitor='loss')],
    'save_many_batches': [checkpoint('{epoch:02d}-{batch:d}.h5', save_freq=23)],
    'save_reduce_stop': [checkpoint('{epoch:02d}.h5', save_best_only=True), reduce_lr(factor=0.5, patience=1),
                         stop(patience=3, restore_best_weights=True)],
}


def swap(**config):
    return 'SwapEMAWeights', config


def whole(filepath, **config):
    return 'ModelCheckpoint', dict(config, filepath=filepath)


CASES3 = {  # of Keras 3: callbacks, and what else the optimizer is given
    'averages': ([whole('{epoch}.keras')], {}),
    'swap': ([swap(), whole('{epoch}.keras')], {}),
    'swap_fast': ([swap(), whole('{epoch}.keras')], {'ema_momentum': 0.6, 'momentum': 0.9}),
    'swap_overwrite': ([swap(), whole('{epoch}.keras')], {'ema_overwrite_frequency': 7}),
    'swap_now_and_then': ([swap(), whole('{epoch}.keras')], {}),
    'swap_reduce': ([swap(), reduce_lr(factor=0.5, patience=1, min_delta=0.05)], {}),
    'epoch': ([swap(swap_on_epoch=True), whole('{epoch}.keras')], {}),
    'epoch_late': ([whole('{epoch}.keras'), swap(swap_on_epoch=True)], {}),
    'epoch_overwrite': ([swap(swap_on_epoch=True), whole('{epoch}.keras')], {'ema_overwrite_frequency': 7}),
    'epoch_batches': ([swap(swap_on_epoch=True), whole('{epoch}-{batch:02d}.keras', save_freq=4)], {}),
    'epoch_now_and_then': ([swap(swap_on_epoch=True), whole('{epoch}.keras')], {}),
    'epoch_stop': ([swap(swap_on_epoch=True), stop(patience=2, min_delta=9)], {}),
    'epoch_stop_best': ([swap(swap_on_epoch=True), stop(patience=2, min_delta=9, restore_best_weights=True)], {}),
    'stop': ([swap(), stop(patience=2, min_delta=9)], {}),
}
EPOCHS3, RATE3 = 6, 0.5
SCHEDULES = {  # text: Keras' class and arguments
    'exponential_decay:decay_steps=10,decay_rate=0.8': ('ExponentialDecay', RATE, 10, 0.8),
    'exponential_decay:decay_steps=10,decay_rate=0.8,staircase=true': ('ExponentialDecay', RATE, 10, 0.8, True),
    'inverse_time_decay:decay_steps=10,decay_rate=0.5': ('InverseTimeDecay', RATE, 10, 0.5),
    'polynomial_decay:decay_steps=40,power=2': ('PolynomialDecay', RATE, 40, 0.0001, 2.0),
    'polynomial_decay:decay_steps=15,end_learning_rate=0.1,cycle=true': ('PolynomialDecay', RATE, 15, 0.1, 1.0, True),
    'piecewise_constant_decay:boundaries=10/20,values=0.1/1/0.5': ('PiecewiseConstantDecay', [10, 20], [0.1, 1.0, 0.5]),
    'cosine_decay:decay_steps=40': ('CosineDecay', RATE, 40),
    'cosine_decay:decay_steps=30,initial_learning_rate=0.1,warmup_target=1.5,warmup_steps=15,alpha=0.1':
        ('CosineDecay', 0.1, 30, 0.1, None, 1.5, 15),
    'cosine_decay_restarts:first_decay_steps=10': ('CosineDecayRestarts', RATE, 10),
    'cosine_decay_restarts:first_decay_steps=9,t_mul=1.3,m_mul=0.8,alpha=0.05': ('CosineDecayRestarts', RATE, 9, 1.3, 0.8, 0.05),
    'cosine_decay_restarts:first_decay_steps=12,t_mul=1': ('CosineDecayRestarts', RATE, 12, 1.0),
}


def options(name):
    return {'validation_freq': 3} if name.endswith('now_and_then') else {}


def make_data(np, d):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(160, 8)).astype('f4')
    teacher = np.tanh(x @ rng.normal(size=(8, 6))) @ rng.normal(size=(6, 4))
    y = np.eye(4, dtype='f4')[teacher.argmax(1)]
    data = dict(x0=x[:100], y0=y[:100], xval0=x[100:], yval0=y[100:])
    np.savez(d / 'data.npz', **data)
    return data


def run_keras(d):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.get_logger().setLevel('ERROR')
    keras.utils.set_random_seed(3)
    data = make_data(np, d)
    inputs = keras.Input((8,), name='x')
    h = keras.layers.Dense(16, 'tanh')(inputs)
    model = keras.Model(inputs, keras.layers.Dense(4, 'softmax')(h))
    (d / 'model.json').write_text(model.to_json())
    model.save_weights(d / 'start.h5')
    start = model.get_weights()

    class Rate(keras.callbacks.Callback):
        """pgfit's logs always have it."""

        def on_epoch_end(self, epoch, logs=None):
            logs['lr'] = keras.backend.get_value(self.model.optimizer.lr)

    class NextRate(keras.callbacks.Callback):
        """A schedule's, as TensorBoard tells it; in a graph as the steps, where divisions are multiplications."""

        def on_epoch_end(self, epoch, logs=None):
            o = self.model.optimizer
            logs['lr'] = tf.function(lambda: tf.convert_to_tensor(o._learning_rate(o.iterations)))().numpy()

    def make(name, config, folder):
        if name == 'table':
            return keras.callbacks.LearningRateScheduler(lambda e: config[min(e, len(config) - 1)])
        if name == 'epoch':
            return keras.callbacks.LearningRateScheduler(lambda e: float(np.float32(RATE)) * config ** e)
        if name == 'ModelCheckpoint':
            config = dict(config, filepath=str(folder / config['filepath']))
        return getattr(keras.callbacks, name)(**config)

    def fit(folder, callbacks, **more):
        folder.mkdir()
        model.set_weights(start)
        model.optimizer.iterations.assign(0)
        made = [make(*c, folder) if isinstance(c, tuple) else c for c in callbacks]
        model.fit(data['x0'], data['y0'], validation_data=(data['xval0'], data['yval0']), batch_size=BATCH, epochs=EPOCHS,
                  shuffle=False, verbose=0, callbacks=made + [keras.callbacks.CSVLogger(str(folder / 'log.csv'))], **more)
        np.savez(folder / 'final.npz', *model.get_weights())

    model.compile(keras.optimizers.SGD(RATE), 'categorical_crossentropy', metrics=['accuracy'])
    for name, callbacks in CASES.items():
        model.optimizer.learning_rate = RATE
        fit(d / name, [Rate()] + callbacks, **options(name))
    for i, (cls, *args) in enumerate(SCHEDULES.values()):
        schedule = getattr(keras.optimizers.schedules, cls)(*args)
        model.compile(keras.optimizers.SGD(schedule), 'categorical_crossentropy', metrics=['accuracy'])
        fit(d / f'schedule{i}', [NextRate()])


def run_keras3(d):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import keras
    import numpy as np
    keras.utils.set_random_seed(3)
    data = make_data(np, d)
    inputs = keras.Input((8,), name='x')
    h = keras.layers.Dense(16, 'tanh')(inputs)
    model = keras.Model(inputs, keras.layers.Dense(4, 'softmax')(h))
    (d / 'model.json').write_text(model.to_json())
    model.save_weights(d / 'start.weights.h5')
    start = model.get_weights()

    class Rate(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs['learning_rate'] = float(self.model.optimizer.learning_rate)

    def make(folder, name, config):
        if name == 'ModelCheckpoint':
            config = dict(config, filepath=str(folder / config['filepath']))
        return getattr(keras.callbacks, name)(**config)

    for name, (callbacks, more) in CASES3.items():
        folder = d / name
        folder.mkdir()
        model.set_weights(start)
        model.compile(keras.optimizers.SGD(RATE3, use_ema=True, **{'ema_momentum': 0.9, **more}), 'categorical_crossentropy', metrics=['accuracy'])
        made = [make(folder, *c) for c in callbacks] + [keras.callbacks.CSVLogger(str(folder / 'log.csv'))]
        model.fit(data['x0'], data['y0'], validation_data=(data['xval0'], data['yval0']), batch_size=BATCH, epochs=EPOCHS3,
                  shuffle=False, verbose=0, callbacks=[Rate()] + made, **options(name))
        model.save(folder / 'final.keras')


def as_config(name, config, folder):
    if name == 'table':
        (folder / 'rates.txt').write_text('\n'.join(map(str, config)))
        return {'class_name': 'LearningRateScheduler', 'config': {'schedule': 'table', 'file': str(folder / 'rates.txt')}}
    if name == 'epoch':
        return {'class_name': 'LearningRateScheduler', 'config': {'schedule': 'epoch', 'rate': config}}
    if name == 'ModelCheckpoint':
        config = dict(config, filepath=str(folder / config['filepath']))
    return {'class_name': name, 'config': config}


class Judge:
    def __init__(self, tools):
        import h5py
        import numpy as np
        self.h5py, self.np, self.tools, self.bad, self.n = h5py, np, tools, 0, 0

    def check(self, name, holds, why):
        self.n += 1
        if not holds:
            self.bad += 1
            print(f'{name}: {why}')

    def weights(self, path):
        with self.h5py.File(path) as f:
            return [f[layer][w][()] for layer in f.attrs['layer_names'] for w in f[layer].attrs['weight_names']]

    def csv(self, name, got, want):
        """The same text but for digits, which must be as many as are needed."""
        float32 = self.np.float32
        self.check(name, got.endswith(b'\r\n') and got.count(b'\n') == got.count(b'\r\n'), 'ends of lines')
        got, want = ([line.split(',') for line in text.decode().split('\r\n')] for text in (got, want))
        self.check(name, got[0] == want[0], f'header {got[0]}, Keras has {want[0]}')
        self.check(name, len(got) == len(want), f'{len(got) - 2} epochs, Keras has {len(want) - 2}')
        for g, w in zip(got[1:-1], want[1:-1]):
            for key, a, b in zip(want[0], g, w):
                key = 'lr' if key == 'learning_rate' else key
                if key == 'lr' and 'schedule' not in name:
                    self.check(name, a == b, f'epoch {w[0]}: learning rate {a}, Keras has {b}')
                elif key == 'epoch' or 'NA' in (a, b):
                    self.check(name, a == b, f'epoch {w[0]}: {key} is {a}, Keras has {b}')
                else:
                    short = str(float32(a)) if key == 'lr' else repr(float(a))
                    self.check(name, a == short and (key == 'lr' or float32(a) == float(a)), f'{a} is no text of Python')
                    self.check(name, abs(float(a) - float(b)) <= 1e-4 * abs(float(b)) + 1e-6,
                               f'epoch {w[0]}: {key} is {a}, Keras has {b}')

    def files(self, name, got, want):
        """Checkpoints: pgfit adds the links best and last."""
        names = [sorted(p.name for p in x.glob('*.h5') if not p.is_symlink()) for x in (got, want)]
        self.check(name, names[0] == names[1], f'wrote {names[0]}, Keras {names[1]}')
        for one in set(names[0]) & set(names[1]):
            pairs = zip(self.weights(got / one), self.weights(want / one))
            self.check(name, all(abs(a - b).max() < 2e-4 for a, b in pairs), f'weights in {one}')

    def state(self, path):
        """All that a .keras holds of weights and of the optimizer's state, by name."""
        found = {}
        with zipfile.ZipFile(path) as z, z.open('model.weights.h5') as raw, self.h5py.File(raw) as f:
            f.visititems(lambda name, x: found.update({name: x[()]}) if isinstance(x, self.h5py.Dataset) else None)
        return found

    def states(self, name, got, want):
        names = [sorted(p.name for p in x.glob('*.keras') if not p.is_symlink()) for x in (got, want)]
        self.check(name, names[0] == names[1], f'wrote {names[0]}, Keras {names[1]}')
        for one in set(names[0]) & set(names[1]):
            a, b = self.state(got / one), self.state(want / one)
            self.check(name, a.keys() == b.keys() and len(b) > 8, f'{one} holds {sorted(a)}, with Keras {sorted(b)}')
            for key in a.keys() & b.keys():
                off = abs(a[key].astype('f8') - b[key]).max()
                self.check(name, off < 2e-5, f'{one}: {key} is off by {off:.2g}')

    def run3(self, d, name, callbacks, more):
        want, got = d / name, d / (name + '.pg')
        got.mkdir()
        made = [as_config(*c, got) for c in callbacks] + [{'class_name': 'CSVLogger', 'config': {'filename': str(got / 'log.csv')}}]
        sgd = {'learning_rate': RATE3, 'use_ema': True, 'ema_momentum': 0.9, **more}
        config = dict(model=str(d / 'model.json'), weights=str(d / 'start.weights.h5'), data=[str(d / 'data.npz')],
                      validation_data=[str(d / 'data.npz')], loss='categorical_crossentropy', metrics=['accuracy'],
                      optimizer={'class_name': 'SGD', 'config': sgd}, batch_size=BATCH, epochs=EPOCHS3, shuffle=False,
                      callbacks=made, **options(name))
        (got / 'run.json').write_text(json.dumps(config))
        r = subprocess.run([self.tools / 'pgfit', '--config', got / 'run.json', '-o', got / 'final.keras'], capture_output=True, text=True)
        self.check(name, r.returncode == 0, f'exit {r.returncode}: {r.stderr}')
        if r.returncode == 0:
            self.csv(name, (got / 'log.csv').read_bytes(), (want / 'log.csv').read_bytes())
            self.states(name, got, want)

    def run(self, d, name, callbacks, schedule=None):
        want, got = d / name, d / (name + '.pg')
        got.mkdir()
        made = [as_config(*c, got) for c in callbacks] + [{'class_name': 'CSVLogger', 'config': {'filename': str(got / 'log.csv')}}]
        config = dict(model=str(d / 'model.json'), weights=str(d / 'start.h5'), data=[str(d / 'data.npz')],
                      validation_data=[str(d / 'data.npz')], loss='categorical_crossentropy', metrics=['accuracy'],
                      optimizer={'class_name': 'SGD', 'config': {'learning_rate': RATE}}, batch_size=BATCH, epochs=EPOCHS,
                      shuffle=False, schedule=schedule, callbacks=made, **options(name))
        (got / 'run.json').write_text(json.dumps(config))
        r = subprocess.run([self.tools / 'pgfit', '--config', got / 'run.json', '-o', got / 'final.hdf5'], capture_output=True, text=True)
        self.check(name, r.returncode == 0, f'exit {r.returncode}: {r.stderr}')
        if r.returncode:
            return
        self.csv(name, (got / 'log.csv').read_bytes(), (want / 'log.csv').read_bytes())
        self.files(name, got, want)
        final = self.np.load(want / 'final.npz')
        worst = max(abs(final[k] - w).max() for k, w in zip(final.files, self.weights(got / 'final.hdf5')))
        self.check(name, worst < 2e-4, f'final weights are off by {worst:.2g}')


def beside_keras2(j, keras):
    with tempfile.TemporaryDirectory() as t:
        d = pathlib.Path(t)
        subprocess.run([keras, '-W', 'ignore', __file__, '--keras', d], check=True)
        for name, callbacks in CASES.items():
            j.run(d, name, callbacks)
        for i, text in enumerate(SCHEDULES):
            j.run(d, f'schedule{i}', [], text)
        logs = {n: (d / n / 'log.csv').read_text().splitlines()[1:] for n in CASES}
        # Rules that never fired would show nothing.
        fired = sum(len({re.sub('.*?,.*?,.*?,([^,]*).*', r'\1', row) for row in rows}) > 1 for rows in logs.values())
        j.check('learning rates', fired >= 12, f'changed in {fired} runs only')
        early = sum(len(rows) < EPOCHS for rows in logs.values())
        j.check('early stops', early >= 8, f'{early} only')


def beside_keras3(j, keras):
    with tempfile.TemporaryDirectory() as t:
        d = pathlib.Path(t)
        subprocess.run([keras, '-W', 'ignore', __file__, '--keras3', d], check=True)
        for name, case in CASES3.items():
            j.run3(d, name, *case)
        logs = {n: (d / n / 'log.csv').read_text().splitlines()[1:] for n in CASES3}
        # The averages validate otherwise than the weights, and a stop comes before the last epoch.
        j.check('averages', logs['averages'] != logs['swap'], 'the weights validate alike')
        early = sum(len(logs[n]) < EPOCHS3 for n in ('stop', 'epoch_stop', 'epoch_stop_best'))
        j.check('early stops of Keras 3', early == 3, f'{early} only')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--tools', type=pathlib.Path)
    p.add_argument('--keras', type=pathlib.Path)
    p.add_argument('--keras3', type=pathlib.Path)
    a = p.parse_args()
    if a.keras:
        return run_keras(a.keras)
    if a.keras3:
        return run_keras3(a.keras3)
    keras, keras3, judge = map(os.environ.get, ('PG_KERAS2_PYTHON', 'PG_KERAS3_PYTHON', 'PG_JUDGE_PYTHON'))
    if not (keras or keras3) or not judge:
        print('needs PG_KERAS2_PYTHON or PG_KERAS3_PYTHON, and PG_JUDGE_PYTHON')
        sys.exit(77)
    if not os.environ.get('PG_CALLBACKS_JUDGE'):
        os.environ['PG_CALLBACKS_JUDGE'] = '1'
        os.execv(judge, [judge, __file__, '--tools', str(a.tools)])
    j = Judge(a.tools)
    if keras:
        beside_keras2(j, keras)
    if keras3:
        beside_keras3(j, keras3)
    runs = (len(CASES) + len(SCHEDULES)) * bool(keras) + len(CASES3) * bool(keras3)
    print(f'{runs} runs, {j.n} comparisons, {j.bad} differences')
    sys.exit(j.bad != 0)


if __name__ == '__main__':
    main()
