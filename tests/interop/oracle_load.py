#!/usr/bin/env python3
"""Independent judge: does real Keras load FILE strictly into MODEL on one device, and does it predict what it should?

usage: oracle_load.py FILE MODEL [--x x0.npy ...] [--y y0.npy ...] [--weights TEMPLATE_FILE] [options]
       oracle_load.py --batch JOBS.json    a list of [argument list, index of a job that must have passed, or null];
                                           one JSON report a line on stdout
  FILE    weights or full model: .h5, .weights.h5, .weights.json, .keras (whatever this Keras accepts);
          "-" = the weights stored in MODEL itself
  MODEL   architecture: model.json, full .h5, .keras, or build.py that defines build() -> uncompiled model
  --x --y         the inputs and the predictions that the loaded model must give (in model order)
  --weights FILE  load this genuine file into a second copy of MODEL and demand bit-equal get_weights()
  --atol --rtol   tolerance of the predictions (default 1e-5, 1e-4: another Keras may round differently)
  --full          FILE is a full model: open it with load_model(compile=False) instead of load_weights; MODEL may be "-"
  --compiled      with --full: also compile, and report optimizer class and number of optimizer weights
  --resume        with --compiled: train on one batch, so that the optimizer state is really used
  --inside        MODEL is the only layer with weights of a model of its own, which is what multi_gpu_model() makes of it
  --engine auto|keras|tf.keras|tf_keras   which Keras to import (auto: keras, else tf.keras)
  --by-name --skip-mismatch               pass these to load_weights (default: strict topological load)
  --json REPORT.json                      write the report (weights with shape, dtype, sha256; outputs; checks)
Stricter than Keras: before loading, every weight is filled with NaN (integers: a marker), so "loaded, but nothing
assigned" fails; shapes are compared before and after (Keras 2.3.1 on TF 1.15 accepts a wrong shape silently).
Prints one line. Exit: 0 loads, clean and equal; 1 refused, not clean or different; 2 usage, or MODEL unusable here.
Where MODEL cannot be built: Keras 2.15 builds no Keras 1 JSON; Keras 3 no Keras 2 JSON by its own reader (its reader for the
.h5 of Keras 2 is used instead; on some nested models it never ends, hence the time limit); templates with a Lambda need build.py. A GRU of an early Keras has no "reset_after" in its JSON, which
meant false then and means true now: it is added here. Needs numpy, h5py and a Keras (tried: 2.15, 3.6)."""
import argparse
import hashlib
import json
import os
import signal
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")
warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402

MARK = 1413829460


def engine(name):
    """Keras, and what it is called here. Its graphs are not traced: that takes longer than everything else together."""
    found = find_engine(name)
    try:
        import tensorflow as tf
    except ImportError:
        return found
    if hasattr(tf.config, "run_functions_eagerly"):
        tf.config.run_functions_eagerly(True)
    return found


def find_engine(name):
    if name in ("auto", "keras"):
        try:
            import keras

            getattr(keras, "models")
            return keras, "keras"
        except Exception:
            if name == "keras":
                raise
    if name == "tf_keras":
        import tf_keras

        return tf_keras, "tf_keras"
    import tensorflow as tf

    return tf.keras, "tf.keras"


def little(a):
    a = np.ascontiguousarray(a)
    return (a.byteswap() if a.dtype.byteorder == ">" else a).tobytes()


def sha(a):
    return hashlib.sha256(little(a)).hexdigest()


def old_gru(o):
    if isinstance(o, dict):
        if o.get("class_name") == "GRU" and isinstance(o.get("config"), dict):
            o["config"].setdefault("reset_after", False)
        for v in o.values():
            old_gru(v)
    elif isinstance(o, list):
        for v in o:
            old_gru(v)
    return o


def architecture(k, path):
    if path.endswith(".py"):
        ns = {"__name__": "oracle_build", "__file__": path}
        with open(path) as f:
            exec(compile(f.read(), path, "exec"), ns)
        return ns["build"]()
    if path.endswith(".json"):
        with open(path) as f:
            config = old_gru(json.load(f))
        if k.__version__ >= "3" and config.get("class_name") in ("Model", "Sequential", "Functional") and "module" not in config:
            from keras.src.legacy.saving import saving_utils  # how Keras 3 opens the .h5 of Keras 2

            return saving_utils.model_from_config(config)
        return k.models.model_from_json(json.dumps(config))
    return k.models.load_model(path, compile=False)


def inside(k, m):
    ins = [k.layers.Input(batch_shape=tuple(t.shape), dtype=t.dtype) for t in m.inputs]
    return k.models.Model(ins, m(ins if len(ins) > 1 else ins[0]))


def is_float(w):
    return w.dtype.kind == "f" or "bfloat16" in str(w.dtype)


def marker(w):
    return np.array(MARK & 0x7F if w.dtype.itemsize < 4 else MARK).astype(w.dtype)


def poison(m):
    out = []
    for w in m.get_weights():
        w = np.array(w)
        w[...] = np.nan if is_float(w) else marker(w)
        out.append(w)
    m.set_weights(out)


def untouched(vals):
    return sum(1 for w in vals if w.size and bool((np.isnan(w.astype("f8")) if is_float(w) else w == marker(w)).all()))


def load_into(m, path, a):
    kw = {}
    if a.by_name:
        kw["by_name"] = True
    if a.skip_mismatch:
        kw["skip_mismatch"] = True
    poison(m)
    m.load_weights(path, **kw)


def text(e, n):
    return "%s: %s" % (type(e).__name__, str(e)[:n])


def load_full(k, a, rep):
    m = k.models.load_model(a.file, compile=a.compiled)
    o = getattr(m, "optimizer", None)
    if o is not None:
        v = o.variables() if callable(o.variables) else o.variables
        vals = [np.array(x) for x in v]
        rep["optimizer"] = {
            "class": type(o).__name__,
            "weights": len(v),
            "iterations": int(np.array(o.iterations)),
            "sha256": [sha(x) for x in vals],
            "nonzero": sum(1 for x in vals if x.size and bool((x != 0).any())),
        }
    return m


def load_weights(m, a, rep):
    shapes = [tuple(w.shape) for w in m.get_weights()]
    with warnings.catch_warnings(record=True) as ws:
        warnings.simplefilter("always")
        load_into(m, a.file, a)
    rep["warnings"] = [str(w.message)[:300] for w in ws if "eprecat" not in str(w.message)][:20]
    if [tuple(w.shape) for w in m.get_weights()] != shapes:
        rep["error"] = "the load changed a shape"
        return 1
    return 0


def compare_weights(k, a, vals, rep):
    try:
        m2 = architecture(k, a.file if a.model == "-" else a.model)
        load_into(m2, a.weights, a)
    except Exception as e:
        rep["error"] = "TEMPLATE_FILE: " + text(e, 300)
        return 2
    b = [(tuple(w.shape), sha(w)) for w in m2.get_weights()]
    g = [(tuple(w.shape), sha(w)) for w in vals]
    if g != b:
        bad = [i for i, (x, y) in enumerate(zip(g, b)) if x != y]
        moved = "same weights in another order (trainable-first order not undone?), " if sorted(g) == sorted(b) else ""
        rep["error"] = "%s%d of %d weights differ, first #%s" % (moved, len(bad), len(b), bad[:1])
        return 1
    return 0


def predict(m, a, rep):
    xs = [np.load(p) for p in a.x]
    try:
        one = all(len(x) <= 32 for x in xs)  # no data set for what is one batch anyway
        y = m.predict_on_batch(xs if len(xs) > 1 else xs[0]) if one else m.predict(xs if len(xs) > 1 else xs[0], verbose=0)
    except Exception as e:
        rep["error"] = "predict: " + text(e, 300)
        return 1
    ys = list(y.values()) if isinstance(y, dict) else list(y) if isinstance(y, (list, tuple)) else [y]
    rep["outputs"] = [{"shape": list(o.shape), "sha256": sha(np.asarray(o))} for o in ys]
    if a.y and len(a.y) != len(ys):
        rep["error"] = "%d outputs, expected %d" % (len(ys), len(a.y))
        return 1
    for i, (o, p) in enumerate(zip(ys, a.y)):
        e, o = np.load(p), np.asarray(o)
        d = float(np.max(np.abs(o - e))) if o.shape == e.shape and o.size else 0.0
        rep.setdefault("max_abs", []).append(d)
        if o.shape != e.shape or not np.allclose(o, e, atol=a.atol, rtol=a.rtol, equal_nan=True):
            rep["error"] = "output %d differs: %s vs %s, max abs %g" % (i, o.shape, e.shape, d)
            return 1
    if a.resume:
        before = int(np.array(m.optimizer.iterations))
        m.train_on_batch(xs if len(xs) > 1 else xs[0], ys if len(ys) > 1 else ys[0])
        if int(np.array(m.optimizer.iterations)) != before + 1:
            rep["error"] = "training went from step %d to %d" % (before, int(np.array(m.optimizer.iterations)))
            return 1
    return 0


def judge(a, rep):
    k, rep["engine"] = engine(a.engine)
    rep["keras"] = str(getattr(k, "__version__", "?"))
    k.backend.clear_session()
    k.utils.set_random_seed(1)  # deterministic ops want a seed (dropout)
    try:
        m = None if a.full else architecture(k, a.model)
        m = inside(k, m) if a.inside else m
    except Exception as e:
        rep["error"] = "MODEL: " + text(e, 500)
        return 2
    try:
        if a.full:
            m = load_full(k, a, rep)
        elif a.file != "-":
            rc = load_weights(m, a, rep)
            if rc:
                return rc
    except Exception as e:
        rep["error"] = text(e, 500)
        return 1
    vals = m.get_weights()
    rep["weights"] = [{"i": i, "shape": list(w.shape), "dtype": str(w.dtype), "sha256": sha(w)} for i, w in enumerate(vals)]
    n = untouched(vals)
    rep["untouched"] = n
    if n and not a.full and a.file != "-":
        rep["error"] = "%d of %d weights were not assigned" % (n, len(vals))
        return 1
    if a.weights:
        rc = compare_weights(k, a, vals, rep)
        if rc:
            return rc
    return predict(m, a, rep) if a.x else 0


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("model")
    p.add_argument("--x", nargs="*", default=[])
    p.add_argument("--y", nargs="*", default=[])
    p.add_argument("--weights")
    p.add_argument("--atol", type=float, default=1e-5)
    p.add_argument("--rtol", type=float, default=1e-4)
    p.add_argument("--full", action="store_true")
    p.add_argument("--inside", action="store_true")
    p.add_argument("--compiled", action="store_true")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--engine", default="auto")
    p.add_argument("--by-name", action="store_true")
    p.add_argument("--skip-mismatch", action="store_true")
    p.add_argument("--json")
    return p


def too_long(*_):
    raise TimeoutError("no end within 6 s")


def batch(path):
    """Importing Keras takes longer than a dozen cases: one process judges a whole list."""
    out = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGVTALRM, too_long)
    os.dup2(2, 1)  # whatever Keras prints must not get between the reports
    with open(path) as f:
        jobs = json.load(f)
    passed = []
    for job, needs in jobs:
        a = parser().parse_args(job)
        rep = {"file": a.file, "model": a.model, "error": None}
        if needs is not None and not passed[needs]:
            rep["rc"], rep["error"] = 2, "its control failed"
        else:
            signal.setitimer(signal.ITIMER_VIRTUAL, 6)  # of computing: other work on the machine does not count
            try:
                rep["rc"] = judge(a, rep)
            except Exception as e:
                rep["rc"], rep["error"] = 1, text(e, 500)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        passed.append(rep["rc"] == 0)
        out.write(json.dumps(rep) + "\n")
        out.flush()
    return 0


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--batch":
        return batch(sys.argv[2])
    a = parser().parse_args()
    rep = {"file": a.file, "model": a.model, "error": None}
    rc = judge(a, rep)
    rep["ok"] = rc == 0
    if rc:
        print("%s: %s" % (a.file, " ".join(rep["error"].split())))
    else:
        print("%s: loads in Keras %s, %d weights%s%s" % (
            a.file, rep["keras"], len(rep["weights"]),
            ", predictions equal (max abs %.2g)" % max(rep["max_abs"]) if rep.get("max_abs") else "",
            ", optimizer %(class)s with %(weights)d weights at step %(iterations)d" % rep["optimizer"] if rep.get("optimizer") else ""))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rep, f, indent=1)
            f.write("\n")
    return rc


if __name__ == "__main__":
    sys.exit(main())
