#!/usr/bin/env python3
"""Goes through testdata/manifest.json with the built tools and judges every file from outside.

usage: run.py --tools DIR --dump PG_DUMP --testdata DIR [--only TEXT] [-j N] [-v]
  --tools   folder with pginfo, pgunwrap, pgwrap;  --dump  the test program dump.c
  --only    only entries whose path contains TEXT

What is right is taken from the manifest (SHA-256 of every weight in the order of the template, layer lists, verdicts) and
from the file that the genuine Keras wrote from the template at the same moment; both were made without libpg.
Every command must leave its input as it was and nothing but its output behind; a refusal is one line on stderr.
Standard library only. Exit status 1 if any check failed.
"""
import argparse
import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from pgbox import Box, Folder, chosen, finish, sha_file, without_shared_ids  # noqa: E402

FORMATS = {  # kind of the manifest -> format of pginfo --json
    "weights only (legacy HDF5)": "keras-h5-weights",
    "full model (legacy HDF5)": "keras-h5-model",
    "keras-zip": "keras-zip",
    "path-layout weights": "keras-weights-h5",
    "sharded weights": "keras-sharded",
    "safetensors": "safetensors",
}
# A merge with a default name, or with that of an output that holds no weights, says nothing about its axis: by names such a
# wrapper cannot be told from a multi-view model. These may be called ambiguous.
DEFAULT_MERGE = re.compile(r"^(concatenate|merge)(_\d+)?$")
WEIGHTLESS_OUTPUT = ("files/keras-2.2.4/longnames/wrapper_weights.h5",)
SHARD = re.compile(r"_\d{5}\.weights\.h5$")


class Bad(Exception):
    pass


def need(ok, text, *args):
    if not ok:
        raise Bad(text % args if args else text)


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return "#%d is %s, expected %s" % (i, x, y)
    return "%d, expected %d" % (len(a), len(b))


def same(what, got, want):
    need(got == want, "%s: %s", what, first_difference(got, want) if isinstance(got, list) and isinstance(want, list)
         else "is %.300s, expected %.300s" % (got, want))


def torch_file(f):
    """Written by torch.save(): read, and written as safetensors."""
    return f["file"].endswith((".pt", ".pth.tar"))


class Suite:
    def __init__(self, box, man):
        self.box, self.man = box, man
        self.files = {f["file"]: f for f in man["files"]}
        self.json = {}
        for f in man["files"]:
            c = f.get("case")
            if c and man["cases"].get(c, {}).get("template_json"):
                self.json[f["file"]] = man["cases"][c]["template_json"]
        self.json["files/keras-2.1.6/bignames/wrapper_weights.h5"] = "files/keras-2.0.9/bignames/template.json"

    # ---------------------------------------------------------------- helpers
    def p(self, rel):
        return os.path.join(self.box.data, rel)

    def beside(self, f, *names):
        for n in names:
            q = os.path.join(os.path.dirname(f["file"]), n)
            if os.path.exists(self.p(q)):
                return q
        return None

    def genuine(self, f):
        """The file that Keras wrote from the template, of the same kind as f; None where it could not write one."""
        d = os.path.basename(f["file"])
        if f["kind"].startswith("sharded"):
            return os.path.normpath(os.path.join(os.path.dirname(f["file"]), "../sharded/template.weights.json"))
        if d.endswith(".keras"):
            return self.beside(f, "template.keras")
        if "wrapper_legacy" in d:
            return self.beside(f, "template_legacy.h5")
        return f.get("template_file")

    def refused(self, r, status, folder, names):
        need(r.rc in status, "exit %s, expected %s\n%s", r.rc, status, r.show())
        need(len(r.heads) == 1, "%d lines on stderr, expected one\n%s", len(r.heads), r.show())
        same("files in the folder", folder.names(), sorted(names))

    def source(self, f, folder):
        """A copy of the file under test (and of what belongs to it); returns path and names."""
        src = self.p(f["file"])
        if f["kind"].startswith("sharded") or SHARD.search(f["file"]):
            d = os.path.dirname(src)
            for n in os.listdir(d):
                shutil.copyfile(os.path.join(d, n), folder / n)
        else:
            shutil.copyfile(src, folder / os.path.basename(src))
        return folder / os.path.basename(src), folder.names()

    # ---------------------------------------------------------------- pginfo
    def verdicts(self, f):
        e = f["expected"]
        if e.startswith("damaged"):
            return {"damaged"}
        if e in ("not-keras", "not-hdf5"):
            return {"unknown"}
        if e == "nested-not-parallel":
            return {"nested"}
        if e == "strip prefix":
            return {"wrapper"}
        if e.startswith("unwrap"):
            if SHARD.search(f["file"]):
                return {"wrapper", "ambiguous"}
            merge = (f.get("layer_names") or [""])[-1]
            if f["kind"].startswith("weights only") and (DEFAULT_MERGE.match(merge) or f["file"] in WEIGHTLESS_OUTPUT):
                return {"wrapper", "ambiguous"}
            return {"wrapper"}
        return {e}

    def info(self, f):
        with Folder() as d:
            src, names = self.source(f, d)
            before = sha_file(src)
            r = self.box.tool("pginfo", "--json", src)
            same("input afterwards", sha_file(src), before)
            same("files in the folder", d.names(), names)
            if f["kind"] == "npy rescue":
                need(r.rc == 3, "exit %s, expected 3 (a pickle)\n%s", r.rc, r.show())
                need(len(r.heads) == 1, "%d lines on stderr\n%s", len(r.heads), r.show())
                need(r.heads[0].count(src) == 1, "the line does not name the file once: %s", r.heads[0])
                return
            want = self.verdicts(f)
            try:
                o = json.loads(r.out)
            except ValueError:
                raise Bad("stdout is no JSON\n" + r.show())
            need(isinstance(o, dict), "not one object")
            need(o.get("verdict") in want, "verdict %s, expected %s\n%s", o.get("verdict"), want, r.show())
            if want & {"damaged", "unknown"}:
                need(r.rc == 2, "exit %s, expected 2\n%s", r.rc, r.show())
                need(len(r.heads) == 1, "%d lines on stderr\n%s", len(r.heads), r.show())
                need(r.heads[0].startswith("pginfo: ") and r.heads[0].count(os.path.basename(src)) == 1,
                     "the line does not name the file once: %s", r.heads[0])
                plain = self.box.tool("pginfo", src)
                same("exit without --json", plain.rc, 2)
                same("stderr without --json", plain.err, r.err)
                same("stdout without --json", plain.out, "")
            else:
                need(r.rc == 0, "exit %s, expected 0\n%s", r.rc, r.show())
                need(r.err == "", "stderr: %s", r.err)
                self.info_content(f, o)
                plain = self.box.tool("pginfo", src)
                need(plain.rc == 0 and plain.err == "" and plain.out.startswith(src), "plain output\n%s", plain.show())
                stats = self.box.tool("pginfo", "--stats", src)
                need(stats.rc == 0 and stats.err == "", "--stats\n%s", stats.show())
            for k in ("file", "format", "writer", "verdict", "replicas", "template", "layers", "tensors", "parameters", "bytes"):
                need(k in o, "key %s is missing", k)
            if want == {"unknown"} and f["file"].endswith(("table.h5", "userblock.h5")):
                same("format", o["format"], "hdf5")

    def info_content(self, f, o):
        src = self.p(f["file"])
        same("file", os.path.basename(o["file"]), os.path.basename(src))
        if f["kind"] in FORMATS:
            same("format", o["format"], FORMATS[f["kind"]])
        if f.get("layer_names") and not SHARD.search(f["file"]):
            same("layers", [x["name"] for x in o["layers"]], f["layer_names"])
            same("tensors", len(o["tensors"]), f["weight_count"])
        same("tensors of the layers", sum(x["tensors"] for x in o["layers"] or []),
             len([t for t in o["tensors"] if t["layer"] is not None]))
        same("bytes", o["bytes"], sum(t["bytes"] for t in o["tensors"]))
        n = 0
        for t in o["tensors"]:
            k = 1
            for x in t["shape"]:
                k *= x
            n += k
        same("parameters", o["parameters"], n)
        case = self.man["cases"].get(f.get("case"), {})
        if case.get("weights") and not SHARD.search(f["file"]):
            want = sorted((tuple(w["shape"]), w["dtype"]) for w in case["weights"])
            same("shapes and types", sorted((tuple(t["shape"]), t["dtype"]) for t in o["tensors"]), want)
            have = {x["name"]: x["tensors"] for x in o["layers"]}
            for name, _, count in case.get("wrapper_layers") or ():
                if f["holds"] == "wrapper" and f["kind"].startswith(("weights only", "full")):
                    same("tensors of " + name, have[name], count)
        if o["verdict"] == "wrapper" and f["expected"] == "strip prefix":
            same("template", o["template"], f["prefix"])
            same("replicas", o["replicas"], None)
        elif o["verdict"] == "wrapper" and not SHARD.search(f["file"]):
            g = f["wrapper"]["gpus"] if "wrapper" in f else 2
            g = len(g) if isinstance(g, list) else g
            if "wrapped-twice" not in f["file"]:
                same("replicas", o["replicas"], g)
                if case and f["kind"] in ("weights only (legacy HDF5)", "full model (legacy HDF5)", "keras-zip"):
                    same("template", o["template"], case["template_name"])
        elif o["verdict"] in ("single", "nested", "no-weights"):
            same("replicas", o["replicas"], None)
        if f["file"].endswith("nan.h5"):
            r = self.box.tool("pginfo", "--stats", src)
            need(re.search(r"\b1\b", r.out), "--stats does not count the NaN\n%s", r.out)

    # ---------------------------------------------------------------- pgunwrap
    def judge_output(self, f, out):
        """out against the manifest's hashes and the genuine template file."""
        got = self.box.dump(out)
        same("output opens", (got.status, got.message), ("PG_OK", ""))
        kind = f["kind"]
        want_format = "keras-weights-h5" if kind.startswith("sharded") else FORMATS.get(kind)
        if torch_file(f):
            want_format = "safetensors"
        same("format of the output", got.format, want_format)
        case = self.man["cases"].get(f.get("case"), {})
        g = self.genuine(f)
        if kind == "safetensors" or torch_file(f):
            keys = sorted((k["key"], tuple(k["shape"]), k["dtype"].replace("torch.", ""), k["sha256"]) for k in case["keys"])
            same("tensors", sorted((w.name, w.shape, w.dtype, w.sha) for w in got.weights), keys)
            return got
        weights = case.get("weights") or self.man["cases"]["keras-2.0.9/bignames"]["weights"]
        if weights[0].get("path_in_template_file") and want_format in ("keras-weights-h5", "keras-zip"):
            have = {got.path(w): (w.shape, w.dtype, w.sha) for w in got.weights}
            want = {}
            for w in weights:  # equal tensors have several places
                at = w["path_in_template_file"]
                for q in at if isinstance(at, list) else [at]:
                    want[q] = (tuple(w["shape"]), w["dtype"], w["sha256"])
            same("tensors by path", sorted(have.items()), sorted(want.items()))
        elif weights[0].get("index_in_template_file") is not None:
            order = sorted(weights, key=lambda w: w["index_in_template_file"])
            same("tensors in order", [(w.shape, w.dtype, w.sha) for w in got.weights],
                 [(tuple(w["shape"]), w["dtype"], w["sha256"]) for w in order])
        else:
            same("tensors in order", [(w.shape, w.dtype, w.sha) for w in got.weights],
                 [(tuple(w["shape"]), w["dtype"], w["sha256"]) for w in weights])
        if g:
            ref = self.box.dump(self.p(g), cache=True)
            same("genuine file opens", ref.status, "PG_OK")
            if want_format in ("keras-weights-h5", "keras-zip"):
                same("layers and weights", [(n, [w.key() for w in ws]) for n, ws in got.by_layer() if ws],
                     [(n, [w.key() for w in ws]) for n, ws in ref.by_layer() if ws])
            else:
                same("layers", [n for n, _ in got.layers], [n for n, _ in ref.layers])
                for (n, a), (_, b) in zip(got.by_layer(), ref.by_layer()):
                    same("weights of " + n, [w.key() for w in a], [w.key() for w in b])
        elif kind.startswith("weights only") and case.get("template_layers"):
            same("layers", [n for n, _ in got.layers], [n for n, _ in case["template_layers"]])
        return got

    def judge_full(self, f, got):
        """The descriptions and the optimizer state of an unwrapped full model."""
        src = self.box.dump(self.p(f["file"]), cache=True)
        strip = lambda c: without_shared_ids({k: c[k] for k in ("class_name", "config")})  # noqa: E731
        ref = self.beside(f, "template_model.h5", "template_legacy.h5") if f["kind"].startswith("full") else self.genuine(f)
        if f.get("expected_full_model"):
            ref = f["expected_full_model"]
        if ref:
            want = self.box.dump(self.p(ref), cache=True)
            same("model_config", strip(got.config(0)), strip(want.config(0)))
            if f.get("expected_full_model"):
                a, b = got.config(1), want.config(1)
                for t in (a, b):
                    t.pop("optimizer_config", None)
                same("training_config", a, b)
                same("optimizer state", [w.value() for w in got.state], [w.value() for w in want.state])
        else:
            with open(self.p(self.json[f["file"]])) as h:
                same("model_config", strip(got.config(0)), strip(json.load(h)))
        need("get_slice" not in got.texts[0] and "slice_batch" not in got.texts[0], "a slice function is left in model_config")
        # in a .keras the template has an optimizer and metrics of its own below layers/: those are dropped
        state = [w.value() for w in src.state if not w.name.startswith(("layers/", "_layer_checkpoint"))]
        same("optimizer state is the input's", [w.value() for w in got.state], state)
        same("training_config is kept", 1 in got.texts, 1 in src.texts)
        if f["kind"].startswith("full") and 1 in src.texts:
            same("optimizer_config", got.config(1)["optimizer_config"], src.config(1)["optimizer_config"])

    def right(self, f, d, src, names, out_name, *opts):
        out = d / out_name
        r = self.box.tool("pgunwrap", *opts, src, out)
        need(r.rc == 0, "pgunwrap %s: exit %s\n%s", " ".join(opts), r.rc, r.show())
        same("files in the folder", d.names(), sorted(names + [out_name]))
        need(re.search(r"(\d+)/\1 checksums equal", r.out) or f["kind"] == "safetensors", "no proof line\n%s", r.show())
        need(len(r.out.split("\n")) >= 2 and r.out.startswith(out), "stdout does not begin with the output's name\n%s", r.show())
        got = self.judge_output(f, out)
        if f["kind"].startswith(("full", "keras-zip")):
            self.judge_full(f, got)
        self.in_place(f, d, src, names + [out_name], *opts)
        return r

    def in_place(self, f, d, src, names, *opts):
        """The same in the file itself: only for the legacy layout, otherwise not a byte changed."""
        own = d / ("own" + self.suffix(f))
        shutil.copyfile(src, own)
        r = self.box.tool("pgunwrap", "--in-place", *opts, own)
        if f["kind"].startswith(("weights only", "full")):
            need(r.rc == 0, "--in-place: exit %s\n%s", r.rc, r.show())
            need(re.search(r"(\d+)/\1 tensors where they were", r.out), "no proof line\n%s", r.show())
            got = self.judge_output(f, own)
            if f["kind"].startswith("full"):
                self.judge_full(f, got)
        else:
            same("--in-place of another format", r.rc, 3)
            need("cannot be changed in place" in r.err and "try: pgunwrap " in r.err, "the other way is not named\n%s", r.show())
            same("bytes after --in-place was refused", sha_file(own), sha_file(src))
        same("files after --in-place", d.names(), sorted(names + ["own" + self.suffix(f)]))
        os.unlink(own)

    def suffix(self, f):
        n = os.path.basename(f["file"])
        if torch_file(f):
            return ".safetensors"
        if f["kind"].startswith(("path-layout", "sharded")):
            return ".weights.h5"
        return n[n.index("."):] if not n.endswith(".aborted.h5") else ".h5"

    def unwrap(self, f):
        with Folder() as d:
            src, names = self.source(f, d)
            before = sha_file(src)
            x = self.suffix(f)
            like = self.json.get(f["file"])
            if torch_file(f) and f["expected"] == "strip prefix":
                self.refused(self.box.tool("pgunwrap", src, d / "out.pt"), {3}, d, names)
            if f["expected"] == "unwrap, then shape mismatch against the template":
                r = self.box.tool("pgunwrap", "--like", self.p("files/keras-2.2.4/cnnbn-g2/template.json"), src, d / "o.h5")
                need(r.rc == 1 and "conv2d_1/kernel is 135, template has 3" in r.err, "exit %s\n%s", r.rc, r.show())
                same("files in the folder", d.names(), sorted(names))
                return
            if f["expected"].startswith("unwrap, "):
                r = self.box.tool("pgunwrap", "--like", self.p("files/keras-2.2.4/cnnbn-g2/template.json"), src, d / "o.h5")
                need(r.rc == 0, "exit %s\n%s", r.rc, r.show())
                a = self.box.dump(d / "o.h5")
                b = self.box.dump(self.p("files/keras-2.2.4/cnnbn-g2/template_weights.h5"), cache=True)
                same("weights", [(n, [(w.name, w.shape) for w in ws]) for n, ws in a.by_layer()],
                     [(n, [(w.name, w.shape) for w in ws]) for n, ws in b.by_layer()])
                same("values that differ", sum(x.sha != y.sha for x, y in zip(a.weights, b.weights)), 1)
                return
            if SHARD.search(f["file"]):
                r = self.box.tool("pgunwrap", src, d / "out.weights.h5")
                self.refused(r, {1}, d, names)
                need(".weights.json" in r.err, "the index is not named: %s", r.err)
                return
            # 1. without help: right, or refused
            r = self.box.tool("pgunwrap", src, d / ("plain" + x))
            if r.rc == 0:
                os.unlink(d / ("plain" + x))
                need(self.verdicts(f) & {"wrapper", "ambiguous"}, "written although nothing is to be unwrapped\n%s", r.show())
                if f["kind"].startswith("weights only"):
                    self.right_values(f, d, src, names, "plain" + x)
                else:
                    self.right(f, d, src, names, "plain" + x)
                os.unlink(d / ("plain" + x))
            else:
                full = f["kind"].startswith(("full", "keras-zip", "safetensors", "sharded")) or torch_file(f)
                status = {"unwrap": {1}, "strip prefix": set()}.get(f["expected"], {2} if f["expected"].startswith(("damaged", "not-")) else {1})
                if f["expected"] == "unwrap" and full:
                    status = set()
                self.refused(r, status, d, names)
            # 2. with the description: right, twice the same, and back again
            if f["expected"] == "unwrap" and (like or f["kind"].startswith(("full", "keras-zip", "path", "sharded"))):
                opts = ("--like", self.p(like)) if like and not ("-native" in f["file"] and not f["kind"].startswith(("weights", "full"))) else ()
                if f["kind"].startswith(("path", "sharded", "keras-zip")):
                    opts = ()
                self.right(f, d, src, names, "a" + x, *opts)
                if opts:
                    r = self.box.tool("pgunwrap", src, *opts, "-o", d / ("b" + x))
                    need(r.rc == 0, "-o: exit %s\n%s", r.rc, r.show())
                else:
                    self.right(f, d, src, names + ["a" + x], "b" + x, *opts)
                same("second run's bytes", sha_file(d / ("b" + x)), sha_file(d / ("a" + x)))
                r = self.box.tool("pgunwrap", src, d / ("a" + x), *opts)
                need(r.rc == 2, "an existing output was not refused\n%s", r.show())
                same("existing output", sha_file(d / ("a" + x)), sha_file(d / ("b" + x)))
                r = self.box.tool("pgunwrap", "--force", src, d / ("a" + x), *opts)
                same("--force", (r.rc, sha_file(d / ("a" + x))), (0, sha_file(d / ("b" + x))))
                r = self.box.tool("pgunwrap", "-n", src, d / ("c" + x), *opts)
                need(r.rc == 0, "--dry-run: exit %s\n%s", r.rc, r.show())
                r = self.box.tool("pgunwrap", src, src, *opts)
                same("output is the input", r.rc, 2)
                r = self.box.tool("pgunwrap", d / ("a" + x), d / ("c" + x))
                need(r.rc == 1, "unwrapping the result again: exit %s, expected 1\n%s", r.rc, r.show())
                r = self.box.tool("pginfo", "--json", d / ("a" + x))
                same("verdict of the result", json.loads(r.out)["verdict"], "nested" if self.nested(f) and json.loads(r.out)["verdict"] == "nested" else "single")
                same("files in the folder", d.names(), sorted(names + ["a" + x, "b" + x]))
                os.unlink(d / ("b" + x))
                self.back(f, d, src, d / ("a" + x), x)
            same("input afterwards", sha_file(src), before)

    def nested(self, f):
        case = self.man["cases"].get(f.get("case"), {})
        return any(c in ("Model", "Sequential", "Functional") for _, c in case.get("template_layers", []))

    def right_values(self, f, d, src, names, out_name):
        """Weights-only without --like: the layers with weights must be right; weightless layers are unknown."""
        out = d / out_name
        r = self.box.tool("pgunwrap", src, out)
        need(r.rc == 0, "second run: exit %s\n%s", r.rc, r.show())
        got = self.box.dump(out)
        g = self.genuine(f)
        case = self.man["cases"].get(f.get("case"), {})
        if g:
            ref = self.box.dump(self.p(g), cache=True)
            a = [[w.value() for w in ws] for _, ws in got.by_layer() if ws]
            b = [[w.value() for w in ws] for _, ws in ref.by_layer() if ws]
            same("weights without --like (%s)" % g, a, b)
        else:
            order = sorted(case["weights"], key=lambda w: w["index_in_template_file"] or 0)
            same("weights without --like", [w.value() for w in got.weights], [(w["dtype"], tuple(w["shape"]), w["sha256"]) for w in order])

    # ---------------------------------------------------------------- pgwrap
    def back(self, f, d, src, single, x):
        """pgwrap --like wrapper of the result gives the wrapper's layers, names, order and bytes again."""
        kind = f["kind"]
        if kind.startswith("sharded"):
            return
        out = d / ("again" + x)
        r = self.box.tool("pgwrap", "--like", src, single, out)
        need(r.rc == 0, "pgwrap --like: exit %s\n%s", r.rc, r.show())
        got, want = self.box.dump(out), self.box.dump(src)
        same("format after pgwrap", got.format, want.format)
        if kind.startswith(("path", "keras-zip")):
            same("weights after pgwrap", sorted((got.path(w),) + w.value() for w in got.weights),
                 sorted((want.path(w),) + w.value() for w in want.weights))
        else:
            same("layers after pgwrap", got.layers, want.layers)
            same("weights after pgwrap", [w.key() for w in got.weights], [w.key() for w in want.weights])
        if kind.startswith("full"):
            strip = lambda c: without_shared_ids({k: c[k] for k in ("class_name", "config")})  # noqa: E731
            same("model_config after pgwrap", strip(got.config(0)), strip(want.config(0)))
            same("optimizer state after pgwrap", [w.value() for w in got.state], [w.value() for w in want.state])
        os.unlink(out)
        os.unlink(single)

    def gpus(self, f):
        """pgwrap --gpus N of a template's file: the layers and the order of the genuine wrapper, and pgunwrap --like undoes it."""
        case = self.man["cases"][f["case"]]
        with Folder() as d:
            src, names = self.source(f, d)
            g = case["wrapper"]["gpus"]
            g = len(g) if isinstance(g, list) else g
            wrapper = self.beside(f, "wrapper_weights.h5")
            kind = case["wrapper"]["kind"]
            out = d / "wrapped.h5"
            r = self.box.tool("pgwrap", "--gpus", g, src, out)
            need(r.rc == 0, "pgwrap --gpus: exit %s\n%s", r.rc, r.show())
            got, want = self.box.dump(out), self.box.dump(self.p(wrapper), cache=True)
            same("format", got.format, "keras-h5-weights")
            by = [(n, ws) for n, ws in got.by_layer() if ws]
            same("layers with weights", len(by), 1)
            slices = [n for n, _ in got.layers if n.startswith("lambda")]
            inputs = len(case["io"]["inputs"])
            same("slices", len(slices), g * inputs)
            plain = kind == "multi_gpu_model" and f["writer"].split(",")[0] not in ("keras 2.0.9",)
            if plain and "relocated" not in f["file"] and "renumbered" not in f["file"] and "wrapped-twice" not in f["file"]:
                same("number of layers", len(got.layers), len(want.layers))
            frozen = any(w["index_in_template_file"] != w["index_in_wrapper_file"] for w in case["weights"]) and "frozen" in f["file"]
            if not frozen and not self.nested(f):
                same("order of the weights", [w.value() for w in got.weights], [w.value() for w in want.weights])
            back = d / "back.h5"
            r = self.box.tool("pgunwrap", "--like", self.p(case["template_json"]), out, back)
            need(r.rc == 0, "unwrapping it again: exit %s\n%s", r.rc, r.show())
            got, want = self.box.dump(back), self.box.dump(src)
            same("layers after the way back", [n for n, _ in got.layers], [n for n, _ in want.layers])
            same("weights after the way back", [w.key() for w in got.weights], [w.key() for w in want.weights])
            same("files", d.names(), sorted(names + ["wrapped.h5", "back.h5"]))

    # ---------------------------------------------------------------- pairs, repair
    def pair(self, p):
        with Folder() as d:
            out = d / "out.h5"
            r = self.box.tool("pgunwrap", "--like", self.p(p["template_json"]), self.p(p["wrapper"]), out)
            if p["expected"] == "refuse":
                self.refused(r, {1}, d, [])
                return
            need(r.rc == 0, "exit %s\n%s", r.rc, r.show())
            f = self.files[p["wrapper"]]
            got = self.box.dump(out)
            ref = self.box.dump(self.p(self.genuine(f)), cache=True)
            same("weights", [[w.value() for w in ws] for _, ws in got.by_layer() if ws],
                 [[w.value() for w in ws] for _, ws in ref.by_layer() if ws])
            with open(self.p(p["template_json"])) as h:
                c = json.load(h)
            layers = c["config"] if isinstance(c["config"], list) else c["config"]["layers"]
            want = [x.get("name", x["config"].get("name")) for x in layers]
            if c["class_name"] == "Sequential":
                want = [n for n, x in zip(want, layers) if x["class_name"] != "InputLayer"]
            same("layer names", [n for n, _ in got.layers], want)

    def cross(self):
        """[(what, function)]: the other kinds of MODEL, repair of renumbered files, the reverse direction, --in-place."""
        base = "files/keras-2.2.4/cnnbn-g2/"
        out = []

        def like(model, wrapper, genuine):
            def check():
                with Folder() as d:
                    r = self.box.tool("pgunwrap", "--like", self.p(model), self.p(wrapper), d / "o.h5")
                    need(r.rc == 0, "exit %s\n%s", r.rc, r.show())
                    a, b = self.box.dump(d / "o.h5"), self.box.dump(self.p(genuine), cache=True)
                    same("weights", [[w.value() for w in ws] for _, ws in a.by_layer() if ws],
                         [[w.value() for w in ws] for _, ws in b.by_layer() if ws])
                    return a
            return check

        out.append(("--like full .h5", like(base + "template_model.h5", base + "wrapper_weights.h5", base + "template_weights.h5")))
        out.append(("--like full .h5 with optimizer", like(base + "expected_model.h5", base + "wrapper_weights.h5", base + "template_weights.h5")))
        native = "files/keras-2.15.0-native/cnn4/"
        out.append(("--like .keras", like(native + "template.keras", native + "wrapper_legacy.h5", native + "template_legacy.h5")))
        out.append(("repair: names renumbered", like(base + "template.json", "files/keras-2.2.4/renumbered-cnnbn-g2/template_weights.h5",
                                                      "files/keras-2.2.4/renumbered-cnnbn-g2/template_weights.h5")))

        def reverse():
            with Folder() as d:
                r = self.box.tool("pgunwrap", "--like", self.p(base + "wrapper_model.h5"), self.p(base + "template_weights.h5"), d / "o.h5")
                need(r.rc == 0, "exit %s\n%s", r.rc, r.show())
                a, b = self.box.dump(d / "o.h5"), self.box.dump(self.p(base + "wrapper_weights.h5"), cache=True)
                same("layers", a.layers, b.layers)
                same("weights", [w.value() for w in a.weights], [w.value() for w in b.weights])
        out.append(("repair: single file into the wrapper", reverse))

        def partial():
            with Folder() as d:
                tpl = json.load(open(self.p(base + "template.json")))
                layers = tpl["config"]["layers"]
                with open(d / "more.json", "w") as h:  # one Dense more than the file has
                    dense = [x for x in layers if x["class_name"] == "Dense"][-1]
                    extra = json.loads(json.dumps(dense))
                    extra["name"] = extra["config"]["name"] = "dense_extra"
                    extra["config"]["units"] = 7
                    extra["inbound_nodes"] = [[[dense["name"], 0, 0, {}]]]
                    layers.append(extra)
                    json.dump(tpl, h)
                src = self.p(base + "template_weights.h5")
                r = self.box.tool("pgunwrap", "--like", d / "more.json", src, d / "o.h5")
                self.refused(r, {1}, d, ["more.json"])
                need("dense_extra" in r.err, "the missing layer is not named\n%s", r.show())
                r = self.box.tool("pgunwrap", "--partial", "--like", d / "more.json", src, d / "o.h5")
                need(r.rc == 0 and "dense_extra" in r.out + r.err, "--partial\n%s", r.show())
                a, b = self.box.dump(d / "o.h5"), self.box.dump(src)
                same("weights", [(n, [w.value() for w in ws]) for n, ws in a.by_layer() if ws],
                     [(n, [w.value() for w in ws]) for n, ws in b.by_layer() if ws])
        out.append(("repair: a layer is missing", partial))

        def other_shape():
            with Folder() as d:
                tpl = json.load(open(self.p(base + "template.json")))
                dense = [x for x in tpl["config"]["layers"] if x["class_name"] == "Dense"][-1]
                dense["config"]["units"] += 1
                with open(d / "m.json", "w") as h:
                    json.dump(tpl, h)
                for src in ("wrapper_weights.h5", "template_weights.h5", "wrapper_model.h5"):
                    r = self.box.tool("pgunwrap", "--like", d / "m.json", self.p(base + src), d / "o.h5")
                    self.refused(r, {1}, d, ["m.json"])
        out.append(("a model of another shape is refused", other_shape))

        def in_place():
            with Folder() as d:
                shutil.copyfile(self.p(base + "template_model.h5"), d / "m.h5")
                before = sha_file(d / "m.h5")
                r = self.box.tool("pgunwrap", "--in-place", d / "m.h5")
                self.refused(r, {1}, d, ["m.h5"])
                same("not a byte changed", sha_file(d / "m.h5"), before)
        if "--in-place" in self.box.tool("pgunwrap", "--help").out:
            out.append(("--in-place on a plain file", in_place))

        def template_name():
            with Folder() as d:
                neg = self.p("negative/transfer_weights.h5")
                r = self.box.tool("pgunwrap", "--template", "vgg16", neg, d / "o.h5")
                need(r.rc == 0, "exit %s\n%s", r.rc, r.show())
                a, b = self.box.dump(d / "o.h5"), self.box.dump(neg)
                same("weights", sorted(w.sha for w in a.weights), sorted(w.sha for w in dict(b.by_layer())["vgg16"]))
                r = self.box.tool("pgunwrap", "--template", "nobody", neg, d / "p.h5")
                self.refused(r, {1}, d, ["o.h5"])
        out.append(("--template of a nested model", template_name))

        def usage():
            with Folder() as d:
                w = self.p(base + "wrapper_model.h5")
                for argv in (["--lyke", "x", w, d / "o.h5"], [w], [w, d / "o.h5", "third"], ["--like"], [d / "absent.h5", d / "o.h5"],
                             [w, d / "no/such/folder/o.h5"], [d.path, d / "o.h5"], ["--like", d / "absent.json", w, d / "o.h5"],
                             [w, d / "o.safetensors"]):
                    self.refused(self.box.tool("pgunwrap", *argv), {2}, d, [])
                for argv in (["--lyers", "x", w], [d / "absent.h5"]):
                    r = self.box.tool("pginfo", *argv)
                    self.refused(r, {2}, d, [])
                for argv in ([w, d / "o.h5"], ["--gpus", "0", w, d / "o.h5"], ["--gpus", "x", w, d / "o.h5"], ["--gpus", "2", "--like", w, w, d / "o.h5"]):
                    self.refused(self.box.tool("pgwrap", *argv), {2}, d, [])
                for t in ("pginfo", "pgunwrap", "pgwrap"):
                    r = self.box.tool(t)  # no operand at all: what the tool is for, and how to ask it for more
                    need(r.rc == 2 and r.err and not r.out, "%s\n%s", t, r.show())
                    for o in ("--help", "-h", "--version", "-V"):
                        r = self.box.tool(t, o)
                        need(r.rc == 0 and r.out and not r.err, "%s %s\n%s", t, o, r.show())
                    for sh in ("bash", "zsh", "fish"):
                        r = self.box.tool(t, "--completion", sh)
                        need(r.rc == 0 and r.out and not r.err, "%s --completion %s\n%s", t, sh, r.show())
        out.append(("usage errors, help, completion", usage))

        def several():
            a, b = self.p(base + "wrapper_weights.h5"), self.p(base + "template_weights.h5")
            r = self.box.tool("pginfo", "--json", a, b)
            o = json.loads(r.out)
            same("array", [x["verdict"] for x in o], ["wrapper", "single"])
            same("exit", r.rc, 0)
            r = self.box.tool("pginfo", "--json", a, self.p("negative/truncated_half.h5"), b)
            o = json.loads(r.out)
            same("array with a damaged file", [x["verdict"] for x in o], ["wrapper", "damaged", "single"])
            same("exit", r.rc, 2)
            r = self.box.tool("pginfo", a, b)
            need(r.rc == 0 and len(r.out.strip().split("\n")) >= 3, "table\n%s", r.show())
        out.append(("pginfo of several files", several))

        def wrong_fit():
            with Folder() as d:
                r = self.box.tool("pgwrap", "--like", self.p("files/keras-2.2.4/cnn4-g2/wrapper_weights.h5"),
                                  self.p(base + "template_weights.h5"), d / "o.h5")
                self.refused(r, {1}, d, [])
                r = self.box.tool("pgunwrap", "--like", self.p("files/keras-2.2.4/cnn4-g2/template.json"), self.p(base + "wrapper_model.h5"), d / "o.h5")
                self.refused(r, {1}, d, [])
        out.append(("what does not fit is refused", wrong_fit))

        def order_free():
            with Folder() as d:
                w, t = self.p(base + "wrapper_weights.h5"), self.p(base + "template.json")
                for i, argv in enumerate(([w, "--like", t, d / "0.h5"], [w, d / "1.h5", "--like=" + t], ["-o", d / "2.h5", "--like", t, w])):
                    r = self.box.tool("pgunwrap", *argv)
                    need(r.rc == 0, "%s", r.show())
                same("same bytes", len({sha_file(d / ("%d.h5" % i)) for i in range(3)}), 1)
        out.append(("options and operands in any order", order_free))
        return out

    # ---------------------------------------------------------------- testdata/extra
    def extra(self, case):
        """Every wrapper of a folder against the template file of its kind; see testdata/extra/gen.py."""
        here = "extra/" + case + "/"
        again = case.endswith("-renumbered")  # built after other models: names differ, all else does not
        for kind, x in (("_weights.h5", ".h5"), ("_model.h5", ".h5"), (".keras", ".keras")):
            src, tpl = self.p(here + "wrapper" + kind), self.p(here + "template" + kind)
            if not os.path.exists(src):
                continue
            opts = ["--like", self.p(here + "template.json")] if kind == "_weights.h5" else []
            with Folder() as d:
                r = self.box.tool("pgunwrap", *opts, src, d / ("o" + x))
                need(r.rc == 0, "%s: exit %s\n%s", kind, r.rc, r.show())
                got, want = self.box.dump(d / ("o" + x)), self.box.dump(tpl)
                if x == ".keras":
                    same("weights of " + kind, [(n, [w.key() for w in ws]) for n, ws in got.by_layer() if ws],
                         [(n, [w.key() for w in ws]) for n, ws in want.by_layer() if ws])
                else:
                    same("values of " + kind, [[w.value() for w in ws] for _, ws in got.by_layer()],
                         [[w.value() for w in ws] for _, ws in want.by_layer()])
                    if not again or opts:
                        same("layers of " + kind, got.layers, want.layers)
                    if not again:
                        same("names of " + kind, [w.name for w in got.weights], [w.name for w in want.weights])
                if kind != "_weights.h5" and not again:
                    a, b = [without_shared_ids(c.config(0)["config"]) for c in (got, want)]
                    same("config of " + kind, a, b)
                r = self.box.tool("pgwrap", "--like", src, d / ("o" + x), d / ("w" + x))
                need(r.rc == 0, "pgwrap --like: exit %s\n%s", r.rc, r.show())
                if x == ".h5":
                    got, want = self.box.dump(d / ("w" + x)), self.box.dump(src)
                    same("pgwrap of " + kind, [w.value() for w in got.weights], [w.value() for w in want.weights])
            if kind == "_weights.h5":
                with Folder() as d:
                    r = self.box.tool("pgunwrap", src, d / "o.h5")
                    if r.rc == 0:
                        got, want = self.box.dump(d / "o.h5"), self.box.dump(tpl)
                        same("without --like", [[w.value() for w in ws] for _, ws in got.by_layer() if ws],
                             [[w.value() for w in ws] for _, ws in want.by_layer() if ws])
                    else:
                        self.refused(r, {1}, d, [])
                    r = self.box.tool("pgwrap", "--gpus", 2, tpl, d / "g.h5")
                    if case.endswith("custom"):  # which of an unknown class' weights are trained cannot be known
                        need(r.rc == 1 and not os.path.exists(d / "g.h5"), "pgwrap --gpus: exit %s\n%s", r.rc, r.show())
                    else:
                        need(r.rc == 0, "pgwrap --gpus: exit %s\n%s", r.rc, r.show())
                        same("pgwrap --gpus", [w.value() for w in self.box.dump(d / "g.h5").weights],
                             [w.value() for w in self.box.dump(src).weights])

    def jobs(self):
        out = []
        for release in ("keras-2.15", "keras-3.6"):
            for case in sorted(os.listdir(self.p("extra/" + release))):
                case = release + "/" + case
                out.append(("extra/" + case, lambda case=case: self.extra(case)))
        for f in self.man["files"]:
            out.append(("pginfo " + f["file"], lambda f=f: self.info(f)))
            if f["kind"] != "npy rescue":
                out.append(("pgunwrap " + f["file"], lambda f=f: self.unwrap(f)))
            if f["file"].endswith("/template_weights.h5") and self.beside(f, "wrapper_weights.h5") and f.get("case") \
                    and self.man["cases"][f["case"]].get("template_json") \
                    and self.man["cases"][f["case"]].get("weights", [{}])[0].get("index_in_wrapper_file") is not None:
                out.append(("pgwrap --gpus " + f["file"], lambda f=f: self.gpus(f)))
        for p in self.man["wrong_template_pairs"]:
            out.append(("pair %s + %s" % (p["wrapper"], p["template_json"]), lambda p=p: self.pair(p)))
        return out + self.cross()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--dump", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("--only", default="")
    ap.add_argument("-j", type=int, default=os.cpu_count() or 1)
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    with open(os.path.join(a.testdata, "manifest.json")) as h:
        man = json.load(h)
    s = Suite(Box(a.tools, a.dump, a.testdata), man)
    jobs = [j for j in s.jobs() if a.only in j[0] and chosen(j[0])]

    def one(job):
        try:
            job[1]()
            return None
        except Bad as e:
            return job[0], str(e)
        except Exception as e:  # a runner that trips over an output has found a fault of that output
            return job[0], "%s: %s" % (type(e).__name__, e)

    bad = []
    with ThreadPoolExecutor(a.j) as pool:
        for job, r in zip(jobs, pool.map(one, jobs)):
            if r:
                bad.append(r)
            if a.v:
                print("%s %s" % ("BAD" if r else "ok ", job[0]))
    return finish("manifest", bad, len(jobs))


if __name__ == "__main__":
    sys.exit(main())
