#!/usr/bin/env python3
"""Models as ONNX: ONNX's own checker and strict inference of shapes accept every file that pgconvert writes, and ONNX Runtime and
onnx.reference predict what Keras did: as far from Keras' float64 as 20 times its own float32, where that is known. Models: all in
testdata/ that have an input and what Keras made of it, and every layer of train_layers.py, under changing options (operators,
normalisations folded, channels first, rows fixed), and once more in another type, or with test data beside it, with which ONNX Runtime
must agree; and the cases of onnx_ids.py in both types of 16 bits. bfloat16, which ONNX Runtime lacks, is onnx.reference's to judge: what it
mistakes is counted, and must stay the smaller part.

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
import onnx_judge  # noqa: E402
import pgbox  # noqa: E402

NAMES = ("template_model.h5", "template.keras", "expected_model.h5", "wrapper_model.h5", "template_legacy.h5", "wrapper.keras", "model.h5")
REFUSED = {  # what no model in ONNX can say, and how it is refused
    "hash-": "no counterpart in ONNX",
    "open-attention-additive": "a size that the model leaves open",
    "lambdatpl": "Lambda",
    "bert-g2": "Lambda",
}
BLIND = ("attention-additive-masked-causal",)  # rows that see nothing: what of -1e9 float16 leaves decides what they are
MORE = (["--dtype", "float16"], ["--dtype", "bfloat16"], ["--external-data", "--check"], ["--quantize", "int8", "--check"])
WAYS = ([], ["--opset", "17"], ["--opset", "20", "--fold-bn"], ["--opset", "23"], ["--fold-bn"], ["--layout", "nchw-input"], ["--batch"],
        ["--opset", "18"], ["--opset", "19", "--fold-bn"], ["--opset", "21"], ["--opset", "24"])
FLOOR, MANY = 0.5, 20  # how often onnx.reference must have computed, for each model; of fewer models chance decides


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
        whole = os.path.join(where, "model.keras")
        if os.path.exists(whole):
            yield os.path.basename(where), [whole], os.path.join(where, "data.npz"), done
            continue
        weights = [w for w in ("weights.h5", "w.weights.h5") if os.path.exists(os.path.join(where, w))]
        yield (os.path.basename(where), ["--model", os.path.join(where, "model.json"), os.path.join(where, weights[0])],
               os.path.join(where, "data.npz"), done)


def arrays(np, xs, ys):
    """Inputs, what Keras predicted, and what it predicted in float64, if that is known: else None."""
    if isinstance(xs, list):
        want = [np.load(y) for y in ys]
        return [np.load(x) for x in xs], want, [None] * len(want)
    x, y = np.load(xs), np.load(ys)
    want = [y["predictions%d" % k] for k in range(len(y)) if "predictions%d" % k in y]
    return ([x["x%d" % k] for k in range(len(x)) if "x%d" % k in x], want,
            [y["exact%d" % k] if "exact%d" % k in y else None for k in range(len(want))])


def first(np, a):
    return np.moveaxis(a, -1, 1) if a.ndim == 4 else a


class Tried:
    """Models that pgconvert writes, before the judges."""

    def __init__(self, tools, folder):
        import numpy
        self.np, self.j, self.n_more = numpy, onnx_judge.Judge(), 0
        self.n_bf16 = self.n_blind = 0  # models in bfloat16, and those of them that nobody has computed
        self.pgconvert, self.out = os.path.join(tools, "pgconvert"), os.path.join(folder, "model.onnx")

    def write(self, more, args):
        return subprocess.run([self.pgconvert, "--force", "--quiet"] + more + args + [self.out], capture_output=True, text=True)

    def case(self, name, args, xs, ys):
        """None, or what is wrong."""
        x, want, exact = arrays(self.np, xs, ys)
        at = int(hashlib.sha256(name.encode()).hexdigest(), 16)
        way = WAYS[at % len(WAYS)]
        more = way + ([str(len(x[0]))] if way == ["--batch"] else [])
        r = self.write(more, args)
        if way == ["--layout", "nchw-input"] and "cf" in name and "has channels first already" in r.stderr:
            more = []
            r = self.write(more, args)
        known = [why for k, why in REFUSED.items() if k in name]
        if r.returncode:
            return None if known and known[0] in r.stderr and r.returncode == 3 else "%s: %s" % (" ".join(more), r.stderr.strip())
        if known:
            return "was to be refused"
        if "nchw-input" in more:
            x = [first(self.np, v) for v in x]
            if "-scores" not in name:  # what attention gives is no image
                want, exact = ([None if v is None else first(self.np, v) for v in a] for a in (want, exact))
        why = self.judged(more, x, want, exact, "")
        if why or not isinstance(xs, str) or name in BLIND:
            return why
        self.n_more += 1
        several = [m for m in MORE if args[0] == "--model" or "--check" in m]  # in a deep model other types are too far from Keras
        if "time-major" in name:  # no rows are predicted
            several = MORE[:2]
        for more in MORE[:2] if name.startswith("ids-") else [several[at // len(WAYS) % len(several)]]:
            why = why or self.once_more(more, args, xs, ys)
        return why

    def once_more(self, more, args, xs, ys):
        more = more + [xs] if "--check" in more else more
        r = self.write(more, args)
        if r.returncode:
            return "%s: %s" % (" ".join(more), r.stderr.strip())
        return self.beside(more, 1 if args[0] == "--model" else 10) if "--check" in more else self.judged(more, *arrays(self.np, xs, ys), more[1])

    def judged(self, more, x, want, exact, dtype):
        try:
            feed = self.j.feed(self.j.check(self.out), x)
            got = None if dtype == "bfloat16" else self.j.run(self.out, feed)  # which lacks it nearly everywhere
        except Exception as e:  # whatever the judges say
            return "%s: %s" % (" ".join(more), str(e).strip().splitlines()[0][:300])
        why = got and self.j.outputs(got, want, exact, dtype)
        if not why:
            got = self.j.reference(self.out, feed)
            self.n_bf16 += dtype == "bfloat16"
            self.n_blind += dtype == "bfloat16" and not got
            why = got and self.j.outputs(got, want, exact, dtype)
            why = why or (self.j.raised if dtype == "bfloat16" else None)
            why = why and "onnx.reference: " + why
        return why and "%s: %s" % (" ".join(more), why)

    def beside(self, more, times):
        """Do the test data beside the model agree? Both are float32; of a deep model, `times` as far apart."""
        try:
            self.j.check(self.out)
            feed, want = self.j.test_data(self.out)
            got = self.j.run(self.out, feed)
        except Exception as e:  # whatever the judges say
            return "%s: %s" % (" ".join(more), str(e).strip().splitlines()[0][:300])
        why = self.j.outputs(got, want, [None] * len(want), times=times)
        return why and "%s: test data: %s" % (" ".join(more), why)


def judge(cases, tools, only, all_of):
    bad = n = 0
    with tempfile.TemporaryDirectory() as folder:
        t = Tried(tools, folder)
        for name, args, xs, ys in cases:
            if not any(o in name for o in only.split(",")) or not (only or all_of or pgbox.chosen(name)):
                continue
            why = t.case(name, args, xs, ys)
            n += 1
            bad += why is not None
            if why:
                print("%s: %s" % (name, why))
    print("%d of %d models agree, %d also in other types or with what lies beside, %d times also in onnx.reference; worst difference %.2g of the "
          "largest number, %.1f times that of Keras' float32" % (n - bad, n, t.n_more, t.j.n_reference, t.j.worst, t.j.times))
    t.j.report()
    few = (n >= MANY and t.j.n_reference < FLOOR * n) or (t.n_bf16 >= MANY and 2 * t.n_blind > t.n_bf16)
    if few:
        print("too few for onnx.reference: %d of %d models, %d of %d in bfloat16" % (t.j.n_reference, n, t.n_bf16 - t.n_blind, t.n_bf16))
    return bad != 0 or few


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata")
    ap.add_argument("--judge")
    ap.add_argument("--only", default="")
    ap.add_argument("--whole", action="store_true")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    if a.judge:
        return judge(files(a.testdata) if a.judge == "files" else layers(a.judge), a.tools, a.only, a.whole)
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
            for program, more in ("train_layers.py", ["--exact"]), ("onnx_ids.py", []):
                subprocess.run([keras, os.path.join(HERE, program), "--emit", d, "--only", a.only] + more, check=True,
                               stderr=None if a.v else subprocess.DEVNULL)
            bad |= subprocess.run(me + [d]).returncode != 0
    return bad


if __name__ == "__main__":
    sys.exit(main())
