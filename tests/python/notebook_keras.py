"""notebook.py, keras2 and keras3: models as objects, beside what Keras itself computes and loads."""
import warnings

import keras
import numpy as np
import pgfit
import pgfit.keras
from notebook_page import page_blocks

warnings.filterwarnings('ignore', message='You are saving your model as an HDF5 file')
MAJOR = int(keras.__version__.split('.')[0])
TOLERANCE = 3e-6  # sums in another order
layers = keras.layers
keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x = rng.normal(size=(96, 6)).astype('f4')
y = [np.eye(3, dtype='f4')[rng.integers(0, 3, 96)], rng.normal(size=(96, 1)).astype('f4')]


def build():
    inputs = keras.Input((6,), name='x')
    h = layers.BatchNormalization(name='n')(layers.Dense(5, 'tanh', name='h')(inputs))
    return keras.Model(inputs, [layers.Dense(3, 'softmax', name='out')(h), layers.Dense(1, name='side')(h)], name='template')


def compiled(optimizer, weights=None):
    model = build()
    model.compile(optimizer(), {'out': 'categorical_crossentropy', 'side': 'mse'},
                  metrics={'out': ['accuracy'], 'side': ['mae']})
    if weights:
        model.set_weights(weights)
    return model


def wrap(template, parts=2):
    """As multi_gpu_model did."""
    inputs, calls = keras.Input((6,)), []
    for i in range(parts):
        part = layers.Lambda(lambda data, i, parts: data[i::parts], arguments={'i': i, 'parts': parts}, output_shape=(6,))
        calls.append(template(part(inputs)))
    return keras.Model(inputs, [layers.Concatenate(axis=0, name='merge_%d' % k)(list(c)) for k, c in enumerate(zip(*calls))])


def far(a, b):
    return max(float(abs(np.asarray(p, 'f8') - np.asarray(q, 'f8')).max()) for p, q in zip(a, b))


def state(model):
    variables = model.optimizer.variables
    variables = variables() if callable(variables) and not isinstance(variables, list) else variables
    return [np.array(v) for v in variables]


# A wrapper's file into the model in hand.
model = build()
wrap(model).save_weights('wrapped.weights.h5' if MAJOR >= 3 else 'wrapped.h5')
wrapped = 'wrapped.weights.h5' if MAJOR >= 3 else 'wrapped.h5'
report = pgfit.unwrap(wrapped, 'single.' + wrapped.split('.', 1)[1], like=model)
assert pgfit.check(report.output, model=model).ok and not pgfit.check(wrapped, model=model).ok
other = build()
assert far(other.get_weights(), model.get_weights()) > 0
other.load_weights(report.output)
assert far(other.get_weights(), model.get_weights()) == 0

# fit() is Keras' fit(), from the model's own settings; weights and optimizer come back, and Keras goes on from there.
optimizers = {'adam': lambda: keras.optimizers.Adam(0.01), 'sgd': lambda: keras.optimizers.SGD(0.1, momentum=0.9),
              'schedule': lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.05, 2, 0.7))}
if MAJOR == 2:
    optimizers['legacy'] = lambda: keras.optimizers.legacy.Adam(0.01)
for name, optimizer in optimizers.items():
    ours, theirs = (compiled(optimizer, model.get_weights()) for _ in range(2))
    for epochs in (2, 1):
        got = pgfit.fit(ours, x, y, epochs=epochs, shuffle=False, verbose=0)
        want = theirs.fit(x, y, epochs=epochs, shuffle=False, verbose=0)
        for key, values in want.history.items():
            assert far([values], [got.history[key]]) < TOLERANCE, (name, key, values, got.history[key])
        assert far(ours.get_weights(), theirs.get_weights()) < TOLERANCE, name
        assert far(state(ours), state(theirs)) < TOLERANCE, name
    assert got.model is ours and got.epoch == [0]
    on = [m.fit(x, y, shuffle=False, verbose=0).history['loss'][0] for m in (ours, theirs)]
    assert abs(on[0] - on[1]) < TOLERANCE, (name, on)

assert far(pgfit.predict(ours, x), theirs.predict(x, verbose=0)) < 1e-5
got, want = pgfit.evaluate(ours, x, y), theirs.evaluate(x, y, return_dict=True, verbose=0)
assert set(got) == set(want) and all(abs(got[k] - want[k]) < 1e-5 for k in want), (got, want)
two = compiled(optimizers['adam'], model.get_weights())
pgfit.fit(two, {'x': x}, {'out': y[0], 'side': y[1]}, devices=['cpu:0', 'cpu:1'], validation_data=(x, y), verbose=0)
other.compile('sgd', ['categorical_crossentropy', 'mse'])
got = pgfit.fit(other, x, y, optimizer=keras.optimizers.Adam(0.02), verbose=0)
assert got.params['optimizer'] == 'Adam'

ours, theirs = (compiled(optimizers['adam'], model.get_weights()) for _ in range(2))
with pgfit.Trainer(ours) as trainer:
    for _ in range(2):
        got, want = (m.fit(x, y, shuffle=False, verbose=0).history['loss'] for m in (trainer, theirs))
        assert far([got], [want]) < TOLERANCE, (got, want)
    assert far(trainer.predict(x), theirs.predict(x, verbose=0)) < 1e-5

# Callbacks of Keras, of one's own, and those that cannot work.
model = compiled(optimizers['sgd'])
seen = []


class Own(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(batch)

    def on_epoch_end(self, epoch, logs=None):
        self.saved = self.model.get_weights()


own = Own()
run = pgfit.fit(model, x, y, epochs=6, verbose=0, callbacks=[
    own, keras.callbacks.EarlyStopping('loss', patience=1, min_delta=1e9, restore_best_weights=False),
    keras.callbacks.ModelCheckpoint('epoch-{epoch}.keras')])
assert run.epoch == [0, 1] and seen == [0, 1, 2] * 2, (run.epoch, seen)
assert far(own.saved, model.get_weights()) == 0
assert far(keras.models.load_model('epoch-2.keras').get_weights(), model.get_weights()) == 0
try:
    pgfit.fit(model, x, y, callbacks=[keras.callbacks.ReduceLROnPlateau()])
except pgfit.UnsupportedError as e:
    assert 'ReduceLROnPlateau' in e.hint
else:
    raise AssertionError('not refused')


class Fails(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise ZeroDivisionError


before = model.get_weights()
try:
    pgfit.fit(model, x, y, epochs=3, callbacks=[Fails()], verbose=0)
except ZeroDivisionError:
    assert far(before, model.get_weights()) > 0  # those of the epoch that was trained
else:
    raise AssertionError('the exception was lost')

# A loss that only Python knows is named.
model.compile('sgd', [lambda a, b: a - b, 'mse'])
try:
    pgfit.fit(model, x, y, verbose=0)
except pgfit.Error as e:
    assert e.message
else:
    raise AssertionError('not refused')

# The package's own callback, and what it loads.
template = build()
parallel = wrap(template)
parallel.compile(keras.optimizers.Adam(0.01), ['categorical_crossentropy', 'mse'])
parallel.fit(x, y, verbose=0, callbacks=[pgfit.keras.ParallelModelCheckpoint(template, 'one.keras')])
assert pgfit.inspect('one.keras').verdict == 'single'
pgfit.split('one.keras', 'pieces')
for load in (lambda m: pgfit.keras.load_shards(m, 'pieces', verify=True), lambda m: pgfit.keras.load_weights(m, 'pieces')):
    other = build()
    load(other)
    assert far(other.get_weights(), template.get_weights()) == 0

# The manual page's own examples.
model = compiled(optimizers['adam'])
parallel = wrap(model)
parallel.compile('adam', ['categorical_crossentropy', 'mse'])
space = {'model': model, 'parallel_model': parallel, 'x': x, 'y': y}
for block in page_blocks('python'):
    if 'torch' not in block:
        exec(block, space)
