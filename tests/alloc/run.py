#!/usr/bin/env python3
"""The n-th allocation fails, for each n: the tools end with one clear line, no output, no crash and no leak.

usage: run.py --tools DIR --testdata DIR --faultmem faultmem.so [--step N] [--all] [--from pg|libhdf5] [--only TOOL]
  --step  try only every N-th allocation (default 1)
  --all   all of them (also: PG_FAULTS=all in the environment)
  --from  whose allocations: those of libpg and the tools, or those that libhdf5 makes while it writes

The tools have libpg and libhdf5 as libraries here: whose call it is is told by the file that it comes from (FM_FROM).
Each n is tried twice: once, and sticky (all later calls fail as well). A run that does not need the allocation may succeed; then
its output must be the right one. Of a command with very many allocations about 24 to 48 are tried, others on each run. Exit 77 (skipped) where the tools are a sanitizer build.

libhdf5 sometimes crashes or ends the program when it has no memory. Then there is no output: what it writes goes to memory
first. How many runs ended so is told; the others give a clear answer. Where it cannot even set itself up it prints that, before
anyone could tell it not to: its lines may stand beside ours.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from pgbox import Box, Folder, finish, run, sha_file  # noqa: E402

MOST = 24  # allocations that are tried of one command
CRASHES = (-6, -7, -11, 255)  # of libhdf5: SIGABRT, SIGBUS, SIGSEGV, exit(-1)


def env(lib, **k):
    return dict({x: y for x, y in os.environ.items() if not x.startswith("FM_")}, LC_ALL="C.UTF-8", LD_PRELOAD=lib, **k)


def told(path):
    """How many allocations were counted, and how many of them were never freed."""
    with open(path) as f:
        numbers = dict(line.split() for line in f)
    return int(numbers["malloc"]), int(numbers["live"])


def held(folder):
    """What is in it, and what the files hold."""
    paths = [os.path.join(r, x) for r, below, files in os.walk(folder) for x in below + files]
    return {os.path.relpath(x, folder): sha_file(x) if os.path.isfile(x) else None for x in paths}


def ours(lines):
    """Without what libhdf5 prints: a heading, and what it indents below."""
    kept, theirs = [], False
    for x in lines:
        theirs = x.startswith("HDF5-DIAG:") or theirs and x.startswith("  ")
        if not theirs:
            kept.append(x)
    return kept


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("--faultmem", required=True)
    ap.add_argument("--step", type=int, default=1)
    ap.add_argument("--all", action="store_true", default=os.environ.get("PG_FAULTS") == "all")
    ap.add_argument("--from", dest="whose", choices=("pg", "libhdf5"), default="pg")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    lib = os.path.abspath(a.faultmem)
    box = Box(a.tools, None, a.testdata)
    ldd = subprocess.run(["ldd", os.path.join(box.tools, "pginfo")], stdout=subprocess.PIPE, text=True).stdout
    if "libasan" in ldd or "libtsan" in ldd:
        print("skipped: LD_PRELOAD of an allocator does not mix with a sanitizer build")
        return 77
    t = lambda *x: os.path.join(box.data, *x)  # noqa: E731
    d4 = "files/keras-2.2.4/cnnbn-g2/"
    fit = ["-q", "-j", "1", t("golden/mlp_digits/model.json"), "--weights", t("golden/mlp_digits/init_weights.h5")]
    cases = [
        ("pginfo", [t(d4, "wrapper_model.h5")], None),
        ("pginfo", ["--json", t(d4, "wrapper_weights.h5")], None),
        ("pginfo", ["--stats", t("files/keras-3.6.0-native/cnn4/template.keras")], None),
        ("pginfo", [t("files/keras-3.10.0-native/cnn4/sharded_wrapper/wrapper.weights.json")], None),
        ("pginfo", [t("files/pytorch/cnn/dataparallel.safetensors")], None),
        ("pginfo", ["--stats", t("extra/pytorch/views.pt")], None),
        ("pginfo", ["--stats", t("extra/pytorch/views_stream.pt")], None),
        ("pginfo", ["--stats", t("golden/mlp_digits/first_batch.npz")], None),
        ("pginfo", ["--stats", t("files/pytorch/cnn/x0.npy")], None),
        ("pginfo", [t("extra/zero/slices/ckpt/global_step2/zero_pp_rank_0_mp_rank_00_optim_states.pt")], None),
        ("pginfo", [t("negative/truncated_half.h5")], None),
        ("pgcheck", ["--model", t(d4, "template.json"), t(d4, "template_weights.h5")], None),
        ("pgcheck", ["--model", t("files/keras-3.6.0-native/cnn4/template.json"), t("files/keras-3.6.0-native/cnn4/template.keras")], None),
        ("pgdiff", [t(d4, "wrapper_model.h5"), t(d4, "template_weights.h5")], None),
        ("pgdiff", [t("files/keras-3.6.0-native/cnn4/template.keras"), t("files/keras-3.6.0-native/cnn4/wrapper.weights.h5")], None),
        ("pgunwrap", ["--no-sync", t(d4, "wrapper_model.h5")], "o.h5"),
        ("pgunwrap", ["--no-sync", "--like", t(d4, "template.json"), t(d4, "wrapper_weights.h5")], "o.h5"),
        ("pgunwrap", ["--no-sync", "--like", t("extra/keras-2.15/gzip/template.json"), t("extra/keras-2.15/gzip/wrapper_weights.h5")], "o.h5"),
        ("pgunwrap", ["--no-sync", "--in-place", t(d4, "wrapper_model.h5")], "o.h5"),
        ("pgwrap", ["--no-sync", "--in-place", "--gpus", "2", t(d4, "template_weights.h5")], "o.h5"),
        ("pgunwrap", ["--no-sync", t("files/keras-3.6.0-native/nested/wrapper.keras")], "o.keras"),
        ("pgunwrap", ["--no-sync", t("files/keras-3.6.0-native/cnn4/wrapper.weights.h5")], "o.weights.h5"),
        ("pgunwrap", ["--no-sync", t("files/pytorch/cnn/dataparallel.safetensors")], "o.safetensors"),
        ("pgunwrap", ["--no-sync", t("files/pytorch/trap/checkpoint.pth.tar")], "o.safetensors"),
        ("pgwrap", ["--no-sync", "--like", t(d4, "wrapper_weights.h5"), t(d4, "template_weights.h5")], "o.h5"),
        ("pgwrap", ["--no-sync", "--gpus", "2", t(d4, "template_weights.h5")], "o.h5"),
        ("pgunwrap", ["--no-sync", t("files/keras-3.10.0-native/cnn4/sharded_wrapper/wrapper.weights.json")], "o.weights.h5"),
        ("pgconvert", ["--no-sync", t("files/keras-2.2.4/cnn4-g2/template_model.h5")], "o.safetensors"),
        ("pgconvert", ["--no-sync", "--layout", "pytorch", t("files/keras-2.2.4/cnn4-g2/template_model.h5")], "o.safetensors"),
        ("pgconvert", ["--no-sync", t("files/keras-2.2.4/cnn4-g2/template_model.h5")], "o.weights.h5"),
        ("pgconvert", ["--no-sync", t("files/keras-2.2.4/cnn4-g2/template_model.h5")], "o.onnx"),
        ("pgconvert", ["--no-sync", "--external-data", "--check", t(d4, "x0.npy"), t(d4, "template_model.h5")], "o.onnx"),
        ("pgconvert", ["--no-sync", "--quantize", "int8", "--check", t(d4, "x0.npy"), t(d4, "template_model.h5")], "o.onnx"),
        ("pgjoin", ["--no-sync", t("modern/dcp-fsdp2/ckpt")], "o.safetensors"),
        ("pgjoin", ["--no-sync", t("modern/zero3/ckpt")], "o.safetensors"),
        ("pgjoin", ["--no-sync", t("modern/megatron-gelu-tp2-pp2/ckpt")], "o.safetensors"),
        ("pgjoin", ["--no-sync", t("modern/rank-pt-dtensor/ckpt")], "o.safetensors"),
        ("pgjoin", ["--no-sync", "-j", "2", t("modern/orbax-ocdbt-zarr3/ckpt")], "o.safetensors"),
        ("pgjoin", ["--no-sync", t("modern/tf-mirrored/ckpt-1")], "o.safetensors"),
        ("pgjoin", ["--no-sync", t("modern/flax-msgpack/flax_model.msgpack")], "o.safetensors"),
        ("pgconvert", ["--no-sync", t("files/keras-3.6.0-native/cnn4/template.keras")], "o.h5"),
        ("pginfo", [t("files/keras-2.2.4/cnn4-g2/template_model.h5"), "--html"], "o.html"),
        ("pgfit", fit + ["--loss", "categorical_crossentropy", "--data", t("golden/mlp_digits/data.npz")], None),
        ("pgfit", fit + ["--predict", t("golden/mlp_digits/data.npz"), "--out"], "o.npz"),
    ]
    bad, n_runs, crashes = [], 0, 0
    for tool, args, out in cases:
        relinks = "--in-place" in args or any("gzip" in x for x in args)  # a new file is ours alone
        if a.only not in tool or a.whose == "libhdf5" and not relinks:
            continue
        what = tool + " " + " ".join(os.path.relpath(x, box.data) if os.path.isabs(x) else x for x in args)
        with Folder() as d:
            argv = [os.path.join(box.tools, tool)] + args
            source = argv.pop() if "--in-place" in args else None  # a copy of it is what changes

            def go(label, **k):
                """In a folder of its own: names in an output that is several files are those of the files."""
                os.mkdir(d / label)
                if source:
                    shutil.copyfile(source, os.path.join(d / label, out))
                return run(argv + ([os.path.join(d / label, out)] if out else []), env=env(lib, **k))

            whole = go("whole", FM_FROM=a.whose, FM_COUNT=d / "count.txt")
            good = held(d / "whole")
            if whole.rc != (2 if "negative" in what else 0):
                bad.append((what, "fails with all its memory: " + whole.show()))
                continue
            count, live = told(d / "count.txt")
            if live and a.whose == "pg":
                bad.append((what, "leaves %d allocations with all its memory" % live))
            if count < 10:
                bad.append((what, "only %d allocations counted: FM_FROM does not see %s" % (count, a.whose)))
                continue

            def same(label):
                """Written afresh, where libhdf5 had no memory to relink it."""
                return run([os.path.join(box.tools, "pgdiff"), os.path.join(d / label, out), os.path.join(d / "whole", out)]).rc == 0

            def one(job):
                n, plus = job
                label = "%d%s" % (n, plus)
                tally = d / ("tally-" + label)
                r = go(label, FM_FROM=a.whose, FM_SPEC="malloc:%d%s:ENOMEM" % (n, plus), FM_COUNT=tally)
                live = told(tally)[1] if os.path.exists(tally) else 0
                at = "allocation %d%s of %d: " % (n, plus, count)
                left = held(d / label)
                if source and left.get(out) == sha_file(source):
                    del left[out]  # as it was: not even a tail
                if a.whose == "libhdf5":
                    r.lines, r.heads = ours(r.lines), ours(r.heads)
                if a.whose == "libhdf5" and (r.rc in CRASHES or r.rc == 2 and not r.lines and "HDF5-DIAG" in r.err):
                    return at + "an output all the same" if any(".pg-" not in x for x in left) else "crash"  # its temporary stays
                if not isinstance(r.rc, int) or r.rc < 0 or r.rc > 3:
                    return at + r.show()
                if live and a.whose == "pg":
                    return at + "%d allocations are never freed: %s" % (live, r.show())
                if r.rc == whole.rc and r.lines == whole.lines:
                    if left != good and not (a.whose == "libhdf5" and same(label)):
                        return at + "exit 0, but another output: %s" % sorted(left)
                    return None
                if left:
                    return at + "left behind: %s: %s" % (sorted(left), r.show())
                if len(r.heads) != 1 or a.whose == "pg" and "memory" not in r.heads[0] or r.rc != 2:
                    return at + "no clear answer: " + r.show()
                return None

            step = a.step if a.all else max(a.step, count // (MOST if a.whose == "pg" else MOST // 5))
            jobs = [(n, plus) for n in range(random.randint(1, step), count + 1, step) for plus in ("", "+")]
            n_runs += len(jobs)
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                ends = list(pool.map(one, jobs))
            crashes += ends.count("crash")
            bad += [(what, x) for x in ends if x and x != "crash"][:5]
            print("%s: %d of %d trials, of %d allocations" % (what, sum(not x or x == "crash" for x in ends), len(jobs), count), flush=True)
    if crashes:
        print("%d of %d runs: libhdf5 ended the program, and there is no output" % (crashes, n_runs))
    return finish("alloc", bad, n_runs)


if __name__ == "__main__":
    sys.exit(main())
