"""Hostile and odd files of the path layout: sharded indexes, single shards, wrappers by class names. Needs h5py and numpy."""

import json, os, numpy as np, h5py
from common import case
from gen_h5 import F4, secret

INNER = ("layers/functional/layers/dense", "layers/functional/layers/dense_1")


def fill(f, groups, layers=()):
    for i, g in enumerate(groups):
        v = f.require_group(g + "/vars")
        v["0"], v["1"] = F4 + i, F4[0] + i
    for g in layers:
        f.require_group(g + "/vars")


OUTER = ["layers/input_layer", "layers/lambda", "layers/lambda_1", "layers/functional/layers/input_layer", "layers/concatenate"]


def named(f, names):
    for g, n in names.items():
        f[g + "/vars"].attrs["name"] = n


def shards(p, index=None, names=("w_00000.weights.h5", "w_00001.weights.h5"), text=None):
    d = os.path.dirname(p)
    for k, n in enumerate(names):
        with h5py.File(os.path.join(d, n), "w") as f:
            fill(f, [INNER[k]], OUTER)
            named(f, {"layers/concatenate": "dense_1", "layers/functional/layers/dense" + ("_1" if k else ""): "dense_1" if k else "dense"})
    if index is None:
        index = {"/%s/vars" % g: n for g, n in zip(INNER, names)}
        index.update({"/%s/vars" % g: names[0] for g in OUTER})
    with open(p, "w") as f:
        f.write(text if text is not None else json.dumps({"metadata": {"total_size": 384.0}, "weight_map": index}))


def c(cid, verdict, unwrap, kind="corrupt", say=(), note="", file="w.weights.json"):
    def deco(fn):
        return case("shard-" + cid, file, verdict, kind, say, note, unwrap=unwrap)(fn)
    return deco


def simple(cid, verdict, unwrap, kind="corrupt", say=(), note="", **k):
    c(cid, verdict, unwrap, kind, say, note)(lambda p: shards(p, **k))


A, B = "w_00000.weights.h5", "w_00001.weights.h5"
K1, K2 = ["/%s/vars" % g for g in INNER]
simple("ok", "accept", "accept", "fine")
simple("missing", "refuse", "refuse", "corrupt", ["w_00009.weights.h5"], index={K1: A, K2: "w_00009.weights.h5"})
simple("updir", "refuse", "refuse", "unsafe", ["../"], index={K1: A, K2: "../shard-ok/" + B}, note="a shard outside the folder")
simple("abs", "refuse", "refuse", "unsafe", ["/etc/passwd"], index={K1: A, K2: "/etc/passwd"})
simple("self", "refuse", "refuse", "corrupt", [], index={K1: A, K2: "w.weights.json"}, note="the index lists itself")
simple("absent-path", "refuse", "refuse", "corrupt", ["nope"], index={K1: A, K2: B, "/layers/nope/vars": A}, note="a path that the shard does not hold")
simple("empty-map", "either", "refuse", "corrupt", [], index={})
simple("int", "refuse", "refuse", "corrupt", [], index={K1: 7})
simple("list-empty", "either", "either", "corrupt", [], index={K1: A, K2: []})
simple("list-twice", "either", "either", "corrupt", [], index={K1: [A, A], K2: B}, note="one shard listed twice for one group")
simple("no-map", "refuse", "refuse", "corrupt", [], text='{"metadata": {"total_size": 1.0}}')
simple("map-list", "refuse", "refuse", "corrupt", [], text='{"metadata": {}, "weight_map": []}')
simple("dup-key", "refuse", "refuse", "corrupt", [], text='{"metadata": {}, "weight_map": {"%s": "%s", "%s": "%s"}}' % (K1, A, K1, B))
simple("deep", "refuse", "refuse", "limit", [], text='{"weight_map": ' + "[" * 5000 + "]" * 5000 + "}")
simple("truncated", "refuse", "refuse", "corrupt", [], text='{"metadata": {}, "weight_map": {"%s": "%s"' % (K1, A))
simple("many", "either", "refuse", "limit", [], index={"/layers/dense_%d/vars" % i: "w_%05d.weights.h5" % i for i in range(50000)}, note="50,000 shards that are not there")
simple("name-control", "refuse", "refuse", "names", [], index={K1: A, K2: "a\nb\x1b[2J"})
simple("safetensors", "refuse", "refuse", "unsupported", [], index={K1: "model-00001-of-00002.safetensors"}, note="the index of another format")


@c("symlink", "either", "either", "unsafe", [], "a shard that is a link to another folder")
def _(p):
    shards(p)
    d = os.path.dirname(p)
    os.remove(os.path.join(d, B))
    os.symlink("../h5-ok/w.h5", os.path.join(d, B))


@c("fifo", "refuse", "refuse", "unsupported", [B], "a shard that is a pipe: opening must not block")
def _(p):
    shards(p)
    d = os.path.dirname(p)
    os.remove(os.path.join(d, B))
    os.mkfifo(os.path.join(d, B))


@c("damaged", "refuse", "refuse", "corrupt", [B], "one shard is cut")
def _(p):
    shards(p)
    q = os.path.join(os.path.dirname(p), B)
    os.truncate(q, os.path.getsize(q) // 2)


def path(cid, verdict, unwrap, kind="corrupt", say=(), note="", after=None, extra=(), names=None, drop=()):
    @case("path-" + cid, "w.weights.h5", verdict, kind, say, note, unwrap=unwrap)
    def _(p):
        with h5py.File(p, "w") as f:
            fill(f, INNER, [g for g in OUTER if g not in drop] + list(extra))
            named(f, {"layers/concatenate": "dense_1", "layers/functional/layers/dense": "dense", "layers/functional/layers/dense_1": "dense_1"} if names is None else names)
            if after:
                after(f, p)


V = "layers/functional/layers/dense/vars/"
path("ok", "accept", "accept", "fine")
path("no-names", "accept", "either", "fine", names={}, note="Keras 2.15 stores no names")
path("other-merge", "accept", "either", "fine", names={"layers/concatenate": "concatenate"}, note="a merge with a default name")
path("two-models", "accept", "refuse", "fine", after=lambda f, p: fill(f, ["layers/functional_1/layers/dense"]))
path("dense-outside", "accept", "refuse", "fine", after=lambda f, p: fill(f, ["layers/dense"]), note="a weighted layer beside the nested model")
path("one-lambda", "accept", "refuse", "fine", drop=["layers/lambda_1"])
path("gap", "refuse", "refuse", "corrupt", [], after=lambda f, p: f.__delitem__(V + "0"), note="vars/1 without vars/0: a shard or damage")
path("not-a-number", "either", "either", "corrupt", [], after=lambda f, p: f.__setitem__(V + "kernel", F4))
path("leading-zero", "either", "either", "corrupt", [], after=lambda f, p: f.__setitem__(V + "01", F4))
path("vars-is-dataset", "either", "either", "corrupt", [], after=lambda f, p: f.__setitem__("layers/functional/layers/x/vars", F4))
path("layers-is-dataset", "either", "either", "corrupt", [], after=lambda f, p: f.__setitem__("layers/functional_1/layers", F4))
path("extlink", "refuse", "refuse", "unsafe", ["external link"], after=lambda f, p: (secret(p), f.__delitem__(V + "0"), f.__setitem__(V + "0", h5py.ExternalLink("secret.h5", "/s"))))
path("softlink", "refuse", "refuse", "unsafe", ["soft link"], after=lambda f, p: (f.__delitem__(V + "0"), f.__setitem__(V + "0", h5py.SoftLink("/" + V + "1"))))
path("collision", "either", "either", "names", [], after=lambda f, p: f.__setitem__("layers/functional/vars/0", F4), note="the template's own vars would land on the root's")
path("name-control", "accept", "either", "names", [], names={"layers/concatenate": "a\nb\x1b[2J", "layers/functional/layers/dense_1": "a\nb\x1b[2J"})
path("opaque3", "refuse", "refuse", "unsupported", [], after=lambda f, p: (f.__delitem__(V + "0"), f.create_dataset(V + "0", data=np.zeros((3, 4), "V3"))))
path("bf16-lie", "either", "either", "unsupported", [], after=lambda f, p: f[V + "0"].attrs.__setitem__("dtype", "bfloat16"), note="the attribute says bfloat16, the bytes are float32")
