#!/usr/bin/env python3
"""What Keras 3.0 leaves of a nested model in an .h5: it lists the variables' names alone, "kernel" twice, and fails at the second dataset of that name.

usage: gen.py OUT        with tensorflow-cpu==2.16.1 keras==3.0.5
"""
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import keras  # noqa: E402
from keras import layers as L  # noqa: E402

keras.utils.set_random_seed(1)
nested = keras.Sequential([L.Input((4,)), L.Dense(3), L.Dense(2)], name="nested")
i = keras.Input((4,))
model = keras.Model(i, L.Dense(2, name="head")(nested(i)))
try:
    model.save(os.path.join(sys.argv[1], "nested.aborted.h5"))
except ValueError as e:
    print(e)
