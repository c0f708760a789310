"""A raw writer of ZIP archives in which every field can lie. Standard library only."""

import struct, zlib


class Z:
    """one entry: dict(name, data, and any lie: method, crc, csize, usize, lname, lcsize, lusize, flags, off, extra, lextra, attr, raw)"""

    def __init__(s, prefix=b""):
        s.b = bytearray(prefix)
        s.cd = []
        s.base = 0

    def add(s, name, data=b"", method=0, **k):
        n = name if isinstance(name, bytes) else name.encode()
        raw = k.get("raw")
        if raw is None:
            if method == 8:
                c = zlib.compressobj(9, 8, -15)
                raw = c.compress(data) + c.flush()
            else:
                raw = data
        crc = k.get("crc", zlib.crc32(data))
        us = k.get("usize", len(data))
        cs = k.get("csize", len(raw))
        fl = k.get("flags", 0)
        off = len(s.b)
        ln = k.get("lname", n)
        le = k.get("lextra", b"")
        s.b += (
            struct.pack(
                "<IHHHHHIIIHH",
                0x04034B50,
                20,
                fl,
                method,
                0,
                0x21,
                k.get("lcrc", crc),
                k.get("lcsize", cs) & 0xFFFFFFFF,
                k.get("lusize", us) & 0xFFFFFFFF,
                len(ln),
                len(le),
            )
            + ln
            + le
            + raw
            + k.get("dd", b"")
        )
        ex = k.get("extra", b"")
        s.cd.append(
            struct.pack(
                "<IHHHHHHIIIHHHHHII",
                0x02014B50,
                k.get("made", 0x031E),
                k.get("need", 20),
                fl,
                method,
                0,
                0x21,
                crc,
                cs & 0xFFFFFFFF,
                us & 0xFFFFFFFF,
                len(n),
                len(ex),
                0,
                k.get("disk", 0),
                0,
                k.get("attr", 0o100644 << 16),
                k.get("off", off) & 0xFFFFFFFF,
            )
            + n
            + ex
        )
        return s

    def end(s, n=None, cdoff=None, cdsize=None, comment=b"", disk=0, tail=b""):
        o = len(s.b)
        c = b"".join(s.cd)
        m = len(s.cd) if n is None else n
        return (
            bytes(s.b)
            + c
            + struct.pack(
                "<IHHHHIIH",
                0x06054B50,
                disk,
                disk,
                m & 0xFFFF,
                m & 0xFFFF,
                len(c) if cdsize is None else cdsize,
                o if cdoff is None else cdoff,
                len(comment),
            )
            + comment
            + tail
        )


def bomb(n):
    k = zlib.compressobj(9, 8, -15)
    return b"".join(k.compress(bytes(1 << 24)) for _ in range(n >> 24)) + k.flush()
