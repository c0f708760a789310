#!/usr/bin/env python3
"""usage: exchanged.py OUT    (Keras 2.15)

A model that holds another one of two equal layers: its weights, its description, and the description of a model in which these two
stand in exchanged places. Keras loads the weights into either without a word."""
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers as L  # noqa: E402


def build(names):
    keras.backend.clear_session()
    inner = keras.Sequential([L.Input((3,))] + [L.Dense(3, name=n) for n in names], name="inner")
    i = L.Input((3,), name="i")
    return keras.Model(i, L.Dense(2, name="top")(inner(i)))


os.makedirs(sys.argv[1])
for name, order in (("exchanged", "ba"), ("model", "ab")):
    model = build(order)
    with open(os.path.join(sys.argv[1], name + ".json"), "w") as f:
        f.write(model.to_json())
rng = np.random.RandomState(25)
model.set_weights([rng.rand(*w.shape).astype("float32") for w in model.get_weights()])
model.save_weights(os.path.join(sys.argv[1], "weights.h5"), save_format="h5")
