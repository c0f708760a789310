#!/usr/bin/env python3
"""Layers as libpg trains them against real Keras: tiny models with random weights and data. Predictions, the loss of one step
of SGD on the mean squared error, all gradients, and all weights after the step (moving statistics among them) are compared.

usage: train_layers.py --step PROGRAM [--only TEXT,...] [-v]      PROGRAM: the test program train_step.c
       train_layers.py --emit DIR, --judge DIR                run inside a Keras: makes the cases, compares the answers
Environments: PG_KERAS2_PYTHON, PG_KERAS3_PYTHON, as in run.py; with none of them the test is skipped (exit 77). PG_SHARE
(pgbox.py) leaves out some cases."""
import argparse
import contextlib
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import pgbox  # noqa: E402
import train_attention
import train_operations
import train_sequences
import train_spatial

RATE = 0.1
SEQ, IMG, VOL, VEC = (6, 5), (7, 8, 3), (5, 4, 6, 2), (5,)


def recipes(keras):
    """name: (layer or function of the inputs, input shapes or train_sequences.Input)"""
    L, v3 = keras.layers, keras.__version__[0] == "3"
    r = {}

    def add(name, layer, *shapes):
        r[name] = (layer, shapes)

    for pad in ("valid", "same"):
        add("conv2d-" + pad, L.Conv2D(4, (3, 2), padding=pad, strides=2, activation="relu"), IMG)
        add("conv1d-" + pad, L.Conv1D(3, 4, padding=pad, strides=2), SEQ)
        add("conv2d-dilated-" + pad, L.Conv2D(4, 3, padding=pad, dilation_rate=2, use_bias=False), IMG)
        add("conv3d-" + pad, L.Conv3D(3, (2, 3, 2), padding=pad, strides=(1, 2, 2)), VOL)
        add("depthwise2d-" + pad, L.DepthwiseConv2D(3, depth_multiplier=2, padding=pad, activation="tanh"), IMG)
        add("depthwise2d-strides-" + pad, L.DepthwiseConv2D(3, strides=2, padding=pad), IMG)
        add("depthwise1d-" + pad, L.DepthwiseConv1D(3, depth_multiplier=2, padding=pad), SEQ)
        add("separable2d-" + pad, L.SeparableConv2D(4, 3, depth_multiplier=2, padding=pad, activation="elu"), IMG)
        add("separable1d-" + pad, L.SeparableConv1D(4, 3, padding=pad), SEQ)
        for k, s in ((3, 2), (2, 2), (2, 3), (4, 1)):
            add("transpose2d-%s-%d-%d" % (pad, k, s), L.Conv2DTranspose(4, k, strides=s, padding=pad, activation="relu"), IMG)
        if not v3:  # Keras 3.6 leaves it out of the config
            add("transpose2d-out-" + pad, L.Conv2DTranspose(4, 3, strides=2, padding=pad, output_padding=1), IMG)
        add("transpose1d-" + pad, L.Conv1DTranspose(4, 3, strides=2, padding=pad), SEQ)
        add("transpose3d-" + pad, L.Conv3DTranspose(2, 3, strides=2, padding=pad), VOL)
        for kind in ("Max", "Average"):
            add("%s1d-%s" % (kind, pad), getattr(L, kind + "Pooling1D")(3, strides=2, padding=pad), SEQ)
            add("%s2d-%s" % (kind, pad), getattr(L, kind + "Pooling2D")((3, 2), strides=(2, 3), padding=pad), IMG)
            add("%s2d-default-%s" % (kind, pad), getattr(L, kind + "Pooling2D")(2, padding=pad), IMG)
            add("%s3d-%s" % (kind, pad), getattr(L, kind + "Pooling3D")(2, padding=pad), VOL)
    add("conv1d-causal", L.Conv1D(3, 3, padding="causal", dilation_rate=2), SEQ)
    add("conv2d-groups", L.Conv2D(6, 3, groups=3), IMG)
    add("conv2d-softmax", L.Conv2D(4, 1, activation="softmax"), IMG)
    for kind in ("Max", "Average"):
        for n, shape in (("1D", SEQ), ("2D", IMG), ("3D", VOL)):
            add("Global%s%s" % (kind, n), getattr(L, "Global%sPooling%s" % (kind, n))(), shape)
            add("Global%s%s-keepdims" % (kind, n), getattr(L, "Global%sPooling%s" % (kind, n))(keepdims=True), shape)
    for shape in (VEC, SEQ, IMG, VOL):
        add("bn-%dd" % (len(shape) + 1), L.BatchNormalization(momentum=0.8), shape)
    if hasattr(L, "experimental"):  # Keras 2 does not write "synchronized"
        add("bn-sync", L.experimental.SyncBatchNormalization(momentum=0.7), IMG)
    else:
        add("bn-sync", L.BatchNormalization(momentum=0.7, synchronized=True), IMG)
    add("bn-axis1", L.BatchNormalization(axis=1), SEQ)
    add("bn-axis1-2d", L.BatchNormalization(axis=1, momentum=0.7, epsilon=1e-2), IMG)
    add("bn-axis2", L.BatchNormalization(axis=2), IMG)
    add("bn-no-scale", L.BatchNormalization(scale=False), IMG)
    add("bn-no-center", L.BatchNormalization(center=False, scale=False), VEC)
    add("bn-frozen", L.BatchNormalization(trainable=False), IMG)
    bn = L.BatchNormalization(momentum=0.6)
    add("bn-shared", lambda a, b: L.Add()([bn(a), bn(b)]), IMG, IMG)
    add("bn-after-conv", lambda x: L.BatchNormalization()(L.Conv2D(4, 3)(x)), IMG)
    for name, layer, shape in (("dense", L.Dense(4, activation="tanh"), VEC), ("conv", L.Conv2D(4, 3, use_bias=False), IMG),
                               ("transpose", L.Conv1DTranspose(3, 2), SEQ), ("embedding", L.Embedding(11, 4), train_sequences.Input("ids", 5))):
        for n in (1, 3):
            add("spectral-%s-%d" % (name, n), L.SpectralNormalization(layer.__class__.from_config(layer.get_config()), power_iterations=n), shape)
    add("spectral-frozen", L.SpectralNormalization(L.Dense(4, trainable=False)), VEC)
    add("zeropad1d", L.ZeroPadding1D((1, 2)), SEQ)
    add("zeropad2d", L.ZeroPadding2D(((1, 2), (0, 3))), IMG)
    add("zeropad2d-two", L.ZeroPadding2D((1, 2)), IMG)
    add("zeropad3d", L.ZeroPadding3D(2), VOL)
    add("cropping1d", L.Cropping1D((1, 2)), SEQ)
    add("cropping2d", L.Cropping2D(((1, 2), (0, 3))), IMG)
    add("cropping3d", L.Cropping3D(1), VOL)
    add("upsampling1d", L.UpSampling1D(3), SEQ)
    add("upsampling2d", L.UpSampling2D((2, 3)), IMG)
    add("upsampling2d-bilinear", L.UpSampling2D((3, 2), interpolation="bilinear"), IMG)
    add("upsampling3d", L.UpSampling3D((1, 2, 2)), VOL)
    add("permute", L.Permute((3, 1, 2)), IMG)
    add("repeat", L.RepeatVector(4), VEC)
    for n in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
        add(n, lambda a, b, n=n: getattr(L, n)()([a, b]), SEQ, SEQ)
    for n in ("Add", "Multiply", "Average", "Maximum", "Minimum"):
        add(n + "-three", lambda a, b, c, n=n: getattr(L, n)()([a, b, c]), IMG, IMG, IMG)
        add(n + "-broadcast", lambda a, b, n=n: getattr(L, n)()([a, b]), IMG, (1, 1, 3))
    add("Add-ranks", lambda a, b: L.Add()([a, b]), SEQ, VEC)
    add("Concatenate-axis1", lambda a, b: L.Concatenate(axis=1)([a, b]), SEQ, (3, 5))
    add("Concatenate-three", lambda a, b, c: L.Concatenate(axis=-2)([a, b, c]), IMG, (7, 2, 3), (7, 1, 3))
    add("dropout-0", L.Dropout(0.0), IMG)
    add("dense-dropout-0", lambda x: L.Dense(3)(L.SpatialDropout1D(0.0)(x)), SEQ)
    add("prelu", L.PReLU(), IMG)
    add("prelu-shared", L.PReLU(shared_axes=[1, 2]), IMG)
    add("rescaling", L.Rescaling(0.5, -1.0), IMG)
    add("normalization", L.Normalization(mean=[0.1, -0.2, 3.0], variance=[1.0, 0.0, 2.5]), IMG)
    add("normalization-one", L.Normalization(axis=None, mean=0.5, variance=2.0), IMG)
    add("normalization-invert", L.Normalization(mean=[0.1, -0.2, 3.0], variance=[1.0, 0.5, 2.5], invert=True), IMG)
    add("normalization-axes", L.Normalization(axis=(1, 2), mean=[[0.5] * 5] * 6, variance=[[2.0] * 5] * 6), SEQ)
    if v3:  # channels_first on a CPU: Keras 3 moves the channels itself
        add("cf-conv2d", L.Conv2D(4, 3, padding="same", data_format="channels_first", activation="relu"), (3, 7, 8))
        add("cf-flatten", lambda x: L.Dense(3)(L.Flatten(data_format="channels_first")(x)), (3, 4, 2))
    else:
        add("cf-flatten", lambda x: L.Dense(3)(L.Flatten(data_format="channels_first")(x)), (3, 4, 2))
    add("cf-bn", L.BatchNormalization(axis=1), (3, 4))
    add("cf-zeropad2d", L.ZeroPadding2D(((1, 2), (0, 3)), data_format="channels_first"), (3, 4, 2))
    add("cf-upsampling2d", L.UpSampling2D((2, 3), data_format="channels_first"), (3, 4, 2))
    add("cf-global", L.GlobalAveragePooling2D(data_format="channels_first"), (3, 4, 2))
    add("cf-global-keepdims", L.GlobalMaxPooling2D(data_format="channels_first", keepdims=True), (3, 4, 2))
    def flat(f):  # masks end here, so that the loss needs none
        return lambda *x: L.Dense(2)(L.Flatten()(f(*[L.Masking()(v) for v in x])))

    def mean(f):  # ... or are used up
        return lambda *x: L.GlobalAveragePooling1D()(f(*[L.Masking()(v) for v in x]))

    add("mask-bn", flat(L.BatchNormalization(momentum=0.5)), SEQ)
    add("mask-bn-frozen", flat(L.BatchNormalization(trainable=False)), SEQ)
    for n in ("Add", "Multiply", "Average", "Maximum", "Subtract"):
        add("mask-" + n, mean(lambda a, b, n=n: getattr(L, n)()([a, b])), SEQ, SEQ)
        add("mask-one-" + n, lambda a, b, n=n: L.GlobalAveragePooling1D()(getattr(L, n)()([a, L.Masking()(b)])), SEQ, SEQ)
    for axis in (1, 2):
        add("mask-concat-%d" % axis, mean(lambda a, b, axis=axis: L.Concatenate(axis=axis)([a, b])), SEQ, SEQ)
    add("mask-one-concat-2", lambda a, b: L.GlobalAveragePooling1D()(L.Concatenate()([a, L.Masking()(b)])), SEQ, SEQ)
    add("mask-mean", mean(lambda a: a), SEQ)
    add("mask-mean-keepdims", lambda a: L.GlobalAveragePooling1D(keepdims=True)(L.Masking()(a)), SEQ)
    add("mask-max", lambda a: L.GlobalMaxPooling1D()(L.Masking()(a)), SEQ)
    for n, layer in (("dropout", L.Dropout(0.0)), ("prelu", L.PReLU()), ("rescaling", L.Rescaling(2.0, 0.5)), ("activation", L.Activation("tanh")),
                     ("dense", L.Dense(3)), ("conv1d", L.Conv1D(3, 2)), ("permute", L.Permute((2, 1))), ("zeropad", L.ZeroPadding1D(1))):
        add("mask-" + n, mean(layer), SEQ)
    train_sequences.recipes(keras, add)
    train_attention.recipes(keras, add)
    train_spatial.recipes(keras, add)
    train_operations.recipes(keras, add, IMG, SEQ)
    return r


def start():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import keras
    import numpy as np
    import tensorflow as tf
    return keras, np, tf


def exact(keras, np, model, x):
    """The predictions of the same model in float64, as far as Keras has it in that: by them its own float32 is measured."""
    with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
        twin = keras.models.model_from_json(model.to_json().replace('"float32"', '"float64"'))
    twin.set_weights([w.astype("float64") if w.dtype == "float32" else w for w in model.get_weights()])
    x = [v.astype("float64") if v.dtype == "float32" else v for v in x]
    said = twin(x if len(x) > 1 else x[0], training=False)
    found = [np.asarray(p) for p in (said if isinstance(said, (list, tuple)) else [said])]
    return {"exact%d" % k: p for k, p in enumerate(found) if p.dtype == "float64"}


def emit_case(name, layer, shapes, folder, with_exact=False):
    """One model, one step; everything that is needed to do it again, and what came out."""
    keras, np, tf = start()
    rng = np.random.default_rng(sum(map(ord, name)))
    batch = getattr(shapes[0], "batch", None)
    ins = [s.make(keras) if hasattr(s, "make") else keras.Input(s, batch_size=batch) for s in shapes]
    out = layer(*ins)
    model = keras.Model(ins, out)
    many = isinstance(out, (list, tuple))
    model.set_weights([rng.uniform(0.5, 1.5, w.shape) if "variance" in (getattr(v, "path", None) or v.name)
                       else rng.normal(0, 0.5, w.shape) for v, w in zip(model.weights, model.get_weights())])
    x = [s.draw(rng) if hasattr(s, "draw") else rng.normal(0, 1, (4,) + s).astype("float32") for s in shapes]
    for k in range(len(x) if name.startswith("mask-") else 0):  # never a whole row
        x[k][np.arange(4), [(0, 2, 3, 5), (1, 2, 4, 5)][k]] = 0
        x[k][1, 3 + k:] = 0
    given = x if len(x) > 1 else x[0]
    said = model(given, training=False)
    want = {"predictions%d" % k: np.asarray(p) for k, p in enumerate(said if many else [said])}
    if with_exact:
        try:
            want.update(exact(keras, np, model, x))
        except Exception:  # not every layer of Keras computes in float64
            pass
    train_sequences.reset_states(model)
    y = [rng.normal(0, 1, want["predictions%d" % k].shape).astype("float32") for k in range(len(model.outputs))]
    w = rng.uniform(0, 2, 4).astype("float32") if "weighted" in name else None
    model.compile(loss="mse")
    os.makedirs(folder)
    with open(os.path.join(folder, "model.json"), "w") as f:
        f.write(model.to_json())
    (model.save if keras.__version__[0] == "3" else model.save_weights)(os.path.join(folder, "weights.h5"))
    arrays = {"x%d" % k: v for k, v in enumerate(x)}
    arrays.update({"y%d" % k: v for k, v in enumerate(y)})
    arrays.update({"w%d" % k: w for k in range(len(y)) if w is not None})
    np.savez(os.path.join(folder, "data.npz"), **arrays)
    # Keras 3 lists what a wrapper has itself first, files have it last
    weights = sorted(model.weights, key=lambda v: "vector_u" in (getattr(v, "path", None) or v.name))
    names = [getattr(v, "path", None) or v.name for v in weights]
    with tf.GradientTape() as tape:
        truth = [tf.constant(v) for v in y]
        loss = model.compute_loss(given, truth if many else truth[0], model(given, training=True), None if w is None else tf.constant(w))
    values = [getattr(v, "value", v) if keras.__version__[0] == "3" else v for v in model.trainable_weights]
    grads = [tf.convert_to_tensor(g) for g in tape.gradient(loss, values)]  # embeddings give slices
    for v, g in zip(model.trainable_weights, grads):
        i = [w is v for w in weights].index(True)
        want["gradient%d" % i] = np.asarray(g)
        v.assign(v - RATE * g)
    want.update({"weight%d" % i: np.asarray(w) for i, w in enumerate(weights)})
    np.savez(os.path.join(folder, "want.npz"), loss=np.asarray(loss), **want)
    with open(os.path.join(folder, "names.json"), "w") as f:
        json.dump(names, f)
    train_spatial.as_keras(folder)
    if name.startswith("cudnn-"):
        train_sequences.as_cudnn(folder, RATE)


def emit(folder, only, with_exact):
    keras, _, _ = start()
    for name, (layer, shapes) in recipes(keras).items():
        if not any(o in name for o in only.split(",")) or not (only or pgbox.chosen(name)):
            continue
        try:
            emit_case(name, layer, shapes, os.path.join(folder, name), with_exact)
        except Exception as e:  # Keras itself cannot
            print("%s: not tried, Keras: %s" % (name, str(e).strip().splitlines()[0][:150]))


def differs(np, folder):
    """None, or the first thing that is wrong."""
    with open(os.path.join(folder, "got.json")) as f:
        text = f.read()
    if text.startswith("error"):
        return text.strip()
    got = json.loads(text)
    want = np.load(os.path.join(folder, "want.npz"))
    with open(os.path.join(folder, "names.json")) as f:
        names = json.load(f)

    def off(have, key, bound):
        a, b = np.asarray(have, dtype="float64").ravel(), want[key].astype("float64").ravel()
        if a.shape != b.shape:
            return "%s has %d elements, Keras has %d" % (key, a.size, b.size)
        worst = np.abs(a - b).max(initial=0)
        if not worst <= bound * max(np.abs(b).max(initial=0), 1e-2):
            return "%s is off by %.3g of %.3g" % (key, worst, np.abs(b).max())
        return None

    why = off([got["loss"]], "loss", 1e-5)
    for k, p in enumerate(got["predictions"]):
        why = off(p, "predictions%d" % k, 1e-5) or why
    if os.path.basename(folder).startswith("predict-"):  # what is random in training
        for k, p in enumerate(got["predictions"]):
            why = off(p, "predictions%d" % k, 1e-5)
        return why
    if not why and len(got["weights"]) != len(names):
        why = "%d weights, Keras has %d" % (len(got["weights"]), len(names))
    for i, name in enumerate(names):
        key = "gradient%d" % i
        if not why and (got["gradients"][i] is None) != (key not in want):
            why = "gradient missing or too much"
        if not why and key in want:
            why = off(got["gradients"][i], key, 1e-4)
        why = why or off(got["weights"][i], "weight%d" % i, 2e-5)
        if why:
            return "%s (%s)" % (why, name)
    return why


def judge(folder):
    import numpy as np
    bad = 0
    cases = sorted(glob.glob(os.path.join(folder, "*", "got.json")))
    for path in cases:
        why = differs(np, os.path.dirname(path))
        if why:
            bad += 1
            print("%s: %s" % (os.path.basename(os.path.dirname(path)), why))
    print("%d of %d cases agree" % (len(cases) - bad, len(cases)))
    return bad != 0 or not cases


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--step")
    ap.add_argument("--emit")
    ap.add_argument("--judge")
    ap.add_argument("--exact", action="store_true")
    ap.add_argument("--only", default="")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    if a.emit:
        return emit(a.emit, a.only, a.exact)
    if a.judge:
        return judge(a.judge)
    tried = bad = 0
    for env in ("PG_KERAS2_PYTHON", "PG_KERAS3_PYTHON"):
        python = os.environ.get(env)
        if not python:
            continue
        me = [python, os.path.abspath(__file__)]
        with tempfile.TemporaryDirectory() as d:
            print("%s:" % env, flush=True)
            subprocess.run(me + ["--emit", d, "--only", a.only], check=True, stderr=None if a.v else subprocess.DEVNULL)
            folders = [os.path.dirname(p) for p in sorted(glob.glob(os.path.join(d, "*", "want.npz")))]
            subprocess.run([a.step, "SGD:learning_rate=%g" % RATE, "mse"] + folders, check=True)
            bad += subprocess.run(me + ["--judge", d]).returncode != 0
            tried += 1
    if not tried:
        print("no Keras: set PG_KERAS2_PYTHON or PG_KERAS3_PYTHON")
        return 77
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
