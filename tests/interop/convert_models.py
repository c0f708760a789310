#!/usr/bin/env python3
"""The models that convert.py converts. Run inside a Keras, it builds them with that Keras, trains a step and saves every kind of file.

usage: convert_models.py DIR      writes DIR/<model>/{m.keras,m.h5,w.weights.h5,w.h5,model.json,x<i>.npy,y<i>.npy} and DIR/made.json

Gallery: models as people build them. Zoo: every class of keras.layers (the recipes of layer_vars.py), a dozen to a model, so that no
class goes unasked; those of one Keras only stand in zoos of their own."""
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import Input, Model, Sequential  # noqa: E402
from keras import layers as L  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layer_vars  # noqa: E402

tf.config.run_functions_eagerly(True)  # tracing a graph for one step takes longer than the rest
V3 = keras.__version__[0] == "3"
# Layers that the other Keras does not have, or not in the same words; asked apart, with their refusals. No such model is compiled.
ALONE = {"LocallyConnected1D", "LocallyConnected2D", "RandomHeight", "RandomWidth", "ThresholdedReLU", "GroupQueryAttention", "AutoContrast",
         "Solarization", "SpectralNormalization", "SyncBatchNormalization", "Discretization", "RandomCrop"} | (
             set() if V3 else {"ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"})  # hard_sigmoid
VOCABULARY = 9


def cnn():
    return Sequential([Input((8, 8, 1)), L.Conv2D(4, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(), L.Dense(6, activation="relu"),
                       L.Dropout(0.2), L.Dense(5, activation="softmax")])


def image():
    i = Input((8, 8, 3), name="img")
    x = L.Conv2D(4, 3, padding="same", activation="relu")(i)
    x = L.BatchNormalization()(x)
    x = L.DepthwiseConv2D(3, padding="same")(x)
    x = L.SeparableConv2D(6, 3, padding="same")(x)
    x = L.PReLU(shared_axes=[1, 2])(x)
    x = L.Conv2DTranspose(5, 3, strides=2, padding="same")(x)
    x = L.BatchNormalization(trainable=False)(x)
    x = L.LayerNormalization()(x)
    x = L.GroupNormalization(groups=5)(x)
    x = L.MaxPooling2D(2)(x)
    x = L.Conv2D(4, (2, 3), use_bias=False, name="zconv", kernel_initializer="orthogonal")(x)
    x = L.Flatten()(x)
    x = L.Dense(7, activation="tanh", kernel_regularizer="l2")(x)
    return Model(i, L.Dense(3, activation="softmax", name="out")(x), name="picture")


def sequence():
    i = Input((6,), name="tokens")
    x = L.Embedding(VOCABULARY, 8)(i)
    x = L.Conv1D(8, 3, padding="same")(x)
    x = L.Bidirectional(L.LSTM(5, return_sequences=True))(x)
    x = L.TimeDistributed(L.Dense(4))(x)
    x = L.GRU(6, return_sequences=True)(x)
    x = L.Bidirectional(L.GRU(3, return_sequences=True), name="both")(x)
    x = L.SimpleRNN(5, return_sequences=True)(x)
    x = L.RNN([L.LSTMCell(4), L.GRUCell(3), L.LSTMCell(2)], return_sequences=True)(x)
    return Model(i, L.Dense(2)(L.GRU(4, reset_after=False)(x)))


def attention():
    i = Input((6,))
    x = L.Embedding(VOCABULARY, 8)(i)
    x = L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)])
    x = L.LayerNormalization()(x)
    y = L.MultiHeadAttention(2, 3, value_dim=5, name="cross")(x, L.Dense(8)(x))
    return Model(i, L.Dense(2)(L.GlobalAveragePooling1D()(L.Concatenate()([x, y]))))


def nested():
    inner = Sequential([Input((5,)), L.Dense(4, activation="relu"), L.BatchNormalization(), L.Dense(4)], name="enc")
    i2 = Input((4,))
    deep = Model(i2, L.BatchNormalization()(L.Dense(6)(i2)), name="deep")
    deep.trainable = False
    a, b = Input((5,), name="a"), Input((5,), name="b")
    ea, eb = inner(a), inner(b)
    z = L.Concatenate()([ea, eb, deep(L.Add()([ea, eb]))])
    return Model([a, b], [L.Dense(2, name="o1")(z), L.Dense(3, name="o2")(L.Dropout(0.1)(z))])


def lists():
    """A layer that is called twice, one with two inputs of the same, arguments that are no tensors."""
    a = Input((6, 4))
    shared = L.Dense(4, name="shared")
    x = L.Multiply()([shared(a), shared(L.LayerNormalization()(a))])
    x, h, c = L.LSTM(5, return_state=True, return_sequences=True)(x)
    y = L.LSTM(5)(x, initial_state=[h, c])
    return Model(a, L.Dense(2)(y))


def video():
    i = Input((4, 8, 8, 3))
    x = L.ConvLSTM2D(4, 3, recurrent_activation="sigmoid", return_sequences=True)(i)
    x = L.TimeDistributed(L.Conv2D(3, 2))(x)
    x = L.Conv3DTranspose(2, 2)(L.Conv3D(4, 2)(x))
    return Model(i, L.Dense(2)(L.GlobalAveragePooling3D()(L.LeakyReLU(0.3)(x))))


def torch_image():
    i = Input((9, 9, 3))
    x = L.BatchNormalization()(L.Conv2D(4, 3, activation="relu")(i))
    x = L.SeparableConv2D(6, 2)(L.DepthwiseConv2D(3, depth_multiplier=2)(x))
    x = L.Conv2DTranspose(5, 3, strides=2)(L.PReLU(shared_axes=[1, 2])(x))
    x = L.Flatten()(L.Dropout(0.2)(L.MaxPooling2D(2)(L.Activation("tanh")(x))))
    x = L.Dense(7, activation="relu")(L.BatchNormalization()(x))
    return Model(i, L.Dense(3)(x))


def torch_flat():
    """Layers with a number for each feature behind a Flatten."""
    i = Input((5, 5, 2))
    x = L.Flatten()(L.LayerNormalization()(L.Conv2D(3, 2)(i)))
    x = L.Dense(7, activation="relu")(L.PReLU()(L.LayerNormalization()(x)))
    return Model(i, L.Dense(3)(x))


def torch_text():
    i = Input((6,))
    x = L.Embedding(VOCABULARY, 8)(i)
    x = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)]))
    x = L.GRU(5, return_sequences=True)(L.Conv1D(6, 3)(x))
    x = L.TimeDistributed(L.Dense(4))(L.Bidirectional(L.GRU(3, return_sequences=True))(x))
    return Model(i, L.Dense(2)(L.SimpleRNN(4)(x)))


def torch_rnn():
    i = Input((6, 4))
    x = L.LayerNormalization()(L.LSTM(5, return_sequences=True)(i))
    return Model(i, L.Dense(2)(L.Bidirectional(L.LSTM(3))(x)))


def torch_nested():
    """Models inside of one, a shared layer, no biases; 1-D and 3-D convolutions."""
    inner = Sequential([Input((5, 5, 2)), L.Conv2D(3, 2, use_bias=False), L.Flatten(), L.Dense(4)], name="enc")
    a = Input((5, 5, 2))
    deep = Sequential([Input((4,)), L.Dense(3, activation="relu"), L.BatchNormalization()], name="head")
    v = L.Reshape((5, 5, 2, 1))(a)
    v = L.GlobalAveragePooling3D()(L.Conv3DTranspose(2, 2)(L.Conv3D(3, 2, activation="relu")(v)))
    return Model(a, L.Dense(2, name="o.ut" if not V3 else "o_ut")(L.Concatenate()([deep(inner(a)), v])))


GALLERY = [torch_image, torch_flat, torch_text, torch_rnn, torch_nested, cnn, image, sequence, attention, nested, lists, video]


def zoos():
    """[(name, model)]"""
    recipes = [r for r in layer_vars.recipes(L, V3) if "lora_rank" not in str(r[1].get_config().get("lora_rank", ""))]
    alone = [r for r in recipes if r[0] in ALONE or r[0] == "TimeDistributed" and isinstance(r[1].layer, Model)]
    plain = [r for r in recipes if r not in alone and not getattr(r[1], "lora_rank", None) and not (V3 and getattr(r[1], "rms_scaling", False))]
    for k in range(0, len(plain), 12):
        yield "zoo%d" % (k // 12), zoo(plain[k:k + 12])
    for name, layer, shape in alone:
        yield "alone-" + ("time_distributed_model" if name == "TimeDistributed" else layer.name), zoo([(name, layer, shape)])


def zoo(recipes):
    inputs, outputs = {}, []
    for name, layer, shape in recipes:
        many = isinstance(shape, list)
        one = shape[0] if many else shape
        words = name in ("Embedding", "CategoryEncoding")
        key = ("w",) if words else one
        if key not in inputs:
            inputs[key] = Input(one, name="words" if words else "in%d" % len(inputs))
        x = inputs[key]
        if name.endswith("Attention") and ("Head" in name or name.startswith("GroupQuery")):
            y = layer(x, x)
        else:
            y = layer([x, x] if many else x)
        outputs.append(L.Flatten()(y) if len(y.shape) > 2 else y)
    return Model(list(inputs.values()), outputs)


def values(model, rng):
    out = []
    for w in model.get_weights():
        a = np.abs(rng.standard_normal(w.shape)) * 0.3 + 0.1 if w.ndim < 2 else rng.standard_normal(w.shape) * 0.3
        out.append(a.astype(w.dtype) if w.dtype.kind == "f" else w)
    return out


def save(model, folder, compiled):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(5)
    xs = [rng.integers(0, 4, (4,) + tuple(i.shape[1:])).astype("float32") if i.name.startswith(("words", "tokens")) or
          len(i.shape) == 2 and i.shape[1] == 6 else rng.standard_normal((4,) + tuple(i.shape[1:])).astype("float32") for i in model.inputs]
    model.set_weights(values(model, rng))
    for layer in model.layers:
        if type(layer).__name__ == "Normalization" and layer.weights:
            layer.finalize_state()
    x = xs if len(xs) > 1 else xs[0]

    def predict():
        y = model.predict(x, verbose=0)
        return y if isinstance(y, list) else [y]

    if compiled:
        model.compile(optimizer="adam", loss="mse", metrics={"o1": ["mae"], "o2": ["mae"]} if len(model.outputs) > 1 else ["mae"])
        y = predict()
        model.fit(x, y if len(y) > 1 else y[0], epochs=1, verbose=0)
    for k, a in enumerate(xs):
        np.save("%s/x%d.npy" % (folder, k), a)
    for k, a in enumerate(predict()):
        np.save("%s/y%d.npy" % (folder, k), a)
    with open(folder + "/model.json", "w") as f:
        f.write(model.to_json())
    made = {}
    for name in ("m.keras", "m.h5", "w.weights.h5") + (() if V3 else ("w.h5",)):
        try:
            (model.save_weights if name[0] == "w" else model.save)(os.path.join(folder, name))
            made[name] = None
        except Exception as e:
            made[name] = "%s: %s" % (type(e).__name__, str(e)[:200])
            if os.path.exists(os.path.join(folder, name)):
                os.unlink(os.path.join(folder, name))
    return made


def main():
    made = {}
    for f in GALLERY:
        keras.backend.clear_session()
        keras.utils.set_random_seed(3)
        made[f.__name__] = save(f(), os.path.join(sys.argv[1], f.__name__), True)
    keras.backend.clear_session()
    for name, model in zoos():
        made[name] = save(model, os.path.join(sys.argv[1], name), False)
    with open(os.path.join(sys.argv[1], "made.json"), "w") as f:
        json.dump(made, f, indent=1)


if __name__ == "__main__":
    main()
