#!/usr/bin/env python3
"""pgdiff, judged by the manifest and by numpy.

usage: compare.py --tools DIR --testdata DIR [-v]
1. Every wrapper is identical to the file that Keras wrote from its template, whatever its format; only the standard library.
2. PG_JUDGE_PYTHON (h5py, numpy): the figures of pgdiff --json for pairs of files of one architecture, and for files made with
   NaN, infinities, bfloat16-like float16, big-endian and chunked data, are those that numpy computes. Left out without it.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, finish  # noqa: E402

FIGURES = r'''
import json, sys, warnings
import h5py, numpy as np
warnings.simplefilter("ignore")
np.seterr(all="ignore")

def tensors(path):
    out = {}
    with h5py.File(path, "r") as f:
        g = f["model_weights"] if "model_weights" in f else f
        for layer in g.attrs["layer_names"]:
            layer = layer.decode() if isinstance(layer, bytes) else layer
            for w in g[layer].attrs["weight_names"]:
                w = w.decode() if isinstance(w, bytes) else w
                out[w] = np.asarray(g[layer][w])
    return out

def figures(a, b):
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    nan = np.isnan(x) | np.isnan(y)
    both = np.isnan(x) & np.isnan(y)
    fine = np.isfinite(x) & np.isfinite(y)
    d = np.abs(x - y)
    u, v, e = x[fine], y[fine], d[fine]
    changed = int(np.sum(~((x == y) | both)))
    inf = bool(np.any(np.isinf(d)))
    return {"elements": int(x.size), "changed": changed, "nan": int(nan.sum()),
            "max_abs": None if inf else float(e.max()) if e.size else 0.0,
            "rms": float(np.sqrt(np.mean(e * e))) if e.size else None,
            "rel_l2": float(np.sqrt((e * e).sum() / (u * u).sum())) if (u * u).sum() > 0 else None,
            "cosine": float(u @ v / np.sqrt(u @ u) / np.sqrt(v @ v)) if u @ u > 0 and v @ v > 0 else None,
            "same": a.dtype == b.dtype and a.tobytes() == b.tobytes()}

def make(folder):
    """Pairs that no training run gives."""
    rng = np.random.default_rng(7)
    def save(name, arrays, **kw):
        with h5py.File(folder + "/" + name, "w") as f:
            f.attrs["layer_names"] = np.array([k.encode() for k in arrays])
            f.attrs["backend"] = b"tensorflow"
            f.attrs["keras_version"] = b"2.2.4"
            for k, v in arrays.items():
                g = f.create_group(k)
                g.attrs["weight_names"] = np.array([(k + "/kernel:0").encode()])
                g.create_dataset(k + "/kernel:0", data=v, **kw)
        return folder + "/" + name
    big = rng.standard_normal((600, 400)).astype("f4")
    odd = big.copy(); odd[599, 399] += 1; odd[0, 7] = np.nan; odd[300, 1] = np.inf
    small = rng.standard_normal((5, 7)).astype("f4")
    base = {"big": big, "half": small, "zero": np.zeros(9, "f4"), "double": rng.standard_normal(4001)}
    other = {"big": odd, "half": small.astype("f2"), "zero": np.r_[np.zeros(8), 1].astype("f4"),
             "double": base["double"] * (1 + 1e-12)}
    a, b = save("a.h5", base), save("b.h5", other)
    c = save("c.h5", {k: v.astype(v.dtype.newbyteorder(">")) for k, v in other.items()})
    d = save("d.h5", {k: v for k, v in other.items()}, chunks=True, compression="gzip", shuffle=True)
    return [[a, b], [b, a], [a, c], [b, c], [c, d], [d, a]]

pairs = json.loads(sys.argv[1]) + make(sys.argv[2])
rep = []
for a, b in pairs:
    ta, tb = tensors(a), tensors(b)
    rep.append([a, b, {w: figures(ta[w], tb[w]) for w in ta if w in tb and ta[w].shape == tb[w].shape}])
print(json.dumps(rep))
'''


def close(got, want, tolerance):
    if got is None or want is None:
        return got is None and want is None
    return math.isclose(got, want, rel_tol=tolerance, abs_tol=1e-300)


def identical(box, man, bad):
    n = 0
    for f in man["files"]:
        if f.get("holds") != "wrapper" or not f.get("template_file"):
            continue
        other = f["template_file"]
        if not os.path.exists(os.path.join(box.data, other)):
            other = os.path.normpath(os.path.join(os.path.dirname(f["file"]), other))
        r = box.tool("pgdiff", os.path.join(box.data, f["file"]), os.path.join(box.data, other))
        n += 1
        if r.rc != 0 or not r.out.startswith("identical through the wrapper: "):
            bad.append((f["file"], r.show()))
    if n < 80:
        bad.append(("manifest", "only %d wrappers were compared" % n))
    return n


def judged(box, man, python, bad, work):
    weights = {}
    for f in man["files"]:
        if f.get("holds") == "template" and f["kind"] == "weights only (legacy HDF5)" and f["expected"] == "single" and f.get("case"):
            weights.setdefault(f["case"].split("/")[-1].split("-g")[0], []).append(os.path.join(box.data, f["file"]))
    pairs = [[a, b] for files in weights.values() for a, b in zip(files, files[1:])]
    golden = os.path.join(box.data, "golden")
    pairs += [[os.path.join(golden, d, "init_weights.h5"), os.path.join(golden, d, "final_weights.h5")] for d in sorted(os.listdir(golden))
              if os.path.exists(os.path.join(golden, d, "final_weights.h5"))]
    q = subprocess.run([python, "-c", FIGURES, json.dumps(pairs), work], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if q.returncode:
        bad.append(("numpy", q.stderr[-2000:]))
        return 0
    n = 0
    for a, b, want in json.loads(q.stdout):
        r = box.tool("pgdiff", "--json", a, b)
        if not want:
            continue
        what = "%s %s" % (os.path.relpath(a, box.data), os.path.relpath(b, box.data))
        if r.rc not in (0, 1):
            bad.append((what, r.show()))
            continue
        rows = {x["name"]: x for x in json.loads(r.out)["tensors"]}
        for w, f in want.items():
            n += 1
            bare = w.split(":")[0]
            row = rows.get(bare) or next((x for k, x in rows.items() if k.endswith("/" + bare)), None)
            if row is None:
                bad.append((what, "no row for %s" % w))
                continue
            if f.pop("same"):
                f.update(max_abs=0.0, rms=0.0, rel_l2=0.0, cosine=1.0)
            for k, v in f.items():
                if not close(row[k], v, 1e-9):
                    bad.append((what, "%s: %s is %s, numpy says %s" % (w, k, row[k], v)))
    if n < 150:
        bad.append(("numpy", "only %d tensors were compared" % n))
    return n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    with open(os.path.join(a.testdata, "manifest.json")) as h:
        man = json.load(h)
    box, bad, notes = Box(a.tools, None, a.testdata), [], []
    work = tempfile.mkdtemp(prefix="pgcompare")
    try:
        n = identical(box, man, bad)
        python = os.environ.get("PG_JUDGE_PYTHON")
        if python and shutil.which(python):
            tensors = judged(box, man, python, bad, work)
            notes.append("numpy computed the figures of %d tensors" % tensors)
            n += tensors
        else:
            notes.append("no environment for numpy (PG_JUDGE_PYTHON)")
        return finish("compare", bad, n, notes)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
