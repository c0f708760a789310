#!/usr/bin/env python3
"""Models as ONNX: ONNX's own checker and strict inference of shapes accept every file that pgconvert writes, and ONNX Runtime
predicts what Keras did. Models: all in testdata/ that have an input and what Keras made of it, and every layer of
train_layers.py, under changing options (operators, normalisations folded, channels first, rows fixed).

usage: onnx_models.py --tools DIR --testdata DIR [--only TEXT,...] [-v]
       onnx_models.py --judge DIR --tools DIR                 run where onnx and onnxruntime are
Environments: PG_ONNX_PYTHON, and PG_KERAS2_PYTHON, PG_KERAS3_PYTHON for the layers; without the first the test is skipped
(exit 77). PG_SHARE (pgbox.py) leaves out some cases."""
import argparse
import glob
import hashlib
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import pgbox  # noqa: E402

BOUND = 1e-5  # of the largest number, at least 1e-2: as train_layers.py has it for the same models
NAMES = ("template_model.h5", "template.keras", "expected_model.h5", "wrapper_model.h5", "template_legacy.h5", "wrapper.keras", "model.h5")
REFUSED = {  # what no model in ONNX can say, and how it is refused
    "hash-": "no counterpart in ONNX",
    "open-attention-additive": "a size that the model leaves open",
    "lambdatpl": "Lambda",
    "bert-g2": "Lambda",
}
WAYS = ([], ["--opset", "17"], ["--opset", "20", "--fold-bn"], ["--opset", "23"], ["--fold-bn"], ["--layout", "nchw-input"], ["--batch"])


def files(testdata):
    """name: (arguments of pgconvert, inputs, what Keras made of them)"""
    for folder in sorted(glob.glob(os.path.join(testdata, "files", "*", "*"))):
        xs, ys = (sorted(glob.glob(os.path.join(folder, k + "[0-9].npy"))) for k in "xy")
        for name in NAMES if xs else ():
            path = os.path.join(folder, name)
            if os.path.exists(path):
                yield os.path.relpath(path, testdata), [path], xs, ys


def layers(folder):
    for done in sorted(glob.glob(os.path.join(folder, "*", "want.npz"))):
        where = os.path.dirname(done)
        weights = [w for w in ("weights.h5", "w.weights.h5") if os.path.exists(os.path.join(where, w))]
        yield (os.path.basename(where), ["--model", os.path.join(where, "model.json"), os.path.join(where, weights[0])],
               os.path.join(where, "data.npz"), done)


def arrays(np, xs, ys):
    if isinstance(xs, list):
        return [np.load(x) for x in xs], [np.load(y) for y in ys]
    x, y = np.load(xs), np.load(ys)
    return ([x["x%d" % k] for k in range(len(x)) if "x%d" % k in x],
            [y["predictions%d" % k] for k in range(len(y)) if "predictions%d" % k in y])


def first(np, a):
    return np.moveaxis(a, -1, 1) if a.ndim == 4 else a


class Judge:
    def __init__(self, tools):
        import numpy
        import onnx
        import onnxruntime
        onnxruntime.set_default_logger_severity(4)
        self.np, self.onnx, self.ort = numpy, onnx, onnxruntime
        self.worst = 0.0  # difference to Keras of all outputs so far
        self.pgconvert = os.path.join(tools, "pgconvert")
        self.types = {"tensor(%s)" % k: getattr(numpy, v) for k, v in
                      (("float", "float32"), ("int32", "int32"), ("int64", "int64"), ("double", "float64"), ("uint8", "uint8"),
                       ("bool", "bool_"))}

    def session(self, path):
        model = self.onnx.load(path)
        self.onnx.checker.check_model(model, full_check=True)
        self.onnx.shape_inference.infer_shapes(model, strict_mode=True, check_type=True)
        return self.ort.InferenceSession(path, providers=["CPUExecutionProvider"])

    def off(self, got, want):
        np = self.np
        if got.shape != want.shape:
            return "is %s, Keras has %s" % (got.shape, want.shape)
        worst = np.abs(got.astype("f8") - want.astype("f8")).max(initial=0)
        size = max(np.abs(want).max(initial=0), 1e-2)
        self.worst = max(self.worst, worst / size)
        if not worst <= BOUND * size:
            return "is off by %.3g of %.3g" % (worst, np.abs(want).max())
        return None

    def case(self, name, args, xs, ys, folder):
        """None, or what is wrong."""
        np = self.np
        out = os.path.join(folder, "model.onnx")
        x, want = arrays(np, xs, ys)
        way = WAYS[int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(WAYS)]
        more = way + ([str(len(x[0]))] if way == ["--batch"] else [])
        r = subprocess.run([self.pgconvert, "--force", "--quiet"] + more + args + [out], capture_output=True, text=True)
        known = [why for k, why in REFUSED.items() if k in name]
        if r.returncode:
            return None if known and known[0] in r.stderr and r.returncode == 3 else "%s: %s" % (" ".join(more), r.stderr.strip())
        if known:
            return "was to be refused"
        try:
            s = self.session(out)
            if "nchw-input" in more:
                x, want = [first(np, a) for a in x], [first(np, a) for a in want]
            got = s.run(None, {i.name: a.astype(self.types[i.type]) for i, a in zip(s.get_inputs(), x)})
        except Exception as e:  # whatever the judges say
            return "%s: %s" % (" ".join(more), str(e).strip().splitlines()[0][:300])
        for k, (a, b) in enumerate(zip(got, want)):
            why = self.off(a, b)
            if why:
                return "%s: output %d %s" % (" ".join(more), k, why)
        return None if len(got) >= len(want) else "has %d outputs, Keras %d" % (len(got), len(want))


def judge(cases, tools, only):
    j = Judge(tools)
    bad = n = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, args, xs, ys in cases:
            if not any(o in name for o in only.split(",")) or not (only or pgbox.chosen(name)):
                continue
            why = j.case(name, args, xs, ys, folder)
            n += 1
            bad += why is not None
            if why:
                print("%s: %s" % (name, why))
    print("%d of %d models agree; worst difference %.2g of the largest number" % (n - bad, n, j.worst))
    return bad != 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata")
    ap.add_argument("--judge")
    ap.add_argument("--only", default="")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    if a.judge:
        return judge(files(a.testdata) if a.judge == "files" else layers(a.judge), a.tools, a.only)
    python = os.environ.get("PG_ONNX_PYTHON")
    if not python:
        print("no ONNX: set PG_ONNX_PYTHON")
        return 77
    me = [python, os.path.abspath(__file__), "--tools", a.tools, "--only", a.only, "--judge"]
    bad = subprocess.run(me + ["files", "--testdata", a.testdata]).returncode != 0
    for env in ("PG_KERAS2_PYTHON", "PG_KERAS3_PYTHON"):
        keras = os.environ.get(env)
        with tempfile.TemporaryDirectory() as d:
            if not keras:
                continue
            print("%s:" % env, flush=True)
            subprocess.run([keras, os.path.join(HERE, "train_layers.py"), "--emit", d, "--only", a.only], check=True,
                           stderr=None if a.v else subprocess.DEVNULL)
            bad |= subprocess.run(me + [d]).returncode != 0
    return bad


if __name__ == "__main__":
    sys.exit(main())
