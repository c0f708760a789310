#!/usr/bin/env python3
"""Random models through every tool that takes wrappers apart, with real Keras as the judge: right or refused, never wrong.

usage: wrap.py --tools DIR [--seconds N | --models N] [--seed S] [--finds FOLDER] [--replay FILE...] [--report FILE]
  --seconds N   stop after N seconds (default: PG_HUNT_SECONDS, else 20); --models N: after N models
  --seed S      the first model's seed; the next ones follow (default: 1)
  --finds DIR   where a find goes, reduced (default: hunt-finds in the current folder)
  --replay F    only these descriptions; without it those kept in finds/ run before anything random
  --report F    counts as JSON, rewritten every 20 models
Environments: PG_KERAS2_PYTHON (Keras 2.15), without which the exit status is 77; PG_TORCH_PYTHON for --layout pytorch.
"""
import argparse
import collections
import copy
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))


class Hunt:
    def __init__(self, keras, args, work):
        import wrap_checks

        self.k, self.a, self.work, self.lib = keras, args, work, wrap_checks
        self.counts = collections.Counter()  # (check, form, outcome, why for all but "right")
        self.models, self.unbuilt, self.finds = 0, collections.Counter(), []
        self.torch = None
        with open(os.path.join(HERE, "open.tsv"), encoding="utf-8") as f:
            self.open = [line.rstrip("\n").split("\t") for line in f if line[0] != "#"]
        python = os.environ.get("PG_TORCH_PYTHON")
        if python:
            self.torch = subprocess.Popen([python, os.path.join(HERE, "wrap_torch.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, case, tell, **only):
        def sorted_out(check, form, outcome, why):
            known = outcome == "wrong" and any(re.fullmatch(c.replace(".", ".*"), check) and re.search(f, form) and re.search(w, why) for c, f, w, _ in self.open)
            tell(check, form, "open" if known else outcome, why)

        with tempfile.TemporaryDirectory(dir=self.work) as d:
            self.lib.Case(self.k, self.a.tools, d, case, sorted_out, torch=self.torch, **only).run()

    def wrongs(self, case, **only):
        found = []
        try:
            self.run(case, lambda check, form, outcome, why: outcome == "wrong" and found.append((check, form, why)), **only)
        except self.lib.NotBuilt:
            return []
        return found

    def one(self, case, label):
        wrong = []

        def tell(check, form, outcome, why):
            self.counts[check, form, outcome, "" if outcome == "right" else why[:160]] += 1
            if outcome == "wrong":
                wrong.append((check, form, why))

        try:
            self.run(case, tell)
        except self.lib.NotBuilt as e:
            self.unbuilt[str(e)[:60]] += 1
            return 0
        self.models += 1
        seen = set()
        for check, form, why in wrong:
            print("%s: WRONG %s %s: %s" % (label, check, form, why), flush=True)
            if (check, why[:30]) not in seen and label.startswith("seed"):
                seen.add((check, why[:30]))
                self.keep(case, label, check, form, why)
        self.finds += [(label, *w) for w in wrong]
        return len(wrong)

    def keep(self, case, label, check, form, why):
        """A find, made smaller for as long as it stays one."""
        same = [f for f in self.finds if f[1] == check and f[3][:30] == why[:30]]
        small = self.reduce(case, check, form, why) if len(same) < 3 else case
        os.makedirs(self.a.finds, exist_ok=True)
        path = os.path.join(self.a.finds, "%s-%s-%s.json" % (label.replace(" ", ""), check, form.replace(",", "-")))
        with open(path, "w") as f:
            json.dump({"find": "%s %s: %s" % (check, form, why), "seed": label, "case": small}, f, ensure_ascii=False)
            f.write("\n")
        print("  kept in %s: %d layers of %d" % (path, size(small["model"]), size(case["model"])), flush=True)

    def reduce(self, case, check, form, why):
        checks = [check] + ([check[5:]] if check.startswith("back-") else [])
        forms = tuple(form.split(",")) if check != "torch" else self.lib.LOADERS

        def persists(c):
            try:
                return any(w[0] == check and w[2][:20] == why[:20] for w in self.wrongs(c, forms=forms, checks=checks))
            except Exception:
                return False

        end, again = time.time() + self.a.reduce, True
        while again:
            again = False
            for smaller in smaller_cases(case):
                if time.time() > end:
                    return case
                if persists(smaller):
                    case, again = smaller, True
                    break
        return case

    def report(self):
        if not self.a.report:
            return
        with open(self.a.report, "w") as f:
            json.dump({"models": self.models, "unbuilt": self.unbuilt, "finds": self.finds,
                       "counts": [[*k, n] for k, n in sorted(self.counts.items())]}, f, indent=1)

    def summary(self):
        table = collections.Counter()
        for (check, _, outcome, _), n in self.counts.items():
            table[check, outcome] += n
        for check in sorted({c for c, _ in table}):
            print("%-16s" % check, *("%s %d" % (o, table[check, o]) for o in ("right", "refused", "skipped", "assumed", "open", "wrong") if table[check, o]))
        print("%d models, %d not built by Keras, %d wrong" % (self.models, sum(self.unbuilt.values()), len(self.finds)))


def size(d):
    return sum(1 + (size(s["model"]) if "model" in s else 0) for s in d["layers"])


def smaller_cases(case):
    """Cases with one thing less, the largest steps first."""
    if case["gpus"] > 2:
        yield dict(case, gpus=2)
    if case["shift"]:
        yield dict(case, shift=0)
    for d in smaller(case["model"]):
        yield dict(case, model=d)


def without_unused(d):
    """Nodes that no output needs, layers that no node calls, inputs that nothing reads."""
    need, stack = set(), [tuple(o) for o in d["outputs"]]
    while stack:
        t = stack.pop()
        if t[0] not in need:
            need.add(t[0])
            stack += [tuple(x) for x in (d["nodes"][t[0]][1] if t[0] >= 0 else [])]
    nodes = sorted(n for n in need if n >= 0)
    ins = sorted((-1 - n for n in need if n < 0)) or [0]
    layers = sorted({d["nodes"][n][0] for n in nodes})
    to = {n: i for i, n in enumerate(nodes)}
    to.update({-1 - n: -1 - i for i, n in enumerate(ins)})
    return dict(d, inputs=[d["inputs"][i] for i in ins], layers=[d["layers"][i] for i in layers],
                nodes=[[layers.index(d["nodes"][n][0]), [[to[t[0]], t[1]] for t in d["nodes"][n][1]]] for n in nodes],
                outputs=[[to[t[0]], t[1]] for t in d["outputs"]], create=[layers.index(i) for i in d["create"] if i in layers])


def smaller(d):
    if len(d["outputs"]) > 1:
        for i in range(len(d["outputs"])):
            yield without_unused(dict(d, outputs=d["outputs"][:i] + d["outputs"][i + 1:]))
    for n in reversed(range(len(d["nodes"]))):  # what a node gives is one of its inputs
        for t in d["nodes"][n][1]:
            e = copy.deepcopy(d)
            for m in e["nodes"]:
                m[1] = [t if x[0] == n else x for x in m[1]]
            e["outputs"] = [t if x[0] == n else x for x in e["outputs"]]
            if all(o[0] >= 0 for o in e["outputs"]):
                yield without_unused(e)
    for i, s in enumerate(d["layers"]):
        if "model" in s:
            for m in smaller(s["model"]):
                yield dict(d, layers=d["layers"][:i] + [dict(s, model=m)] + d["layers"][i + 1:])
        plain = {k: v for k, v in s.items() if k != "rename"}
        plain = dict(plain, frozen=False, config=dict(s["config"], name=None))
        for one in [dict(s, frozen=False), dict(s, config=dict(s["config"], name=None)), {k: v for k, v in s.items() if k != "rename"},
                    dict(s, config={k: v for k, v in s["config"].items() if k not in ("activation", "use_bias")})]:
            if one != s:
                yield dict(d, layers=d["layers"][:i] + [one] + d["layers"][i + 1:])
        if s["class"] in ("LSTM", "GRU", "SeparableConv2D", "Bidirectional") and "units" in s["config"]:
            yield dict(d, layers=d["layers"][:i] + [dict(s, **{"class": "SimpleRNN"})] + d["layers"][i + 1:])
    if d["create"] != sorted(d["create"]):
        yield dict(d, create=sorted(d["create"]))
    for key in ("name", "frozen"):
        if d.get(key):
            yield dict(d, **{key: None})


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tools", required=True)
    p.add_argument("--seconds", type=float, default=None)
    p.add_argument("--models", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--finds", default="hunt-finds")
    p.add_argument("--replay", nargs="*", default=None)
    p.add_argument("--report")
    p.add_argument("--reduce", type=float, default=60, help="seconds to spend on making one find smaller")
    a = p.parse_args()
    python = os.environ.get("PG_KERAS2_PYTHON")
    if not python:
        print("needs PG_KERAS2_PYTHON")
        return 77
    if os.environ.get("PG_HUNT_WITHIN") != python:  # the judge's Keras stays alive for all models
        os.environ["PG_HUNT_WITHIN"] = python
        os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0", PYTHONHASHSEED="0")
        os.execv(python, [python, "-W", "ignore", os.path.abspath(__file__), *sys.argv[1:]])
    import tensorflow as tf
    from keras.src.engine import base_layer

    tf.config.run_functions_eagerly(True)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.get_logger().setLevel("ERROR")
    base_layer.Layer._tracking_metadata = ""  # for SavedModel only, and slow: .keras asks for every attribute
    a.tools = os.path.abspath(a.tools)
    return hunt(tf.keras, a)


def hunt(keras, a):
    from wrap_models import Generator

    seed = a.seed
    limit = a.seconds if a.seconds is not None else float(os.environ.get("PG_HUNT_SECONDS", 20))
    with tempfile.TemporaryDirectory() as work:
        h = Hunt(keras, a, work)
        kept = a.replay if a.replay is not None else sorted(glob.glob(os.path.join(HERE, "finds", "*.json")))
        for path in kept:
            with open(path) as f:
                h.one(json.load(f)["case"], os.path.basename(path))
        print("%d finds replayed; seeds from %d" % (len(kept), seed), flush=True)
        end = time.time() + limit
        while a.replay is None and (h.models < a.models if a.models else time.time() < end):
            case = Generator(random.Random(seed)).case()
            try:
                h.one(case, "seed %d" % seed)
            except Exception:
                print("seed %d:" % seed, json.dumps(case))
                traceback.print_exc()
                h.finds.append(("seed %d" % seed, "script", "", traceback.format_exc()[-300:]))
            seed += 1
            if h.models % 20 == 0:
                h.report()
        h.report()
        h.summary()
        print("last seed %d" % (seed - 1))
        if h.torch:
            h.torch.stdin.close()
            h.torch.wait()
    return 1 if h.finds else 0


if __name__ == "__main__":
    sys.exit(main())
