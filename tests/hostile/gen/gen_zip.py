"""Hostile and broken .keras archives. Needs h5py and numpy."""

import io, json, struct, numpy as np
from common import case
from rawzip import Z


def c(cid, fn, verdict="refuse", kind="corrupt", say=("m.keras",), note="", file="m.keras"):
    @case("zip-" + cid, file, verdict, kind, say, note)
    def _(p):
        open(p, "wb").write(fn())


CFG = {
    "module": "keras",
    "class_name": "Sequential",
    "config": {
        "name": "s",
        "layers": [
            {
                "module": "keras.layers",
                "class_name": "InputLayer",
                "config": {"batch_shape": [None, 3], "dtype": "float32", "name": "i"},
                "registered_name": None,
            },
            {
                "module": "keras.layers",
                "class_name": "Dense",
                "config": {"name": "d", "units": 4},
                "registered_name": None,
                "build_config": {"input_shape": [None, 3]},
            },
        ],
    },
    "registered_name": None,
}
META = json.dumps({"keras_version": "3.6.0", "date_saved": "2024-01-01@00:00:00"}).encode()


def h5():
    import h5py

    b = io.BytesIO()
    with h5py.File(b, "w") as f:
        g = f.create_group("layers/dense/vars")
        g["0"] = np.ones((3, 4), "<f4")
        g["1"] = np.zeros(4, "<f4")
        f.create_group("vars")
    return b.getvalue()


def keras(cfg=None, w=None, meta=META, **k):
    return (
        Z()
        .add("metadata.json", meta)
        .add("config.json", json.dumps(CFG if cfg is None else cfg).encode() if not isinstance(cfg, bytes) else cfg)
        .add("model.weights.h5", h5() if w is None else w, **k)
        .end()
    )


def layer(cls, config, **k):
    d = json.loads(json.dumps(CFG))
    d["config"]["layers"].insert(
        1, dict({"module": "keras.layers", "class_name": cls, "config": config, "registered_name": None}, **k)
    )
    return d


K = dict(file="m.keras")
c("keras-ok", keras, "accept", "fine", [], **K)
c(
    "keras-lambda",
    lambda: keras(
        layer(
            "Lambda",
            {
                "name": "evil",
                "function": {
                    "class_name": "__lambda__",
                    "config": {"code": "4wEAAAAAAAAAAAAAAAIAAABD", "defaults": None, "closure": None},
                },
            },
        )
    ),
    "accept",
    "unsafe",
    ["evil", "Lambda"],
    "weights readable; code is named, never run; the trainer refuses",
    **K
)
c(
    "keras-call-module",
    lambda: keras(layer("function", "system", module="os", registered_name="system")),
    "refuse",
    "unsafe",
    ["os"],
    "the shape of CVE-2025-1550: config names a Python module and function",
    **K
)
c(
    "keras-tfsm",
    lambda: keras(layer("TFSMLayer", {"name": "t", "filepath": "/tmp/evil"})),
    "refuse",
    "unsafe",
    ["TFSMLayer", "t"],
    "loads an outside SavedModel",
    **K
)
c(
    "keras-getfile",
    lambda: keras(layer("StringLookup", {"name": "lk", "vocabulary": "/etc/passwd"})),
    "either",
    "unsafe",
    ["lk"],
    "a vocabulary given as a path would be read from this machine",
    **K
)
c(
    "keras-torch",
    lambda: keras(layer("TorchModuleWrapper", {"name": "tm", "module": "gASVAAAA"})),
    "refuse",
    "unsafe",
    ["TorchModuleWrapper"],
    "carries a pickle",
    **K
)
c(
    "keras-no-config",
    lambda: Z().add("metadata.json", META).add("model.weights.h5", h5()).end(),
    "refuse",
    "corrupt",
    ["config.json"],
    **K
)
c(
    "keras-no-weights",
    lambda: Z().add("metadata.json", META).add("config.json", json.dumps(CFG).encode()).end(),
    "refuse",
    "corrupt",
    ["model.weights.h5"],
    **K
)
c("keras-weights-not-h5", lambda: keras(w=b"not hdf5"), "refuse", "corrupt", ["model.weights.h5"], **K)
c(
    "keras-config-bomb",
    lambda: Z()
    .add("metadata.json", META)
    .add("config.json", b"", 8, raw=bomb(1 << 30), usize=1 << 30, crc=0)
    .add("model.weights.h5", h5())
    .end(),
    "refuse",
    "limit",
    ["config.json"],
    **K
)
c(
    "keras-asset-slip",
    lambda: Z()
    .add("metadata.json", META)
    .add("config.json", json.dumps(CFG).encode())
    .add("model.weights.h5", h5())
    .add("assets/../../evil", b"x")
    .end(),
    "either",
    "unsafe",
    [],
    **K
)
c("keras-config-deep", lambda: keras(b"[" * 100000), "refuse", "limit", ["config.json"], **K)
c(
    "keras-two-configs",
    lambda: Z()
    .add("metadata.json", META)
    .add("config.json", json.dumps(CFG).encode())
    .add("config.json", b"{}")
    .add("model.weights.h5", h5())
    .end(),
    "refuse",
    "corrupt",
    ["config.json"],
    **K
)


# ---- every field of the archive, lying about the member that holds the weights
W = "model.weights.h5"


def lie(*a, **k):
    """the three members, the weights last, so that what follows them can be wrong too"""
    z = Z(k.pop("prefix", b"")).add("metadata.json", META).add("config.json", json.dumps(CFG).encode())
    return z.add(W, h5(), *a, **k)


c("keras-deflate", lambda: lie(8).end(), "either", "fine", [], "deflated weights: legal, but Keras stores them")
c("keras-comment", lambda: lie().end(comment=b"hello"), "either", "fine", [])
c("keras-prefix", lambda: lie(prefix=b"#!/bin/sh\n" * 10).end(), "either", "unsafe", [], "bytes before the first entry: polyglot")
c("keras-tail", lambda: lie().end(tail=b"x" * 70000), note="70,000 bytes after the end record")
c("keras-trunc-cd", lambda: lie().end()[:-30])
c("keras-trunc-half", lambda: lie().end()[:400])
c("keras-crc", lambda: lie(crc=0xDEADBEEF).end(), say=[W])
c("keras-encrypted", lambda: lie(flags=1).end(), kind="unsupported", say=[W, "encrypt"])
c("keras-symlink", lambda: lie(attr=0o120777 << 16).end(), kind="unsafe", say=[W])
for m, nm in ((12, "bzip2"), (14, "lzma"), (93, "zstd"), (99, "aes")):
    c("keras-method-" + nm, lambda m=m: lie(m).end(), kind="unsupported", say=[W])
c("keras-usize-big", lambda: lie(8, usize=1 << 31).end(), kind="limit", say=[W])
c("keras-usize-small", lambda: lie(8, usize=100).end(), say=[W])
c("keras-csize-past-end", lambda: lie(csize=1 << 30, usize=1 << 30).end(), say=[W])
c("keras-stored-mismatch", lambda: lie(usize=len(h5()) + 5).end(), say=[W])
c("keras-local-name", lambda: lie(lname=b"model.weights.h6").end(), say=[W], note="local header and directory disagree on the name")
c("keras-local-size", lambda: lie(lcsize=7, lusize=7).end(), say=[W], note="local header and directory disagree on the size")
c("keras-loc-off", lambda: lie(off=0x7FFFFFFF).end(), say=[W])
c("keras-loc-off-cd", lambda: lie(off=len(h5()) + 1200).end(), say=[W], note="the offset does not point at a local header")
c("keras-count-short", lambda: lie().end(n=2), note="directory holds three entries, the end record says two")
c("keras-count-long", lambda: lie().end(n=9))
c("keras-cdoff", lambda: lie().end(cdoff=1 << 30))
c("keras-cdsize", lambda: lie().end(cdsize=1 << 30))
c("keras-disk", lambda: lie().end(disk=3), kind="unsupported")
c("keras-zip64-lie", lambda: lie(usize=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 1 << 40)).end(), kind="limit")
c("keras-two-weights", lambda: lie().add(W, h5()).end(), say=[W], note="two members with one name")
c("keras-overlap", lambda: overlapping(), say=[], note="config.json and the weights share bytes of the archive")
c("keras-two-eocd", lambda: lie().end(comment=lie().end()), "either", "unsafe", [], "an end record inside the comment: two readers may see two archives")
c("keras-names", lambda: lie().add("assets/" + "n" * 60000, b"x").add("assets/a\nb", b"x").add("/tmp/evil", b"x").end(), "either", "names", [])


def overlapping():
    z = lie()
    z.cd.append(z.cd[1][:46].replace(b"config.json", b"") + b"config.json")
    z.cd[-1] = z.cd[-1].replace(b"config.json", b"config2json")
    return z.end()
