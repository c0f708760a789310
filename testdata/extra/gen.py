#!/usr/bin/env python3
"""Writes the wrappers of this folder with real Keras: cases that the older sets of testdata/files do not have.

usage: gen.py OUT        with Keras 2.15 (tensorflow-cpu==2.15.1) or Keras 3.6 (tensorflow-cpu==2.18.0 keras==3.6.0)

Each case is a folder of OUT/keras-2.15 or OUT/keras-3.6: template.json, template_* and wrapper_* in every kind of file that this Keras writes; the same random
weights in both. multi_gpu_model is gone from these releases: the wrapper is rebuilt with the same layers and names.
"""
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers as L  # noqa: E402
from keras import models as M  # noqa: E402

KERAS3 = keras.__version__ >= "3"


def get_slice(data, i, parts):
    import tensorflow as tf

    shape = tf.shape(data)
    batch = shape[:1]
    step = batch // parts
    size = batch - step * i if i == parts - 1 else step
    return tf.slice(data, tf.concat([step * i, shape[1:] * 0], 0), tf.concat([size, shape[1:]], 0))


def wrap(model, gpus):
    calls = []
    for i in range(gpus):
        xs = [L.Lambda(get_slice, output_shape=tuple(x.shape)[1:], arguments={"i": i, "parts": gpus})(x) for x in model.inputs]
        y = model(xs if len(xs) > 1 else xs[0])
        calls.append(y if isinstance(y, (list, tuple)) else [y])
    names = [t._keras_history.operation.name for t in model.outputs] if KERAS3 else model.output_names
    return M.Model(model.inputs, [L.Concatenate(axis=0, name=n)([c[k] for c in calls]) for k, n in enumerate(names)])


def adapted():
    """A Normalization after adapt() was built outside any scope: Keras 2.15 calls its weights "mean:0"."""
    i = L.Input((4,))
    n = L.Normalization()
    n.adapt(np.random.RandomState(1).rand(20, 4))
    return M.Model(i, L.Dense(2)(L.Dense(3)(n(i))))


def slashes():
    """Names that are paths, one of them the beginning of another."""
    i = L.Input((6,))
    x = L.Dense(5, name="block/a")(i)
    x = L.BatchNormalization(name="block/a/bn")(x)
    return M.Model(i, L.Dense(2, name="out/put")(L.Dense(5, name="block")(x)))


def closing_slashes():
    """Names that end in slashes, which TensorFlow and HDF5 drop, in several ways; a model's, too."""
    e = M.Sequential([L.Input((6,)), L.Dense(4, name="in/"), L.BatchNormalization(name="bn//")], name="enc/")
    i = L.Input((3, 6))
    x = L.MultiHeadAttention(1, 2, name="mha/")(i, i)
    x = L.Dense(3, name="a//b")(L.LSTM(4, name="l/")(L.TimeDistributed(e, name="t/")(x)))
    return M.Model(i, L.Dense(2, name="out/")(x), name="m/")


def counted():
    """Layers named against their order, in which .weights.h5 counts them."""
    i = L.Input((4,))
    x = L.BatchNormalization(name="batch_normalization_1")(L.Dense(4, name="dense_1")(i))
    return M.Model(i, L.Dense(4, name="dense")(L.BatchNormalization(name="batch_normalization")(x)))


class Scale(L.Layer):
    """A class that nobody else knows, with a weight that is never trained between two that are."""

    def build(self, shape):
        n = int(shape[-1])
        self.g = self.add_weight(name="g", shape=(n,), initializer="ones")
        self.steps = self.add_weight(name="steps", shape=(), initializer="zeros", trainable=False)
        self.h = self.add_weight(name="h", shape=(n,), initializer="ones")
        self.built = True

    def call(self, x):
        return x * self.g + self.h


def custom():
    i = L.Input((4,))
    x = Scale(name="scale")(L.Dense(4)(i))
    return M.Model(i, L.Dense(2)(Scale(name="scale2")(L.Dense(4)(x))))


def inner_model():
    """A TimeDistributed around a whole model with statistics of its own."""
    e = M.Sequential([L.Input((6, 6, 1)), L.Conv2D(2, 3), L.BatchNormalization(), L.Flatten()], name="enc")
    i = L.Input((3, 6, 6, 1))
    return M.Model(i, L.Dense(2)(L.GRU(3)(L.TimeDistributed(e)(i))))


def bidirectional():
    i = L.Input((6, 4))
    x = L.Bidirectional(L.GRU(3, return_sequences=True))(i)
    return M.Model(i, L.Dense(2)(L.Bidirectional(L.LSTM(2))(x)))


def casts():
    """Layers of other types than the wrapper's: Keras 3 puts Cast operations between them."""
    i = L.Input((4,), dtype="float16")
    x = L.BatchNormalization(dtype="float16")(L.Dense(3, dtype="float16")(i))
    return M.Model(i, L.Dense(2, dtype="float16")(x))


def bfloat16():
    i = L.Input((4,))
    return M.Model(i, L.Dense(2, dtype="float64")(L.Dense(3, dtype="bfloat16")(i)))


def not_ascii():
    """HDF5 then uses its newer groups (and beyond 8 links in one of them "dense" ones: exit 3)."""
    i = L.Input((6,), name="eing\u00e4nge")
    x = L.BatchNormalization(name="\u5c42")(L.Dense(5, name="gr\u00f6\u00dfe")(i))
    return M.Model(i, L.Dense(2, name="ausgabe")(x), name="mod\u00e8le")


def encode(path, how):
    """The same values as another writer could have stored them."""
    with h5py.File(path, "a") as f:
        names = []
        f.visititems(lambda n, o: names.append(n) if isinstance(o, h5py.Dataset) else None)
        for n in names:
            a, opts = f[n][()], {}
            if how == "big-endian":
                a = np.asarray(a).astype(a.dtype.newbyteorder(">"))
            elif a.shape:
                opts = dict(chunks=tuple(max(1, s // 2) for s in a.shape), compression="gzip", shuffle=True, fletcher32=True)
            del f[n]
            f.create_dataset(n, data=a, **opts)


CASES = {  # name: function, replicas, models built before in the same process, encoding
    "keras-3.6": {"casts": (casts, 2, 0, None), "bfloat16": (bfloat16, 2, 0, None), "not-ascii": (not_ascii, 2, 0, None)},
    "keras-2.15": {"adapted": (adapted, 2, 0, None), "adapted-renumbered": (adapted, 3, 2, None), "slashes": (slashes, 2, 0, None),
                   "custom": (custom, 3, 0, None), "inner-model": (inner_model, 2, 0, None),
                   "inner-model-renumbered": (inner_model, 2, 2, None),
                   "big-endian": (bidirectional, 8, 0, "big-endian"), "gzip": (bidirectional, 2, 0, "gzip"),
                   "closing-slashes": (closing_slashes, 2, 0, None), "counted": (counted, 2, 0, "paths")},
}


def save(model, base, optimizer):
    if optimizer:
        model.compile(optimizer="adam", loss="mse")
    model.save(base + "_model.h5")
    if not KERAS3:
        model.save_weights(base + "_weights.h5", save_format="h5")
    else:
        model.save(base + ".keras")


def make(folder, build, gpus, before, how, rng):
    os.makedirs(folder)
    keras.backend.clear_session()
    for _ in range(before):
        build()
    model = build()
    weights = [np.asarray(rng.rand(*w.shape) + 0.25).astype(w.dtype) for w in model.get_weights()]
    model.set_weights(weights)
    save(wrap(model, gpus), folder + "/wrapper", not before)
    if before:  # the template of a fresh process
        keras.backend.clear_session()
        model = build()
        model.set_weights(weights)
    save(model, folder + "/template", False)
    if how == "paths":
        model.save_weights(folder + "/template.weights.h5")
        wrap(model, gpus).save_weights(folder + "/wrapper.weights.h5")
    with open(folder + "/template.json", "w") as f:
        f.write(model.to_json())
    for name in os.listdir(folder):
        if how not in (None, "paths") and name.endswith(".h5"):
            encode(folder + "/" + name, how)


if __name__ == "__main__":
    release = "keras-3.6" if KERAS3 else "keras-2.15"
    for k, (name, (build, gpus, before, how)) in enumerate(CASES[release].items()):
        make(os.path.join(sys.argv[1], release, name), build, gpus, before, how, np.random.RandomState(k + KERAS3 * 100))
