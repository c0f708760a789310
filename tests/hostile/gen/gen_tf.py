"""Hostile and broken checkpoints of TensorFlow: PREFIX.index, PREFIX.data-00000-of-00001. Standard library only: they are made when
the suite runs. Every block and tensor gets a right checksum, unless the case is about that one."""

import os, struct
from common import case

MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
GRAPH = b"_CHECKPOINTABLE_OBJECT_GRAPH"
TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def crc(data, c=0):
    c ^= 0xFFFFFFFF
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def masked(c):
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(v):
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def num(field, v):
    return varint(field << 3) + varint(v)


def msg(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def fixed(field, v):
    return varint(field << 3 | 5) + struct.pack("<I", v)


def item(key, value, shared=0, n_key=None, n_value=None):
    return varint(shared) + varint(len(key) if n_key is None else n_key) + varint(len(value) if n_value is None else n_value) + key + value


HEADER = item(b"", num(1, 1))
DATA = struct.pack("<6f", *range(6))


def entry(dims=(2, 3), dtype=1, off=0, size=24, data=DATA, sum=None, shard=0, more=b""):
    shape = b"".join(msg(2, num(1, d)) for d in dims)
    return num(1, dtype) + msg(2, shape) + num(3, shard) + num(4, off) + num(5, size) + fixed(6, masked(crc(data)) if sum is None else sum) + more


def block(entries, kind=0, restarts=None, sum=None):
    b = entries + (struct.pack("<II", 0, 1) if restarts is None else restarts) + bytes([kind])
    return b + struct.pack("<I", masked(crc(b)) if sum is None else sum)


def table(*blocks, handles=None, footer=None, tail=b""):
    """handles: changes the list of (key, offset, size) of the data blocks."""
    out, at = b"", []
    for b in blocks:
        at.append((b"z", len(out), len(b) - 5))
        out += b
    meta = (len(out), 8)
    out += block(b"")
    named = block(b"".join(item(k, varint(o) + varint(n)) for k, o, n in (handles(at) if handles else at)))
    last = (len(out), len(named) - 5)
    out += named + tail
    f = b"".join(varint(x) for x in meta + last) if footer is None else footer
    return out + f.ljust(40, b"\0") + MAGIC


def c(cid, index, verdict="refuse", kind="corrupt", say=("w.index",), note="", data=DATA, others=()):
    @case("tf-" + cid, "w.index", verdict, kind, say, note)
    def _(p):
        open(p, "wb").write(index() if callable(index) else index)
        if data is not None:
            open(os.path.join(os.path.dirname(p), "w.data-00000-of-00001"), "wb").write(data() if callable(data) else data)


ONE = HEADER + item(b"w", entry())
GOOD = table(block(ONE))
c("ok", GOOD, "accept", "fine")
c("ok-two-blocks", table(block(ONE), block(item(b"x", entry()))), "accept", "fine")

# ---- the table
for n in (1, 8, 40, 47):
    c("index-%d-bytes" % n, GOOD[-n:], note="the end of an index")
c("index-cut", GOOD[:-60] + GOOD[-48:], note="twelve bytes before the footer are gone")
c("index-half", GOOD[: len(GOOD) // 2], note="its first half", say=())
c("footer-endless", table(block(ONE), footer=b"\xff" * 40), note="varints without end in the footer")
c("footer-far", table(block(ONE), footer=b"".join(varint(x) for x in (2**63, 8, 2**63, 8))), note="blocks beyond the file")
c("block-far", table(block(ONE), handles=lambda v: [(b"z", 2**40, 30)]), note="a block beyond the file")
c("block-long", table(block(ONE), handles=lambda v: [(b"z", 0, 2**62)]), note="a block longer than the file")
c("block-wraps", table(block(ONE), handles=lambda v: [(b"z", 2**64 - 4, 30)]), note="offset and length wrap around")
c("block-short", table(block(ONE), handles=lambda v: [(b"z", 0, 3)]), note="a block too short for its own end")
c("block-twice", table(block(ONE), handles=lambda v: v * 2), note="one block listed twice")
c("block-often", lambda: table(block(b"", restarts=bytes(60000) + struct.pack("<I", 15000)), handles=lambda v: v * 30000), note="a block without entries listed 30,000 times: hours of checksums")
c("block-crc", table(block(ONE, sum=1)), note="the checksum of a block is wrong")
c("block-restarts", table(block(ONE, restarts=struct.pack("<I", 2**31))), note="more restarts than bytes")
c("block-snappy", table(block(varint(2**31) + b"\xff\xff\xff\x7f" * 4, kind=1)), kind="unsupported", say=("snappy",), note="a snappy block that promises 2 GB")
c("block-kind", table(block(ONE, kind=7)), note="a compression that does not exist")
c("entry-endless", table(block(HEADER + b"\xff" * 40)), note="varints without end")
c("entry-key-long", table(block(HEADER + item(b"w", entry(), n_key=2**40))), note="a key longer than its block")
c("entry-value-long", table(block(HEADER + item(b"w", entry(), n_value=2**62))), note="a value longer than its block")
c("entry-shared", table(block(HEADER + item(b"w", entry(), shared=9))), note="more shared bytes than the key before has")
c("entry-order", table(block(HEADER + item(b"x", entry()) + item(b"w", entry()))), note="keys out of order")
c("entry-again", table(block(ONE + item(b"w", entry()))), note="one key twice")

# ---- the header
c("header-none", table(block(item(b"w", entry()))), note="no header", say=())
c("header-empty", table(block(item(b"", b"") + item(b"w", entry()))), note="no data files")
c("header-many", table(block(item(b"", num(1, 2**32 - 1)) + item(b"w", entry()))), kind="limit", note="four billion data files")
c("header-65536", table(block(item(b"", num(1, 65536)) + item(b"w", entry()))), note="65,536 data files, of which none is there")
c("header-order", table(block(item(b"", num(1, 1) + num(2, 1)) + item(b"w", entry()))), kind="unsupported", say=("big-endian",), note="big-endian")

# ---- entries
def one(*a, **k):
    more = k.pop("also", b"")
    return table(block(HEADER + item(k.pop("key", b"w"), entry(*a, **k)) + more))


c("size-less", one(size=20), note="fewer bytes than type and shape need")
c("size-more", one(size=2**60), note="more bytes")
c("offset-far", one(off=2**62), note="beyond the data file")
c("offset-wraps", one(off=2**64 - 8), note="offset and size wrap around")
c("shard-far", one(shard=7), note="in a data file that does not exist")
c("shape-wraps", one((2**32, 2**32), size=0), kind="limit", note="a product of 2^64")
c("shape-negative", one((2**64 - 1, 3)), note="-1 as an extent")
c("shape-deep", one((1,) * 100000, size=4), kind="limit", note="100,000 dimensions")
c("shape-huge", one((2**40, 1), size=2**42), note="4 TB in a file of 24 bytes")
c("type-unknown", one(dtype=99), kind="unsupported", note="a type that does not exist")
c("fields-again", one(more=num(1, 3) + num(4, 2**50)), note="type and offset twice: the last ones hold")
c("fields-again-shape", one(more=msg(2, msg(2, num(1, 2)))), note="two shapes are one of three dimensions")
c("fields-many", lambda: one(more=num(1, 1) * 200000), "either", "limit", note="one field 200,000 times")
c("field-long", one(more=varint(9 << 3 | 2) + varint(2**40)), note="a field longer than its message")
c("field-endless", one(more=b"\xff" * 12), note="a varint without end in an entry")
c("field-group", one(more=varint(9 << 3 | 3)), note="a group, which proto3 has not")
c("data-none", GOOD, say=("w.data-00000-of-00001",), note="no data file", data=None)
c("data-empty", GOOD, note="an empty data file", data=b"", say=("w.data-00000-of-00001",))
c("data-short", GOOD, note="a data file that lacks its last byte", data=DATA[:-1], say=("w.data-00000-of-00001",))
c("crc-data", GOOD, note="one bit of the data differs", data=bytes([1]) + DATA[1:], say=("checksum",))
for cid, name in (("dotdot", b"../../evil"), ("abs", b"/tmp/evil"), ("control", b"a\x1b[31m\nb"), ("long", b"n" * 70000), ("slash", b"////"), ("dot", b"."), ("utf8", b"\xff\xfe")):
    c("name-" + cid, one(key=name), "either", "names", note="a tensor of such a name")
c("name-zero", one(key=b"a\0b"), kind="names", note="a zero byte in a name")


# ---- pieces
def text(b):
    return b.replace(b"\xff", b"\xff\0") + b"\0\1"


def piece_key(name, *extents):
    return b"\0" + text(name) + bytes([1, len(extents)]) + b"".join(bytes([128 | s, 128 | n]) for s, n in extents)


def sliced(pieces, stored=None, dims=(6,)):
    slices = b"".join(msg(7, msg(1, (num(1, s) if s else b"") + num(2, n))) for s, n in pieces)
    stored = [(s, n, n) for s, n in pieces] if stored is None else stored
    parts = sorted((piece_key(b"w", (s, n)), entry((m,), off=4 * s, size=4 * m, data=DATA[4 * s : 4 * s + 4 * m])) for s, n, m in stored)
    whole = num(1, 1) + msg(2, b"".join(msg(2, num(1, d)) for d in dims)) + slices
    return table(block(HEADER + b"".join(item(k, v) for k, v in parts) + item(b"w", whole)))


c("pieces-ok", sliced([(0, 4), (4, 2)]), "accept", "fine")
c("pieces-gap", sliced([(0, 3), (4, 2)]), note="one element is in no piece")
c("pieces-overlap", sliced([(0, 4), (3, 3)]), note="one element is in two pieces")
c("pieces-one", sliced([(0, 4)]), note="four of six elements", say=("4 of 6",))
c("pieces-beyond", sliced([(0, 4), (4, 3)]), note="a piece beyond the shape")
c("pieces-lost", sliced([(0, 4), (4, 2)], [(0, 4, 4)]), note="a piece without an entry")
c("pieces-other", sliced([(0, 4), (4, 2)], [(0, 4, 4), (4, 2, 1)]), note="a piece of another shape")
c("pieces-many", lambda: sliced([(0, 1)] * 100000, [(0, 1, 1)]), note="100,000 times the same piece")


# ---- the graph of objects
def string(b, n=None, sum=None):
    head = varint(len(b) if n is None else n)
    return head + struct.pack("<I", masked(crc(struct.pack("<I", len(b) if n is None else n))) if sum is None else sum) + b


def graph(nodes, n=None, sum=None, bad_sum=0, names=(b"w",)):
    body = b"".join(msg(1, x) for x in nodes) if isinstance(nodes, list) else nodes
    s = string(body, n, sum)
    lens = struct.pack("<I", len(body) if n is None else n)
    whole = crc(body, crc(s[len(s) - len(body) - 4 : len(s) - len(body)], crc(lens)))
    e = num(1, 7) + msg(2, b"") + num(4, 24) + num(5, len(s)) + fixed(6, masked(whole) ^ bad_sum)
    rest = b"".join(item(x + b"/.ATTRIBUTES/VARIABLE_VALUE", entry()) for x in names)
    return table(block(HEADER + item(GRAPH, e) + rest)), DATA + s


def g(cid, make, *a, **k):
    made = []

    def both():
        if not made:
            made.append(make())
        return made[0]

    c("graph-" + cid, lambda: both()[0], *a, data=lambda: both()[1], **k)


def edge(to, name=b"w"):
    return msg(1, num(1, to) + msg(2, name))


def leaf(key=b"w", full=b"dense/kernel"):
    return msg(2, msg(1, b"VARIABLE_VALUE") + msg(2, full) + msg(3, key + b"/.ATTRIBUTES/VARIABLE_VALUE"))


g("ok", lambda: graph([edge(1), leaf()]), "accept", "fine")
g("cycle", lambda: graph([edge(1) + edge(0, b"me"), leaf() + edge(0, b"up") + edge(1, b"me")]), "accept", "fine", note="objects that lead to each other")
g("far", lambda: graph([edge(9), leaf()]), note="an edge to an object that is not there")
g("huge", lambda: graph([edge(2**63), leaf()]), note="an edge to object 2^63")
g("empty", lambda: graph([]), note="no objects")
g("noise", lambda: graph(b"\xff" * 50), note="no message at all")
g("length", lambda: graph([edge(1), leaf()], n=2**31), note="a string that promises 2 GB")
g("crc-length", lambda: graph([edge(1), leaf()], sum=7), note="the checksum of its length is wrong")
g("crc", lambda: graph([edge(1), leaf()], bad_sum=1), note="its checksum is wrong")
g("key-nowhere", lambda: graph([edge(1), leaf(b"../../evil")]), "either", "names", note="a variable under a key that is not there")
g("name-evil", lambda: graph([edge(1, b"../../evil"), leaf(full=b"/tmp/evil\x1b[31m")]), "either", "names", note="names that lead elsewhere")
g("chain", lambda: graph([edge(i + 1, b"a") for i in range(30000)] + [leaf()]), "either", "limit", note="30,000 objects, each in the next")
g("chain-long", lambda: graph([edge(i + 1, b"n" * 1000) for i in range(100)] + [leaf()]), kind="limit", note="a path of 100,000 bytes")
g("fan", lambda: graph([b"".join(edge(1, b"e%d" % i) for i in range(30000)), b"".join(edge(0, b"e%d" % i) for i in range(30000)) + leaf()]), "either", "limit", note="30,000 edges both ways")
g("slots", lambda: graph([edge(1) + msg(3, num(1, 1) + msg(2, b"m") + num(3, 77)), leaf()]), note="a slot that is not there")
g("slots-many", lambda: graph([edge(1) + msg(3, num(1, 1) + msg(2, b"m") + num(3, 1)) * 50000, leaf()]), "either", "limit", note="50,000 slots that are one")
g("field-again", lambda: graph([msg(1, num(1, 5) + num(1, 1) + msg(2, b"x") + msg(2, b"w")), leaf()]), "accept", "fine", note="number and name twice: the last ones hold")
