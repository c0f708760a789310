#!/usr/bin/env python3
"""usage: convert_training.py --tools DIR [--testdata DIR]

Full models of Keras 2.15, compiled with optimizers of Keras 2.10 and earlier and of 2.15, become .keras and .h5 of Keras 3.6
(pgconvert --keras 3). That opens them compiled, and four steps more, of both without the state that pgconvert says it drops,
give the same weights: but for optimizers of which pgconvert says that Keras 3 steps differently. PG_KERAS2_PYTHON and
PG_KERAS3_PYTHON name the judges."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

MAKE = r'''
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras
from keras.optimizers import legacy
out = sys.argv[1]
rng = np.random.default_rng(5)
x, y = rng.normal(size=(32, 6)).astype("float32"), rng.normal(size=(32, 2)).astype("float32")
np.savez(out + "/data.npz", x=x, y=y)
cases = {}
for name, args in {"SGD": {"momentum": 0.9, "nesterov": True}, "RMSprop": {"momentum": 0.5}, "Adam": {}, "Adagrad": {},
                   "Adadelta": {"rho": 0.9}, "Adamax": {}, "Nadam": {}}.items():
    for decay in (0, 0.1) if name != "Nadam" else (None,):
        cases["%s-%s" % (name, decay)] = getattr(legacy, name)(learning_rate=0.01, **args, **({"decay": decay} if decay else {}))
    cases["new-" + name] = getattr(keras.optimizers, name)(learning_rate=0.01, **args)
cases["amsgrad"] = legacy.Adam(0.01, amsgrad=True, clipnorm=0.5)
cases["schedule"] = keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 1, 0.5))
class MySched(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.01
    def get_config(self):
        return {"initial_learning_rate": 0.01}
cases["own"] = keras.optimizers.Adam(MySched())
for name, optimizer in cases.items():
    keras.utils.set_random_seed(7)
    i = keras.Input((6,))
    m = keras.Model(i, keras.layers.Dense(2, name="b")(keras.layers.Dense(5, activation="tanh", name="a")(i)))
    w = m.get_weights()
    m.compile(optimizer, "mse", metrics=["mae"], loss_weights=[0.5])
    m.save(out + "/" + name + ".h5")
    m.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    np.savez(out + "/" + name + ".npz", *m.get_weights())
print(json.dumps(sorted(cases)))
'''
LOAD = r'''
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras
out, said = sys.argv[1], {}
d = np.load(out + "/data.npz")
for name in json.loads(sys.argv[2]):
    for suffix in (".keras", ".h5"):
        try:
            m = keras.models.load_model(out + "/3-" + name + suffix, compile=True)
            if name == "own":
                said[name + suffix] = 0.0 if m.compiled and type(m.optimizer).__name__ == "Adam" else "not compiled with Adam"
                continue
            m.fit(d["x"], d["y"], batch_size=8, epochs=1, shuffle=False, verbose=0)
            want = np.load(out + "/" + name + ".npz")
            said[name + suffix] = max(float(np.abs(a - want["arr_%d" % k]).max()) for k, a in enumerate(m.get_weights()))
        except Exception as e:
            said[name + suffix] = str(e)[:300]
print(json.dumps(said))
'''


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata")
    a = ap.parse_args()
    two, three = os.environ.get("PG_KERAS2_PYTHON"), os.environ.get("PG_KERAS3_PYTHON")
    if not two or not three:
        print("skipped: PG_KERAS2_PYTHON and PG_KERAS3_PYTHON do not name Pythons")
        return 77
    bad = 0
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ, TF_USE_LEGACY_KERAS="0")
        r = subprocess.run([two, "-c", MAKE, d], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if r.returncode:
            print(r.stderr[-2000:])
            return 1
        names, otherwise = json.loads(r.stdout.splitlines()[-1]), set()
        for name in names:
            for suffix in (".keras", ".h5"):
                c = subprocess.run([os.path.join(a.tools, "pgconvert"), "--keras", "3", d + "/" + name + ".h5", d + "/3-" + name + suffix],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                if re.search("steps differently", c.stdout):
                    otherwise.add(name)
                dropped = "training configuration dropped" in c.stdout
                if name == "own":
                    dropped |= "learning rate dropped, Adam uses its default: MySched is not a learning rate schedule" not in c.stdout
                if c.returncode or dropped:
                    bad += 1
                    print(name, c.stdout)
        r = subprocess.run([three, "-c", LOAD, d, json.dumps(names)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        if r.returncode:
            print(r.stderr[-2000:])
            return 1
        for name, off in sorted(json.loads(r.stdout.splitlines()[-1]).items()):
            stem = name.rsplit(".", 1)[0]
            if isinstance(off, str) or (off > 2e-6 and stem not in otherwise):
                bad += 1
                print("%s: %s" % (name, off))
            elif stem in otherwise:
                print("%s: other steps, as said: %.1e" % (name, off))
        if otherwise != {"Nadam-None", "new-Nadam", "RMSprop-0", "RMSprop-0.1", "Adagrad-0", "Adagrad-0.1"}:
            bad += 1
            print("steps otherwise:", otherwise)
        print("%d models, %d problems" % (len(names), bad))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
