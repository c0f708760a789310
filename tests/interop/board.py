#!/usr/bin/env python3
"""usage: board.py --tools DIR

Real Keras with its TensorBoard callback, and pgfit --tensorboard, train the same models from the same
weights in the same order; TensorBoard's own reader finds the same in both folders: tags, steps, plugins,
values, histograms and the graph. Of a file that ends in the middle of a record it reads the rest. Needs
PG_KERAS2_PYTHON or PG_KERAS3_PYTHON (TensorFlow brings TensorBoard) and skips (77) without them."""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BATCH, EPOCHS, EVERY = 8, 3, 2
bad = []


def check(ok, what):
    if not ok:
        bad.append(what)
        print('not ok:', what)


def models(keras):
    """name: model. Layers share names with those of nested models; weights lie in cells and wrappers."""
    k = keras.layers
    inner = keras.Sequential([keras.Input((6,)), k.Dense(6, 'tanh', name='d'), k.Dense(5, name='e')], name='inner')
    x = keras.Input((6,), name='x')
    h = k.BatchNormalization(name='bn')(inner(k.Dense(6, name='d')(x)))
    nested = keras.Model(x, k.Dense(3, 'softmax', name='probs')(h), name='nested')
    x = keras.Input((4, 3), name='x')
    h = k.Bidirectional(k.LSTM(3, name='l'), name='both')(k.GRU(4, return_sequences=True, name='g')(x))
    rnn = keras.Model(x, [k.Dense(2, name='a')(h), k.Dense(3, 'softmax', name='b')(h)], name='rnn')
    chain = keras.Sequential([keras.Input((6, 6, 1)), k.Conv2D(4, 3, name='c'), k.Flatten(name='f'),
                              k.Dense(3, 'softmax', name='probs')], name='chain')
    return {'nested': (nested, 'categorical_crossentropy', ['accuracy', 'mae']),
            'rnn': (rnn, {'a': 'mse', 'b': 'categorical_crossentropy'}, {'b': ['accuracy']}),
            'chain': (chain, 'categorical_crossentropy', ['accuracy'])}


def arrays(np, model, n, rng):
    x = rng.normal(size=(n,) + model.input_shape[1:]).astype('f4')
    y = [rng.normal(size=(n,) + o.shape[1:]).astype('f4') if o.shape[1] == 2 else
         np.eye(3, dtype='f4')[rng.integers(0, 3, n)] for o in model.outputs]
    return x, y


Event = collections.namedtuple('Event', 'tag step plugin content dtype shape value')


def events(folder):
    """All values of the only event file there, in order."""
    from tensorboard.backend.event_processing import event_file_loader
    from tensorboard.compat.proto import event_pb2
    from tensorboard.util import tensor_util
    path, = sorted(folder.iterdir())
    check(path.name.startswith('events.out.tfevents.') and path.name.endswith('.v2'), f'name {path}')
    out = []
    for i, raw in enumerate(event_file_loader.RawEventFileLoader(str(path)).Load()):
        event = event_pb2.Event.FromString(raw)
        if i == 0:
            check(event.file_version == 'brain.Event:2', f'version of {path}')
        for v in event.summary.value:
            value = tensor_util.make_ndarray(v.tensor)
            out.append(Event(v.tag, event.step, v.metadata.plugin_data.plugin_name, v.metadata.plugin_data.content,
                             str(value.dtype), value.shape, value))
    # How fast it was is nobody's business here; without it Keras writes no batches.
    return [e for e in out if not e.tag.endswith('_steps_per_second')]


def wanted_tags(model, keras3):
    """Keras' names of the weights, those of nested models behind the model's where they are not alone. Keras 3 calls all
    kernels "kernel"; here they are under their paths."""
    weights = [(layer, w) for layer in model.layers for w in layer.weights]
    if keras3:
        return [w.path.removeprefix('chain/') + '/histogram' for _, w in weights]
    names = [w.name.replace(':', '_') for _, w in weights]
    model = [f'{layer.name}/' if hasattr(layer, 'layers') else '' for layer, _ in weights]
    return [(m if names.count(name) > 1 else '') + name + '/histogram' for m, name in zip(model, names)]


def compare_values(np, name, want, got):
    """Events of one folder, in order; tags of histograms are compared elsewhere."""
    for w, g in zip(want, got):
        where = f'{name}: {w.tag} at {w.step}'
        same = (w.step, w.plugin, w.content, w.dtype, w.shape) == (g.step, g.plugin, g.content, g.dtype, g.shape)
        check(same, f'{where} is {g[:6]}, Keras has {w[:6]}')
        if not same:
            continue
        if w.plugin == 'scalars':
            check(np.allclose(w.value, g.value, rtol=2e-4, atol=1e-6), f'{where}: {g.value}, Keras has {w.value}')
        elif w.plugin == 'histograms':
            check(np.allclose(w.value[:, :2], g.value[:, :2], rtol=1e-4, atol=1e-5), f'{where}: edges')
            moved = np.abs(w.value[:, 2].cumsum() - g.value[:, 2].cumsum()).max()
            is_noise = w.value[-1, 1] - w.value[0, 0] < 1e-5  # a bias before BatchNormalization has no gradient
            check(is_noise or moved <= 1 + 0.02 * w.value[:, 2].sum(), f'{where}: {moved} values in other buckets')
        else:
            check(json.loads(w.value.item())['config'] == json.loads(g.value.item())['config'], f'{where}: model')
    check(len(want) == len(got), f'{name}: {len(got)} events, Keras has {len(want)}')


def compare_last_histograms(np, name, model, final, got):
    """What TensorFlow counts in the weights that pgfit saved."""
    from tensorboard.plugins.histogram import summary_v2
    model.load_weights(final)
    last = [e for e in got if e.plugin == 'histograms' and e.step == EPOCHS - 1]
    weights = [w for layer in model.layers for w in layer.weights]
    check(len(last) == len(weights), f'{name}: {len(last)} histograms of {len(weights)} weights')
    for e, w in zip(last, weights):
        check(np.array_equal(summary_v2._buckets(w.numpy()).numpy(), e.value), f'{name}: {e.tag} is not TensorFlow\'s')


def read_as_tensorboard(name, want, folder):
    from tensorboard.backend.event_processing import plugin_event_accumulator
    from tensorboard.plugins.graph import keras_util
    a = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance={'tensors': 0})
    a.Reload()
    tags = {e.tag for e in want}
    check(set(a.Tags()['tensors']) == tags, f'{name}: TensorBoard shows {a.Tags()["tensors"]}')
    for tag in tags:
        steps = [e.step for e in a.Tensors(tag)]
        check(steps == [e.step for e in want if e.tag == tag], f'{name}: TensorBoard has {tag} at {steps}')
    if 'keras' in tags:
        graph = keras_util.keras_model_to_graph_def(json.loads(a.Tensors('keras')[0].tensor_proto.string_val[0]))
        check(len(graph.node) > 2, f'{name}: a graph of {len(graph.node)} nodes')


def read_torn(name, folder):
    """The reader ends at a record that is not whole, and reads all before it."""
    path, = sorted(folder.iterdir())
    want = events(folder)
    os.truncate(path, path.stat().st_size - 7)
    check([e[:6] for e in events(folder)] == [e[:6] for e in want[:-1]], f'{name}: torn')


def run_keras(keras, d, model, loss, metrics, scheduled, train, val):
    """Keras' side. What makes 2.15 look at single batches makes it write them; 3.6 writes all of them at step 0."""
    rate = keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5) if scheduled else 0.05
    model.compile(keras.optimizers.SGD(rate), loss, metrics=metrics)
    calls = [keras.callbacks.TensorBoard(str(d / 'keras'), histogram_freq=1)]
    if is_keras2(keras):
        calls = [keras.callbacks.TensorBoard(str(d / 'keras'), histogram_freq=1, update_freq=EVERY,
                                             write_steps_per_second=True)]
        if not scheduled:  # puts the rate into the logs
            calls.insert(0, keras.callbacks.ReduceLROnPlateau(patience=EPOCHS))
    model.fit(*train, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=calls, validation_data=val)


def is_keras2(keras):
    return keras.__version__.startswith('2.')


def in_order(events, keras):
    """Keras 3 sorts its logs, pgfit begins with the loss."""
    if is_keras2(keras):
        return events
    return sorted((e for e in events if e.plugin != 'histograms'), key=lambda e: (e.tag, e.step)) + \
        [e for e in events if e.plugin == 'histograms']


def run_case(keras, np, tools, d, name, model, loss, metrics):
    rng = np.random.default_rng(3)
    sets = {'data': arrays(np, model, 40, rng), 'val': arrays(np, model, 16, rng)}
    for file, (x, y) in sets.items():
        np.savez(d / f'{file}.npz', x0=x, **{f'y{i}': v for i, v in enumerate(y)})
    one = lambda v: (v[0], v[1][0] if len(v[1]) == 1 else v[1])
    suffix = '.h5' if is_keras2(keras) else '.weights.h5'
    (d / 'model.json').write_text(model.to_json())
    model.save_weights(str(d / 'init') + suffix)
    scheduled = name == 'chain'
    run_keras(keras, d, model, loss, metrics, scheduled, one(sets['data']), one(sets['val']))

    out = lambda v: ','.join(f'{k}={"+".join(m) if isinstance(m, list) else m}' for k, m in v.items())
    text = lambda v: out(v) if isinstance(v, dict) else ','.join(v) if isinstance(v, list) else v
    command = [tools / 'pgfit', d / 'model.json', '--data', d / 'data.npz', '--loss', text(loss), '--metrics', text(metrics),
               '--batch-size', str(BATCH), '--histogram-freq', '1', '--quiet']
    subprocess.run(command + ['--weights', str(d / 'init') + suffix, '--val', d / 'val.npz', '--epochs', str(EPOCHS),
                              '--optimizer', 'SGD:learning_rate=0.05', '--no-shuffle', '--tensorboard', d / 'pgfit',
                              '-o', str(d / 'final') + suffix] +
                   ['--tensorboard-every', str(EVERY)] * is_keras2(keras) +
                   ['--schedule', 'exponential_decay:decay_steps=4,decay_rate=0.5'] * scheduled, check=True)
    tags = wanted_tags(model, not is_keras2(keras))
    for folder in ('train', 'validation'):
        where = f'{name}/{folder}'
        want, got = (in_order(events(d / side / folder), keras) for side in ('keras', 'pgfit'))
        histograms = [e.tag for e in got if e.plugin == 'histograms']
        check(histograms == tags * EPOCHS * (folder == 'train'), f'{where}: {histograms}')
        plain = lambda events: [e.tag for e in events if e.plugin != 'histograms']
        check(plain(want) == plain(got), f'{where}: {plain(got)}, Keras has {plain(want)}')
        compare_values(np, where, want, got)
        read_as_tensorboard(where, got, d / 'pgfit' / folder)
        if folder == 'train':
            compare_last_histograms(np, where, model, str(d / 'final') + suffix, got)
        read_torn(where, d / 'pgfit' / folder)
    # Without a file that Keras wrote, the names of the weights are made.
    subprocess.run(command + ['--steps-per-epoch', '1', '--tensorboard', d / 'fresh'], check=True)
    got = [e.tag for e in events(d / 'fresh' / 'train') if e.plugin == 'histograms']
    check(got == tags, f'{name}: fresh: {got}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--tools', type=pathlib.Path, required=True)
    p.add_argument('--inside', action='store_true')
    a = p.parse_args()
    if not a.inside:
        pythons = [p for p in map(os.environ.get, ('PG_KERAS2_PYTHON', 'PG_KERAS3_PYTHON')) if p]
        if not pythons:
            print('needs PG_KERAS2_PYTHON or PG_KERAS3_PYTHON')
            sys.exit(77)
        done = [subprocess.run([p, __file__, '--tools', a.tools, '--inside']).returncode for p in pythons]
        sys.exit(any(done))
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import numpy as np
    import keras
    keras.utils.set_random_seed(7)
    for name, (model, loss, metrics) in models(keras).items():
        with tempfile.TemporaryDirectory() as t:
            run_case(keras, np, a.tools, pathlib.Path(t), name, model, loss, metrics)
    print(f'Keras {keras.__version__}: {len(bad)} differences')
    sys.exit(bool(bad))


if __name__ == '__main__':
    main()
