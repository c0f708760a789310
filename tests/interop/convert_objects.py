#!/usr/bin/env python3
"""usage: convert_objects.py --tools DIR --testdata DIR

Models that Keras 2.15 compiled with losses and metrics that are objects become .keras and .h5 of Keras 3.6 (pgconvert --keras 3).
That opens them and evaluates what Keras 2.15 did: those of extra/objects (testdata/regen/objects.py), and others of which a
metric is the user's own, which pgconvert drops by name and without the rest. With an optimizer of the user's own the model is
not compiled, because another optimizer in its place would train another way. PG_KERAS3_PYTHON names the judge,
PG_KERAS2_PYTHON who makes the others."""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

MAKE = r"""
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras
os.chdir(sys.argv[1])
rng = np.random.default_rng(5)
x, y = rng.random((8, 3)).astype("f4"), np.eye(4, dtype="f4")[rng.integers(0, 4, 8)]
def own(a, b):
    return keras.backend.mean(a - b)
class Own(keras.optimizers.SGD):
    pass
cases = {
    "metric": (1, dict(optimizer="adam", loss="mse", metrics=["mae", own, keras.metrics.AUC(name="auc")])),
    "weighted": (1, dict(optimizer="adam", loss="kld", metrics=[keras.metrics.AUC(name="auc")], weighted_metrics=[own])),
    "optimizer": (1, dict(optimizer=Own(0.1), loss="mse", metrics=["mae"])),
    "lists": (2, dict(optimizer="adam", loss=["mse", "mae"], metrics=[[own], ["mae", own]], loss_weights=[1, 0.5])),
    "dicts": (2, dict(optimizer="adam", loss={"a": "mse", "b": "mae"}, metrics={"a": [own], "b": ["mae", own]})),
    "none_left": (2, dict(optimizer="adam", loss="mse", metrics=[[own], [own]])),
}
values = {}
for name, (n, args) in cases.items():
    i = keras.Input((3,))
    m = keras.Model(i, [keras.layers.Dense(4, activation="softmax", name="ab"[k])(i) for k in range(n)])
    m.compile(**args)
    m.fit(x, [y] * n, verbose=0)
    values[name] = m.evaluate(x, [y] * n, verbose=0, return_dict=True)
    m.save(name + ".h5")
    m.save(name + ".keras")
np.savez("data.npz", x=x, y=y)
json.dump(values, open("values.json", "w"))
"""
# Keras 3.6 has other names for metrics and weighs the losses that it shows, so the total and the metrics are compared.
LOAD = r"""
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras
os.chdir(sys.argv[1])
d, values, bad = np.load("data.npz"), json.load(open("values.json")), 0
for path in sys.argv[2:]:
    name = os.path.basename(path).split("-")[0]
    want = {k: v for k, v in values[name].items() if k == "loss" or k[-3:] in ("mae", "auc")}
    m = keras.models.load_model(path)
    if name == "optimizer":
        if m.compiled:
            bad += 1
            print(path, "is compiled")
        continue
    got = m.evaluate(d["x"], [d["y"]] * len(m.outputs) if len(m.outputs) > 1 else d["y"], verbose=0, return_dict=True)
    got = {k: v for k, v in got.items() if k not in ("a_loss", "b_loss")}
    if len(got) != len(want) or not np.allclose(sorted(got.values()), sorted(want.values()), rtol=2e-6, atol=2e-6):
        bad += 1
        print(path, want, got)
sys.exit(bad > 0)
"""


def said(command):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return r.returncode, r.stdout + (r.stderr if r.returncode else "")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    a = ap.parse_args()
    two, three = os.environ.get("PG_KERAS2_PYTHON"), os.environ.get("PG_KERAS3_PYTHON")
    if not three:
        print("skipped: PG_KERAS3_PYTHON does not name a Python")
        return 77
    bad = 0
    convert = [os.path.join(a.tools, "pgconvert"), "--keras", "3"]
    with tempfile.TemporaryDirectory() as d:
        objects, made = os.path.join(a.testdata, "extra", "objects"), []
        for f in sorted(glob.glob(os.path.join(objects, "*.h5"))):
            for suffix in (".keras", ".h5"):
                made.append(os.path.join(d, os.path.basename(f)[:-3] + suffix))
                rc, text = said(convert + [f, made[-1]])
                if rc or "from the training" in text:
                    bad += 1
                    print(text)
        rc, text = said([three, os.path.join(a.testdata, "regen", "objects.py"), "--judge", objects] + made)
        bad += rc != 0
        print(text[-3000:])
        if not two or not made:
            return bad != 0 or not made
        own = os.path.join(d, "own")
        os.mkdir(own)
        rc, text = said([two, "-c", MAKE, own])
        if rc:
            print(text[-3000:])
            return 1
        made = []
        for f in sorted(glob.glob(os.path.join(own, "*.h5")) + glob.glob(os.path.join(own, "*.keras"))):
            name = os.path.basename(f).split(".")[0]
            want = {"optimizer": "training configuration dropped: Keras 3 has no optimizer Own",
                    "weighted": "weighted metric own dropped from the training configuration"}
            want = want.get(name, "metric own dropped from the training configuration")
            for suffix in (".keras", ".h5"):
                made.append(os.path.join(own, name + "-of" + os.path.splitext(f)[1][1:] + suffix))
                rc, text = said(convert + [f, made[-1]])
                if rc or text.count("training configuration") != 1 or "note: " + want not in text:
                    bad += 1
                    print(text)
        rc, text = said([three, "-c", LOAD, own] + made)
        bad += rc != 0
        print(text[-3000:], "%d files of own objects, %d problems" % (len(made), bad))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
