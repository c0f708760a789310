#!/usr/bin/env python3
"""Real Keras, h5py and safetensors judge what the tools write.

usage: run.py --tools DIR --testdata DIR [--only TEXT] [-v]
Environments (python executables; a judge without one is left out, and with none of them the suite is skipped, exit 77):
  PG_JUDGE_PYTHON   h5py, numpy, safetensors
  PG_KERAS2_PYTHON  Keras 2.15 (tensorflow-cpu==2.15.1)
  PG_KERAS3_PYTHON  Keras 3.6 (tensorflow-cpu==2.18.0 keras==3.6.0)

1. Every wrapper of testdata is unwrapped (weights-only files with --like, and without where the tool dares to); some also in
   place, where the output is made of links to the old tensors, and out of a compressed copy, where a new file may be, too.
   Some templates are wrapped in place.
2. oracle_diff.py (h5py): each output equals the file that the genuine Keras wrote from the template: layer and weight names,
   order, bytes, types of the attributes that Keras reads, model_config, training_config, optimizer state.
3. oracle_load.py (each Keras): each output loads strictly into the template, with its weights poisoned before, and predicts
   what the template predicted; full models open with load_model, with their optimizer, and train on; the wrapper's own file
   is refused. What was wrapped loads into the template within a model of its own, as multi_gpu_model() has it. A case counts
   only where this Keras can load the genuine template file (the control), and how many must be judged is fixed below, so that
   the suite cannot pass by judging nothing.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, chosen, finish  # noqa: E402

OTHERWISE = re.compile(r"(keras-2.2.4/(cnn4|nested)-g2|tf.keras-2.15/rnn-g2)/wrapper_(weights|model).h5$")
AT_LEAST = {"Keras 2.15": 60, "Keras 3.6": 30}  # outputs that must have been judged by prediction


class Suite:
    def __init__(self, box, man, work):
        self.box, self.man, self.work = box, man, work
        self.bad, self.n = [], 0
        self.files = [f for f in man["files"] if f["expected"] == "unwrap" and not f["file"].split("/")[-1].startswith("wrapper_0000")]
        self.lock = threading.Lock()

    def p(self, rel):
        return os.path.join(self.box.data, rel)

    def fail(self, what, why):
        with self.lock:
            self.bad.append((what, why))

    def like(self, f):
        j = self.man["cases"][f["case"]].get("template_json")
        if f["file"] == "files/keras-2.1.6/bignames/wrapper_weights.h5":
            j = "files/keras-2.0.9/bignames/template.json"
        return self.p(j) if j else None

    def genuine(self, f):
        """The file of the same kind that Keras wrote from the template."""
        here = os.path.dirname(f["file"])
        name = os.path.basename(f["file"])
        if f["kind"].startswith("sharded"):
            return self.p(os.path.normpath(here + "/../sharded/template.weights.json"))
        for q in ([here + "/template.keras"] if name.endswith(".keras") else []) + \
                 ([here + "/template_legacy.h5"] if "legacy" in name else []) + \
                 ([f["expected_full_model"]] if f.get("expected_full_model") else []) + \
                 ([here + "/template_model.h5"] if f["kind"].startswith("full") else []) + [f["template_file"] or ""]:
            if q and os.path.exists(self.p(q)):
                return self.p(q)
        return None

    # 1
    def outputs(self, only):
        out = []
        for i, f in enumerate(self.files):
            if only not in f["file"]:
                continue
            name = os.path.basename(f["file"])
            x = ".weights.h5" if f["kind"].startswith(("sharded", "path")) else name[name.index("."):]
            weights_only = f["kind"].startswith("weights only")
            for how in ("like", "plain"):
                like = self.like(f) if weights_only else None
                if (how == "like") != bool(like) and not weights_only:
                    if how == "like":
                        continue
                if how == "like" and not like:
                    continue
                o = os.path.join(self.work, "%03d-%s%s" % (i, how, x))
                r = self.box.tool("pgunwrap", "--no-sync", *(["--like", like] if how == "like" else []), self.p(f["file"]), o)
                if r.rc == 0:
                    out.append((f, how, o))
                elif not (weights_only and how == "plain" and r.rc == 1):
                    self.fail("%s (%s)" % (f["file"], how), r.show())
                self.n += 1
                if OTHERWISE.search(f["file"]) and (how == "like" or not weights_only):
                    out += self.otherwise(i, f, like)
        return out

    def otherwise(self, i, f, like):
        """The same in the file itself; and out of a file whose tensors are compressed. And back: the template wrapped in place."""
        own, back, small, o = (os.path.join(self.work, "%03d-%s.h5" % (i, x)) for x in ("own", "back", "small", "linked"))
        shutil.copyfile(self.p(f["file"]), own)
        like = ["--like", like] if like else []
        runs = [("in place", own, ["pgunwrap", *like, "--in-place", own])]
        if shutil.which("h5repack"):
            subprocess.run(["h5repack", "-m", "100", "-f", "SHUF", "-f", "GZIP=4", self.p(f["file"]), small], check=True)
            runs.append(("compressed", o, ["pgunwrap", *like, small, o]))
        if like:
            shutil.copyfile(self.genuine(f), back)
            runs.append(("wrapped", back, ["pgwrap", "--like", self.p(f["file"]), "--in-place", back]))
        for how, made, (tool, *args) in runs:
            r = self.box.tool(tool, "--no-sync", *args)
            self.n += 1
            if r.rc:
                self.fail("%s (%s)" % (f["file"], how), r.show())
        return [(f, how, made) for how, made, _ in runs if os.path.exists(made)]

    # 2
    def diff(self, python, outs):
        jobs = []
        for f, how, o in outs:
            g = self.p(f["file"]) if how == "wrapped" else self.genuine(f)
            if g:
                jobs.append([o, g] + (["--optimizer"] if g.endswith("expected_model.h5") else [])
                            + (["--values"] if how == "plain" and f["kind"].startswith("weights only") or
                               f["kind"].startswith("full") and g.endswith("_weights.h5") else [])
                            + (["--any-version"] if "bignames" in f["file"] else []))
            else:
                jobs.append(None)
        if shutil.which("h5dump"):  # the system's libhdf5 is older than h5py's own
            for f, how, o in outs:
                if o.endswith(".h5"):
                    q = subprocess.run(["h5dump", "-o", os.devnull, o], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                    self.n += 1
                    if q.returncode or q.stderr:
                        self.fail("h5dump: %s (%s)" % (f["file"], how), q.stderr[-500:])
        asked = [j for j in jobs if j]
        rep = self.ask(python, "oracle_diff.py", asked)
        for (f, how, o), r in zip([x for x, j in zip(outs, jobs) if j], rep):
            self.n += 1
            if r["rc"]:
                self.fail("h5py: %s (%s)" % (f["file"], how), r["text"])
        for name, want in (("files/pytorch/cnn/dataparallel.safetensors", "single"), ("files/pytorch/cnn/compiled.safetensors", "single"),
                           ("files/pytorch/trap/dataparallel.safetensors", "single"), ("files/pytorch/trap/compiled.safetensors", "single")):
            o = os.path.join(self.work, "st.safetensors")
            r = self.box.tool("pgunwrap", "--force", "--no-sync", self.p(name), o)
            code = ("import sys; from safetensors.numpy import load_file as l; a, b = l(sys.argv[1]), l(sys.argv[2]); "
                    "assert list(sorted(a)) == list(sorted(b)), (list(a), list(b)); "
                    "assert all(a[k].tobytes() == b[k].tobytes() and a[k].shape == b[k].shape and a[k].dtype == b[k].dtype for k in a)")
            q = subprocess.run([python, "-c", code, o, self.p(os.path.join(os.path.dirname(name), want + ".safetensors"))],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.n += 1
            if r.rc or q.returncode:
                self.fail("safetensors: " + name, r.show() + q.stdout[-800:])

    def ask(self, python, script, jobs):
        fd, path = tempfile.mkstemp(dir=self.work, suffix=".json")
        with os.fdopen(fd, "w") as f:
            json.dump(jobs, f)
        p = subprocess.run([python, os.path.join(HERE, script), "--batch", path], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        rep = [json.loads(x) for x in p.stdout.decode().splitlines()]
        if len(rep) != len(jobs):
            self.fail(script, "%d answers to %d questions (exit %s): %s" % (len(rep), len(jobs), p.returncode, p.stderr.decode(errors="replace")[-2000:]))
        return rep

    # 3
    def load(self, python, name, outs):
        jobs, meaning, control = [], [], {}

        def ask(kind, f, how, o, args):
            key = (f["case"], {"weights": "w", "refused": "w", "full": f["kind"], "compiled": "compiled"}.get(kind))
            jobs.append([args, None if kind == "control" else control[key]])
            meaning.append((kind, f, how, o))

        for f, how, o in outs:
            case = self.man["cases"][f["case"]]
            io = case.get("io") or {}
            d = os.path.dirname(f["file"]) if not f["kind"].startswith("sharded") else os.path.dirname(os.path.dirname(f["file"]))
            xy = ["--x"] + [self.p(d + "/" + i["file"]) for i in io.get("inputs", [])] + ["--y"] + [self.p(d + "/" + i["file"]) for i in io.get("predictions", [])]
            if len(xy) == 2:
                continue
            tj, g = self.like(f), self.genuine(f)
            full = f["kind"].startswith(("full", "keras-zip"))
            if tj and g and not (full and f["kind"] == "keras-zip"):
                w = g if not full else self.p(f["template_file"])
                if not full and f["kind"].startswith("sharded"):  # Keras 3.6 reads the output, but no shards to compare with
                    if name == "Keras 3.6":
                        jobs.append([[o, tj] + xy, None])
                        meaning.append(("alone", f, how, o))
                elif not full:
                    if (f["case"], "w") not in control:
                        control[f["case"], "w"] = len(jobs)
                        ask("control", f, "", w, [w, tj] + xy)
                        ask("refused", f, "", self.p(f["file"]), [self.p(f["file"]), tj])
                    ask("weights", f, how, o, [o, tj] + xy + ["--weights", w] + ["--inside"] * (how == "wrapped"))
            if full and g:
                if (f["case"], f["kind"]) not in control:
                    control[f["case"], f["kind"]] = len(jobs)
                    ask("control", f, "", g, [g, "-", "--full"] + xy)
                compiled = g.endswith("expected_model.h5") and chosen(os.path.basename(o))
                ask("full", f, how, o, [o, "-", "--full"] + xy)
                if compiled:
                    k = (f["case"], "compiled")
                    control[k] = len(jobs)
                    ask("control", f, "", g, [g, "-", "--full", "--compiled", "--resume"] + xy)
                    ask("compiled", f, how, o, [o, "-", "--full", "--compiled", "--resume"] + xy)
        rep = self.ask(python, "oracle_load.py", jobs)
        judged, unbuilt = 0, set()
        for (kind, f, how, o), r in zip(meaning, rep):
            key = {"weights": "w", "refused": "w", "full": f["kind"], "compiled": "compiled"}.get(kind)
            if kind == "control":
                continue
            c = rep[control[f["case"], key]] if kind != "alone" else {"rc": 0}
            if c["rc"]:
                unbuilt.add("%s cannot use the genuine template of %s (%s)" % (name, f["case"], (c["error"] or "")[:70]))
                continue
            self.n += 1
            what = "%s: %s (%s %s)" % (name, f["file"], kind, how)
            if kind == "refused":
                if r["rc"] == 0:
                    self.fail(what, "the wrapped file itself loads: the case proves nothing")
                continue
            judged += 1
            if r["rc"]:
                self.fail(what, r["error"] or "?")
            elif kind == "compiled" and r.get("optimizer") != c.get("optimizer"):
                self.fail(what, "optimizer %s, the genuine file gives %s" % (str(r.get("optimizer"))[:200], str(c.get("optimizer"))[:200]))
        return judged, sorted(unbuilt)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("--only", default="")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    judges = {"h5py": os.environ.get("PG_JUDGE_PYTHON"), "Keras 2.15": os.environ.get("PG_KERAS2_PYTHON"), "Keras 3.6": os.environ.get("PG_KERAS3_PYTHON")}
    missing = [k for k, v in judges.items() if not v or not shutil.which(v)]
    if len(missing) == 3:
        print("skipped: none of PG_JUDGE_PYTHON, PG_KERAS2_PYTHON, PG_KERAS3_PYTHON names a Python (see tests/interop/run.py)")
        return 77
    with open(os.path.join(a.testdata, "manifest.json")) as h:
        man = json.load(h)
    work = tempfile.mkdtemp(prefix="pginterop")
    try:
        s = Suite(Box(a.tools, None, a.testdata), man, work)
        outs = s.outputs(a.only)
        notes = ["no environment for " + m for m in missing]

        def go(name):
            if name == "h5py":
                s.diff(judges[name], outs)
                return
            judged, unbuilt = s.load(judges[name], name, outs)
            notes.append("%s judged %d outputs by prediction" % (name, judged))
            if not a.only and judged < AT_LEAST[name]:
                s.fail(name, "only %d outputs were judged, expected %d or more" % (judged, AT_LEAST[name]))
            if a.v:
                notes.extend(unbuilt)

        threads = [threading.Thread(target=go, args=(k,)) for k in judges if k not in missing]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return finish("interop", s.bad, s.n, notes)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
