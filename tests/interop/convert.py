#!/usr/bin/env python3
"""pgconvert, judged by real Keras, PyTorch, h5py, numpy and safetensors.

usage: convert.py --tools DIR --testdata DIR [--only MODEL] [--keep DIR] [-v]
Environments are those of run.py; PG_TORCH_PYTHON is one with torch and safetensors. What is not there is left out; without a Keras the
test is skipped (exit 77).
1. convert_models.py lets each Keras build models (a gallery, and every class of keras.layers) and save them in all its formats.
2. Each is converted into every other container, some of these onward and back. pgdiff says that an output equals the file that Keras
   itself wrote.
3. Keras loads the outputs strictly, its weights poisoned before, and predicts what the original predicted; full models also compile and
   train on, with the optimizer state that the original has. Counted only where Keras can load its own file.
4. The same with descriptions for the other Keras (--keras 2, --keras 3), loaded there. What cannot go is refused by name.
5. PyTorch loads --layout pytorch with strict=True and predicts the same; its own file with other values goes back into Keras, which
   then predicts what PyTorch does.
6. Kernels of Keras 1.2.2 are turned: the files of testdata predict in today's Keras what Keras 1 did.
7. numpy and safetensors read what is theirs; h5py opens a .keras in place; rounding is numpy's.
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
from pgbox import Box, chosen, finish, sha_file  # noqa: E402

FULL = ("keras", "h5")
# Words of the refusal: of models for the other Keras, and of those that have no place in another layout.
LACKS = {"locally_connected": "LocallyConnected", "random_height": "RandomHeight", "random_width": "RandomWidth", "thresholded": "ThresholdedReLU",
         "discretization": "discretization", "random_crop": "random_crop: this class computes something else", "conv_lstm": "hard_sigmoid",
         "auto_contrast": "AutoContrast", "solarization": "Solarization", "grouped_query": "QueryAttention",
         "spectral": "SpectralNormalization"}
UNPAIRED = {"spectral": "SpectralNormalization"}  # what paths hold of it pgdiff does not find in names
GALLERY = ("attention", "cnn", "image", "lists", "nested", "sequence", "torch_flat", "torch_image", "torch_nested", "torch_rnn", "torch_text", "video")
TORCH = ("cnn", "torch_image", "torch_flat", "torch_text", "torch_rnn", "torch_nested")


def words(table, name):
    return next((w for k, w in table.items() if k in name), None)


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
        by_path = [f.endswith((".keras", ".weights.h5")) for f in (out, genuine)]
        if words(UNPAIRED, out) and by_path[0] != by_path[1]:
            return
        r = self.box.tool("pgdiff", "-q", out, genuine)
        empty = r.rc == 2 and "holds no tensors" in r.err
        self.need(r.rc == 0 or empty, "pgdiff %s %s" % (out, genuine), r.show())

    # 2
    def outputs(self, case):
        compiled = case.name in GALLERY
        made = {}
        for source in ("m.keras", "m.h5"):
            s = source[2:]
            if case.has(source):  # what Keras itself wrote is never called bad
                r = self.box.tool("pgcheck", case.path(source))
                self.need(r.rc == 0, "pgcheck %s" % case.path(source), r.show())
            for to in ("h5", "weights.h5", "keras", "safetensors") if case.has(source) else ():
                o = self.convert(case, source, "%s.%s" % (s, to))
                if not o:
                    continue
                made[s, to] = o
                self.equal(o, case.path(source))
                if case.has("w.weights.h5"):
                    self.equal(o, case.path("w.weights.h5"))
                if compiled or s != to:
                    self.judge(case, o, to, compiled, case.path(source if to != "weights.h5" else "w.weights.h5"))
        if not compiled:
            return
        for to in ("npy", "npz"):
            made["keras", to] = self.convert(case, "m.keras", "keras-%s" % to, "--to", to)
        for source, tos in (("safetensors", ("h5", "weights.h5", "keras")), ("npy", ("h5", "keras", "safetensors")), ("npz", ("weights.h5",)),
                            ("weights.h5", ("h5",)), ("h5", ("keras",)), ("keras", ("h5",))):
            for to in tos if made.get(("keras", source)) else ():
                given = ["--model", case.path("model.json")] if source == "weights.h5" else []
                o = self.convert(case, made["keras", source], "from-%s.%s" % (source, to), *given)
                if o:
                    self.equal(o, case.path("m.keras"))
                    self.judge(case, o, "weights" if given else to, compiled and source in ("npy", "h5", "keras"), case.path("m.keras"))
        for source, to in (("w.weights.h5", "h5"), ("w.h5", "weights.h5"), ("w.h5", "safetensors"), ("w.weights.h5", "keras")):
            o = case.has(source) and self.convert(case, source, "%s.%s" % (source, to), "--model", case.path("model.json"))
            if o:
                self.judge(case, o, to if to in ("keras", "safetensors") else "weights", False, case.path(source))

    def refused(self, case, source, out, lacks, *args):
        out = os.path.join(self.work, "%d-%s-%s" % (case.keras, case.name, out))
        r = self.box.tool("pgconvert", "--no-sync", *args, case.path(source), out)
        self.need(r.rc == 3 and lacks in r.err and not os.path.exists(out), out, r.show())

    def judge(self, case, out, to, compiled, genuine, keras=None):
        """genuine: what this Keras must be able to load for the case to count; None: nothing."""
        if to == "safetensors" or not chosen(os.path.basename(out)):
            return
        compiled = compiled and chosen(os.path.basename(out))
        if (keras or case.keras) == 3 and to == "h5":
            compiled = False  # Keras 3.6 does not find loss="mse" in any .h5, its own included
        if to in FULL:
            args = ["-", "--full"] + case.xy + (["--compiled", "--resume"] if compiled else [])
            control = case.path("m." + to) if genuine and case.has("m." + to) else None
        else:
            args = [case.path("m.keras")] + case.xy
            control = genuine if genuine and genuine.endswith(("w.h5", "w.weights.h5")) else None
        case.jobs.append((out, keras or case.keras, [out] + args, [control] + args if control else None))

    # 4
    def other(self, case):
        keras = 5 - case.keras
        for source in ("m.keras", "m.h5"):
            for to in (FULL if case.name in GALLERY else ("keras",)) if case.has(source) else ():
                out = "%s-to%d.%s" % (source, keras, to)
                lacks = words(LACKS, case.name)
                if lacks:
                    self.refused(case, source, out, lacks, "--keras", keras)
                    continue
                o = self.convert(case, source, out, "--keras", keras)
                if o:
                    self.equal(o, case.path(source))
                    self.judge(case, o, to, False, None, keras)

    # 5
    def torch(self, python, cases):
        jobs = []
        for c in cases:
            o = c.name in TORCH and self.convert(c, "m.keras", "torch.safetensors", "--layout", "pytorch")
            if o:
                jobs.append([o, c.name, c.folder, o + ".new"])
                for to in FULL:
                    back = self.convert(c, o, "torch-back.%s" % to)
                    if back:
                        self.equal(back, c.path("m.keras"))
        n = self.answers(python, "convert_torch.py", jobs)
        for c in (c for c in cases if c.name in TORCH):
            new = os.path.join(self.work, "%d-%s-torch.safetensors.new" % (c.keras, c.name))
            o = os.path.exists(new) and self.convert(c, new, "torch-new.weights.h5", "--model", c.path("m.keras"))
            if o:
                c.jobs.append((o, c.keras, [o, c.path("m.keras")] + c.xy[:c.xy.index("--y")] + ["--y", new + ".y.npy"], None))
        return n

    # 6
    def keras_1(self, kerases):
        """A case whose jobs are those of all four models."""
        folder = os.path.join(self.box.data, "files", "keras-1.2.2-py3")
        c = Case(1, "", folder, {})
        with open(os.path.join(HERE, "keras1_build.py")) as f:
            text = f.read()
        for name in sorted(os.listdir(folder)):
            here, build = os.path.join(folder, name), os.path.join(self.work, name + ".py")
            with open(build, "w") as f:
                f.write("CASE = %r\n%s" % (name.split("-")[1], text))
            xy = ["--x", here + "/x0.npy", "--y", here + "/y0.npy"]
            for source, args in (("template_weights.h5", []), ("wrapper_weights.h5", ["--unwrap"])):
                for to in ("weights.h5", "h5", "keras1.safetensors"):
                    o = self.convert(c, os.path.join(here, source), "%s-%s.%s" % (name, source[0], to), "--model", here + "/template.json", *args)
                    if to == "keras1.safetensors" and o and "rnn" in name:
                        continue  # the description has the gates apart, the file has not
                    if to == "keras1.safetensors" and o:
                        o = self.convert(c, o, "%s-%s.again.weights.h5" % (name, source[0]), "--model", here + "/template.json")
                    if o:
                        c.jobs += [(o, k, [o, build] + xy, None) for k in kerases]
        return c

    # 7
    def others(self, python, cases):
        jobs = []
        for c in (c for c in cases if c.name in ("image", "sequence", "nested")):
            for source in ("m.h5", "m.keras"):
                for to in ("safetensors", "keras", "npy", "npz"):
                    o = self.convert(c, source, "%s.judge.%s" % (source, to), "--to", to)
                    jobs += [[to, o, c.path(source)]] if o else []
                for dtype in ("float16", "bfloat16"):
                    o = self.convert(c, source, "%s.%s.safetensors" % (source, dtype), "--dtype", dtype)
                    jobs += [[dtype, o, os.path.join(self.work, "%d-%s-%s.judge.safetensors" % (c.keras, c.name, source))]] if o else []
        return self.answers(python, "convert_read.py", jobs)

    def answers(self, python, script, jobs):
        path = os.path.join(self.work, script + ".json")
        with open(path, "w") as f:
            json.dump(jobs, f)
        p = subprocess.run([python, os.path.join(HERE, script), path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        rep = [json.loads(x) for x in p.stdout.decode().splitlines()]
        if self.need(len(rep) == len(jobs), script, p.stderr.decode(errors="replace")[-2000:]):
            for j, r in zip(jobs, rep):
                self.need(not r["error"], "%s: %s" % (script, " ".join(map(str, j[:2]))), r["error"])
        return len(rep)

    # 3
    def ask(self, python, keras, cases):
        jobs, meaning, seen, unable = [], [], {}, 0

        def job(args):
            """Files of one content are judged once."""
            key = sha_file(args[0]) + json.dumps(args[1:])
            if key not in seen:
                seen[key] = len(jobs)
                jobs.append([args, None])
            return seen[key]

        for c in cases:
            for label, k, args, control in c.jobs:
                if k == keras:
                    meaning.append((label, job(control) if control else None, job(args)))
        path = os.path.join(self.work, "jobs%d.json" % keras)
        with open(path, "w") as f:
            json.dump(jobs, f)
        p = subprocess.run([python, os.path.join(HERE, "oracle_load.py"), "--batch", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        rep = [json.loads(x) for x in p.stdout.decode().splitlines()]
        if not self.need(len(rep) == len(jobs), "Keras %d" % keras, p.stderr.decode(errors="replace")[-2000:]):
            return "Keras %d failed" % keras
        for label, control, at in meaning:
            what, r, c = "Keras %d: %s" % (keras, os.path.basename(label)), rep[at], rep[control] if control is not None else None
            if c and c["rc"]:
                unable += 1
                continue
            self.need(r["rc"] == 0, what, r["error"] or "?")
            if c and r["rc"] == 0:
                self.need(r.get("optimizer") == c.get("optimizer"), what, "optimizer %s, the genuine file gives %s" %
                          (str(r.get("optimizer"))[:200], str(c.get("optimizer"))[:200]))
        return "Keras %d judged %d outputs; of %d more it cannot load its own file" % (keras, len(meaning) - unable, unable)


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
        notes = []

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

        if a.only in "keras1":
            cases.append(s.keras_1(pythons))
        for variable, f in (("PG_TORCH_PYTHON", s.torch), ("PG_JUDGE_PYTHON", s.others)):
            python = os.environ.get(variable)
            if python and shutil.which(python):
                notes.append("%s judged %d outputs" % (variable, f(python, cases)))
            else:
                notes.append("no environment for %s" % variable)

        def go(keras):
            notes.append(s.ask(pythons[keras], keras, cases))

        parallel(go)
        return finish("convert", s.bad, s.n, notes)
    finally:
        if not a.keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
