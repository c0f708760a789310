#!/usr/bin/env python3
"""convert.py's judge for everything but Keras and PyTorch: h5py, numpy, safetensors. Needs these three.

usage: convert_read.py JOBS.json     a list of [kind, output, source]; one JSON report a line
  safetensors, npy, npz   the output holds exactly the arrays that h5py finds in the source (.h5 or .keras of Keras), in any order
  keras                   h5py and zipfile open the output as it lies: the same datasets
  float16, bfloat16       the output is what rounding to nearest makes of the source, another safetensors file"""
import glob
import io
import json
import sys
import zipfile

import h5py
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file


def arrays_of(f):
    """Values of model weights, as a sorted list."""
    out = []

    def visit(name, d):
        if isinstance(d, h5py.Dataset) and not name.startswith(("optimizer", "metrics")):
            out.append(d[()])

    f.visititems(visit)
    return out


def source(path):
    if path.endswith(".h5"):
        with h5py.File(path, "r") as f:
            return arrays_of(f["model_weights"])
    with zipfile.ZipFile(path) as z, h5py.File(io.BytesIO(z.read("model.weights.h5")), "r") as f:
        return arrays_of(f)


def same(a, b):
    key = lambda x: (x.shape, x.dtype.str, np.ascontiguousarray(x).tobytes())  # noqa: E731
    if sorted(map(key, a)) != sorted(map(key, b)):
        return "%d arrays, %d in the source, not the same" % (len(a), len(b))
    return None


def keras(out, src):
    with zipfile.ZipFile(out) as z:
        if z.testzip() or not {"metadata.json", "config.json", "model.weights.h5"} <= set(z.namelist()):
            return "not a whole archive"
        inside = arrays_of(h5py.File(io.BytesIO(z.read("model.weights.h5")), "r"))
    with h5py.File(out, "r") as f:  # HDF5 finds the image in the archive
        return same(arrays_of(f), inside) or same(inside, source(src))


def shards(out, src, kind):
    with open(out + "/manifest.json") as f:
        manifest = json.load(f)
    got = []
    for t in manifest["tensors"]:
        if t["layer"] is None:
            continue
        parts = [np.load(out + "/" + p["path"]) if kind == "npy" else np.load(out + "/" + p["path"])[p["member"].removesuffix(".npy")]
                 for p in t["files"]]
        got.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
    files = glob.glob(out + "/**/*.np[yz]", recursive=True)
    return same(got, source(src)) or (None if files else "no files")


def rounded(out, src, dtype):
    a = load_file(src)
    with safe_open(out, "np") as f:
        if sorted(f.keys()) != sorted(a):
            return "other names"
        for k, v in a.items():
            if v.dtype.kind != "f":
                continue
            if dtype == "float16":
                if f.get_tensor(k).tobytes() != v.astype("float16").tobytes():
                    return "%s is not numpy's float16" % k
                continue
            bits = np.ascontiguousarray(v, "<f4").view("<u4").astype("u8")
            want = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
            with open(out, "rb") as h:
                n = int.from_bytes(h.read(8), "little")
                at = json.loads(h.read(n))[k]
                h.seek(8 + n + at["data_offsets"][0])
                if at["dtype"] != "BF16" or h.read(2 * v.size) != want.tobytes():
                    return "%s is not rounded to the nearest bfloat16" % k
    return None


def judge(kind, out, src):
    if kind == "safetensors":
        return same(list(load_file(out).values()), source(src))
    if kind == "keras":
        return keras(out, src)
    return shards(out, src, kind) if kind.startswith("np") else rounded(out, src, kind)


with open(sys.argv[1]) as jobs:
    for job in json.load(jobs):
        try:
            print(json.dumps({"error": judge(*job)}))
        except Exception as e:
            print(json.dumps({"error": "%s: %s" % (type(e).__name__, str(e)[:500])}))
