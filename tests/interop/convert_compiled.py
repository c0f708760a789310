#!/usr/bin/env python3
"""usage: convert_compiled.py --tools DIR

Full models that Keras 3.6 compiled, as .h5 and .keras, become files of Keras 2.15 (pgconvert --keras 2) and of Keras 3.6 in the
other container. Each Keras opens its own with load_model() and evaluates what Keras 3.6 did. Metrics of the user's own are
dropped by name and without the rest, an optimizer of the user's own with the whole configuration. PG_KERAS3_PYTHON makes the
models and judges its own, PG_KERAS2_PYTHON the others."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

MAKE = r"""
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras
from keras import layers as L, losses as S, metrics as M, optimizers as O
os.chdir(sys.argv[1])
keras.utils.set_random_seed(3)
rng = np.random.default_rng(5)
x, y = rng.random((16, 3)).astype("f4"), np.eye(4, dtype="f4")[rng.integers(0, 4, 16)]

@keras.saving.register_keras_serializable(package="mine")
class OwnMetric(M.Mean):
    def update_state(self, a, b, sample_weight=None):
        return super().update_state(a)

@keras.saving.register_keras_serializable(package="mine")
class OwnSGD(O.SGD):
    pass

rate = O.schedules.ExponentialDecay(0.1, 10, 0.9)
cases = {
    "words": (1, dict(optimizer="adam", loss="mse", metrics=["accuracy", "mae"])),
    "objects": (1, dict(optimizer=O.SGD(rate, momentum=0.9), loss=S.CategoricalCrossentropy(label_smoothing=0.1),
                        metrics=[M.AUC(name="auc"), M.CategoricalAccuracy(), M.TopKCategoricalAccuracy(2)], weighted_metrics=["mse"])),
    "decay": (1, dict(optimizer=O.AdamW(1e-3, weight_decay=0.01, clipnorm=1.0, use_ema=True), loss=S.KLDivergence(reduction="sum"),
                      metrics=[M.MeanSquaredError(name="m2")])),
    "lists": (2, dict(optimizer=O.RMSprop(rho=0.8, centered=True), loss=["categorical_crossentropy", S.Huber()], loss_weights=[1.0, 0.5],
                      metrics=[["accuracy"], [M.MeanAbsoluteError()]])),
    "own_metric": (1, dict(optimizer="lion", loss="mae", metrics=[M.AUC(name="auc"), OwnMetric(name="o")], weighted_metrics=[OwnMetric(name="w")])),
    "own_optimizer": (1, dict(optimizer=OwnSGD(0.1), loss="mse")),
    "accumulates": (1, dict(optimizer=O.Adam(gradient_accumulation_steps=2), loss="mse")),
}
values = {}
for name, (n, args) in cases.items():
    i = L.Input((3,))
    out = [L.Dense(4, activation="softmax", name="ab"[k])(i) for k in range(n)]
    m = keras.Model(i, out if n > 1 else out[0])
    m.compile(**args)
    t = [y] * n if n > 1 else y
    m.fit(x, t, verbose=0, batch_size=8)
    values[name] = m.evaluate(x, t, verbose=0, return_dict=True)
    m.save(name + ".keras")
    m.save(name + ".h5")  # takes the optimizer out of what Keras 3.6 knows of the model
m.save("no_optimizer.keras")
values["no_optimizer"] = None
np.savez("data.npz", x=x, y=y)
json.dump(values, open("values.json", "w"))
"""
# Keras 2 weighs no loss of one output that it shows, and an .h5 gives metrics other names: the total and the metrics are compared.
LOAD = r"""
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras
os.chdir(sys.argv[1])
d, values, bad = np.load("data.npz"), json.load(open("values.json")), 0
for path in sys.argv[2:]:
    name = os.path.basename(path).split("-")[0]
    m = keras.models.load_model(path)
    if values[name] is None or name == "own_optimizer":
        if getattr(m, "optimizer", None):
            bad += 1
            print(path, "is compiled")
        continue
    t = [d["y"]] * 2 if len(m.outputs) > 1 else d["y"]
    got = m.evaluate(d["x"], t, verbose=0, return_dict=True)
    got, want = [sorted(v for k, v in x.items() if k not in ("a_loss", "b_loss", "o", "w")) for x in (got, values[name])]
    if len(got) != len(want) or not np.allclose(got, want, rtol=2e-5, atol=2e-6):
        bad += 1
        print(path, want, got)
    if keras.__version__ < "3":
        m.fit(d["x"], t, verbose=0)
sys.exit(bad > 0)
"""
OWN = {"own_metric": ["OwnMetric dropped from", "note: weighted metric "],
       "no_optimizer": ["training configuration dropped: it names no optimizer"],
       "own_optimizer": ["training configuration dropped: "]}
ONLY_2 = {"accumulates": ["gradient_accumulation_steps dropped from Adam: Keras 2 has no such parameter"]}


def said(command):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return r.returncode, r.stdout + (r.stderr if r.returncode else "")


def convert(a, f, keras, out):
    """1 if pgconvert fails, or says more or less than it should."""
    name, same = os.path.basename(f).split(".")[0], keras == 3
    want = OWN.get(name, []) + ([] if same else ONLY_2.get(name, []))
    rc, text = said([os.path.join(a.tools, "pgconvert"), "--keras", str(keras), f, out])
    notes = [line for line in text.split("\n") if "dropped" in line and "optimizer state" not in line]
    good = rc == 0 and len(notes) == len(want) and all(w in text for w in want)
    if not good:
        print(out, text)
    return not good


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    a = ap.parse_args()
    two, three = os.environ.get("PG_KERAS2_PYTHON"), os.environ.get("PG_KERAS3_PYTHON")
    if not two or not three:
        print("skipped: PG_KERAS2_PYTHON and PG_KERAS3_PYTHON do not name a Python each")
        return 77
    bad, of = 0, {two: [], three: []}
    with tempfile.TemporaryDirectory() as d:
        rc, text = said([three, "-W", "ignore", "-c", MAKE, d])
        if rc:
            print(text[-3000:])
            return 1
        for f in sorted(glob.glob(os.path.join(d, "*.h5")) + glob.glob(os.path.join(d, "*.keras"))):
            stem, suffix = os.path.splitext(f)
            for keras, to in ((2, ".h5"), (2, ".keras"), (3, ".keras" if suffix == ".h5" else ".h5")):
                out = "%s-%d-of%s%s" % (stem, keras, suffix[1:], to)
                bad += convert(a, f, keras, out)
                of[two if keras == 2 else three].append(out)
        for python, files in of.items():
            rc, text = said([python, "-W", "ignore", "-c", LOAD, d] + files)
            bad += rc != 0
            print(text[-3000:], "%d files" % len(files))
    print("%d problems" % bad)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
