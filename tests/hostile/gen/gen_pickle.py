"""Hostile PyTorch checkpoints (ZIP with data.pkl) and bare pickles. Nothing here is ever to be executed: the tool has its own small
pickle reader that knows the handful of globals a state_dict needs and names any other in its refusal. Standard library only."""

import struct
from common import case
from rawzip import Z, bomb


def s(x):
    x = x.encode() if isinstance(x, str) else x
    return b"X" + struct.pack("<I", len(x)) + x


def i(n):
    return (
        b"K" + bytes([n])
        if 0 <= n < 256
        else b"J" + struct.pack("<i", n) if -(2**31) <= n < 2**31 else b"\x8a\x08" + struct.pack("<q", n)
    )


def g(m, n):
    return b"c" + m.encode() + b"\n" + n.encode() + b"\n"


def tup(*x):
    return b"(" + b"".join(x) + b"t"


def pid(typ="FloatStorage", key="0", n=12):
    return tup(s("storage"), g("torch", typ), s(key), s("cpu"), i(n)) + b"Q"


def tensor(shape=(3, 4), stride=(4, 1), off=0, **k):
    return (
        g("torch._utils", "_rebuild_tensor_v2")
        + tup(
            pid(**k),
            i(off),
            tup(*map(i, shape)),
            tup(*map(i, stride)),
            b"\x89",
            g("collections", "OrderedDict") + b")R",
        )
        + b"R"
    )


def sd(items):
    return b"\x80\x02" + g("collections", "OrderedDict") + b")R" + b"(" + b"".join(s(k) + v for k, v in items) + b"u."


D = struct.pack("<12f", *(i / 8 for i in range(12)))


def pt(pkl, data={"0": D}, order=b"little", ver=b"3\n", root="archive", extra=()):
    z = Z()
    z.add(root + "/data.pkl", pkl)
    z.add(root + "/byteorder", order)
    for k, v in data.items():
        z.add("%s/data/%s" % (root, k), v)
    z.add(root + "/version", ver)
    for k, v in extra:
        z.add(k, v)
    return z.end()


def c(cid, fn, verdict="refuse", kind="corrupt", say=("w.pt",), note="", file="w.pt"):
    @case("pt-" + cid, file, verdict, kind, say, note)
    def _(p):
        open(p, "wb").write(fn())


ok = [("d.weight", tensor())]
c("ok", lambda: pt(sd(ok)), "accept", "fine")
c(
    "ok-two-views",
    lambda: pt(sd(ok + [("d.row", tensor((4,), (1,), 4))])),
    "accept",
    "fine",
    note="two tensors over one storage",
)
c("ok-transposed", lambda: pt(sd([("w", tensor((4, 3), (1, 4)))])), "accept", "fine")
c("ok-scalar", lambda: pt(sd([("w", tensor((), ()))])), "accept", "fine")
c("big-endian", lambda: pt(sd(ok), order=b"big"), "either", "unsupported")
c("no-data", lambda: pt(sd(ok), data={}), say=["d.weight"])
c("storage-short", lambda: pt(sd(ok), data={"0": D[:-4]}), say=["d.weight"])
c("storage-long", lambda: pt(sd(ok), data={"0": D + D}), "either", say=["d.weight"])
for nm, k in (
    ("oob-shape", dict(shape=(3, 5), stride=(5, 1))),
    ("oob-off", dict(off=4)),
    ("oob-stride", dict(stride=(4000, 1))),
    ("neg-stride", dict(stride=(-4, 1))),
    ("neg-off", dict(off=-1)),
    ("neg-dim", dict(shape=(-3, -4))),
    ("overflow", dict(shape=(2**31 - 1, 2**31 - 1), stride=(0, 0))),
    ("zero-stride-bomb", dict(shape=(2**20, 2**20), stride=(0, 0))),
    ("rank-mismatch", dict(stride=(1,))),
    ("numel-lie", dict(n=2**31 - 1)),
):
    c(
        nm,
        lambda k=k: pt(sd([("d.weight", tensor(**k))])),
        kind="limit" if nm in ("overflow", "zero-stride-bomb") else "corrupt",
        say=["d.weight"],
        note="the shape of CVE-2026-24747: storage metadata and view disagree",
    )
c("dtype-unknown", lambda: pt(sd([("d.weight", tensor(typ="EvilStorage"))])), kind="unsafe", say=["EvilStorage"])
c(
    "int-storage",
    lambda: pt(sd([("d.weight", tensor(typ="LongStorage", n=6, shape=(6,), stride=(1,)))])),
    "accept",
    "fine",
)
c(
    "bf16",
    lambda: pt(sd([("d.weight", tensor(typ="BFloat16Storage", n=24, shape=(24,), stride=(1,)))])),
    "accept",
    "fine",
)
for m, n in (
    ("os", "system"),
    ("posix", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("subprocess", "Popen"),
    ("builtins", "getattr"),
    ("torch.hub", "load"),
    ("torch", "load"),
    ("numpy.testing._private.utils", "runstring"),
    ("webbrowser", "open"),
    ("torch._utils", "_rebuild_parameter"),
    ("__builtin__", "apply"),
):
    c(
        "global-%s.%s" % (m, n),
        lambda m=m, n=n: pt(b"\x80\x02" + g(m, n) + tup(s("touch pwned")) + b"R."),
        "either" if n == "_rebuild_parameter" else "refuse",
        "unsafe",
        ["%s.%s" % (m, n)] if n != "_rebuild_parameter" else [],
    )
c(
    "stack-global",
    lambda: pt(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0btouch pwned\x85R."),
    kind="unsafe",
    say=["posix.system"],
    note="STACK_GLOBAL instead of GLOBAL",
)
c(
    "dotted",
    lambda: pt(b"\x80\x04\x8c\x08builtins\x8c\x0deval.__call__\x93\x8c\x011\x85R."),
    kind="unsafe",
    say=["builtins"],
)
c("inst", lambda: pt(b"(S'touch pwned'\nios\nsystem\n."), kind="unsafe", say=["os.system"])
c("obj", lambda: pt(b"(cos\nsystem\nS'touch pwned'\no."), kind="unsafe", say=["os.system"])
c(
    "build",
    lambda: pt(sd(ok)[:-1] + b"}(" + s("__class__") + i(1) + b"ub."),
    "refuse",
    "unsafe",
    [],
    "BUILD with __class__ on the dict",
)
c("ext", lambda: pt(b"\x80\x02\x82\x01."), kind="unsafe", say=["w.pt"])
for nm, p in (
    ("stop-missing", sd(ok)[:-1]),
    ("underflow", b"\x80\x02R."),
    ("unknown-op", b"\x80\x02\xff."),
    ("empty", b""),
    ("proto-9", b"\x80\x09N."),
    ("not-dict", b"\x80\x02N."),
    ("list", b"\x80\x02]."),
    ("long4", b"\x80\x02\x8b\xff\xff\xff\x7f."),
    ("binbytes8", b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"."),
    ("unicode8", b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b"."),
    ("memo-big", b"\x80\x02Nr" + struct.pack("<I", 0xFFFFFFFF) + b"."),
    ("memo-missing", b"\x80\x02h\x07."),
    ("marks", b"\x80\x02" + b"(" * 200000 + b"."),
    ("dup", b"\x80\x02]" + b"2" * 200000 + b"."),
    ("deep", b"\x80\x02" + b"]" * 100000 + b"a" * 99999 + b"."),
    ("frame", b"\x80\x04\x95" + struct.pack("<Q", 2**63) + b"N."),
    ("selfref", b"\x80\x02]q\x00h\x00a."),
    ("trailing", sd(ok) + b"cos\nsystem\n"),
):
    c(
        "op-" + nm,
        lambda p=p: pt(p),
        "either" if nm in ("trailing",) else "refuse",
        "limit" if nm in ("long4", "binbytes8", "unicode8", "memo-big", "marks", "dup", "deep", "frame") else "corrupt",
        ["w.pt"],
    )
c(
    "list-not-dict",
    lambda: pt(b"\x80\x02](" + b"N" * 10 + b"e."),
    "refuse",
    "corrupt",
    note="a list, not a state_dict",
)
c(
    "legacy",
    lambda: b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00protocol_versionq\x01M\xe9\x03u.",
    note="the format before 1.6, cut after two of its pickles",
)
c("bare-pickle", lambda: b"\x80\x02cos\nsystem\n(S'touch pwned'\ntR.", kind="unsafe", say=["w.pt"])
c(
    "torchscript",
    lambda: pt(
        sd(ok), extra=[("archive/code/__torch__.py", b"class M: pass"), ("archive/constants.pkl", b"\x80\x02).")]
    ),
    "either",
    "unsupported",
    ["TorchScript"],
)
c("data-key-slip", lambda: pt(sd([("d.weight", tensor(key="../../../etc/hostname"))])), kind="unsafe", say=["d.weight"])
c("two-roots", lambda: pt(sd(ok), extra=[("other/data.pkl", sd([]))]), "either", "corrupt")
c(
    "two-pkl",
    lambda: pt(sd(ok), extra=[("archive/data.pkl", b"\x80\x02cos\nsystem\n.")]),
    kind="unsafe",
    say=["data.pkl"],
    note="second member of the same name holds something else",
)
c("name-dup", lambda: pt(sd(ok + ok)), say=["d.weight"])
c("name-nonstr", lambda: pt(b"\x80\x02}(K\x01" + tensor() + b"u."), say=["w.pt"])
c(
    "compressed",
    lambda: Z().add("archive/data.pkl", sd(ok), 8).add("archive/data/0", D, 8).add("archive/version", b"3\n").end(),
    "either",
    "unsupported",
    note="torch never compresses",
)


# ---- beyond the reader's first corpus: bombs, damage in the data, the format before torch 1.6
Q = 1 << 20
c("pkl-bomb", lambda: Z().add("archive/data.pkl", b"", 8, raw=bomb(1 << 30), usize=1 << 30, crc=0).end(), kind="limit", say=["data.pkl"])
c("nested-calls", lambda: pt(b"\x80\x02" + (g("torch._utils", "_rebuild_parameter") + b"(") * 3000 + b"N" + b"tR" * 3000 + b"."))


def dag(n):
    """n lists, each holding the one before twice: 2^n paths"""
    return b"]q\x00" + b"".join(b"0]q%c(h%ch%ce" % (k + 1, k, k) for k in range(n))


c("dag", lambda: pt(b"\x80\x02" + dag(50) + b"."), kind="limit")
c("dag-checkpoint", lambda: pt(b"\x80\x02}(" + s("model") + b"}" + s("w") + tensor() + b"s" + s("x") + dag(50) + b"u."), "accept", "fine",
  note="the same among the other contents")
c("many-views", lambda: pt(sd([("t%d" % k, tensor((3, 4), (4, 1))) for k in range(3000)])), "accept", "fine", note="3,000 tensors tied to one storage")
c("tied-bomb", lambda: pt(sd([("t%d" % k, tensor((60000,), (0,))) for k in range(30000)])), kind="limit", note="48 bytes that become 7 GB")
c("storage-crc", lambda: Z().add("archive/data.pkl", sd(ok)).add("archive/data/0", D, crc=1).end(), say=["data/0"])
c("pkl-crc", lambda: Z().add("archive/data.pkl", sd(ok), crc=1).add("archive/data/0", D).end(), say=["data.pkl"])
c("key-nul", lambda: pt(sd([("d.weight", tensor(key="0\0"))])), say=["d.weight"])
c("name-nul", lambda: pt(sd([("d\0weight", tensor())])), say=["w.pt"])
c("name-long", lambda: pt(sd([("n" * 70000, tensor())])), kind="limit", say=["w.pt"])
c("numel-negative", lambda: pt(sd([("d.weight", tensor(n=-12))])), say=["d.weight"])
c("numel-overflow", lambda: pt(sd([("d.weight", tensor(n=2**62))])), say=["d.weight"])
c("dims-nine", lambda: pt(sd([("d.weight", tensor((1,) * 9, (1,) * 9))])), kind="limit", say=["d.weight"])
c("view-of-storage", lambda: pt(sd([("d.weight", tensor().replace(s("cpu") + i(12) + b"tQ", s("cpu") + i(12) + s("x") + b"tQ"))])), say=["d.weight"])


def stream(obj=None, keys=b"]" + s("0") + b"a", data=struct.pack("<q", 12) + D, system=b"}"):
    magic = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
    return b"\x80\x02" + magic + b"\x80\x02M\xe9\x03." + b"\x80\x02" + system + b"." + (obj or sd(ok)) + b"\x80\x02" + keys + b"." + data


c("stream-ok", stream, "accept", "fine")
c("stream-short", lambda: stream(data=struct.pack("<q", 12) + D[:-1]))
c("stream-numel", lambda: stream(data=struct.pack("<q", 13) + D))
c("stream-no-keys", lambda: stream(keys=b"]", data=b""), say=["d.weight"])
c("stream-key-twice", lambda: stream(keys=b"](" + s("0") + s("0") + b"e", data=(struct.pack("<q", 12) + D) * 2))
c("stream-key-unknown", lambda: stream(keys=b"]" + s("7") + b"a"))
c("stream-keys-none", lambda: stream(keys=b"N"))
c("stream-version", lambda: stream().replace(b"M\xe9\x03", b"M\xea\x03"), kind="unsupported")
c("stream-big", lambda: stream(system=b"}" + s("little_endian") + b"\x89s"), kind="unsupported", say=["big-endian"])
c("stream-system", lambda: stream(b"\x80\x02cposix\nsystem\n(" + s("touch pwned") + b"tR."), kind="unsafe", say=["posix.system"])
c("stream-long-pickle", lambda: stream(sd([("pad%d" % k, b"X" + struct.pack("<I", Q) + b"p" * Q) for k in range(3)] + ok)), "accept", "fine",
  note="pickles longer than the reader's first look")


# ---- checkpoints of several parts, objects of foreign classes, NumPy's arrays
def obj(state, cls=("a.b", "Net")):
    """An object that a class of nobody's list would make, with attributes."""
    return g(*cls) + b")\x81" + state + b"b"


def array(data, shape=(3, 4), typ="f4", order="<"):
    dtype = g("numpy", "dtype") + tup(s(typ), b"\x89", b"\x88") + b"R" + tup(i(3), s(order), b"N", b"N", b"N", i(-1), i(-1), i(0)) + b"b"
    return (g("numpy.core.multiarray", "_reconstruct") + tup(g("numpy", "ndarray"), tup(i(0)), b"C\x01b") + b"R" + tup(i(1), tup(*map(i, shape)), dtype, b"\x89", data) + b"b")


def raw(data):
    return b"B" + struct.pack("<I", len(data)) + data


def latin1(text):
    return g("_codecs", "encode") + tup(s(text), s("latin1")) + b"R"


def two(a, b):
    return b"\x80\x02}(" + s("model") + a + s("x") + b + b"u."


MODEL = b"}" + s("d.weight") + tensor() + b"s"
c("object-beside", lambda: pt(two(MODEL, obj(b"}" + s("touch pwned") + i(1) + b"s", ("posix", "system")))), "accept", "fine", note="said, never made")
c("object-is-model", lambda: pt(two(obj(MODEL), b"N")), kind="unsafe", say=["a.b.Net"])
c("object-in-model", lambda: pt(sd([("d.weight", tensor()), ("e.weight", obj(MODEL))])), kind="unsafe", say=["a.b.Net"])
c("object-of-itself", lambda: pt(b"\x80\x02" + g("a.b", "Net") + b")\x81q\x01}" + s("me") + b"h\x01sb."), kind="unsupported", say=["a.b.Net"])
c("objects-deep", lambda: pt(two(MODEL, g("a.b", "Net") + b")R" + b")R" * 30000)), "accept", "fine", note="what is called returns what is called")
c("parts-two", lambda: pt(two(MODEL, MODEL)), "either", "ambiguous", ["2 parts"])
c("parts-many", lambda: pt(b"\x80\x02}(" + b"".join(s("m%d" % k) + MODEL for k in range(20000)) + b"u."), "either", "ambiguous", ["20000 parts"])
c("parts-dag", lambda: pt(b"\x80\x02}q\x00(" + s("w") + tensor() + b"u" + b"".join(b"0}q%c(" % (k + 1) + s("a") + b"h%c" % k + s("b") + b"h%cu" % k for k in range(50)) + b"."),
  "either", "limit", note="one dictionary on 2^50 paths")
c("parts-cycle", lambda: pt(b"\x80\x02}q\x00(" + s("a") + b"h\x00" + s("w") + tensor() + b"u."), kind="limit")
c("array-short", lambda: pt(two(b"}" + s("d.weight") + array(raw(D[:-1])) + b"s", b"N")), say=["d.weight"])
c("array-long", lambda: pt(two(b"}" + s("d.weight") + array(raw(D + b"x")) + b"s", b"N")), say=["d.weight"])
c("array-text", lambda: pt(two(b"}" + s("d.weight") + array(latin1("\u0100" * 48)) + b"s", b"N")), say=["d.weight"])
c("array-shape", lambda: pt(two(b"}" + s("d.weight") + array(raw(D), (2**31 - 1, 2**31 - 1, 2**31 - 1)) + b"s", b"N")), kind="limit", say=["d.weight"])
c("array-objects", lambda: pt(two(b"}" + s("d.weight") + array(b"](NNe", (2,), "O8", "|") + b"s", b"N")), "either", "unsupported", [])
c("pickle-of-arrays", lambda: b"\x80\x02}" + s("d") + array(raw(D)) + b"s.", "accept", "fine", note="no archive around it")
c("pickle-of-tensors", lambda: b"\x80\x02}" + s("d") + tensor() + b"s.", note="its storages are nowhere")
