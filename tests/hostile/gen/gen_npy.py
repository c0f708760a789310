"""Hostile and broken .npy files. Standard library only: they are made when the suite runs."""

import struct
from common import case

A = struct.pack("<12f", *(i / 8 for i in range(12)))


def npy(header, data=A, ver=(1, 0), magic=b"\x93NUMPY", align=64, hlen=None, nl=True, enc="latin1"):
    h = header if isinstance(header, bytes) else header.encode(enc)
    pre = len(magic) + 2 + (2 if ver[0] == 1 else 4)
    if align:
        h += b" " * ((-(pre + len(h) + 1)) % align)
    if nl:
        h += b"\n"
    return magic + bytes(ver) + struct.pack("<H" if ver[0] == 1 else "<I", len(h) if hlen is None else hlen) + h + data


H = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"


def c(cid, data, verdict="refuse", kind="corrupt", say=("w.npy",), note=""):
    @case("npy-" + cid, "w.npy", verdict, kind, say, note)
    def _(p):
        open(p, "wb").write(data() if callable(data) else data)


c("ok", npy(H), "accept", "fine")
c("ok-v2", npy(H, ver=(2, 0)), "accept", "fine")
c("ok-v3", npy(H, ver=(3, 0)), "accept", "fine")
c(
    "ok-fortran",
    npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }"),
    "accept",
    "fine",
    note="column-major: values must be transposed, not reinterpreted",
)
c(
    "ok-be",
    npy("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", struct.pack(">12f", *(i / 8 for i in range(12)))),
    "accept",
    "fine",
)
c(
    "ok-f2",
    npy("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }", struct.pack("<12e", *(i / 8 for i in range(12)))),
    "accept",
    "fine",
)
c(
    "ok-f8",
    npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }", struct.pack("<12d", *(i / 8 for i in range(12)))),
    "accept",
    "fine",
)
c("ok-scalar", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", A[:4]), "accept", "fine")
c("ok-1d", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (12,), }"), "accept", "fine")
c("ok-zero", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }", b""), "accept", "fine")
c("ok-unaligned", npy(H, align=0), "accept", "fine", note="old writers padded to 16 or not at all")
c(
    "ok-py2-long",
    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }"),
    "either",
    "fine",
    note="Python 2 wrote 3L",
)
c("ok-order", npy("{'shape': (3, 4), 'fortran_order': False, 'descr': '<f4'}"), "accept", "fine")
c("ok-dquote", npy('{"descr": "<f4", "fortran_order": False, "shape": (3, 4)}'), "accept", "fine")
c("magic", npy(H, magic=b"\x93NUMPZ"))
c("v0", npy(H, ver=(0, 0)), kind="unsupported")
c("v4", npy(H, ver=(4, 0)), kind="newer")
c("empty", b"")
c("magic-only", b"\x93NUMPY")
c("no-hlen", b"\x93NUMPY\x01\x00\x10")
c("hlen-past-end", npy(H, hlen=65535))
c("hlen-zero", npy(H, hlen=0))
c("hlen-4g", npy(H, ver=(2, 0), hlen=0xFFFFFFFF), kind="limit")
c("hlen-short", npy(H, hlen=20))
c("data-short", npy(H, A[:-1]))
c("data-none", npy(H, b""))
c("data-long", npy(H, A + b"x"), note="bytes after the array")
for nm, h in (
    ("object", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
    ("structured", "{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }"),
    ("unicode", "{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }"),
    ("bytes", "{'descr': '|S3', 'fortran_order': False, 'shape': (1,), }"),
    ("void", "{'descr': '|V4', 'fortran_order': False, 'shape': (1,), }"),
    ("datetime", "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,), }"),
    ("complex", "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }"),
    ("f3", "{'descr': '<f3', 'fortran_order': False, 'shape': (3, 4), }"),
    ("f16b", "{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }"),
    ("native", "{'descr': '=f4', 'fortran_order': False, 'shape': (3, 4), }"),
    ("emptydescr", "{'descr': '', 'fortran_order': False, 'shape': (3, 4), }"),
):
    c(
        "type-" + nm,
        npy(h, b"\x80\x04N." + bytes(60)),
        "either" if nm == "native" else "refuse",
        "unsafe" if nm == "object" else "unsupported",
        ["w.npy", "descr" if nm != "object" else "object"],
    )
for nm, s in (
    ("neg", "(-3, 4)"),
    ("huge", "(4611686018427387904,)"),
    ("overflow", "(4294967296, 4294967296, 4294967297)"),
    ("wrap", "(4611686018427387907, 4)"),
    ("notuple", "[3, 4]"),
    ("int", "12"),
    ("float", "(3.0, 4)"),
    ("str", "('3', 4)"),
    ("none", "None"),
    ("bool", "(True, 12)"),
    ("rank100", "(" + "1, " * 100 + ")"),
    ("hex", "(0x3, 4)"),
    ("under", "(1_2,)"),
    ("big", "(99999999999999999999999999,)"),
    ("zero-huge", "(0, 9223372036854775807, 9223372036854775807)"),
):
    c(
        "shape-" + nm,
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % s),
        "either" if nm in ("hex", "under", "bool", "rank100", "zero-huge") else "refuse",
        "limit" if nm in ("huge", "overflow", "wrap", "big") else "corrupt",
        ["w.npy", "shape"] if nm not in ("rank100",) else ["w.npy"],
    )
for nm, h in (
    ("call", "__import__('os').system('touch pwned')"),
    ("call2", "{'descr': __import__('os').system('touch pwned'), 'fortran_order': False, 'shape': (3, 4)}"),
    ("notdict", "('<f4', False, (3, 4))"),
    ("missing", "{'descr': '<f4', 'shape': (3, 4)}"),
    ("extra", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'x': 1}"),
    ("dup", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'shape': (4, 3)}"),
    ("open", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4"),
    ("junk", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } garbage"),
    ("order-str", "{'descr': '<f4', 'fortran_order': 'no', 'shape': (3, 4), }"),
    ("order-int", "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4), }"),
    ("nul", "{'descr': '<f4\0', 'fortran_order': False, 'shape': (3, 4), }"),
    ("parens", "(" * 5000 + ")" * 5000),
    ("json", '{"descr": "<f4", "fortran_order": false, "shape": [3, 4]}'),
):
    c(
        "header-" + nm,
        npy(h, ver=(2, 0)),
        "either" if nm in ("order-int", "dup") else "refuse",
        "unsafe" if nm.startswith("call") else "corrupt",
    )
c("header-nonascii-v1", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), '\xe9': 1}"), say=["w.npy"])
c("header-badutf8-v3", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), '\xff\xfe': 1}", ver=(3, 0)))
c("header-nonl", npy(H, nl=False, align=0), "either", note="no newline at the end of the header")
c(
    "header-1m",
    npy(H + " " * (1 << 20), ver=(2, 0)),
    "either",
    "limit",
    note="a legal header padded to 1 MiB; numpy refuses beyond 10,000 bytes unless told otherwise",
)
c(
    "nan",
    npy(H, struct.pack("<12I", *[0x7FC00001, 0x7F800001, 0xFFC12345, 0x80000000] * 3)),
    "accept",
    "fine",
    note="NaN payloads bit for bit",
)
c(
    "pickle",
    b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x05touch\x85R.",
    say=["w.npy", "pickle"],
    kind="unsafe",
    note="a bare pickle named .npy: np.load(allow_pickle=True) would run it",
)
