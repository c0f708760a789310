#!/usr/bin/env python3
"""pgconvert, judged by real Keras, PyTorch, h5py, numpy and safetensors.

usage: convert.py --tools DIR --testdata DIR [--only MODEL] [--keep DIR] [-v]
Environments are those of run.py; PG_TORCH_PYTHON is one with torch and safetensors. What is not there is left out; without a Keras the
test is skipped (exit 77).
1. convert_models.py lets each Keras build models (a gallery, and every class of keras.layers) and save them in all its formats.
2. Each is converted into every other container, some of these onward and back. pgdiff says that an output equals the file that Keras
   itself wrote of that kind.
3. Keras loads the outputs strictly, its weights poisoned before, and predicts what the original predicted; full models also compile and
   train on, with the optimizer state that the original has.
4. The same with descriptions for the other Keras (--keras 2, --keras 3), loaded there. What cannot go is refused by name.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, finish  # noqa: E402

FULL = ("keras", "h5")
# What the other Keras lacks: (Keras of the file, model): words of the refusal.
LACKS = {}


class Case:
    def __init__(self, keras, name, folder, made):
        self.keras, self.name, self.folder, self.made = keras, name, folder, made
        self.xy = ["--x"] + self.arrays("x") + ["--y"] + self.arrays("y")
        self.jobs = []  # (label, Keras that judges, arguments of oracle_load.py, genuine arguments or None)

    def arrays(self, letter):
        out = []
        while os.path.exists("%s/%s%d.npy" % (self.folder, letter, len(out))):
            out.append("%s/%s%d.npy" % (self.folder, letter, len(out)))
        return out

    def has(self, name):
        return name in self.made and not self.made[name]

    def path(self, name):
        return os.path.join(self.folder, name)


class Suite:
    def __init__(self, box, work):
        self.box, self.work, self.bad, self.n = box, work, [], 0
        self.lock = threading.Lock()

    def need(self, ok, what, why):
        with self.lock:
            self.n += 1
            if not ok:
                self.bad.append((what, why))
        return ok

    def convert(self, case, source, out, *args):
        """The output's path, or None."""
        out = os.path.join(self.work, "%d-%s-%s" % (case.keras, case.name, out))
        source = source if os.path.isabs(source) else case.path(source)
        r = self.box.tool("pgconvert", "--no-sync", *args, source, out)
        return out if self.need(r.rc == 0, "%s %s" % (source, out), r.show()) else None

    def equal(self, out, genuine):
        r = self.box.tool("pgdiff", "-q", out, genuine)
        self.need(r.rc == 0, "pgdiff %s" % out, r.show())

    # 2
    def outputs(self, case):
        compiled = not case.name.startswith(("zoo", "alone"))
        made = {}
        for source in ("m.keras", "m.h5"):
            if not case.has(source):
                continue
            s = source[2:]
            for to in ("h5", "weights.h5", "keras", "safetensors"):
                o = self.convert(case, source, "%s.%s" % (s, to))
                if not o:
                    continue
                made[s, to] = o
                self.equal(o, case.path(source))
                if case.has("w.weights.h5"):
                    self.equal(o, case.path("w.weights.h5"))
                self.judge(case, o, to, compiled)
            for to in ("npy", "npz"):
                made[s, to] = self.convert(case, source, "%s-%s" % (s, to), "--to", to)
        for source, tos in (("safetensors", ("h5", "weights.h5", "keras")), ("npy", ("h5", "keras", "safetensors")), ("npz", ("weights.h5",)),
                            ("weights.h5", ("h5",)), ("h5", ("keras",)), ("keras", ("h5",))):
            if not made.get(("keras", source)):
                continue
            for to in tos:
                given = ["--model", case.path("model.json")] if source == "weights.h5" else []
                o = self.convert(case, made["keras", source], "from-%s.%s" % (source, to), *given)
                if o:
                    self.equal(o, case.path("m.keras"))
                    self.judge(case, o, "weights" if given else to, compiled and source in ("npy", "h5", "keras"))
        for source, to in (("w.weights.h5", "h5"), ("w.h5", "weights.h5"), ("w.h5", "safetensors"), ("w.weights.h5", "keras")):
            if case.has(source):
                o = self.convert(case, source, "%s.%s" % (source, to), "--model", case.path("model.json"))
                if o:
                    self.judge(case, o, to if to == "keras" else "weights", False)

    def judge(self, case, out, to, compiled, keras=None):
        if to == "safetensors":
            return
        keras = keras or case.keras
        if to in FULL:
            args = [out, "-", "--full"] + case.xy + (["--compiled", "--resume"] if compiled else [])
            case.jobs.append((out, keras, args, [case.path("m.keras")] + args[1:] if compiled else None))
        else:
            case.jobs.append((out, keras, [out, case.path("m.keras")] + case.xy, None))

    # 4
    def other(self, case):
        keras = 5 - case.keras
        for source in ("m.keras", "m.h5"):
            if not case.has(source):
                continue
            for to in FULL:
                out = os.path.join(self.work, "%d-%s-%s-to%d.%s" % (case.keras, case.name, source, keras, to))
                r = self.box.tool("pgconvert", "--no-sync", "--keras", keras, case.path(source), out)
                lacks = LACKS.get((case.keras, case.name))
                if lacks:
                    self.need(r.rc == 3 and lacks in r.err, out, r.show())
                elif self.need(r.rc == 0, out, r.show()):
                    self.equal(out, case.path(source))
                    self.judge(case, out, to, False, keras)

    # 3
    def ask(self, python, keras, cases):
        jobs, meaning = [], []
        for c in cases:
            genuine = {}
            for label, k, args, control in c.jobs:
                if k != keras:
                    continue
                at = None
                if control:
                    key = json.dumps(control)
                    if key not in genuine:
                        genuine[key] = len(jobs)
                        jobs.append([control, None])
                        meaning.append((label, None))
                    at = genuine[key]
                jobs.append([args, None])
                meaning.append((label, at))
        path = os.path.join(self.work, "jobs%d.json" % keras)
        with open(path, "w") as f:
            json.dump(jobs, f)
        p = subprocess.run([python, os.path.join(HERE, "oracle_load.py"), "--batch", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        rep = [json.loads(x) for x in p.stdout.decode().splitlines()]
        if not self.need(len(rep) == len(jobs), "Keras %d" % keras, p.stderr.decode(errors="replace")[-2000:]):
            return 0
        for (label, at), r in zip(meaning, rep):
            what = "Keras %d: %s" % (keras, os.path.basename(label))
            self.need(r["rc"] == 0, what + ("" if at is not None else ""), r["error"] or "?")
            if at is not None and rep[at]["rc"] == 0 and r["rc"] == 0:
                self.need(r.get("optimizer") == rep[at].get("optimizer"), what,
                          "optimizer %s, the genuine file gives %s" % (str(r.get("optimizer"))[:200], str(rep[at].get("optimizer"))[:200]))
        return len(jobs)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("--only", default="")
    ap.add_argument("--keep")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    pythons = {2: os.environ.get("PG_KERAS2_PYTHON"), 3: os.environ.get("PG_KERAS3_PYTHON")}
    pythons = {k: v for k, v in pythons.items() if v and shutil.which(v)}
    if not pythons:
        print("skipped: neither PG_KERAS2_PYTHON nor PG_KERAS3_PYTHON names a Python (see tests/interop/run.py)")
        return 77
    work = a.keep or tempfile.mkdtemp(prefix="pgconvert")
    try:
        s = Suite(Box(a.tools, None, a.testdata), os.path.join(work, "out"))
        shutil.rmtree(s.work, ignore_errors=True)
        os.makedirs(s.work)
        notes, threads = [], []

        def make(keras):
            folder = os.path.join(work, "keras%d" % keras)
            if os.path.exists(folder + "/made.json"):
                return
            p = subprocess.run([pythons[keras], os.path.join(HERE, "convert_models.py"), folder], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            s.need(p.returncode == 0, "models of Keras %d" % keras, p.stdout.decode(errors="replace")[-3000:])

        def parallel(f):
            threads = [threading.Thread(target=f, args=(k,)) for k in pythons]
            for t in threads:
                t.start()
            for t in threads:
                t.join()

        parallel(make)
        cases = []
        for k in pythons:
            folder = os.path.join(work, "keras%d" % k)
            if not os.path.exists(folder + "/made.json"):
                continue
            with open(folder + "/made.json") as f:
                for name, made in json.load(f).items():
                    if a.only in name:
                        cases.append(Case(k, name, os.path.join(folder, name), made))
                        notes += ["Keras %d itself cannot save %s/%s: %s" % (k, name, x, why) for x, why in made.items() if why]
        for c in cases:
            s.outputs(c)
            if len(pythons) == 2:
                s.other(c)

        def go(keras):
            notes.append("Keras %d judged %d outputs" % (keras, s.ask(pythons[keras], keras, cases)))

        parallel(go)
        return finish("convert", s.bad, s.n, notes)
    finally:
        if not a.keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
