#!/usr/bin/env python3
"""usage: board.py --tools DIR

Real Keras with its TensorBoard callback, and pgfit --tensorboard, train the same models from the same
weights in the same order; TensorBoard's own reader finds the same in both folders: tags, steps, plugins,
values, histograms and the graph. Of a file that ends in the middle of a record it reads the rest. Needs
PG_KERAS2_PYTHON (TensorFlow 2.15 brings TensorBoard) and skips (77) without it."""
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
    inner = keras.Sequential([k.Dense(6, 'tanh', name='d', input_shape=(6,)), k.Dense(5, name='e')], name='inner')
    x = keras.Input((6,), name='x')
    h = k.BatchNormalization(name='bn')(inner(k.Dense(6, name='d')(x)))
    nested = keras.Model(x, k.Dense(3, 'softmax', name='probs')(h), name='nested')
    x = keras.Input((4, 3), name='x')
    h = k.Bidirectional(k.LSTM(3, name='l'), name='both')(k.GRU(4, return_sequences=True, name='g')(x))
    rnn = keras.Model(x, [k.Dense(2, name='a')(h), k.Dense(3, 'softmax', name='b')(h)], name='rnn')
    chain = keras.Sequential([k.Conv2D(4, 3, input_shape=(6, 6, 1), name='c'), k.Flatten(name='f'),
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


def wanted_tags(model):
    """Keras' names of the weights, those of nested models behind the model's where they are not alone."""
    owners = [(layer.name if hasattr(layer, 'layers') else '', w.name.replace(':', '_'))
              for layer in model.layers for w in layer.weights]
    count = collections.Counter(name for _, name in owners)
    return [(f'{model}/{name}' if model and count[name] > 1 else name) + '/histogram' for model, name in owners]


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


def read_torn(name, want, folder):
    """The reader ends at a record that is not whole, and reads all before it."""
    path, = sorted(folder.iterdir())
    os.truncate(path, path.stat().st_size - 7)
    check([e[:6] for e in events(folder)] == [e[:6] for e in want[:-1]], f'{name}: torn')


def run_case(keras, np, tools, d, name, model, loss, metrics):
    rng = np.random.default_rng(3)
    x, y = arrays(np, model, 40, rng)
    vx, vy = arrays(np, model, 16, rng)
    for file, a, b in (('data', x, y), ('val', vx, vy)):
        np.savez(d / f'{file}.npz', x0=a, **{f'y{i}': v for i, v in enumerate(b)})
    (d / 'model.json').write_text(model.to_json())
    model.save_weights(d / 'init.h5')
    model.compile(keras.optimizers.SGD(0.05), loss, metrics=metrics)
    calls = [keras.callbacks.ReduceLROnPlateau(patience=EPOCHS),  # puts the rate into the logs
             keras.callbacks.TensorBoard(str(d / 'keras'), histogram_freq=1, update_freq=EVERY,
                                         write_steps_per_second=True)]
    one = lambda v: v[0] if len(v) == 1 else v
    model.fit(x, one(y), batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=calls,
              validation_data=(vx, one(vy)))
    out = lambda v: ','.join(f'{k}={"+".join(m) if isinstance(m, list) else m}' for k, m in v.items())
    text = lambda v: out(v) if isinstance(v, dict) else ','.join(v) if isinstance(v, list) else v
    r = subprocess.run([tools / 'pgfit', d / 'model.json', '--weights', d / 'init.h5', '--data', d / 'data.npz', '--val',
                        d / 'val.npz', '--loss', text(loss), '--metrics', text(metrics), '--optimizer',
                        'SGD:learning_rate=0.05', '--batch-size', str(BATCH), '--epochs', str(EPOCHS), '--no-shuffle',
                        '--tensorboard', d / 'pgfit', '--tensorboard-every', str(EVERY), '--histogram-freq', '1',
                        '-o', d / 'final.h5'], capture_output=True, text=True)
    check(r.returncode == 0, f'{name}: pgfit exits {r.returncode}: {r.stderr}')
    if r.returncode:
        return
    for folder in ('train', 'validation'):
        where = f'{name}/{folder}'
        want = events(d / 'keras' / folder)
        got = events(d / 'pgfit' / folder)
        if folder == 'train':
            tags = [e.tag for e in got if e.plugin == 'histograms']
            check(tags == wanted_tags(model) * EPOCHS, f'{where}: {tags}')
        plain = lambda events: [e.tag for e in events if e.plugin != 'histograms']
        check(plain(want) == plain(got), f'{where}: {plain(got)}, Keras has {plain(want)}')
        compare_values(np, where, want, got)
        read_as_tensorboard(where, got, d / 'pgfit' / folder)
        if folder == 'train':
            compare_last_histograms(np, where, model, d / 'final.h5', got)
        read_torn(where, got, d / 'pgfit' / folder)
    # Without a file that Keras wrote, the names of the weights are made.
    subprocess.run([tools / 'pgfit', d / 'model.json', '--data', d / 'data.npz', '--loss', text(loss), '--quiet',
                    '--steps-per-epoch', '1', '--tensorboard', d / 'fresh', '--histogram-freq', '1'], check=True)
    tags = [e.tag for e in events(d / 'fresh' / 'train') if e.plugin == 'histograms']
    check(tags == wanted_tags(model), f'{name}: fresh: {tags}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--tools', type=pathlib.Path, required=True)
    a = p.parse_args()
    python = os.environ.get('PG_KERAS2_PYTHON')
    if not python:
        print('needs PG_KERAS2_PYTHON')
        sys.exit(77)
    if not os.environ.get('PG_BOARD_KERAS'):
        os.environ['PG_BOARD_KERAS'] = '1'
        os.execv(python, [python, __file__, '--tools', str(a.tools)])
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import numpy as np
    from tensorflow import keras
    keras.utils.set_random_seed(7)
    for name, (model, loss, metrics) in models(keras).items():
        with tempfile.TemporaryDirectory() as t:
            run_case(keras, np, a.tools, pathlib.Path(t), name, model, loss, metrics)
    print(f'{len(bad)} differences')
    sys.exit(bool(bad))


if __name__ == '__main__':
    main()
