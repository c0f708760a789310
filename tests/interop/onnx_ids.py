"""Cases for onnx_models.py beside those of train_layers.py: ids, categories and values of masks that float16 and bfloat16 lack, or
cannot tell from their neighbours.

usage: onnx_ids.py --emit DIR [--only TEXT,...]      run inside a Keras"""
import argparse
import os

import train_layers

MANY = 5000  # ids; float16 has all whole numbers up to 2048, bfloat16 up to 256
FAR = -99999.0  # beyond float16


class Drawn:
    """An input of 4 rows: f(rng, shape) gives its numbers."""

    def __init__(self, f, *shape, dtype=None):
        self.f, self.shape, self.dtype = f, shape, dtype

    def make(self, keras):
        return keras.Input(self.shape, dtype=self.dtype)

    def draw(self, rng):
        return self.f(rng, (4,) + self.shape).astype(self.dtype or "float32")


def ids(rng, shape):
    return rng.integers(MANY // 2, MANY, shape)


def words(rng, shape):
    return rng.integers(2990, 3500, shape)


def steps_of(value, near):
    """Numbers, some steps of which are the value; a row has one that is nearly that."""
    def draw(rng, shape):
        x = rng.normal(0, 1, shape)
        x[1, 2:] = x[2, 0] = value
        x[3, 1] = near
        return x
    return draw


def recipes(keras):
    """name: (function of the inputs, inputs)"""
    L = keras.layers
    flat, whole = Drawn(ids, 4), Drawn(ids, 4, dtype="int32")
    vocabulary = list(range(3000, 3400))

    def table():
        return L.Embedding(MANY + 1, 3)

    return {
        "ids-slice": (lambda x: table()(x[:, :2]), [flat]),
        "ids-slice-int": (lambda x: table()(x[:, :2]), [whole]),
        "ids-flatten": (lambda x: table()(L.Flatten()(x)), [Drawn(ids, 2, 2)]),
        "ids-reshape": (lambda x: table()(L.Reshape((2, 2))(x)), [flat]),
        "ids-shift": (lambda x: table()(L.Rescaling(1.0, 1.0)(x)), [flat]),
        "ids-concat": (lambda a, b: table()(L.Concatenate()([a, b])), [whole, whole]),
        "ids-and-numbers": (lambda x: L.Concatenate()([L.Flatten()(table()(x[:, 1:])), L.Dense(3)(L.Rescaling(1 / MANY)(x))]), [flat]),
        "ids-category": (lambda x: L.Dense(2)(L.CategoryEncoding(MANY, output_mode="multi_hot")(x)), [whole]),
        "ids-count": (lambda x: L.Dense(2)(L.CategoryEncoding(MANY, output_mode="count")(x)), [whole]),
        "ids-lookup": (lambda x: L.Embedding(402, 3)(L.IntegerLookup(vocabulary=vocabulary)(x)), [Drawn(words, 4, dtype="int64")]),
        "ids-output": (lambda x: [L.Rescaling(1.0)(L.IntegerLookup(vocabulary=vocabulary)(x)), L.Dense(2)(L.Rescaling(1e-4)(x))],
                       [Drawn(words, 4, dtype="int64")]),
        "ids-bins": (lambda x: L.Dense(2)(L.Discretization(bin_boundaries=[3000.0, 4000.0, 4000.25], output_mode="one_hot")(x)),
                     [Drawn(lambda rng, s: rng.choice([10.0, 3999.9, 4000.1, 4000.3], s), 1)]),
        "ids-mask-far": (lambda x: L.GlobalAveragePooling1D()(L.Masking(FAR)(x)), [Drawn(steps_of(FAR, 1.0), 5, 3)]),
        "ids-mask-large": (lambda x: L.GlobalAveragePooling1D()(L.Masking(6e4)(x)), [Drawn(steps_of(6e4, 60010.0), 5, 3)]),
        "ids-mask-near": (lambda x: L.Dense(2)(L.GlobalAveragePooling1D()(L.Masking(0.1)(x))), [Drawn(steps_of(0.1, 0.10001), 5, 3)]),
    }


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--emit", required=True)
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    keras, _, _ = train_layers.start()
    for name, (layer, inputs) in recipes(keras).items():
        if not any(o in name for o in a.only.split(",")):
            continue
        try:
            train_layers.emit_case(name, layer, inputs, os.path.join(a.emit, name), True)
        except Exception as e:  # Keras itself cannot
            print("%s: not tried, Keras: %s" % (name, str(e).strip().splitlines()[0][:150]))


if __name__ == "__main__":
    main()
