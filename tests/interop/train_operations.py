"""Functions between layers for train_layers.py: what tf.keras writes as TFOpLambda, SlicingOpLambda and TensorFlowOpLayer, and
Keras 3 as operations; the layers of its own that keras.applications brings along."""
from train_sequences import Input


def v2(keras, L, add, img, seq):
    import tensorflow as tf
    from keras.src.applications.convnext import LayerScale, StochasticDepth
    from keras.src.applications.inception_resnet_v2 import CustomScaleLayer
    from keras.src.engine.base_layer import TensorFlowOpLayer

    def node(name, op, constants=None, n=2, **attr):
        d = {"name": name, "op": op, "input": [str(k) for k in range(n)],
             "attr": dict({"T": {"type": "DT_FLOAT"}}, **{k: {"b": v} if isinstance(v, bool) else {"type": v} for k, v in attr.items()})}
        return TensorFlowOpLayer(d, name, constants)

    nn = {"relu": tf.nn.relu, "relu6": lambda x: tf.nn.relu6(4 * x), "leaky_relu": tf.nn.leaky_relu, "elu": tf.nn.elu, "selu": tf.nn.selu,
          "gelu": tf.nn.gelu, "silu": tf.nn.silu, "softmax": tf.nn.softmax, "softplus": tf.math.softplus, "softsign": tf.nn.softsign,
          "sigmoid": tf.sigmoid, "tanh": tf.tanh, "exp": tf.exp, "square": tf.square, "negative": lambda x: -x, "identity": tf.identity,
          "leaky_relu-slope": lambda x: tf.nn.leaky_relu(x, alpha=0.4), "gelu-approximate": lambda x: tf.nn.gelu(x, approximate=True)}
    functions(L, add, img, seq, nn, {
        "mean": lambda x: tf.reduce_mean(x, [1, 2]), "mean-keep": lambda x: tf.reduce_mean(x, axis=-1, keepdims=True),
        "sum": lambda x: tf.reduce_sum(x, axis=2), "expand": lambda x: tf.expand_dims(x, -2), "squeeze": lambda x: tf.squeeze(tf.expand_dims(x, 1), [1]),
        "transpose": lambda x: tf.transpose(x, [0, 3, 1, 2]), "reshape": lambda x: tf.reshape(x, [-1, 8, 21]),
        "concat": lambda x: tf.concat([x, 2 * x, x], axis=-1), "concat-1": lambda x: tf.concat([x, -x], 1),
        "slice": lambda x: x[:, 1:-1, :, 0:2], "index": lambda x: x[:, -1], "index-last": lambda x: x[:, :, 2:, 1],
        "maximum": lambda x: tf.maximum(x, 0.3), "minimum-two": lambda x: tf.minimum(x, x * x), "bias": lambda x: tf.nn.bias_add(x, [1.0, -2.0, 0.5])})
    add("op-node-add", lambda x: node("a", "AddV2", {1: 2.5})(x), img)
    add("op-node-two", lambda x, y: node("m", "Mul")([x, y]), img, img)
    add("op-node-first", lambda x: node("s", "Sub", {0: 1.5})(x), img)
    add("op-node-relu", lambda x: node("r", "Relu6", n=1)(x), img)
    add("op-node-mean", lambda x: node("m", "Mean", {1: [1, 2]}, keep_dims=True, Tidx="DT_INT32")(x), img)
    ours(keras, L, add, img, LayerScale, StochasticDepth, CustomScaleLayer)


def v3(keras, L, add, img, seq):
    from keras import ops
    from keras.src.applications.convnext import LayerScale, StochasticDepth
    from keras.src.applications.inception_resnet_v2 import CustomScaleLayer
    nn = {n: getattr(ops, n) for n in ("relu", "leaky_relu", "elu", "selu", "gelu", "silu", "softmax", "softplus", "softsign", "sigmoid",
                                       "hard_sigmoid", "hard_silu", "tanh", "exp", "square", "negative")}
    nn.update({"relu6": lambda x: ops.relu6(4 * x), "leaky_relu-slope": lambda x: ops.leaky_relu(x, 0.4), "gelu-exact": lambda x: ops.gelu(x, approximate=False)})
    functions(L, add, img, seq, nn, {
        "mean": lambda x: ops.mean(x, axis=(1, 2)), "mean-keep": lambda x: ops.mean(x, axis=-1, keepdims=True),
        "sum": lambda x: ops.sum(x, axis=2), "expand": lambda x: ops.expand_dims(x, -2), "squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 1), 1), "cast": lambda x: ops.cast(x, "float32"),
        "transpose": lambda x: ops.transpose(x, (0, 3, 1, 2)), "reshape": lambda x: ops.reshape(x, (-1, 8, 21)),
        "concat": lambda x: ops.concatenate([x, 2 * x, x], axis=-1), "concat-1": lambda x: ops.concatenate([x, -x], 1),
        "slice": lambda x: x[:, 1:-1, :, 0:2], "index": lambda x: x[:, -1], "index-last": lambda x: x[..., 2:, 1],
        "maximum": lambda x: ops.maximum(x, 0.3), "minimum-two": lambda x: ops.minimum(x, x * x), "divide": lambda x: ops.divide(x, 1.5)})
    ours(keras, L, add, img, LayerScale, StochasticDepth, CustomScaleLayer)


def functions(L, add, img, seq, activations, others):
    """Between two layers, so that gradients go through."""
    def between(f):
        return lambda x: L.Dense(2)(L.Flatten()(f(L.Conv2D(3, 1)(x))))

    for name, f in activations.items():
        add("op-" + name, between(f), img)
    for name, f in others.items():
        add("op-" + name, between(f), img)
    numbers = {"add": lambda x: x + 3.0, "radd": lambda x: 3.0 + x, "sub": lambda x: x - 3.0, "rsub": lambda x: 3.0 - x, "mul": lambda x: x * 0.5,
               "rmul": lambda x: 0.5 * x, "div": lambda x: x / 4.0, "rdiv": lambda x: 2.0 / (x * x + 1.0)}
    two = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / (b * b + 1.0), "same": lambda a, b: a + a}
    for name, f in numbers.items():
        add("op-number-" + name, between(f), img)
    for name, f in two.items():
        add("op-two-" + name, lambda a, b, f=f: L.Dense(2)(L.Flatten()(f(L.Conv2D(3, 1)(a), L.Conv2D(3, 1)(b)))), img, img)
    add("op-two-broadcast", lambda a, b: L.Conv2D(3, 1)(a) * L.Conv2D(3, 1)(b), img, (1, 1, 3))
    rest = slice(None)
    for name, cut in {"first": 0, "last": -1, "head": slice(2), "tail": slice(-2, None), "inner": slice(1, -1)}.items():
        add("open-cut-" + name, lambda x, cut=cut: L.Dense(2)(L.Dense(3)(x)[rest, cut]), Input("numbers", 5, 3, known=False))
    add("op-mask-ends", lambda x: L.GlobalAveragePooling1D()(L.Masking()(x) + 0.0), seq)


def ours(keras, L, add, img, scale, depth, custom):
    add("LayerScale", scale(0.5, 3), img)
    add("StochasticDepth", lambda x: depth(0.0)(L.Conv2D(3, 1)(x)), img)
    add("CustomScaleLayer", lambda a, b: custom(scale=0.17)([a, L.Conv2D(3, 1)(b)]), img, img)


def recipes(keras, add, img, seq):
    (v3 if keras.__version__[0] == "3" else v2)(keras, keras.layers, add, img, seq)
