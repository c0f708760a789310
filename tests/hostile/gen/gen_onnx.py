"""Hostile and broken ONNX files. Standard library only: they are made when the suite runs."""

import os, struct
from common import case

D = struct.pack("<12f", *(i / 8 for i in range(12)))


def varint(v):
    out = b""
    v &= (1 << 64) - 1
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def num(field, v):
    return varint(field << 3) + varint(v)


def sub(field, data, n=None):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data) if n is None else n) + data


def tensor(name="w", dims=(3, 4), kind=1, raw=D, more=b""):
    return b"".join(num(1, d) for d in dims) + num(2, kind) + (sub(8, name) if name else b"") + (b"" if raw is None else sub(9, raw)) + more


def graph(*tensors):
    return sub(1, sub(4, "Relu")) + sub(2, "g") + b"".join(sub(5, t) for t in tensors)


def model(*tensors):
    return num(1, 8) + sub(2, "hostile") + sub(7, graph(*tensors)) + sub(8, num(2, 17))


def nested(depth):
    """An initialiser below so many graphs in attributes of nodes."""
    g = sub(5, tensor())
    for _ in range(depth):
        g = sub(1, sub(4, "If") + sub(5, sub(1, "then_branch") + sub(6, g) + num(20, 5)))
    return g


def outside(location, off="0", length="48", name="w"):
    entries = (("location", location), ("offset", off), ("length", length))
    return tensor(name, raw=None, more=b"".join(sub(13, sub(1, k) + sub(2, v)) for k, v in entries) + num(14, 1))


def c(cid, data, verdict="refuse", kind="corrupt", say=("w.onnx",), note="", beside=None, **more):
    @case("onnx-" + cid, "w.onnx", verdict, kind, say, note, **more)
    def _(p):
        open(p, "wb").write(data() if callable(data) else data)
        if beside is not None:
            open(os.path.join(os.path.dirname(p), "w.data"), "wb").write(beside)


c("ok", model(tensor()), "accept", "fine")
c("ok-none", model(), "accept", "fine")
c("ok-outside", model(outside("w.data")), "accept", "fine", beside=D)
c("short-data", model(tensor(raw=D[:-1])), say=["w"])
c("long-data", model(tensor(raw=D + b"x")), say=["w"])
c("no-data", model(tensor(raw=None)), say=["w"])
c("huge-dims", model(tensor(dims=(1 << 62, 1 << 62))), say=["w"], kind="limit")
c("negative-dim", model(tensor(dims=(-3, 4))), say=["w.onnx"])
c("many-dims", model(tensor(dims=(1,) * 200)), say=["w.onnx"], kind="limit")
c("no-name", model(tensor(name="")))
c("nul-name", model(tensor(name="a\0b")))
c("two-graphs", model(tensor()) + sub(7, graph(tensor("v"))))
c("truncated", model(tensor())[:-1])
c("length-beyond", num(1, 8) + sub(2, "hostile") + sub(8, num(2, 17)) + sub(7, graph(tensor()), 1 << 40))
c("inner-length-beyond", num(1, 8) + sub(8, num(2, 17)) + sub(7, sub(5, tensor(), 1 << 20)))
c("endless-varint", num(1, 8) + sub(8, num(2, 17)) + b"\x38" + b"\xff" * 20)
c("numbers-bomb", model(tensor(dims=(1 << 40,), kind=7, raw=None, more=sub(7, b"\x01" * 64))), say=["w"], kind="limit",
  note="eight terabytes of int64 in 64 bytes")
c("outside-parent", model(outside("../w.data")), kind="path", beside=D)
c("outside-root", model(outside("/etc/passwd", length="48")), kind="path")
c("outside-missing", model(outside("nothing.data")))
c("outside-beyond", model(outside("w.data", off="8")), beside=D, say=["w"])
c("outside-shared", model(*(outside("w.data", name="w%d" % i) for i in range(1000))), kind="limit", beside=D, say=["w1"],
  note="a thousand tensors over the same bytes")
c("many-empty", lambda: model(*[tensor("t%d" % i, (0,), raw=b"") for i in range(20000)]), "either", "limit",
  note="each takes some bytes in the file and more in memory")
c("same-name", model(tensor(), tensor()), note="two initialisers of one name")
c("deep", lambda: num(1, 8) + sub(7, nested(5000)) + sub(8, num(2, 17)), "either", "limit", note="a graph in a node in a graph, 5000 times")
c("cycle", num(1, 8) + sub(8, num(2, 17)) + sub(7, sub(1, sub(1, "b") + sub(2, "a") + sub(4, "Relu")) +
  sub(1, sub(1, "a") + sub(2, "b") + sub(4, "Relu")) + sub(5, tensor())), "accept", "fine", note="weights are read, nodes are not run")
