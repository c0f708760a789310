"""Hostile and broken .safetensors files. Standard library only: they are made when the suite runs."""

import json, struct
from common import case

D = struct.pack("<12f", *(i / 8 for i in range(12)))


def st(hdr, data=D, n=None):
    h = hdr if isinstance(hdr, bytes) else json.dumps(hdr).encode()
    return struct.pack("<Q", len(h) if n is None else n) + h + data


def T(dtype="F32", shape=(3, 4), off=(0, 48), **k):
    return dict({"dtype": dtype, "shape": list(shape), "data_offsets": list(off)}, **k)


def c(cid, data, verdict="refuse", kind="corrupt", say=("w.safetensors",), note="", **more):
    @case("st-" + cid, "w.safetensors", verdict, kind, say, note, **more)
    def _(p):
        open(p, "wb").write(data() if callable(data) else data)


c("ok", st({"a": T()}), "accept", "fine")
c("ok-pad", st(json.dumps({"a": T()}).encode() + b"      "), "accept", "fine")
c("ok-meta", st({"__metadata__": {"format": "pt"}, "a": T()}), "accept", "fine")
c("ok-empty", st({}, b""), "accept", "fine")
c("ok-scalar", st({"a": T(shape=(), off=(0, 4))}, D[:4]), "accept", "fine")
c("ok-zero", st({"a": T(shape=(0, 4), off=(0, 0)), "b": T()}), "accept", "fine")
c("ok-bf16", st({"a": T("BF16", (24,))}), "accept", "fine")
c("ok-f16", st({"a": T("F16", (24,))}), "accept", "fine")
c("ok-unicode", st(b'{"caf\xc3\xa9/\xe5\xb1\x82":' + json.dumps(T()).encode() + b"}"), "accept", "fine")
c(
    "ok-odd-align",
    st({"u": T("U8", (1,), (0, 1)), "a": T(off=(1, 49))}, b"x" + D),
    "accept",
    "fine",
    note="tensor data at an odd address: do not cast, copy",
)
c("ok-f8", st({"a": T("F8_E4M3", (48,))}), "either", "unsupported", ["a"])
c("ok-bool", st({"a": T("BOOL", (48,))}), "either", "unsupported", ["a"])
c("empty", b"")
c("7bytes", b"\0" * 7)
c("len-zero", struct.pack("<Q", 0))
c("len-past-end", st({"a": T()}, n=10**6))
c("len-max", st({"a": T()}, n=2**64 - 1), kind="limit")
c("len-100m", struct.pack("<Q", 100_000_001) + b"{}", kind="limit")
c("len-neg", st({"a": T()}, n=2**63), kind="limit")
c("notjson", st(b"hello world"))
c("array", st(b"[1,2]"))
c("space-first", st(b' {"a":' + json.dumps(T()).encode() + b"}"), note="the header must begin with {")
c("bom", st(b"\xef\xbb\xbf{}", b""))
c("badutf8", st(b'{"a\xff":' + json.dumps(T()).encode() + b"}"))
c("nul-in-header", st(b'{"a\0":' + json.dumps(T()).encode() + b"}"))
c("trailing-json", st(json.dumps({"a": T()}).encode() + b" x"))
c("comment", st(b'{/* x */"a":' + json.dumps(T()).encode() + b"}"))
c(
    "dup-key",
    st(b'{"a":' + json.dumps(T()).encode() + b',"a":' + json.dumps(T()).encode() + b"}"),
    say=["a"],
    note="disallowed by the format text",
)
c("deep", st(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"), kind="limit")
c("meta-nonstring", st({"__metadata__": {"x": 1}, "a": T()}), say=["__metadata__"])
c("meta-list", st({"__metadata__": [], "a": T()}), say=["__metadata__"])
for nm, t, say in (
    ("overlap", {"a": T(), "b": T()}, "b"),
    ("hole", {"a": T(off=(4, 52))}, "a"),
    ("hole-end", {"a": T(shape=(11,), off=(0, 44))}, "w.safetensors"),
    ("reversed", {"a": T(off=(48, 0))}, "a"),
    ("past-end", {"a": T(shape=(13,), off=(0, 52))}, "a"),
    ("size-mismatch", {"a": T(shape=(3, 5))}, "a"),
    ("overflow", {"a": T(shape=(2**62, 4))}, "a"),
    ("overflow2", {"a": T(shape=(2**32, 2**32, 2**32))}, "a"),
    ("neg", {"a": T(shape=(-3, -4))}, "a"),
    ("off-neg", {"a": T(off=(-48, 0))}, "a"),
    ("off-huge", {"a": T(off=(0, 2**64))}, "a"),
    ("dtype", {"a": T("F33")}, "F33"),
    ("dtype-num", {"a": T(7)}, "a"),
    ("missing-shape", {"a": {"dtype": "F32", "data_offsets": [0, 48]}}, "a"),
    ("missing-off", {"a": {"dtype": "F32", "shape": [3, 4]}}, "a"),
    ("three-off", {"a": T(off=(0, 24, 48))}, "a"),
    ("string-shape", {"a": T(shape=("3", 4))}, "a"),
    ("null", {"a": None}, "a"),
    ("list", {"a": [1]}, "a"),
):
    c(nm, st(t), kind="limit" if "overflow" in nm else "corrupt", say=[say])
c("float-shape", st(b'{"a":{"dtype":"F32","shape":[3.0,4],"data_offsets":[0,48]}}'), say=["a"])
c("exp-shape", st(b'{"a":{"dtype":"F32","shape":[3,4],"data_offsets":[0,4.8e1]}}'), say=["a"])
c("extra-key", st({"a": T(evil=1)}), "either", say=["a"])
c(
    "trailing-data",
    st({"a": T()}, D + b"PK\x03\x04evil"),
    say=["w.safetensors"],
    note="bytes that no tensor owns: polyglot",
)
c("truncated", st({"a": T()}, D[:-1]), say=["w.safetensors"])
c(
    "overlap-bomb",
    lambda: st(
        b"{"
        + b",".join(b'"t%d":{"dtype":"F32","shape":[262144],"data_offsets":[0,1048576]}' % i for i in range(4000))
        + b"}",
        bytes(1 << 20),
    ),
    kind="limit",
    note="4,000 tensors over the same MiB: 4 GiB once loaded",
)
c(
    "million-empty",
    lambda: st(
        b"{" + b",".join(b'"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(1000000)) + b"}",
        b"",
    ),
    "either",
    "limit",
    note="57 MB of header, no data",
)
for nm, key in (
    ("dotdot", "../../etc/x"),
    ("abs", "/etc/x"),
    ("newline", "a\nb"),
    ("escape", "a\x1b[2J"),
    ("nul", "a\x00b"),
    ("long", "n" * 5000),
    ("empty", ""),
    ("surrogate", None),
    ("con", "CON"),
    ("backslash", "a\\..\\b"),
):
    h = b'{"\\ud800":' + json.dumps(T()).encode() + b"}" if key is None else {key: T()}
    c(
        "name-" + nm,
        st(h),
        "either",
        "names",
        [],
        "tensor name: shown escaped, never used as a path, survives a round trip",
    )

two = lambda a, b: st({a: T(shape=(1, 4), off=(0, 16)), b: T(shape=(2, 4), off=(16, 48))})
for nm, a, b, what in (
    ("module", "module.a", "module.b", "accept"),
    ("compiled", "module._orig_mod.a", "module._orig_mod.b", "accept"),
    ("mixed", "module.a", "b", "refuse"),
    ("empty-name", "module.", "module.b", "refuse"),
    ("no-dot", "modulea", "moduleb", "refuse"),
    ("middle", "x.module.a", "x.module.b", "refuse"),
    ("control", "module.a\nb", "module.\x1b[2J", "either"),
):
    c("prefix-" + nm, two(a, b), "accept", "fine", [], "the prefix of DataParallel or torch.compile", unwrap=what)
c("prefix-meta", st({"__metadata__": {"module.a": "module.b", "format": "pt"}, "module.a": T()}), "accept", "fine", [],
  "metadata may name tensors", unwrap="accept")
