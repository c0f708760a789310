"""The half of train.py that runs inside a Keras: a process that stays, and trains a random model for each line of standard input.

A line {"spec": ..., "dir": ...} makes the model, its data and its file there, trains it with float32 and with float64 from the same
weights, and saves both after the epochs and after one more. {"continue": file, "to": file, "epochs": n} loads a file, trains on
and saves. {"nudge": n, "dir": ...} repeats the float32 run from weights that are an ulp away. The answer is a line of JSON."""
import json
import os
import sys
import traceback

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
import warnings  # noqa: E402
warnings.simplefilter('ignore')
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import keras  # noqa: E402
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
keras.utils.disable_interactive_logging()


class DenseTape(tf.GradientTape):
    """Over TensorFlow, Keras 3's optimizers square each occurrence of an id of an Embedding by itself; over JAX and PyTorch, which
    have no sparse gradients, the sum of them, as Keras 2 does."""

    def gradient(self, *args, **more):
        return tf.nest.map_structure(lambda g: tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g,
                                     super().gradient(*args, **more))


def plain_factors(init):
    def made(self, *args, **config):
        init(self, *args, **config)
        for k, v in vars(self).items():
            if tf.is_tensor(v):  # float32, even where all else is float64
                setattr(self, k, float(v))
    return made


if keras.__version__[0] == '3':
    tf.GradientTape = DenseTape
    for of in (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2, keras.regularizers.OrthogonalRegularizer):
        of.__init__ = plain_factors(of.__init__)


def built(v, legacy=False):
    """Objects of Keras for their descriptions."""
    if isinstance(v, list):
        return [built(w) for w in v]
    if not isinstance(v, dict) or 'of' not in v:
        return v
    where, *path = v['of'].split('.')
    o = getattr(keras, where)
    if legacy:
        o = o.legacy
    for part in path:
        o = getattr(o, part)
    return o(**{k: built(w) for k, w in v['with'].items()})


def model_of(spec):
    keras.backend.clear_session()  # numbers in names begin anew
    t = [keras.Input(tuple(i['shape']), name=i['name'], dtype='int32' if i['kind'] == 'ids' else None) for i in spec['inputs']]
    layers = []
    for d in spec['layers']:
        config = dict(d['config'])
        if 'layer' in config:  # with a name of its own: made up ones count on
            config['layer'] = {**config['layer'], 'with': {**config['layer']['with'], 'name': 'in_' + d['name']}}
        layer = layers[d['same']] if 'same' in d else getattr(keras.layers, d['class'])(name=d['name'], **{k: built(v) for k, v in config.items()})
        layers.append(layer)
        ins = [t[i] for i in d['in']]
        t.append(layer(*ins) if d['class'] == 'MultiHeadAttention' else layer(ins if len(ins) > 1 else ins[0]))
    outs = [t[o['tensor']] for o in spec['outputs']]
    return keras.Model(t[:len(spec['inputs'])], outs if len(outs) > 1 else outs[0])


def compiled(spec, model):
    outs, many = spec['outputs'], len(spec['outputs']) > 1
    each = {k: [built(o[k]) for o in outs] for k in ('loss', 'metrics', 'weighted_metrics', 'loss_weight')}
    args = {'loss': each['loss'] if many else each['loss'][0]}
    if any(each['metrics']):
        args['metrics'] = each['metrics'] if many else each['metrics'][0]
    if any(each['weighted_metrics']):
        args['weighted_metrics'] = each['weighted_metrics'] if many else each['weighted_metrics'][0]
    if many:
        args['loss_weights'] = each['loss_weight']
    model.compile(built(spec['optimizer'], spec['optimizer'].get('legacy')), run_eagerly=True, **args)
    return model


def targets(rng, kind, shape):
    if kind in ('one_hot', 'classes'):
        ids = rng.integers(0, shape[-1], shape[:-1])
        return np.eye(shape[-1], dtype='f4')[ids] if kind == 'one_hot' else ids.astype('i4')
    v = rng.normal(size=shape)
    return {'numbers': lambda: v, 'large': lambda: v + 3 * np.sign(v), 'positive': lambda: np.abs(v), 'counts': lambda: rng.integers(0, 4, shape),
            'signs': lambda: np.where(v > 0, 1, -1), 'labels': lambda: v > 0, 'shares01': lambda: 1 / (1 + np.exp(-v)),
            'shares': lambda: np.exp(v) / np.exp(v).sum(-1, keepdims=True)}[kind]().astype('f4')


def data_of(spec, model):
    """The arrays as .npz names them."""
    rng, n, a = np.random.default_rng(spec['seed']), spec['rows'], {}
    for k, i in enumerate(spec['inputs']):
        shape = (n, *i['shape'])
        if i['kind'] == 'ids':
            v = rng.integers(0, i['vocab'], shape)
            if spec['seed'] % 2:  # padded behind, as most are
                v[np.arange(shape[1]) >= rng.integers(1, shape[1] + 1, (n, 1))] = 0
            a[f'x{k}'] = v.astype('i4')
            continue
        a[f'x{k}'] = rng.normal(size=shape).astype('f4')
        if i['kind'] == 'steps':  # for Masking
            a[f'x{k}'][np.arange(shape[1]) >= rng.integers(1, shape[1] + 1, (n, 1))] = 0
    for k, o in enumerate(spec['outputs']):
        shape = model.outputs[k].shape
        a[f'y{k}'] = targets(rng, o['targets'], (n, *[int(v) for v in shape[1:]]))
    if any(o['row_weights'] for o in spec['outputs']):
        for k, o in enumerate(spec['outputs']):
            a[f'w{k}'] = rng.uniform(0.3, 2.0, n).astype('f4') if o['row_weights'] else np.ones(n, 'f4')
    return a


def random_weights(spec, model):
    """The initializers', moved a little, so that no bias is zero and no statistics are 0 and 1."""
    rng, made = np.random.default_rng(spec['seed'] + 1), []
    for w in model.weights:
        v = np.array(w)
        if v.dtype.kind == 'f':
            v = v + 0.1 * rng.normal(size=v.shape)
            v = np.abs(v) + 0.05 if 'variance' in w.name else v
        made.append(v.astype(np.array(w).dtype))
    model.set_weights(made)


def fit(spec, model, a, epochs):
    wide = keras.backend.floatx()
    a = {k: v.astype(wide) if v.dtype == np.float32 else v for k, v in a.items()}

    def part(c):
        v = [a[f'{c}{k}'] for k in range(9) if f'{c}{k}' in a]
        return v if len(v) > 1 else v[0] if v else None

    weights = {int(k): v for k, v in spec['class_weight'].items()} if spec['class_weight'] else None
    past = Past()
    model.fit(part('x'), part('y'), sample_weight=part('w'), class_weight=weights, batch_size=spec['batch'], epochs=epochs, shuffle=False, verbose=0,
              callbacks=[past])
    return past.logs


class Past(keras.callbacks.Callback):
    """The history, of copies: Keras 3.6 keeps arrays (of a metric with several thresholds) that later epochs overwrite."""

    def __init__(self):
        super().__init__()
        self.logs = {}

    def on_epoch_end(self, epoch, logs=None):
        for k, v in logs.items():
            self.logs.setdefault(k, []).append(np.array(v, 'f8').tolist())


class Judge:
    def make(self, spec, d):
        keras.backend.set_floatx('float32')
        keras.utils.set_random_seed(spec['seed'] % 1000)
        model = model_of(spec)
        random_weights(spec, model)
        start = self.start = model.get_weights()
        a = self.data = data_of(spec, model)
        self.spec = spec
        np.savez(f'{d}/data.npz', **a)
        answer, x = {}, '.' + spec['file']
        for bits in (32, 64):
            keras.backend.set_floatx(f'float{bits}')
            if bits == 64:
                model = model_of(spec)
                model.set_weights([v.astype('f8') if v.dtype.kind == 'f' else v for v in start])
            compiled(spec, model)
            if bits == 32:
                model.save(f'{d}/model{x}')
            answer[f'past{bits}'] = fit(spec, model, a, spec['epochs'])
            model.save(f'{d}/want{bits}{x}')
            answer[f'more{bits}'] = fit(spec, model, a, 1)
            model.save(f'{d}/more{bits}{x}')
        keras.backend.set_floatx('float32')
        return answer

    def nudge(self, k, d):
        """The float32 run again, from weights and data moved by an ulp: what that changes is chance."""
        spec, rng = self.spec, np.random.default_rng(k)

        def moved(v):
            return (v * (1 + 2.0**-23 * rng.choice([-1, 0, 1], v.shape))).astype('f4') if v.dtype == np.float32 else v

        keras.utils.set_random_seed(spec['seed'] % 1000)
        model = compiled(spec, model_of(spec))
        model.set_weights([moved(v) for v in self.start])
        a = {key: moved(v) if key[0] == 'x' else v for key, v in self.data.items()}
        answer = {}
        for epochs, past, file in ((spec['epochs'], 'past', 'near'), (1, 'more', 'far')):
            answer[past] = fit(spec, model, a, epochs)
            model.save(f'{d}/{file}{k}.{spec["file"]}')
        return answer

    def go_on(self, file, to, epochs):
        """More epochs from a file, which pgfit or this Keras saved."""
        model = keras.models.load_model(file)
        model.run_eagerly = True
        past = fit(self.spec, model, self.data, epochs)
        model.save(to)
        return {'past': past}


def main():
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    judge = Judge()
    for line in sys.stdin:
        q = json.loads(line)
        try:
            if 'spec' in q:
                answer = judge.make(q['spec'], q['dir'])
            elif 'nudge' in q:
                answer = judge.nudge(q['nudge'], q['dir'])
            else:
                answer = judge.go_on(q['continue'], q['to'], q['epochs'])
        except Exception as e:
            answer = {'error': f'{type(e).__name__}: {e}'[:2000], 'trace': traceback.format_exc()[-1500:]}
        keras.backend.clear_session()
        print(json.dumps(answer), file=out, flush=True)


if __name__ == '__main__':
    main()
