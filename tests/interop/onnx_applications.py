#!/usr/bin/env python3
"""keras.applications as ONNX: the smallest model of each family, with random weights and statistics, as applications.py makes
them. The judges and bounds are onnx_models.py's: Keras in float64, its own float32, ONNX Runtime, onnx.reference, test data.

usage: onnx_applications.py --tools DIR [--all] [--only NAME,NAME] [--keras 2|3] [-v]
Without --all those that are built and judged quickly. One line for each Keras, and one for what is wrong.
Environments: PG_ONNX_PYTHON, and PG_KERAS2_PYTHON, PG_KERAS3_PYTHON; without the first the test is skipped (exit 77)."""
import argparse
import os
import subprocess
import sys
import tempfile

import applications

HERE = os.path.dirname(os.path.abspath(__file__))
QUICK = {"2": "MobileNetV2,RegNetX002,EfficientNetV2B0", "3": "MobileNetV3Small,ConvNeXtTiny"}
SLOW = {"2": "NASNetMobile,InceptionResNetV2", "3": ""}  # to build, beside applications.py's


def emit(folder, models):
    keras, np, _ = applications.start()
    for name in models.split(","):
        model, x, _ = applications.build(keras, np, name, applications.QUICK_SIDES.get(name, applications.QUICK_SIDE))
        want = np.asarray(model(x, training=False))
        exact = np.asarray(applications.in_double(keras, np, model)(x.astype("float64"), training=False))
        where = os.path.join(folder, name)
        os.makedirs(where)
        model.save(os.path.join(where, "model.keras"))
        np.savez(os.path.join(where, "data.npz"), x0=x)
        np.savez(os.path.join(where, "want.npz"), predictions0=want, exact0=exact)
        keras.backend.clear_session()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools")
    ap.add_argument("--all", action="store_true")
    ap.add_argument("--only", default="")
    ap.add_argument("--keras", default="")
    ap.add_argument("--emit")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    if a.emit:
        return emit(a.emit, a.only)
    python, bad = os.environ.get("PG_ONNX_PYTHON"), False
    if not python:
        print("no ONNX: set PG_ONNX_PYTHON")
        return 77
    for version, env in (("2", "PG_KERAS2_PYTHON"), ("3", "PG_KERAS3_PYTHON")):
        keras = os.environ.get(env)
        models = a.only or (",".join(filter(None, (applications.SMALLEST[version], SLOW[version]))) if a.all else QUICK[version])
        if not keras or (a.keras and a.keras != version):
            continue
        print("%s:" % env, flush=True)
        with tempfile.TemporaryDirectory() as d:
            subprocess.run([keras, os.path.abspath(__file__), "--emit", d, "--only", models], check=True,
                           stderr=None if a.v else subprocess.DEVNULL)
            bad |= subprocess.run([python, os.path.join(HERE, "onnx_models.py"), "--tools", a.tools, "--judge", d, "--whole"]).returncode != 0
    return bad


if __name__ == "__main__":
    sys.exit(main())
