#!/usr/bin/env python3
"""keras.applications against real Keras: every model with random weights and statistics, from the .h5 and the .keras that Keras
saved. Predictions of pgfit are compared with Keras' (float32, 1e-4 of the largest logit), loss and gradients of one training step
with those of Keras in float64: once by plain C in double, which tells whether formulas agree (bound 1e-3 of the L2 norm, measured
1e-7), once by what trains (float32). A ReLU whose operand float32 rounds to the other side of 0 changes gradients by more than 1e-3
in Keras' float32 as well (its error is shown beside), so that bound is wider. Moving statistics behind the step: Keras' in float32,
whose fused kernel has another variance than the one for float64.

usage: applications.py --tools DIR --step PROGRAM [--all] [--only NAME,NAME] [--keras 2|3]   PROGRAM: application_step.c
Without --all the smallest member of each family, in one of the two (of InceptionResNetV2 and NASNet, which take a quarter of a minute
to build, none), with images so small that only double is told of the step. One line for each model:
  Keras, model, parameters; errors: predictions of .h5 and .keras; with --all those of ours and of Keras itself beside Keras in
  float64; gradients in double; with --all in float32, of Keras itself in float32, loss and statistics (float32); seconds
Environments: PG_KERAS2_PYTHON, PG_KERAS3_PYTHON, as in run.py; with none of them the test is skipped (exit 77)."""
import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

LIMIT_PREDICTIONS, LIMIT_DOUBLE, LIMIT_FLOAT, LIMIT_STATISTICS = 1e-4, 1e-3, 5e-2, 1e-3
CLASSES = 10
# What float32 rounds grows from layer to layer: by 1.2 where a normalisation in front of a ReLU has half of its results below 0 (it
# brings to 1 again the variance that the ReLU has left). Behind a hundred of them Keras' own float32 is 1e-4 from its float64. So, of
# the deep ones without anything that holds it down, residual branches end with gammas smaller than 1, as training may leave them (times
# BRANCHES, by the first letters of a name), and the one without branches has betas above 0.
BRANCHES, BETAS = {"ResNet": 0.25}, {"InceptionV3": 0.3}
# rows and the side of images: the last feature map is more than one cell, since statistics of few numbers are no test of rounding
# (ConvNeXt, whose largest ones take minutes as it is, has none)
ROWS, FEW_ROWS = 4, {"ConvNeXtLarge": 2, "ConvNeXtXLarge": 2}
SIDE, SIDES = 64, {"InceptionV3": 128, "InceptionResNetV2": 128, "Xception": 72, "ConvNeXtXLarge": 32}
QUICK_SIDE, QUICK_SIDES = 32, {"InceptionV3": 128, "ResNet50": 64, "InceptionResNetV2": 75, "Xception": 71}
SMALLEST = {"2": "EfficientNetB0,EfficientNetV2B0,InceptionV3,MobileNet,MobileNetV2,MobileNetV3Small,RegNetX002,RegNetY002,ResNet50V2,ResNetRS50,"
                 "Xception",
            "3": "ConvNeXtTiny,DenseNet121,MobileNetV3Small,ResNet50,VGG16"}


def start(seed=1):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import keras
    import numpy as np
    import tensorflow as tf
    keras.utils.set_random_seed(seed)
    return keras, np, tf


def names(keras):
    """All models, the small ones first as far as names tell."""
    found = []
    for n in sorted(dir(keras.applications)):
        f = getattr(keras.applications, n)
        if n[0].isupper() and callable(f):
            found.append(n)
    return found


def name_of(v):
    return (getattr(v, "path", None) or v.name).split(":")[0]


def set_weights(model, weights):
    """As a loaded file sets them: Normalization takes its statistics anew then."""
    model.set_weights(weights)
    for l in model.layers:
        if l.__class__.__name__ == "Normalization":
            l.finalize_state()


def producer(tensor):
    """The layer that a tensor is a result of."""
    history = tensor._keras_history
    return getattr(history, "operation", None) or history.layer


def closing_norms(model):
    """The gammas by which residual branches end that are added to what their block was given."""
    out = []
    for add in model.layers:
        if add.__class__.__name__ != "Add":
            continue
        ends = []
        for tensor in add.input:
            l = producer(tensor)
            while l.__class__.__name__ in ("Dropout", "Multiply"):
                l = producer(l.input[0] if isinstance(l.input, (list, tuple)) else l.input)
            ends.append(l)
        norms = [l for l in ends if l.__class__.__name__ == "BatchNormalization"]
        if len(norms) == 1:
            out.append(id(norms[0].gamma))
    return out


def random_weights(np, model, rng, branches, beta):
    """Kernels that keep the size of what goes through them, everything else near what training makes of it."""
    out, closing = [], closing_norms(model)
    for v, w in zip(model.weights, model.get_weights()):
        name = name_of(v).split("/")[-1]
        if name == "count":
            pass
        elif "kernel" in name:
            fan = np.prod(w.shape[:2]) if "depthwise" in name else np.prod(w.shape[:-1])
            w = rng.normal(0, np.sqrt(2.0 / fan), w.shape)
        elif "variance" in name or name == "gamma":
            w = rng.uniform(0.5, 1.5, w.shape) * (branches if id(v) in closing else 1.0)
        else:  # bias, beta, means
            w = rng.normal(beta if name == "beta" else 0.0, 0.1, w.shape)
        out.append(w.astype("float32"))
    set_weights(model, out)


def settle_statistics(np, model, x, rng):
    """Moving statistics near those of the data, so that what goes through the layers neither dies nor grows."""
    norms = [l for l in model.layers if l.__class__.__name__ == "BatchNormalization"]
    kept = [l.momentum for l in norms]
    if not norms:
        return
    for l in norms:
        l.momentum = 0.0
    model(x, training=True)
    for l, momentum in zip(norms, kept):
        l.momentum = momentum
    out = []
    for v, w in zip(model.weights, model.get_weights()):
        name = name_of(v)
        if name.endswith("moving_mean"):
            w = w + rng.normal(0, 0.1, w.shape) * np.abs(w).mean()
        elif name.endswith("moving_variance"):
            w = w * rng.uniform(0.8, 1.25, w.shape) + 0.05 * np.median(w) + 1e-3
        out.append(w.astype("float32"))
    set_weights(model, out)


def build(keras, np, name, n, rows=ROWS, classes=CLASSES, activation=None):
    rng = np.random.default_rng(sum(map(ord, name)))
    model = getattr(keras.applications, name)(weights=None, input_shape=(n, n, 3), classes=classes, classifier_activation=activation)
    scales = False
    for l in model.layers:
        scales |= l.__class__.__name__ in ("Rescaling", "Normalization")
        if l.__class__.__name__ == "Dropout":
            l.rate = 0.0
    x = (rng.uniform(0, 255, (4 * rows, n, n, 3)) if scales else rng.normal(0, 1, (4 * rows, n, n, 3))).astype("float32")
    branches = [s for n, s in BRANCHES.items() if name.startswith(n)] + [1.0]
    random_weights(np, model, rng, branches[0], BETAS.get(name, 0.0))
    settle_statistics(np, model, x, rng)
    return model, x[:rows], rng


def in_double(keras, np, model):
    """The same model in float64."""
    custom = {}
    for l in model.layers:
        if l.__class__.__name__ in ("LayerScale", "CustomScaleLayer", "StochasticDepth"):
            custom[l.__class__.__name__] = l.__class__
    twin = keras.models.model_from_json(model.to_json().replace('"float32"', '"float64"'), custom_objects=custom)
    for l in twin.layers:
        if l.__class__.__name__ == "Rescaling":  # of Python's numbers it makes float32, whatever it computes in
            l.scale, l.offset = np.asarray(l.scale, "float64"), np.asarray(l.offset, "float64")
    set_weights(twin, [np.asarray(w) for w in model.get_weights()])
    return twin


def parked(np, folder, name, arrays):
    """The arrays, of a file: several copies of 350 million numbers leave no room for anybody else in memory."""
    out, at, path = [], 0, os.path.join(folder, name)
    with open(path, "wb") as f:
        for a in arrays:
            if a is not None:
                np.ascontiguousarray(a).tofile(f)
    for a in arrays:
        out.append(a if a is None or not a.size else np.memmap(path, a.dtype, "r", at, a.shape or (1,)))
        at += 0 if a is None else a.nbytes
    return out


def keras_step(np, tf, model, x, y, dtype):
    """The loss, and of every variable its gradient (None: it has none); moving statistics move."""
    values = [getattr(v, "value", v) if hasattr(v, "path") else v for v in model.trainable_weights]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.constant(y, dtype) - model(tf.constant(x, dtype), training=True)))
    grads = {id(v): np.asarray(g) for v, g in zip(model.trainable_weights, tape.gradient(loss, values))}
    return float(loss), [grads.get(id(v)) for v in model.weights]


def run(args):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if p.returncode:
        raise RuntimeError(" ".join(p.stdout.strip().splitlines()[:6])[:600] or "exit status %d" % p.returncode)


def relative(np, parts):
    """L2 of the differences by L2 of what is expected."""
    off = sum(float(np.sum((a - b) ** 2)) for a, b in parts)
    return float(np.sqrt(off / max(sum(float(np.sum(b ** 2)) for _, b in parts), 1e-300)))


def our_step(a, np, folder, device, want_loss, want_grads, want_values):
    """Errors of loss, gradients, statistics."""
    run([a.step, os.path.join(folder, "model.keras"), os.path.join(folder, "data.npz"), os.path.join(folder, "got"), device, "mse"])
    with open(os.path.join(folder, "got.json")) as f:
        got = json.load(f)
    if len(got["variables"]) != len(want_grads):
        raise RuntimeError("%d variables, Keras has %d" % (len(got["variables"]), len(want_grads)))
    values = np.fromfile(os.path.join(folder, "got.bin"), dtype="float32")
    grads, stats, at = [], [], 0
    for v, g, w in zip(got["variables"], want_grads, want_values or want_grads):
        have = values[at:at + v["n"]].astype("float64")
        at += v["n"]
        if (w is not None and v["n"] != w.size) or v["gradient"] != (g is not None):
            raise RuntimeError("%s: another size, or a gradient too much or missing" % v["name"])
        if g is not None:
            grads.append((have, g.ravel()))
        elif want_values and not v["name"].endswith("count"):
            stats.append((have, w.ravel().astype("float64")))
    return abs(got["loss"] - want_loss) / abs(want_loss), relative(np, grads), relative(np, stats) if stats else 0.0


def try_model(a, keras, np, tf, name, folder):
    began = time.time()
    side = SIDES.get(name, SIDE) if a.all else QUICK_SIDES.get(name, QUICK_SIDE)
    model, x, rng = build(keras, np, name, side, FEW_ROWS.get(name, ROWS))
    y = rng.normal(0, 1, (len(x), CLASSES)).astype("float32")
    np.save(os.path.join(folder, "x.npy"), x)
    np.savez(os.path.join(folder, "data.npz"), x0=x, y0=y)
    want = np.asarray(model(x, training=False))
    top = np.abs(want).max()
    if not (np.isfinite(want).all() and 1e-3 < top < 1e6 and np.abs(want - want[0]).max() > 1e-3 * top):
        raise RuntimeError("Keras' own logits are degenerate: %g" % top)
    errors = []
    for suffix in (".h5", ".keras"):
        path = os.path.join(folder, "model" + suffix)
        model.save(path)
        run([os.path.join(a.tools, "pgfit"), path, "--predict", os.path.join(folder, "x.npy"), "-f", "--out", os.path.join(folder, "y.npy")])
        errors.append(float(np.abs(np.load(os.path.join(folder, "y.npy")) - want).max() / top))
    n_params = model.count_params()
    twin = in_double(keras, np, model)
    single = behind = None
    if a.all:
        exact = np.asarray(twin(x.astype("float64"), training=False))
        errors += [float(np.abs(p - exact).max() / top) for p in (np.load(os.path.join(folder, "y.npy")), want)]
        single = parked(np, folder, "single", keras_step(np, tf, model, x, y, "float32")[1])
        behind = parked(np, folder, "behind", model.get_weights())
    del model
    if a.all:
        gc.collect()  # its layers know each other
    loss, grads = keras_step(np, tf, twin, x, y, "float64")
    grads = parked(np, folder, "double", grads) if a.all else grads
    del twin
    keras.backend.clear_session()
    double = our_step(a, np, folder, "ref:0", loss, grads, behind)
    ok = max(errors[:2]) <= LIMIT_PREDICTIONS and max(double[:2]) <= LIMIT_DOUBLE
    line = "%-7s %-20s %10d %s  %.1e" % (keras.__version__, name, n_params, "".join(" %.1e" % e for e in errors), double[1])
    if a.all:
        own = relative(np, [(s.astype("float64"), g) for s, g in zip(single, grads) if g is not None])
        loss_off, grads_off, stats_off = our_step(a, np, folder, "cpu:0", loss, grads, behind)
        ok &= max(loss_off, grads_off) <= LIMIT_FLOAT and stats_off <= LIMIT_STATISTICS
        line += " %.1e %.1e  %.1e %.1e" % (grads_off, own, loss_off, stats_off)
    print("%s  %6.1f s%s" % (line, time.time() - began, "" if ok else "  TOO FAR"), flush=True)
    return ok


def replicas(a, keras, np, folder):
    """The documentation's example of multi_gpu_model: Xception with 1,000 classes on 8 devices, here of one machine's processor.
    One step leaves the weights that one device leaves, to the bit."""
    model, x, rng = build(keras, np, "Xception", 71, classes=1000, rows=8)
    y = np.eye(1000, dtype="float32")[rng.integers(0, 1000, len(x))]
    path, data = os.path.join(folder, "xception.keras"), os.path.join(folder, "data.npz")
    model.save(path)
    np.savez(data, x0=x, y0=y)
    outs = []
    for n in (1, 8):
        outs.append(os.path.join(folder, "trained%d.h5" % n))
        run([os.path.join(a.tools, "pgfit"), path, "--data", data, "--loss", "categorical_crossentropy:from_logits", "--optimizer", "sgd", "--deterministic",
             "--batch-size", str(len(x)), "--devices", ",".join("cpu:%d" % k for k in range(n)), "-o", outs[-1]])
    run([os.path.join(a.tools, "pgdiff"), "-q"] + outs)
    keras.backend.clear_session()
    print("%-7s Xception, 1,000 classes: 8 devices leave what one leaves" % keras.__version__, flush=True)


def inside(a):
    """In a Keras: the models named."""
    keras, np, tf = start()
    if a.inside == "?":
        print(",".join(names(keras)))
        return 0
    bad = 0
    for name in a.inside.split(","):
        folder = tempfile.mkdtemp()
        try:
            bad += not try_model(a, keras, np, tf, name, folder)
            if name == "Xception":
                replicas(a, keras, np, folder)
        except Exception as e:
            bad += 1
            print("%-8s %-20s %s: %s" % (keras.__version__, name, type(e).__name__, str(e)[:700]), flush=True)
        finally:
            shutil.rmtree(folder)
            keras.backend.clear_session()
    return bad != 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--step", required=True)
    ap.add_argument("--all", action="store_true")
    ap.add_argument("--only", default="")
    ap.add_argument("--keras", default="")
    ap.add_argument("--inside")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    if a.inside:
        return inside(a)
    tried = bad = 0
    for version, env in (("2", "PG_KERAS2_PYTHON"), ("3", "PG_KERAS3_PYTHON")):
        python = os.environ.get(env)
        if not python or (a.keras and a.keras != version):
            continue
        me = [python, os.path.abspath(__file__), "--tools", a.tools, "--step", a.step] + a.all * ["--all"]
        quiet = None if a.v else subprocess.DEVNULL
        lists = [a.only or SMALLEST[version]]
        if a.all and a.only:
            lists = a.only.split(",")
        elif a.all:  # each in a process of its own: what one leaves in memory is in nobody's way
            lists = subprocess.run(me + ["--inside", "?"], stdout=subprocess.PIPE, stderr=quiet, text=True, check=True).stdout.split()[-1].split(",")
        for models in lists:
            bad += subprocess.run(me + ["--inside", models], stderr=quiet).returncode != 0
            tried += 1
    if not tried:
        print("no Keras: set PG_KERAS2_PYTHON or PG_KERAS3_PYTHON")
        return 77
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
