#!/usr/bin/env python3
"""Compares an output file with the genuine file that Keras wrote from the template. Needs h5py and numpy, no Keras.

usage: oracle_diff.py OUT GENUINE [--values] [--optimizer] [--any-version] [--quiet]
       oracle_diff.py --batch JOBS.json    a list of such argument lists; one JSON report a line on stdout
  OUT, GENUINE   legacy .h5 (weights-only or full), path-layout .weights.h5, .keras, or sharded .weights.json; a sharded
                 GENUINE may be compared with one .weights.h5
  --values       legacy: compare what a strict load sees (layers with weights, order, shapes, types, bytes), not the names
  --any-version  GENUINE was written by another release: keras_version may differ
  --optimizer    also compare the optimizer state (order, shapes, bytes; names are free)
Default, legacy: layer names with weightless layers, weight names, order, shapes, types, bytes, backend and keras_version of
the weights group, model_config (as JSON, without shared_object_id), training_config without optimizer_config (only if
GENUINE has one: a template that was never compiled has none). Also that every attribute is one that old h5py reads:
ASCII, and empty lists as float64.
Path layout: every dataset path outside optimizer/ and metrics/, shapes, bytes, vars/@name of layers with weights; .keras also
config.json. (--optimizer makes sense there only when GENUINE carries the wrapper's optimizer state.)
Equal bytes in another order are reported as PERMUTED (the trainable-first order was not undone).
Exit: 0 equal, 1 different, 2 cannot compare."""
import argparse
import io
import json
import os
import sys
import zipfile

import h5py
import numpy as np


def text(x):
    return x.decode() if isinstance(x, bytes) else str(x)


def names(g, key):
    if key in g.attrs:
        return [text(n) for n in g.attrs[key]]
    out, i = [], 0
    while "%s%d" % (key, i) in g.attrs:
        out += [text(n) for n in g.attrs["%s%d" % (key, i)]]
        i += 1
    return out


def plain(o):
    if isinstance(o, dict):
        return {k: plain(v) for k, v in o.items() if k != "shared_object_id"}
    return [plain(x) for x in o] if isinstance(o, list) else o


def value(d):
    return tuple(d.shape), d.dtype.str, np.ascontiguousarray(d[()]).tobytes()


def readable(g, where):
    """Complaints about attributes that some Keras does not read."""
    out = []
    for k in g.attrs:
        a = h5py.h5a.open(g.id, k.encode())
        t = a.get_type()
        if isinstance(t, h5py.h5t.TypeStringID):
            if t.get_cset() != h5py.h5t.CSET_ASCII and not (where == "/" and k in ("backend", "keras_version")):
                out.append("%s@%s is not tagged ASCII" % (where, k))
        elif k.startswith(("layer_names", "weight_names")) and (a.shape != (0,) or t.dtype != np.dtype("float64")):
            out.append("%s@%s is %s %s" % (where, k, a.shape, t.dtype))
    return out


def legacy(f, opt):
    w = f["model_weights"] if "model_weights" in f else f
    r = {"layers": [(n, [(x,) + value(w[n][x]) for x in names(w[n], "weight_names")]) for n in names(w, "layer_names")]}
    for k in ("backend", "keras_version"):
        r[k] = text(w.attrs[k]) if k in w.attrs else None
    if "model_config" in f.attrs:
        c = json.loads(text(f.attrs["model_config"]))
        r["model_config"] = plain({k: c[k] for k in ("class_name", "config")})
    if "training_config" in f.attrs:
        t = json.loads(text(f.attrs["training_config"]))
        t.pop("optimizer_config", None)
        r["training_config"] = t
    if opt:
        o = f["optimizer_weights"] if "optimizer_weights" in f else None
        r["optimizer"] = [value(o[n]) for n in names(o, "weight_names")] if o is not None else None
    r["unreadable"] = readable(f, "/")
    for n in names(w, "layer_names"):
        r["unreadable"] += readable(w[n], n)
    return r


def paths(files, opt):
    r = {"data": {}, "names": {}, "optimizer": {}}

    def visit(n, o):
        if n.startswith("metrics"):
            return
        state = n.startswith("optimizer")
        if isinstance(o, h5py.Dataset):
            r["optimizer" if state else "data"][n] = value(o)
        elif "name" in o.attrs and "/" in n and not state and any(isinstance(x, h5py.Dataset) for x in o.values()):
            r["names"][n] = text(o.attrs["name"])

    for f in files:
        f.visititems(visit)
    if not opt:
        r.pop("optimizer")
    return r


def read(p, opt):
    if p.endswith(".json"):
        with open(p) as h:
            shards = json.load(h)["weight_map"].values()
        d = os.path.dirname(os.path.abspath(p))
        shards = sorted({os.path.basename(y) for v in shards for y in ([v] if isinstance(v, str) else v)})
        return "path", paths([h5py.File(os.path.join(d, x), "r") for x in shards], opt)
    with open(p, "rb") as h:
        is_zip = h.read(2) == b"PK"
    if is_zip:
        z = zipfile.ZipFile(p)
        if z.testzip():
            raise ValueError("bad CRC")
        r = paths([h5py.File(io.BytesIO(z.read("model.weights.h5")), "r")], opt)
        c = json.loads(z.read("config.json"))
        r["config"] = plain({k: c.get(k) for k in ("class_name", "config")})
        return "path", r
    f = h5py.File(p, "r")
    if "layers" in f or "_layer_checkpoint_dependencies" in f:
        return "path", paths([f], opt)
    return "legacy", legacy(f, opt)


def diff_values(a, b, bad):
    x, y = [[w for _, w in r["layers"] if w] for r in (a, b)]
    vx, vy = [[[t[1:] for t in w] for w in s] for s in (x, y)]
    if vx == vy:
        return
    fx, fy = [[t for w in s for t in w] for s in (vx, vy)]
    if len(vx) != len(vy):
        bad.append("%d layers with weights, expected %d" % (len(vx), len(vy)))
    if fx != fy and sorted(fx) == sorted(fy):
        bad.append("PERMUTED: A takes %s of B" % [fy.index(t) for t in fx][:40])
        return
    for i, (u, v) in enumerate(zip(x, y)):
        if [t[1:] for t in u] != [t[1:] for t in v] and len(bad) < 10:
            bad.append("layer %d: %s vs %s" % (i, [(t[0], t[1]) for t in u], [(t[0], t[1]) for t in v]))


def diff_legacy(a, b, o, bad):
    diff_values(a, b, bad)
    bad += a["unreadable"]
    if not o.values:
        nx, ny = [[(n, [t[0] for t in w]) for n, w in r["layers"]] for r in (a, b)]
        if nx != ny:
            bad.append("names: %s" % ([(u, v) for u, v in zip(nx, ny) if u != v][:3] or "%d layers, expected %d" % (len(nx), len(ny))))
        for k in ("backend", "keras_version", "model_config", "training_config"):
            if a.get(k) != b.get(k) and (k != "training_config" or k in b) and not (o.any_version and k == "keras_version"):
                bad.append("%s: %s, expected %s" % (k, str(a.get(k))[:200], str(b.get(k))[:200]))
    if o.optimizer and a["optimizer"] != b["optimizer"]:
        bad.append("optimizer state differs")
    return sum(len(w) for _, w in a["layers"])


def diff_paths(a, b, bad):
    for k in b:
        if a.get(k) == b[k]:
            continue
        if k == "config":
            bad.append("config.json differs")
            continue
        bad.append("%s: only in A %s; only in B %s; different %s" % (
            k, sorted(set(a[k]) - set(b[k]))[:4], sorted(set(b[k]) - set(a[k]))[:4],
            [q for q in a[k] if q in b[k] and a[k][q] != b[k][q]][:4]))
    return len(b["data"])


def judge(argv):
    """(exit status, text)"""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("genuine")
    p.add_argument("--values", action="store_true")
    p.add_argument("--optimizer", action="store_true")
    p.add_argument("--any-version", action="store_true")
    p.add_argument("--quiet", action="store_true")
    o = p.parse_args(argv)
    try:
        (ka, a), (kb, b) = read(o.out, o.optimizer), read(o.genuine, o.optimizer)
    except Exception as e:
        return 2, "%s: cannot compare: %s: %s" % (o.out, type(e).__name__, e)
    if ka != kb:
        return 2, "%s: cannot compare %s with %s layout" % (o.out, ka, kb)
    bad = []
    n = diff_legacy(a, b, o, bad) if ka == "legacy" else diff_paths(a, b, bad)
    lines = [] if o.quiet else ["  " + s for s in bad]
    lines.append("%s: %s" % (o.out, "DIFFERENT" if bad else "equal (%d tensors)" % n))
    return (1 if bad else 0), "\n".join(lines)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--batch":
        with open(sys.argv[2]) as f:
            for job in json.load(f):
                rc, t = judge(job)
                print(json.dumps({"rc": rc, "text": t}), flush=True)
        return 0
    rc, t = judge(sys.argv[1:])
    print(t)
    return rc


if __name__ == "__main__":
    sys.exit(main())
