#!/usr/bin/env python3
"""usage: drop_in.py --tools DIR [--python DIR] [--make DIR | --judge DIR | --shards DIR]

tools/python under real Keras. A wrapper of two replicas trains with ParallelModelCheckpoint; in a fresh process,
load_model(...).fit(...) on one device must then give the loss and the weights of the wrapper's next epoch, for every
format that the Keras in hand restores. Files, names and messages are compared with those of the real ModelCheckpoint on
the same run, and the user's model with what it was before. PG_SHARE (pgbox.py) leaves out some. load_shards is tried on what pgsplit makes of such files.

Tolerance: 2e-6 relative to the largest weight and loss (float32; halves of a batch are summed in another order).
Needs PG_KERAS2_PYTHON (TensorFlow 2.15) or PG_KERAS3_PYTHON (Keras 3.6), skips (77) without both. --make, --judge and
--shards are the parts that run under those."""
import argparse
import contextlib
import copy
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pgbox import chosen  # noqa: E402

TOLERANCE = 2e-6
BATCH, EPOCHS = 4, 2
# name: (template, wrapper, optimizer)
CASES = {
    'two': ('two', 'lambda', 'adam'),
    'momentum': ('two', 'lambda', 'momentum'),
    'plain': ('plain', 'lambda', 'rmsprop'),
    'schedule': ('plain', 'lambda', 'schedule'),
    'sequential': ('sequential', 'lambda', 'rmsprop'),
    'deferred': ('deferred', 'lambda', 'adam'),
    'deep': ('deep', 'lambda', 'adam'),
    'home_made': ('plain', 'class', 'adam'),
    'twice': ('plain', 'twice', 'adam'),
    'own_class': ('own_class', 'lambda', 'adam'),
    'own_metric': ('plain', 'own_metric', 'adam'),
    'strategy': ('plain', 'strategy', 'adam'),
    'strategy_inside': ('plain', 'strategy_inside', 'adam'),
    'legacy_adam': ('two', 'lambda', 'legacy_adam'),
    'legacy_sgd': ('deep', 'lambda', 'legacy_sgd'),
}


def cases(major):
    for name, (_, _, optimizer) in CASES.items():
        if major == 3 and optimizer.startswith('legacy'):
            continue
        for suffix in ('.h5', '.keras', '.folder') if major == 2 else ('.keras',):
            if name == 'own_class' and suffix != '.keras':
                continue  # Keras refuses
            if suffix == '.folder' and name not in ('two', 'sequential', 'legacy_adam'):
                continue  # slow, and no optimizer comes back from it
            if name != 'two' and not chosen(name + suffix):
                continue
            # Keras 2 does not restore an optimizer from these (tried with its own ModelCheckpoint below).
            fresh = suffix == '.folder' or (optimizer.startswith('legacy') and suffix != '.h5')
            yield name, suffix, not fresh


def the_keras():
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices('CPU')[0],
                                               [tf.config.LogicalDeviceConfiguration()] * 2)
    tf.get_logger().setLevel('ERROR')
    if tf.__version__ < '2.16':
        return tf.keras, 2
    import keras
    return keras, 3


class Bench:
    """Models, wrappers and data of one Keras."""

    def __init__(self):
        import numpy
        self.np = numpy
        self.keras, self.major = the_keras()
        import tensorflow
        self.tf = tensorflow
        layers = self.keras.layers
        tf, keras = tensorflow, self.keras

        @keras.utils.register_keras_serializable('drop_in')
        class Own(keras.Model):
            """A template that is a class of the user's."""

            def __init__(self, units=5, **kwargs):
                super().__init__(**kwargs)
                self.units = units
                self.h, self.out = layers.Dense(units, 'tanh', name='h'), layers.Dense(3, 'softmax', name='out')

            def call(self, x):
                return self.out(self.h(x))

            def get_config(self):
                return {'name': self.name, 'units': self.units}

        class HomeMade(keras.Model):
            """A wrapper that is a class."""

            def __init__(self, template):
                super().__init__()
                self.template = template

            def call(self, x):
                n = tf.shape(x)[0] // 2
                return tf.concat([self.template(x[:n]), self.template(x[n:])], 0)

        def own_metric(y, p):
            return tf.reduce_mean(tf.abs(y - p), -1)

        self.own, self.home_made, self.own_metric = Own, HomeMade, own_metric

    def data(self, kind):
        rng = self.np.random.default_rng(1)
        x = rng.normal(size=(12, 6)).astype('f4')
        y = self.np.eye(3, dtype='f4')[rng.integers(0, 3, 12)]
        return x, [y, rng.normal(size=(12, 1)).astype('f4')] if kind == 'two' else y

    def template(self, kind):
        keras, layers = self.keras, self.keras.layers
        if kind == 'own_class':
            model = self.own(name='template')
            model(self.np.zeros((1, 6), 'f4'))
            return model
        if kind in ('sequential', 'deferred'):
            start = [keras.Input((6,))] if kind == 'sequential' else []
            return keras.Sequential(start + [layers.Dense(5, 'tanh', name='h'), layers.Dense(3, 'softmax', name='out')],
                                    name='template')
        x = keras.Input((6,), name='x')
        h = layers.Dense(5, 'tanh', name='h')(x)
        if kind == 'deep':
            inner = keras.Sequential([keras.Input((5,)), layers.Dense(4, 'tanh', name='c', trainable=False),
                                      layers.Dense(4, 'tanh', name='d')], name='inner')
            h = layers.LayerNormalization(name='norm', trainable=False)(inner(h))
        out = layers.Dense(3, 'softmax', name='out')(h)
        return keras.Model(x, [out, layers.Dense(1, name='side')(h)] if kind == 'two' else out, name='template')

    def wrap(self, template, parts=2):
        """What multi_gpu_model made: slices, the template once for each, merges."""
        tf, layers = self.tf, self.keras.layers

        def get_slice(data, i, parts):
            step = tf.shape(data)[0] // parts
            return data[i * step:] if i == parts - 1 else data[i * step:(i + 1) * step]
        x = self.keras.Input((6,))
        calls = []
        for i in range(parts):
            y = template(layers.Lambda(get_slice, arguments={'i': i, 'parts': parts}, output_shape=(6,))(x))
            calls.append(y if isinstance(y, (list, tuple)) else [y])
        merged = [layers.Concatenate(axis=0, name=f'merge_{k}')(list(c)) for k, c in enumerate(zip(*calls))]
        return self.keras.Model(x, merged if len(merged) > 1 else merged[0], name='wrapper')

    def optimizer(self, name):
        o = self.keras.optimizers
        return {'adam': lambda: o.Adam(0.05, amsgrad=True), 'momentum': lambda: o.SGD(0.1, momentum=0.9),
                'rmsprop': lambda: o.RMSprop(0.01, momentum=0.5, centered=True),
                'schedule': lambda: o.Adam(o.schedules.ExponentialDecay(0.05, 2, 0.7)),
                'legacy_adam': lambda: o.legacy.Adam(0.05),
                'legacy_sgd': lambda: o.legacy.SGD(0.1, momentum=0.9, decay=0.1)}[name]()

    def pair(self, name):
        """(template, compiled wrapper) of a case. Some templates are compiled otherwise by their owner."""
        kind, how, optimizer = CASES[name]
        self.keras.utils.set_random_seed(7)
        strategy = self.tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1']) if 'strategy' in how else None
        with strategy.scope() if strategy else contextlib.nullcontext():
            template = self.template(kind)
            if how == 'lambda':
                wrapper = self.wrap(template)
            elif how == 'class':
                wrapper = self.home_made(template)
            elif how == 'twice':
                wrapper = self.wrap(self.wrap(template))
            elif how == 'strategy_inside':
                x = self.keras.Input((6,))
                wrapper = self.keras.Model(x, template(x))
            else:
                wrapper = template if how == 'strategy' else self.wrap(template)
            if kind == 'two':
                template.compile(self.keras.optimizers.SGD(0.3), 'mae', metrics=[['mse'], ['mse']])
                wrapper.compile(self.optimizer(optimizer), {'merge_0': 'categorical_crossentropy', 'merge_1': 'mse'},
                                loss_weights={'merge_0': 1.0, 'merge_1': 0.3},
                                metrics={'merge_0': ['accuracy'], 'merge_1': ['mae']})
            else:
                own = how == 'own_metric'
                wrapper.compile(self.optimizer(optimizer), 'categorical_crossentropy',
                                metrics=['accuracy', self.own_metric] if own else ['accuracy'])
        return template, wrapper

    def fit(self, model, kind, epochs=1, callbacks=()):
        x, y = self.data(kind)
        return model.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks))


class Report:
    def __init__(self):
        self.n = self.bad = 0

    def expect(self, ok, what):
        self.n += 1
        if not ok:
            self.bad += 1
            print('FAIL ' + what)

    def refused(self, call, *words):
        """call() raises, and says these."""
        try:
            call()
        except Exception as e:
            self.expect(all(w in str(e) for w in words), f'{words} not in: {e}')
        else:
            self.expect(False, f'{words}: not refused')

    def end(self, what):
        print(f'{what}: {self.n} checks, {self.bad} failed')
        sys.exit(self.bad != 0)


def state(model):
    """The optimizer's variables, if there is one."""
    optimizer = getattr(model, 'optimizer', None)
    values = optimizer.variables if optimizer else []
    return [v.numpy() for v in (values() if callable(values) else values)]


def looks(model):
    """What a user can see of a model that must not change."""
    def plain(x):  # what Keras 2.15 itself leaves out of a nested model's config after it wrote an .h5
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items() if k not in ('module', 'registered_name', 'build_config')}
        return [plain(v) for v in x] if isinstance(x, list) else x
    return [model.name, plain(json.loads(model.to_json())), [id(v) for v in model.weights],
            [x.name for x in model.layers], [x.trainable for x in model.layers], id(getattr(model, 'optimizer', None)),
            [v.tolist() for v in state(model)], id(getattr(model, 'loss', None)), list(model.metrics_names),
            [id(getattr(x, 'output', None)) for x in model.layers]]


# ---- the parts that run under Keras --------------------------------------------------------------------------------------

def make(d):
    b, r = Bench(), Report()
    from pgfit.keras import ParallelModelCheckpoint
    for name, suffix, _ in cases(b.major):
        kind = CASES[name][0]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter('always')
            template, wrapper = b.pair(name)
            if kind == 'deferred':
                b.fit(wrapper, kind, 0)
            seen = looks(template) if wrapper is not template else None
            path = str(d / name) + suffix.replace('.folder', '')
            b.fit(wrapper, kind, EPOCHS, [ParallelModelCheckpoint(template, path)])
        now = looks(template)
        changed = [(p, q) for p, q in zip(seen or now, now) if p != q]
        r.expect(not changed, f'{name}{suffix}: the template was changed: {changed}')
        said = [str(w.message) for w in said if 'ParallelModelCheckpoint' in str(w.message)]
        fresh = not dict(((n, s), keep) for n, s, keep in cases(b.major))[name, suffix]
        r.expect(bool(said) == fresh, f'{name}{suffix}: said {said}')
        b.np.savez(d / f'{name}{suffix}.state.npz', *state(wrapper))
        b.np.savez(d / f'{name}{suffix}.saved.npz', *template.get_weights())
        x, _ = b.data(kind)
        loss = b.fit(wrapper, kind).history['loss'][0]
        b.np.savez(d / f'{name}{suffix}.next.npz', b.np.array(loss), *template.get_weights())
    weights_only(b, r, d)
    same_as_keras(b, r, d)
    refusals(b, r, d)
    r.end('make')


def weights_only(b, r, d):
    from pgfit.keras import ParallelModelCheckpoint
    for name in ('two', 'deep', 'sequential'):
        for suffix in ('.weights.h5', '.only.h5', '.only') if b.major == 2 else ('.weights.h5',):
            template, wrapper = b.pair(name)
            path = str(d / name) + suffix
            b.fit(wrapper, CASES[name][0], 1, [ParallelModelCheckpoint(template, path, save_weights_only=True)])
            other = b.template(CASES[name][0])
            other.load_weights(path)
            same = all((p == q).all() for p, q in zip(other.get_weights(), template.get_weights()))
            r.expect(same, f'{name}{suffix}: other weights')
            left = [p.name for p in d.iterdir() if p.name.startswith('.part')]
            r.expect(not left, f'{left} left behind')


def same_as_keras(b, r, d):
    """One run, both callbacks: the same files at the same times, the same words."""
    from pgfit.keras import ParallelModelCheckpoint
    end = '.weights.h5'
    options = {
        'epochs': ('{epoch:02d}-{loss:.4f}-{val_loss:.4f}-{val_accuracy:.2f}', {}),
        'best': ('{epoch:02d}', dict(save_best_only=True, monitor='val_loss')),
        'max': ('{epoch:02d}', dict(save_best_only=True, monitor='val_accuracy', mode='max')),
        'auto': ('{epoch:02d}', dict(save_best_only=True, monitor='accuracy')),
        'threshold': ('{epoch:02d}', dict(save_best_only=True, monitor='loss', initial_value_threshold=1.05)),
        'batches': ('{epoch:02d}-{batch:02d}', dict(save_freq=2)),
        'positions': ('{epoch:02d}', ['loss', 1, True]),
    }
    if b.major == 2:
        options['period'] = ('{epoch:02d}', dict(period=2))
    for name, (file, opts) in options.items():
        if name != 'best' and not chosen(name):
            continue
        args, kw = (opts, {}) if isinstance(opts, list) else ([], opts)
        out = {'real': io.StringIO(), 'ours': io.StringIO()}
        for who in out:
            (d / name / who).mkdir(parents=True)
        for who, stream in out.items():  # the same run twice: what each says is kept apart
            template, wrapper = b.pair('momentum' if name == 'positions' else 'plain')
            kind = 'two' if name == 'positions' else 'plain'
            path = str(d / name / who / file) + end
            wrapper.optimizer.learning_rate = 1.2 if name != 'threshold' else 0.1
            real = b.keras.callbacks.ModelCheckpoint
            kw = dict(kw, save_weights_only=True, **({} if args else {'verbose': 1}))
            call = real(path, *args, **kw) if who == 'real' else ParallelModelCheckpoint(template, path, *args, **kw)
            r.expect(isinstance(call, real), 'not a ModelCheckpoint')
            x, y = b.data(kind)
            held = [v[:5] for v in y] if kind == 'two' else y[:5][::-1]
            with contextlib.redirect_stdout(stream):
                wrapper.fit(x, y, batch_size=BATCH, epochs=6, shuffle=False, verbose=0, validation_data=(x[:5], held),
                            callbacks=[call])
        files = [sorted(p.name for p in (d / name / who).iterdir()) for who in out]
        r.expect(files[0] == files[1] and files[0], f'{name}: real {files[0]}, ours {files[1]}')
        words = [s.getvalue().replace(str(d / name / who), '') for who, s in out.items()]
        r.expect(words[0] == words[1] and 'saving model to' in words[0], f'{name}: real said {words[0]}\nours {words[1]}')
        if name == 'best':
            r.expect(0 < len(files[0]) < 6, f'{name} does not tell anything: {files[0]}')


def refusals(b, r, d):
    from pgfit import keras as ours
    template, wrapper = b.pair('momentum')
    stranger = b.template('two')
    r.refused(lambda: b.fit(wrapper, 'two', 1, [ours.ParallelModelCheckpoint(stranger, str(d / 'no.keras'))]),
              '6 of 6 weights', 'cpu_relocation')
    r.refused(lambda: ours.ParallelModelCheckpoint('x.h5', 'y.h5'), 'the first argument')
    r.refused(lambda: ours.ParallelModelCheckpoint(template, str(d / 'a.keras'), save_freq='often'), 'save_freq')

    def half(path):
        pathlib.Path(path).write_text('half')
        raise OSError('disk full')
    file = d / 'kept.h5'
    file.write_text('before')
    r.refused(lambda: ours._write(str(file), half), 'disk full')
    r.expect(file.read_text() == 'before' and not list(d.glob('.part*')), 'an earlier file was lost')

    class Mine(ours.ParallelModelCheckpoint):
        """A user's own callback."""
        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            self.model.stop_training = True
    run = b.fit(wrapper, 'two', 3, [Mine(template, str(d / 'mine.keras'))])
    twin = copy.deepcopy(Mine(template, str(d / 'mine.keras')))  # as searches of hyperparameters do
    r.expect(twin.template is template, 'a copy of the callback saves another model')
    r.expect(len(run.history['loss']) == 1 and (d / 'mine.keras').exists(), 'a subclass of the callback')


def judge(d):
    b, r = Bench(), Report()
    for name, suffix, keeps in cases(b.major):
        what, kind = name + suffix, CASES[name][0]
        with b.keras.utils.custom_object_scope({'own_metric': b.own_metric}):
            model = b.keras.models.load_model(str(d / name) + suffix.replace('.folder', ''))
        r.expect(model.name == 'template' and getattr(model, 'optimizer', None) is not None, f'{what}: not compiled')
        want = b.np.load(d / f'{what}.saved.npz')
        got = model.get_weights()
        r.expect(len(got) == len(want.files) and all((want[f'arr_{i}'] == w).all() for i, w in enumerate(got)),
                 f'{what}: other weights')
        want = b.np.load(d / f'{what}.state.npz')
        if keeps:
            got = state(model)
            r.expect(len(got) == len(want.files) and all((want[f'arr_{i}'] == v).all() for i, v in enumerate(got)),
                     f'{what}: another optimizer state')
        history = b.fit(model, kind).history
        names = {'two': 'out_accuracy', 'own_metric': 'own_metric'}.get(name if name == 'own_metric' else kind, 'accuracy')
        r.expect(names in history, f'{what}: metrics {sorted(history)}')
        want = b.np.load(d / f'{what}.next.npz')
        want = [want[f'arr_{i}'] for i in range(len(want.files))]
        got = [b.np.array(history['loss'][0])] + model.get_weights()
        far = max(abs(p - q).max() / max(abs(p).max(), 1) for p, q in zip(want, got))
        # Keras 3.6 under a strategy computes something else than on one device, from the first step on.
        other = b.major == 3 and CASES[name][1].startswith('strategy')
        r.expect((far <= TOLERANCE) == keeps or other, f'{what}: {far:.1e} from the wrapper\'s next epoch')
    r.end('judge')


def shards(d, tools):
    b, r = Bench(), Report()
    from pgfit.keras import ShardError, load_shards, load_weights
    keras, np, layers = b.keras, b.np, b.keras.layers

    def build(units=5, first='a'):
        x = keras.Input((7, 4), name='x')
        inner = keras.Sequential([keras.Input((6,)), layers.Dense(5, name='c', trainable=False), layers.Dropout(0.5),
                                  layers.BatchNormalization(name='n'), layers.Dense(4, name='d')], name='inner')
        h = layers.Bidirectional(layers.LSTM(3), name='both')(x)
        h = layers.Dense(units, name='e')(inner(layers.Dense(6, name=first)(h)))
        return keras.Model(x, layers.Dense(2, name='o')(h))
    keras.utils.set_random_seed(3)
    model = build()
    rng = np.random.default_rng(7)
    model.set_weights([rng.uniform(.5, 2, w.shape).astype('f4') for w in model.get_weights()])
    model.compile('adam', 'mse')
    model.fit(np.zeros((4, 7, 4), 'f4'), np.zeros((4, 2), 'f4'), verbose=0)

    def split(source, *options):
        shutil.rmtree(d / 'out', ignore_errors=True)
        subprocess.run([os.path.join(tools, 'pgsplit'), '-q', '--force', *options, str(d / source), str(d / 'out')],
                       check=True)

    def same(other):
        return all((p == q).all() for p, q in zip(model.get_weights(), other.get_weights()))

    files = ['m.h5', 'm.keras', 'w.weights.h5'] + (['w.h5'] if b.major == 2 else [])
    for file in files:
        (model.save_weights if file.startswith('w') else model.save)(d / file)
        for options in ([], ['--max-shard-size', '150B'], ['--format', 'npz', '--max-shard-size', '1kB'],
                        ['--format', 'safetensors']):
            split(file, *options)
            other = build()
            load_shards(other, d / 'out', verify=True)
            r.expect(same(other), f'{file} {options}: other weights')

    for file in ('m.h5', 'm.keras'):
        split(file, '--max-shard-size', '150B')
        shard = sorted((d / 'out').rglob('*00002*.npy'))[0]
        whole = shard.read_bytes()
        other = build()
        before = [w.copy() for w in other.get_weights()]
        shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        r.refused(lambda: load_shards(other, d / 'out', verify=True), 'damaged', shard.name, 'crc32', 'copy them again')
        shard.write_bytes(whole[:-9])
        r.refused(lambda: load_shards(other, d / 'out'), shard.name, 'copy it again')
        shard.unlink()
        r.refused(lambda: load_shards(other, d / 'out'), 'missing', shard.name, '1 of ')
        r.expect(all((p == q).all() for p, q in zip(before, other.get_weights())), 'a failed load changed the model')
        shard.write_bytes(whole)
        r.refused(lambda: load_shards(build(units=6), d / 'out'), '(4, 5)', 'the model has (4, 6)')
        if file == 'm.h5' or b.major == 3:  # Keras 2.15 writes no names in the path layout
            renamed = build(first='z')
            r.refused(lambda: load_shards(renamed, d / 'out'), '"a" stands where the model has "z"', 'by_order')
            load_shards(renamed, d / 'out', by_order=True)
            r.expect(same(renamed), 'by_order: other weights')
    small = keras.Sequential([keras.Input((4,)), layers.Dense(2, name='a')])
    split('m.h5')
    r.refused(lambda: load_shards(small, d / 'out'), '5 layers with weights', 'the model has 1')
    split('m.keras')
    r.refused(lambda: load_shards(small, d / 'out'), 'nothing of that path')
    r.refused(lambda: load_shards(small, d), 'no manifest.json')
    text = (d / 'out/manifest.json').read_text()
    (d / 'out/manifest.json').write_text(text.replace('"path": "layers', '"path": "../layers', 1))
    r.refused(lambda: load_shards(small, d / 'out'), 'outside')

    split('m.h5')
    shutil.move(d / 'out', d / 'big.h5.shards')
    for path in (d / 'big.h5', d / 'big.h5.shards', d / 'w.weights.h5'):
        other = build()
        load_weights(other, path)
        r.expect(same(other), f'load_weights({path.name})')
    r.expect(issubclass(ShardError, ValueError), 'ShardError')
    split_by_pgfit(b, r, d, tools)
    r.end('shards')


def split_by_pgfit(b, r, d, tools):
    """A layer's name that no HDF5 attribute holds: pgfit writes oversized.h5.shards, and load_weights finds it."""
    from pgfit.keras import load_weights
    keras, layers, np = b.keras, b.keras.layers, b.np

    def build():
        return keras.Sequential([keras.Input((4,)), layers.Dense(3, name='n' * 65400), layers.Dense(2, name='o')])
    (d / 'oversized.json').write_text(build().to_json())
    np.savez(d / 'oversized.npz', x0=np.ones((8, 4), 'f4'), y0=np.ones((8, 2), 'f4'))
    subprocess.run([os.path.join(tools, 'pgfit'), '-q', 'oversized.json', '--data', 'oversized.npz', '--loss', 'mse',
                    '-o', 'oversized.h5'], cwd=d, check=True)
    model = build()
    before = model.get_weights()
    load_weights(model, d / 'oversized.h5', verify=True)
    want = [np.load(f) for f in sorted((d / 'oversized.h5.shards').rglob('*.npy'))]
    r.expect({w.shape for w in want} == {(4, 3), (3,), (3, 2), (2,)}, 'oversized.h5.shards: not what was to be tried')
    r.expect(all(any(np.array_equal(w, v) for v in model.get_weights()) for w in want), 'oversized.h5: other weights')
    r.expect(not np.array_equal(before[0], model.get_weights()[0]), 'oversized.h5: nothing was loaded')


# ---- the part that runs them ---------------------------------------------------------------------------------------------

def tools_agree(r, tools, d):
    """pginfo and pgcheck see one device's model in everything that was saved."""
    for path in sorted(p for p in d.iterdir() if p.suffix in ('.h5', '.keras') and p.name != 'kept.h5'):
        run = subprocess.run([os.path.join(tools, 'pginfo'), '--json', path], capture_output=True, text=True)
        verdict = json.loads(run.stdout)['verdict'] if run.returncode == 0 else run.stderr
        r.expect(verdict == 'single', f'pginfo {path.name}: {verdict}')
        run = subprocess.run([os.path.join(tools, 'pgcheck'), path], capture_output=True, text=True)
        r.expect(run.returncode == 0, f'pgcheck {path.name}: {run.stdout}{run.stderr}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--tools', required=True)
    p.add_argument('--python')
    for part in ('make', 'judge', 'shards'):
        p.add_argument('--' + part, type=pathlib.Path)
    a = p.parse_args()
    for part in ('make', 'judge'):
        if getattr(a, part):
            globals()[part](getattr(a, part))
    if a.shards:
        shards(a.shards, a.tools)
    pythons = [x for x in map(os.environ.get, ('PG_KERAS2_PYTHON', 'PG_KERAS3_PYTHON')) if x and os.path.exists(x)]
    if not pythons:
        print('needs PG_KERAS2_PYTHON or PG_KERAS3_PYTHON')
        sys.exit(77)
    r = Report()
    env = dict(os.environ, PYTHONPATH=a.python, PYTHONDONTWRITEBYTECODE='1', CUDA_VISIBLE_DEVICES='-1')
    for python in pythons:
        with tempfile.TemporaryDirectory() as d:
            for part in ('make', 'judge', 'shards'):
                folder = pathlib.Path(d) / ('shards' if part == 'shards' else 'files')
                folder.mkdir(exist_ok=True)
                run = subprocess.run([python, __file__, '--tools', a.tools, '--' + part, folder], env=env)
                r.expect(run.returncode == 0, f'{python}: {part}')
                if part == 'make':
                    tools_agree(r, a.tools, folder)
    r.end('drop in')


main()
