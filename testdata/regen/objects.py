#!/usr/bin/env python3
"""Writes extra/objects: models that were compiled with losses and metrics that are objects, and what Keras evaluates.

usage: objects.py OUT        with Keras 2.15
       objects.py --judge DATA FILE...       with Keras 3.6: FILE NAME.keras or NAME.h5, converted from DATA/NAME.h5, evaluates as
                                             DATA/data.npz and DATA/values.json say (tests/interop/convert_objects.py)
"""
import json
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
import numpy as np  # noqa: E402

if sys.argv[1] == "--judge":
    import keras

    data, n_bad = sys.argv[2], 0
    values = json.load(open(os.path.join(data, "values.json")))
    d = np.load(os.path.join(data, "data.npz"))
    for path in sys.argv[3:]:
        want = values[os.path.basename(path).split(".")[0]]
        m = keras.models.load_model(path)
        got = m.evaluate(d["x"], d["y"], verbose=0, return_dict=True)
        bad = [k for k in want if k not in got or abs(got[k] - want[k]) > 2e-6 * max(1, abs(want[k]))]
        print(os.path.basename(path), "ok" if not bad else f"differs: {want} {got}")
        m.fit(d["x"], d["y"], verbose=0)
        n_bad += bool(bad)
    sys.exit(n_bad > 0)

from tensorflow import keras  # noqa: E402

out = os.path.join(sys.argv[1], "objects")
os.makedirs(out, exist_ok=True)
os.chdir(out)
os.umask(0o022)
keras.utils.set_random_seed(6)
x = np.random.rand(8, 3).astype("f4")
y = np.eye(4)[np.random.randint(0, 4, 8)].astype("f4")
L, M, O = keras.losses, keras.metrics, keras.optimizers
cases = {
    "categorical": (O.Adam(), L.CategoricalCrossentropy(), ["accuracy", M.AUC(name="auc"), M.TopKCategoricalAccuracy(2, name="top2")]),
    "squared": (O.SGD(), L.MeanSquaredError(reduction="sum"), ["mae", M.RootMeanSquaredError(), M.MeanSquaredError()]),
    "huber": (O.Adam(), L.Huber(2.0), [M.Precision(0.25), M.Recall(thresholds=0.25), M.CosineSimilarity()]),
    "binary": (O.Adam(), L.BinaryCrossentropy(from_logits=True), [M.BinaryAccuracy(threshold=0.3), M.BinaryCrossentropy()]),
    "word": (O.Adafactor(), "categorical_crossentropy", ["accuracy", M.KLDivergence(), M.CategoricalHinge()]),
    "unknown_metric": (O.Adam(), L.KLDivergence(), [M.SensitivityAtSpecificity(0.5), "accuracy"]),
}
values = {}
for name, (optimizer, loss, metrics) in cases.items():
    i = keras.layers.Input((3,))
    m = keras.Model(i, keras.layers.Dense(4, activation="softmax", name="d")(i), name="m")
    m.compile(optimizer, loss, metrics=metrics)
    m.fit(x, y, verbose=0, batch_size=8)
    values[name] = m.evaluate(x, y, verbose=0, return_dict=True)
    m.save(name + ".h5")
np.savez("data.npz", x=x, y=y)
json.dump(values, open("values.json", "w"), indent=1)
