"""What must hold for one model: files that Keras wrote of it and of its wrapper, the tools, and Keras' own loader as the judge.

Outcomes are "right", "refused" (with the tool's reason), "skipped" (Keras itself cannot do it), "assumed" (the
tool says what it took for granted), "open" (a find that nobody has mended yet, open.tsv) and "wrong". What is right with a
description whose equal-shaped layers stand in another order than in the file:
  legacy .h5, .keras       names are in the file, so each layer must get what the file holds under its name, or the tool refuses
  .weights.h5              paths count classes and name nobody: each place gets what Keras' loader puts there
A description of another session, with other numbers in automatic names, must lead to the same weights in the same places.
"""
import copy
import hashlib
import json
import os
import re
import subprocess

import numpy as np
from wrap_models import build, has_odd_names, rename, swapped, swaps, wrap

FORMS = {"weights": "%s_w.h5", "full": "%s_m.h5", "paths": "%s.weights.h5", "keras": "%s.keras"}
LOADERS = ("weights", "full", "paths", "keras")


class NotBuilt(Exception):
    """Keras itself refuses the model."""


def leaf_weights(d, path=()):
    """The variables of each layer by its place in the description: {path: [variable]}."""
    out, built = {}, d["_built"]
    at = [n[0] for n in d["nodes"]] if d["seq"] else None
    for i, spec in enumerate(d["layers"]):
        layer = built[at.index(i) if at else i]
        if "model" in spec:
            out.update(leaf_weights(spec["model"], path + (i,)))
        else:
            out[path + (i,)] = list(layer.weights)
    return out


def same(a, b):
    return len(a) == len(b) and all(x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b))


def reason(err):
    """A tool's line without what is particular to this file."""
    line = next((x for x in err.split("\n") if x and not x.startswith(("  ", "try: ", "note: "))), "")
    line = re.sub(r'"[^"]*"', '"..."', re.sub(r"\S*/[tw]\S*: ", "", line))
    return re.sub(r"\d+", "N", line)[:160]


class Case:
    def __init__(self, keras, tools, work, case, tell, forms=LOADERS, checks=None, torch=None):
        self.k, self.tools, self.work, self.case, self.tell = keras, tools, work, case, tell
        self.forms, self.checks, self.torch = forms, checks, torch
        self.judged = {}
        self.rng = np.random.default_rng(case["values"])

    # ---- models ----

    def session(self, shift=0):
        self.k.backend.reset_uids()
        for _ in range(shift):
            self.k.layers.Dense(1), self.k.layers.LSTM(1), self.k.layers.Lambda(abs), self.k.layers.Concatenate()

    def make(self, d, gpus=0, shift=None):
        """A model of the description, its wrapper if asked for, its layers' variables."""
        self.session(self.case["shift"] if shift is None else shift)
        d = copy.deepcopy(d)
        try:
            t = build(self.k, d)
            w = wrap(self.k, t, gpus) if gpus else None
        except Exception as e:
            raise NotBuilt("%s: %s" % (type(e).__name__, str(e)[:300]))
        leaves = leaf_weights(d)
        rename(d, t)
        return t, w, leaves

    def fill(self):
        out = []
        for v in self.t.weights:
            a = self.rng.uniform(0.1, 0.9, v.shape) * (1 if "variance" in v.name else self.rng.choice([-1, 1], v.shape))
            out.append(a.astype(v.dtype.as_numpy_dtype))
        self.t.set_weights(out)
        return self.t.get_weights()

    def predict(self, model):
        y = model(self.x if len(self.x) > 1 else self.x[0], training=False)
        return [np.asarray(a) for a in (y if isinstance(y, (list, tuple)) else [y])]

    def path(self, stem, form=None):
        return os.path.join(self.work, FORMS[form] % stem if form else stem)

    def save(self, model, stem, forms=None):
        for form in forms or self.forms:
            if form in ("weights", "paths"):
                model.save_weights(self.path(stem, form))
            else:
                model.save(self.path(stem, form))

    def json(self, model, stem):
        path = self.path(stem + ".json")
        with open(path, "w") as f:
            f.write(model.to_json())
        return path

    # ---- the judge ----

    def load(self, model, path):
        """None if Keras loads it strictly, every weight; else why not."""
        model.set_weights([np.full_like(w, np.nan) for w in model.get_weights()])
        try:
            model.load_weights(path)
        except Exception as e:
            return "%s: %s" % (type(e).__name__, str(e)[:200].replace("\n", " "))
        return "a weight was not loaded" if any(np.isnan(w).any() for w in model.get_weights()) else None

    def loads_right(self, model, path, want):
        """None, or what is wrong with the file for this model, which must hold `want` then."""
        why = self.load(model, path)
        if why:
            return "Keras refuses: " + why
        return None if same(model.get_weights(), want) else "weights in the wrong place"

    def tool(self, name, *args):
        p = subprocess.run([os.path.join(self.tools, name), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=120)
        p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
        return p

    def wanted(self, check):
        return not self.checks or check in self.checks

    def output(self, check, form, out, p, judge, group=None):
        """A tool that writes: right, refused, or wrong. judge() says what is wrong with the file; of one group, the same bytes are judged once."""
        if p.returncode == 0:
            with open(out, "rb") as f:
                key = group or check, hashlib.sha256(f.read()).digest()
            if key not in self.judged:
                self.judged[key] = judge()
            why = self.judged[key]
            if why and "assumed: nothing frozen" in p.out + p.err:
                self.tell(check, form, "assumed", "the tool says that it assumes that nothing is frozen")
            elif why and "Layer count mismatch" in why and "assumed: no model inside" in p.out + p.err:
                self.tell(check, form, "assumed", "the tool says that it assumes that no model is inside")
            else:
                self.tell(check, form, "wrong" if why else "right", why or "")
        elif p.returncode in (1, 3) or (check == "gpus" and p.returncode == 2 and "also the name of" in p.err):
            self.tell(check, form, "wrong" if os.path.exists(out) else "refused", reason(p.err))
        else:
            self.tell(check, form, "wrong", "exit %s: %s" % (p.returncode, reason(p.err)))
        return p.returncode == 0

    # ---- the checks ----

    def run(self):
        d = self.case["model"]
        self.k.backend.clear_session()
        self.t, self.w, self.leaves = self.make(d, self.case["gpus"])
        if not self.t.weights:
            raise NotBuilt("no weights")
        self.want = self.fill()
        self.by_leaf = {p: [np.array(v) for v in vs] for p, vs in self.leaves.items()}
        self.wrapped = self.w.get_weights()
        self.x = [self.rng.integers(0, 5, [4] + i["shape"]).astype(i["dtype"]) if i["dtype"] == "int32" else
                  self.rng.normal(size=[4] + i["shape"]).astype("float32") for i in d["inputs"]]
        self.like = self.json(self.t, "t")
        try:
            self.y = self.predict(self.t)
            self.save(self.t, "t")
            self.save(self.w, "w")
        except Exception as e:
            raise NotBuilt("not saved: %s: %s" % (type(e).__name__, str(e)[:300]))
        control = {f: self.loads_right(self.t, self.path("t", f), self.want) or self.loads_right(self.w, self.path("w", f), self.wrapped)
                   for f in self.forms}
        self.t.set_weights(self.want)
        sound = [f for f in self.forms if not control[f]]
        for f in self.forms:
            if control[f]:  # Keras does not read its own files back
                self.tell("control", f, "skipped", control[f])
        self.other_models()
        for f in sound:
            self.unwrap(f)
            self.rewrap(f)
            self.wrong_order(f)
            self.renumbered(f)
            self.check(f)
            self.diff(f, sound)
        if self.torch and self.wanted("torch") and set(sound) & {"full", "keras"}:
            self.to_torch([f for f in sound if f in ("full", "keras")][0])

    def other_models(self):
        """The descriptions that are not the file's: two equal-shaped layers exchanged; other numbers; another width."""
        d, self.swap, self.later, self.wide = self.case["model"], None, None, None
        shapes = [w.shape for w in self.want]
        pairs = swaps(d)
        order = self.rng.permutation(len(pairs))
        for i in order[:2] if self.wanted("like-swapped") or self.wanted("check-swapped") else []:
            try:
                t, _, leaves = self.make(swapped(d, *pairs[i]))
            except NotBuilt:
                continue
            moved = [a for p in leaves for a in self.by_leaf[p]]
            if [w.shape for w in t.get_weights()] == shapes and t.to_json() != self.t.to_json() and moved:
                self.swap = t, leaves, self.json(t, "t_swap")
                break
        if self.wanted("like-later") and (self.checks or self.rng.random() < 0.5):
            try:
                later, _, _ = self.make(d, shift=self.case["shift"] + int(self.rng.choice([1, 2, 30])))
                self.later = later, self.json(later, "t_later")
            except NotBuilt:
                pass
        if self.wanted("check-wide") and (self.checks or self.rng.random() < 0.5):
            self.wider(d)

    def wider(self, d):
        d = copy.deepcopy(d)
        dense = [s for s in d["layers"] if "units" in s["config"]]
        if not dense:
            return
        dense[self.rng.integers(len(dense))]["config"]["units"] += 1
        try:
            wide, _, _ = self.make(d)
            self.wide = wide, self.json(wide, "t_wide")
        except NotBuilt:
            pass

    def unwrap(self, form):
        for check, args in (("plain", []), ("like", ["--like", self.like])):
            out = self.path("out_" + check, form)
            if self.wanted(check) and self.output(check, form, out, self.tool("pgunwrap", "--no-sync", *args, self.path("w", form), out),
                                                  lambda out=out: self.judge_template(form, out), form + "single"):
                self.back(check, form, out)

    def judge_template(self, form, out):
        why = self.loads_right(self.t, out, self.want)
        self.t.set_weights(self.want)
        if why or form not in ("full", "keras") or has_odd_names(self.case["model"]):
            return why
        try:
            self.session()
            m = self.k.models.load_model(out, compile=False)
        except Exception as e:
            try:
                self.k.models.load_model(self.path("t", form), compile=False)
            except Exception:
                return None  # nor does Keras open its own file of this template
            return "load_model: %s: %s" % (type(e).__name__, str(e)[:200].replace("\n", " "))
        if not same(m.get_weights(), self.want):
            return "load_model: other weights"
        return None if same(self.predict(m), self.y) else "load_model: other predictions"

    def back(self, check, form, out):
        """What was unwrapped goes back into the wrapper."""
        check, again = "back-" + check, self.path("again_" + check, form)
        if self.wanted(check) or self.wanted(check[5:]):
            p = self.tool("pgwrap", "--no-sync", "--like", self.path("w", form), out, again)
            self.output(check, form, again, p, lambda: self.judge_wrapper(again), "wrapper")

    def judge_wrapper(self, out):
        why = self.loads_right(self.w, out, self.wrapped)
        self.t.set_weights(self.want)
        return why

    def rewrap(self, form):
        out = self.path("again", form)
        if self.wanted("wrap"):
            p = self.tool("pgwrap", "--no-sync", "--like", self.path("w", form), self.path("t", form), out)
            self.output("wrap", form, out, p, lambda: self.judge_wrapper(out), "wrapper")
        out = self.path("gpus_%s" % form, {"full": "weights", "keras": "paths"}.get(form, form))
        if self.wanted("gpus"):
            p = self.tool("pgwrap", "--no-sync", "--gpus", str(self.case["gpus"]), self.path("t", form), out)
            self.output("gpus", form, out, p, lambda: self.judge_wrapper(out), "wrapper")

    def wrong_order(self, form):
        if not self.swap or not self.wanted("like-swapped"):
            return
        t, leaves, like = self.swap
        out = self.path("out_swap", form)
        p = self.tool("pgunwrap", "--no-sync", "--like", like, self.path("w", form), out)

        def judge():
            why = self.load(t, out)
            if why:
                return "Keras refuses: " + why
            if form == "paths":
                got = t.get_weights()
                t.load_weights(self.path("t", form))
                return None if same(got, t.get_weights()) else "not where Keras puts it"
            wrong = [p for p in leaves if not same([np.array(v) for v in leaves[p]], self.by_leaf[p])]
            return "exchanged without a word" if wrong else None

        self.output("like-swapped", form, out, p, judge)

    def renumbered(self, form):
        if not self.later or not self.wanted("like-later"):
            return
        t, like = self.later
        out = self.path("out_later", form)
        p = self.tool("pgunwrap", "--no-sync", "--like", like, self.path("w", form), out)
        self.output("like-later", form, out, p, lambda: self.loads_right(t, out, self.want))

    def check(self, form):
        models = [("check", self.t, self.like, "t"), ("check-wrapper", self.t, self.like, "w")]
        models += [("check-swapped", self.swap[0], self.swap[2], "t")] if self.swap else []
        models += [("check-wide", *self.wide, "t")] if self.wide else []
        for check, model, like, stem in models:
            if not self.wanted(check):
                continue
            p = self.tool("pgcheck", "--json", "--model", like, self.path(stem, form))
            if p.returncode not in (0, 1):
                self.tell(check, form, "refused" if p.returncode == 3 else "wrong", "exit %s: %s" % (p.returncode, reason(p.err)))
                continue
            keras = self.load(model, self.path(stem, form))
            ok = next((c["ok"] for c in json.loads(p.out)["checks"] if c["name"] == "structure"), None)
            agree = ok == (keras is None)
            if check == "check-swapped" and keras is None and form in ("weights", "full"):
                leaves = self.swap[1]  # Keras goes by position without a word; pgcheck must not where names say otherwise
                agree = not ok or all(same([np.array(v) for v in leaves[q]], self.by_leaf[q]) or self.renamed(leaves[q], q) for q in leaves)
            self.tell(check, form, "right" if agree else "wrong", "" if agree else "pgcheck says %s, Keras %s" % (ok, keras or "loads it"))
        self.t.set_weights(self.want)

    def renamed(self, variables, leaf):
        """What the file holds under this layer's name has other shapes, so the names are those of another session."""
        return [v.shape for v in variables] != [a.shape for a in self.by_leaf[leaf]]

    def diff(self, form, sound):
        if not self.wanted("diff") and not self.wanted("diff-changed") and not self.wanted("diff-cross"):
            return
        self.compare("diff", form, self.path("w", form), self.path("t", form), 0)
        other = [f for f in sound if f != form]
        i = int(self.rng.integers(len(self.want)))
        changed = [w.copy() for w in self.want]
        changed[i].flat[int(self.rng.integers(changed[i].size))] += 1
        self.t.set_weights(changed)
        self.save(self.t, "c", [form])
        self.t.set_weights(self.want)
        self.compare("diff-changed", form, self.path("w", form), self.path("c", form), 1)
        if other:
            f = other[int(self.rng.integers(len(other)))]
            self.compare("diff-cross", form + "," + f, self.path("w", form), self.path("t", f), 0)
            self.compare("diff-cross", form + "," + f, self.path("c", form), self.path("w", f), 1)

    def compare(self, check, form, a, b, differ):
        if not self.wanted(check):
            return
        p = self.tool("pgdiff", "--json", a, b)
        if p.returncode not in (0, 1):
            return self.tell(check, form, "wrong" if p.returncode == 2 else "refused", "exit %s: %s" % (p.returncode, reason(p.err)))
        r = json.loads(p.out)
        if "error" in r:
            return self.tell(check, form, "refused" if check == "diff-cross" else "wrong", reason(p.err))
        loose = r["tensors_only_a"] + r["tensors_only_b"]
        if loose and check == "diff-cross" and p.returncode == 1 and r["tensors_differ"] <= differ:
            return self.tell(check, form, "refused", "names do not pair all tensors")
        good = p.returncode == differ and r["tensors_differ"] == differ and not loose
        self.tell(check, form, "right" if good else "wrong",
                  "" if good else "exit %d, %d differ, %d alone, where %d differ" % (p.returncode, r["tensors_differ"], loose, differ))

    def to_torch(self, form):
        out = self.path("torch.safetensors")
        p = self.tool("pgconvert", "--no-sync", "--layout", "pytorch", self.path("t", form), out)
        if p.returncode:
            return self.output("torch", form, out, p, None)
        if re.search("in PyTorch put channels last there|in PyTorch's order of a Flatten", p.out):
            return self.tell("torch", form, "skipped", "the order of a Flatten is left to the reader of the note")
        np.savez(self.path("x.npz"), *self.x)
        np.savez(self.path("y.npz"), *self.y)
        self.torch.stdin.write(json.dumps([self.like, out, self.path("x.npz"), self.path("y.npz")]) + "\n")
        self.torch.stdin.flush()
        said = json.loads(self.torch.stdout.readline())
        self.tell("torch", form, said["outcome"], said["why"])
