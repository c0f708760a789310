"""Hostile and broken .npz archives. Standard library only: they are made when the suite runs."""

import struct, zlib
from common import case
from rawzip import Z as Archive, bomb


def npy(shape, data, descr="<f4"):
    h = ("{'descr': %r, 'fortran_order': False, 'shape': %r, }" % (descr, shape)).encode()
    h += b" " * (-(11 + len(h)) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(h)) + h + data


A = npy((3, 4), struct.pack("<12f", *(i / 8 for i in range(12))))


class Z(Archive):
    def add(s, name, data=A, method=0, **k):
        return super().add(name, data, method, **k)


def c(cid, fn, verdict="refuse", kind="corrupt", say=("w.npz",), note="", file="w.npz"):
    @case("zip-npz-" + cid.replace("npz-", ""), file, verdict, kind, say, note)
    def _(p):
        open(p, "wb").write(fn())


c("ok-stored", lambda: Z().add("a.npy").add("b.npy").end(), "accept", "fine")
c("ok-deflate", lambda: Z().add("a.npy", A, 8).end(), "accept", "fine")
c("ok-comment", lambda: Z().add("a.npy").end(comment=b"hello"), "accept", "fine")
c(
    "ok-dd",
    lambda: Z()
    .add(
        "a.npy",
        A,
        8,
        flags=8,
        lcrc=0,
        lcsize=0,
        lusize=0,
        dd=b"PK\x07\x08" + struct.pack("<III", zlib.crc32(A), len(zlib.compressobj(9, 8, -15).compress(A)), len(A)),
    )
    .end(),
    "either",
    "fine",
    note="data descriptor after the entry",
)
c(
    "ok-prefix",
    lambda: Z(b"#!/bin/sh\n" * 10).add("a.npy").end(),
    "either",
    "unsafe",
    note="bytes before the first entry: polyglot",
)
for nm, n in (
    ("dotdot", "../../evil.npy"),
    ("abs", "/tmp/evil.npy"),
    ("backslash", "..\\..\\evil.npy"),
    ("drive", "C:/evil.npy"),
    ("nul", b"a\0b.npy"),
    ("newline", "a\nb.npy"),
    ("empty", ""),
    ("dir-with-data", "d/"),
    ("nonutf8", b"caf\xe9.npy"),
    ("long", "n" * 60000 + ".npy"),
    ("dot", "./a.npy"),
    ("dev", "/dev/null"),
):
    c(
        "name-" + nm,
        lambda n=n: Z().add(n).add("ok.npy").end(),
        "either" if nm in ("nonutf8", "long", "newline", "dot", "empty", "dir-with-data") else "refuse",
        "names",
        [] if nm in ("nul", "empty") else ["w.npz"],
        "nothing may be written outside the output directory",
    )
c(
    "name-mismatch",
    lambda: Z().add("a.npy", lname=b"b.npy").end(),
    say=["a.npy"],
    note="local header and central directory disagree on the name",
)
c(
    "dup",
    lambda: Z().add("a.npy").add("a.npy", npy((3,), struct.pack("<3f", 1, 1, 1))).end(),
    say=["a.npy"],
    note="two members with one name",
)
c("case", lambda: Z().add("A.npy").add("a.npy").end(), "accept", "names")
c("symlink", lambda: Z().add("a.npy", b"/etc/hostname", attr=0o120777 << 16).end(), kind="unsafe", say=["a.npy"])
c("encrypted", lambda: Z().add("a.npy", flags=1).end(), kind="unsupported", say=["a.npy", "encrypt"])
for m, nm in ((12, "bzip2"), (14, "lzma"), (93, "zstd"), (9, "deflate64"), (99, "aes"), (77, "unknown")):
    c("method-" + nm, lambda m=m: Z().add("a.npy", method=m).end(), kind="unsupported", say=["a.npy", "method"])
c("crc", lambda: Z().add("a.npy", crc=0xDEADBEEF).end(), say=["a.npy", "CRC"])
c(
    "usize-small",
    lambda: Z().add("a.npy", A, 8, usize=10).end(),
    say=["a.npy"],
    note="declares 10 bytes, inflates to 176",
)
c("usize-big", lambda: Z().add("a.npy", A, 8, usize=1 << 31).end(), say=["a.npy"])
c("csize-past-end", lambda: Z().add("a.npy", A, 8, csize=1 << 30).end(), say=["a.npy"])
c("stored-mismatch", lambda: Z().add("a.npy", usize=len(A) + 5).end(), say=["a.npy"])


c(
    "bomb-1g",
    lambda: Z().add("a.npy", b"", 8, raw=bomb(1 << 30), usize=1 << 30, crc=0).end(),
    kind="limit",
    say=["a.npy"],
    note="1 GiB of zeros in 1 MiB",
)
c(
    "bomb-lying",
    lambda: Z().add("a.npy", b"", 8, raw=bomb(1 << 30), usize=176, crc=0).end(),
    kind="limit",
    say=["a.npy"],
    note="declares 176 bytes, inflates to 1 GiB",
)


def shapebomb():
    h = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1125899906842624,), }"
    h += b" " * ((-(10 + len(h) + 1)) % 64) + b"\n"
    return Z().add("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h, 8).end()


c(
    "npz-shape-bomb",
    shapebomb,
    kind="limit",
    say=["a.npy"],
    note="member declares an 8 PiB array and stores only its header",
)


def overlap():
    z = Z()
    k = bomb(1 << 27)
    z.add("k0.npy", b"", 8, raw=k, usize=1 << 27, crc=0)
    for i in range(1, 40):
        z.cd.append(z.cd[0][:46].replace(struct.pack("<HH", 6, 0)[:2], struct.pack("<H", 6)) + b"k%d.npy" % (i % 10))
    return z.end()


c("overlap", overlap, kind="limit", note="forty directory entries over one compressed stream")
c(
    "count-short",
    lambda: Z().add("a.npy").add("b.npy").end(n=1),
    note="directory holds two entries, the end record says one",
)
c("count-long", lambda: Z().add("a.npy").end(n=5))
c("count-65535", lambda: Z().add("a.npy").end(n=65535))
c("cdoff", lambda: Z().add("a.npy").end(cdoff=1 << 30))
c("cdsize", lambda: Z().add("a.npy").end(cdsize=1 << 30))
c("disk", lambda: Z().add("a.npy").end(disk=3), kind="unsupported")
c("loc-off", lambda: Z().add("a.npy", off=0x7FFFFFFF).end(), say=["a.npy"])
c("loc-off-cd", lambda: Z().add("a.npy", off=len(A) + 35).end(), say=["a.npy"], note="offset points into the directory")
c(
    "two-eocd",
    lambda: Z().add("good.npy").end(comment=Z().add("evil.npy").end()),
    "either",
    "unsafe",
    [],
    "an end record inside the comment: two readers may see two archives",
)
c("trunc-cd", lambda: Z().add("a.npy").end()[:-30])
c("trunc-half", lambda: Z().add("a.npy").add("b.npy").end()[:200])
c("eocd-only", lambda: b"PK\x05\x06" + bytes(18), "either", "corrupt", note="an empty archive")
c("empty", lambda: b"")
c("not-zip", lambda: b"hello" * 20)
c("tail", lambda: Z().add("a.npy").end(tail=b"x" * 70000), note="70,000 bytes after the end record")
c(
    "zip64-lie",
    lambda: Z().add("a.npy", usize=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 1 << 40)).end(),
    kind="limit",
    say=["a.npy"],
)
c("zip64-missing", lambda: Z().add("a.npy", usize=0xFFFFFFFF, csize=0xFFFFFFFF).end(), say=["a.npy"])
c("extra-overrun", lambda: Z().add("a.npy", extra=struct.pack("<HH", 1, 60000)).end(), "either", say=["a.npy"])


def many(n):
    z = Z()
    for i in range(n):
        z.add("m%d" % i, b"")
    return z.end(n=n)


c("many", lambda: many(65000), "either", "limit", note="65,000 empty members")
c("nested", lambda: Z().add("a.npz", Z().add("a.npy").end()).end(), kind="unsupported", say=["a.npz"])
c("no-npy", lambda: Z().add("readme.txt", b"hi").end(), kind="unsupported", say=["readme.txt"])
c(
    "obj",
    lambda: Z()
    .add("a.npy", b"\x93NUMPY\x01\x00\x36\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n" + b"\x80\x04N.")
    .end(),
    kind="unsafe",
    say=["a.npy", "object"],
)
c("member-short", lambda: Z().add("a.npy", A[:-1]).end(), say=["a.npy"])
c("member-long", lambda: Z().add("a.npy", A + b"x").end(), say=["a.npy"])
# .keras
