"""Hostile and broken checkpoints of JAX: msgpack of Flax (w.msgpack), folders of Orbax (w.orbax). Standard library only: they are made
when the suite runs. Every node of a database gets a right checksum, unless the case is about that one."""

import json, os, struct
from common import case

# ---- msgpack of Flax ----


def head(small, codes, n, most):
    """A length in the shortest of its forms."""
    if small is not None and n < most:
        return bytes([small | n])
    for code, size in codes:
        if n < 1 << 8 * size:
            return bytes([code]) + n.to_bytes(size, "big")
    return bytes([codes[-1][0]]) + b"\xff" * codes[-1][1]


def text(s):
    b = s.encode() if isinstance(s, str) else s
    return head(0xA0, ((0xD9, 1), (0xDA, 2), (0xDB, 4)), len(b), 32) + b


def fmap(*pairs, n=None):
    return head(0x80, ((0xDE, 2), (0xDF, 4)), len(pairs) if n is None else n, 16) + b"".join(text(k) + v for k, v in pairs)


def raw(b, n=None):
    return head(None, ((0xC4, 1), (0xC5, 2), (0xC6, 4)), len(b) if n is None else n, 0) + b


def uint(n):
    return bytes([n]) if n < 128 else b"\xcf" + struct.pack(">Q", n)


def array(dims=(2, 3), name="float32", data=struct.pack("<6f", *range(6)), n=None, size=None, kind=1, rank=None):
    b = b"\x93" + head(0x90, ((0xDC, 2), (0xDD, 4)), len(dims) if rank is None else rank, 16) + b"".join(map(uint, dims)) + text(name) + raw(data, n)
    return head(None, ((0xC7, 1), (0xC8, 2), (0xC9, 4)), len(b) if size is None else size, 0) + bytes([kind]) + b


def chunked(shape=((0, 4),), chunks=(2, 2), keys=None, more=()):
    part = [(str(i) if keys is None else keys[i], array((n,), data=bytes(4 * n))) for i, n in enumerate(chunks)]
    return fmap(("__msgpack_chunked_array__", b"\xc3"), ("shape", fmap(*((str(k), uint(v)) for k, v in shape))), ("chunks", fmap(*part)), *more)


def flax(cid, data, verdict="refuse", kind="corrupt", say=("w.msgpack",), note=""):
    @case("flax-" + cid, "w.msgpack", verdict, kind, say, note)
    def _(p):
        open(p, "wb").write(data() if callable(data) else data)


W = ("w", array())
GOOD = fmap(("params", fmap(("b", array()), W)))
flax("ok", GOOD, "accept", "fine")
flax("ok-chunks", fmap(("a", array()), ("w", chunked())), "accept", "fine")
flax("ok-numbers", fmap(("a", b"\x81\x00" + array()), W), "accept", "fine")
for n in (1, 8, 20, len(GOOD) // 2, len(GOOD) - 1):
    flax("cut-%d" % n, GOOD[:n], note="its first %d bytes" % n)
flax("more", GOOD + b"\xc0", note="a value after the end")
flax("map-long", fmap(W, n=2**31), note="a map of 2^31 members")
flax("list-long", fmap(W, ("l", b"\xdd\xff\xff\xff\xff")), note="a list of 2^32 members")
flax("text-long", fmap(W, ("t", b"\xdb\xff\xff\xff\xff")), note="a text of 2^32 bytes")
flax("key-long", fmap(W).replace(b"\x81", b"\x82", 1) + b"\xdb\x7f\xff\xff\xff", note="a key of 2^31 bytes")
flax("key-list", fmap(W).replace(b"\x81", b"\x82", 1) + b"\x90\xc0", note="a key that is a list")
flax("key-zero", fmap(W, ("a\0b", array())), note="a zero byte in a key")
flax("key-dots", fmap(W, ("../../etc", array())), "either", "names", note="a name that leads out of a folder")
flax("deep", fmap(W, ("d", b"\x81\xa1d" * 5000 + b"\xc0")), kind="limit", note="5,000 maps inside maps")
flax("deep-lists", fmap(W, ("d", b"\x91" * 100000 + b"\xc0")), kind="limit", note="100,000 lists inside lists")
flax("code", fmap(W, ("c", b"\xc1")), note="a byte that begins no value")
flax("array-size", fmap(("w", array(size=2**31))), note="an extension longer than the file")
flax("array-bytes", fmap(("w", array(n=2**31))), note="bytes beyond the extension")
flax("array-short", fmap(("w", array(data=bytes(20)))), note="a shape that needs more bytes")
flax("array-huge", fmap(("w", array((2**62, 2**62)))), kind="limit", note="a shape whose size wraps")
flax("array-wraps", fmap(("w", array((2**32, 2**32), data=b""))), kind="limit", note="a shape whose size wraps to 0")
flax("array-rank", fmap(("w", array((1,) * 200, data=bytes(4)))), kind="limit", note="200 dimensions")
flax("array-rank-long", fmap(("w", array(rank=2**31))), note="2^31 dimensions")
flax("array-type", fmap(("w", array(name="object"))), kind="unsupported", note="objects of Python")
flax("array-type-long", fmap(("w", array(name="f" * 300))), note="a type of 300 letters")
flax("copies-of-nothing", fmap(("a", array((2**40, 0), data=b"")), ("b", array((2**40, 0), data=b""))), "accept", "limit", note="2^40 copies of no elements")
flax("names", lambda: fmap(W, ("k" * 65000, b"\xdf" + struct.pack(">I", 9000) + b"".join(b"\xcd" + struct.pack(">H", i) + array() for i in range(9000)))), kind="limit", note="9,000 names of 65,000 bytes in 500 kB")
flax("chunk-order", fmap(("a", array()), ("w", chunked(keys=("1", "0")))), note="parts in another order")
flax("chunk-twice", fmap(("a", array()), ("w", chunked(keys=("0", "0")))), note="one part twice")
flax("chunk-missing", fmap(("a", array()), ("w", chunked(chunks=(2,)))), note="a part is missing")
flax("chunk-over", fmap(("a", array()), ("w", chunked(chunks=(2, 3)))), note="parts hold more than the shape")
flax("chunk-shape", fmap(("a", array()), ("w", chunked(shape=((0, 2**40), (1, 2**40))))), kind="limit", note="a shape whose size wraps")
flax("chunk-keys", fmap(("a", array()), ("w", chunked(more=(("x", b"\xc0"),)))), note="a fourth key")

# ---- Orbax ----

TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def crc(data):
    c = 0xFFFFFFFF
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def tree(*names, **more):
    leaf = {"value_type": "jax.Array", "skip_deserialize": False}
    return json.dumps({"tree_metadata": {str(n): {"key_metadata": [{"key": n}], "value_metadata": leaf} for n in names}, **more}).encode()


def zarr2(**change):
    return json.dumps({"zarr_format": 2, "dtype": "<f4", "shape": [2, 3], "chunks": [2, 3], "order": "C", "compressor": None, "filters": None,
                       "fill_value": None, **change}).encode()


def zarr3(shape=(2, 3), shard=(2, 3), chunk=None, **change):
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if chunk is not None:
        codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": chunk, "codecs": codecs, "index_codecs": codecs + [{"name": "crc32c"}]}}]
    return json.dumps({"zarr_format": 3, "node_type": "array", "data_type": "float32", "shape": shape, "fill_value": 0, "codecs": codecs,
                       "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}}, "chunk_key_encoding": {"name": "default"}, **change}).encode()


def index(*entries, sum=None):
    b = b"".join(struct.pack("<QQ", *e) for e in entries)
    return b + struct.pack("<I", crc(b) if sum is None else sum)


def orbax(cid, files, verdict="refuse", kind="corrupt", say=("w.orbax",), note="", metadata=tree("w")):
    @case("orbax-" + cid, "w.orbax", verdict, kind, say, note)
    def _(p):
        for name, data in {"_METADATA": metadata, **(files() if callable(files) else files)}.items():
            if data is not None:
                os.makedirs(os.path.dirname(os.path.join(p, name)), exist_ok=True)
                open(os.path.join(p, name), "wb").write(data)


V, ZSTD = bytes(24), {"id": "zstd", "level": 1}
NO_INDEX = struct.pack("<I", 0)


def two(meta, value=V):
    return {"w/.zarray": meta, "w/0.0": value}


def three(meta, value=V):
    return {"w/zarr.json": meta, "w/c/0/0": value}


def rle(n, byte=0, last=1):
    """A frame of Zstandard: blocks of one repeated byte."""
    out = bytes.fromhex("28b52ffd0050")
    while n > 0:
        k = min(n, 131072)
        out += struct.pack("<I", k << 3 | 2 | (last if k == n else 0))[:3] + bytes([byte])
        n -= k
    return out


orbax("ok-2", two(zarr2()), "accept", "fine")
orbax("ok-3", three(zarr3()), "accept", "fine")
orbax("ok-shard", three(zarr3(chunk=[1, 3]), V + index((0, 12), (12, 12))), "accept", "fine")
orbax("ok-zstd", two(zarr2(compressor=ZSTD), rle(24)), "accept", "fine")
orbax("ok-missing", two(zarr2(), None), "accept", "fine")
orbax("tree-text", {}, metadata=b'{"tree_metadata": {"w": {"key_metadata": "w"}}}', note="keys that are no list")
orbax("tree-number", {}, metadata=b'{"tree_metadata": {"w": {"key_metadata": [{"key": 1.5}]}}}', note="a key that is neither text nor whole")
orbax("tree-name", {}, metadata=b'{"tree_metadata": {"w": {"key_metadata": []}}}', note="a leaf without a name")
orbax("tree-cut", {}, metadata=tree("w")[:50], note="half of its JSON")
orbax("tree-dots", {"../out/.zarray": zarr2()}, metadata=tree("../out"), kind="unsafe", note="an array outside of the folder")
orbax("tree-absolute", {}, metadata=tree("/etc"), note="an array outside of the folder")
orbax("array-missing", {}, note="the tree lists an array that is not there")
orbax("array-json", two(b"{" * 5000), note="JSON that is none")
orbax("array-type", two(zarr2(dtype="|O")), kind="unsupported", note="objects of Python")
orbax("array-order", two(zarr2(order="F")), kind="unsupported", note="Fortran's order")
orbax("array-filters", two(zarr2(filters=[{"id": "delta"}])), kind="unsupported", note="filters")
orbax("array-blosc", two(zarr2(compressor={"id": "blosc"})), kind="unsupported", note="another compression")
orbax("array-negative", two(zarr2(shape=[-2, 3])), note="a negative length")
orbax("array-rank", two(zarr2(chunks=[2])), note="chunks of another rank")
orbax("array-ranks", two(zarr2(shape=[1] * 100, chunks=[1] * 100)), kind="limit", note="100 dimensions")
orbax("array-huge", two(zarr2(shape=[2**40, 2**40], chunks=[2**40, 2**40])), kind="limit", note="a shape whose size wraps")
orbax("grid-empty", two(zarr2(chunks=[2, 0])), note="chunks without elements")
orbax("grid-many", lambda: {f"{x}/.zarray": zarr2(shape=[200], chunks=[1]) for x in range(100)}, "accept", "limit", metadata=tree(*range(100)),
      note="20,000 chunks, none of which is there")
orbax("grid-more", two(zarr2(shape=[2**40], chunks=[1])), kind="limit", note="2^40 chunks")
orbax("shard-empty", three(zarr3((1,), (0,), [1])), note="a shard without elements: division by zero")
orbax("shard-chunk-empty", three(zarr3((1,), (1,), [0])), note="chunks without elements")
orbax("shard-odd", three(zarr3(chunk=[2, 2])), note="chunks that do not divide a shard")
orbax("shard-wraps", three(zarr3((2, 2), (2**32, 2**32), [1, 1]), NO_INDEX), kind="limit", note="2^64 chunks in a value: an index of no bytes")
orbax("data-shard-many", {"w/zarr.json": zarr3((2,), (1000000,), [1]), "w/c/0": NO_INDEX}, kind="limit", note="a million chunks in a value of 4 bytes")
orbax("data-shard-short", three(zarr3(chunk=[1, 3]), V), note="a value too short for its index")
orbax("data-shard-crc", three(zarr3(chunk=[1, 3]), V + index((0, 12), (12, 12), sum=1)), note="the checksum of an index is wrong")
orbax("data-shard-far", three(zarr3(chunk=[1, 3]), V + index((0, 12), (2**63, 12))), note="a chunk beyond its value")
orbax("data-shard-long", three(zarr3(chunk=[1, 3]), V + index((0, 12), (12, 2**64 - 4))), note="offset and length wrap around")
orbax("data-empty", two(zarr2(), b""), note="a chunk that is there and has no bytes")
orbax("data-empty-zstd", two(zarr2(compressor=ZSTD), b""), note="a chunk that is there and has no bytes")
orbax("data-short", two(zarr2(), V[1:]), note="a byte less than the shape needs")
orbax("data-long", two(zarr2(), V + V), note="twice the bytes")
orbax("data-fill", two(zarr2(fill_value=1.5), None), note="a chunk that is missing, and what fills it is not zero")
orbax("data-not-filled", two(zarr2(), None), metadata=tree("w", store_array_data_equal_to_fill_value=True), note="a chunk that is missing and may not be")
orbax("data-zstd", two(zarr2(compressor=ZSTD), b"\xff" * 24), note="no frame of Zstandard")
orbax("data-zstd-less", two(zarr2(compressor=ZSTD), rle(23)), note="a byte less than the shape needs")
orbax("data-zstd-more", two(zarr2(compressor=ZSTD), rle(25)), note="a byte more than the shape needs")
orbax("data-zstd-bomb", two(zarr2(compressor=ZSTD), rle(2**30)), note="a gigabyte in 32 kB")
orbax("data-zstd-cut", two(zarr2(compressor=ZSTD), rle(24, last=0)), note="a frame without its last block")
orbax("data-zstd-window", two(zarr2(compressor=ZSTD), bytes.fromhex("28b52ffd00f8") + rle(24)[6:]), note="a window of 2 TB")

# ---- OCDBT ----


def num(*values):
    out = b""
    for v in values:
        while v > 127:
            out += bytes([v & 127 | 128])
            v >>= 7
        out += bytes([v])
    return out


def frame(magic, body, n=None, sum=None, head=b"\0\0"):
    b = magic + struct.pack("<Q", (len(body) + 18) if n is None else n) + head + body
    return b + struct.pack("<I", crc(b) if sum is None else sum)


def node(body, **k):
    return frame(b"\x0c\xdb\x20\xde", body, **k)


FILES = num(1, 1, 0) + b"d"  # a list of the one file "d"


def manifest(off, n, height, files=FILES, config=bytes(21), more=b"", **k):
    return frame(b"\x0c\xdb\x3a\x2a", config + files + num(1, 1, height, 0, off, n) + more, **k)


def leaf(*pairs, height=0, files=num(0), prefix=None, sizes=None):
    n = len(pairs)
    return (num(height) + files + num(n) + num(*(prefix or [0] * (n - 1))) + num(*(len(k) for k, _ in pairs)) + b"".join(k for k, _ in pairs) +
            num(*(sizes or [len(v) for _, v in pairs])) + num(*[0] * n) + b"".join(v for _, v in pairs))


def far(key, file, off, size):
    return num(0) + FILES + num(1, len(key)) + key + num(size, 1, file, off)


def inner(height, keys, off, size, shared=1, file=0):
    n = len(keys)
    return (num(height) + FILES + num(n) + num(*[0] * (n - 1)) + num(*[1] * n) + num(*[shared] * n) + keys +
            num(*[file] * n) + num(*[off] * n) + num(*[size] * n))


def database(*nodes, height=None, last=None, data=b"", **k):
    """The last node is the root."""
    at = len(data)
    for x in nodes[:-1]:
        at += len(x)
    return {"d": data + b"".join(nodes), "manifest.ocdbt": manifest(at, len(nodes[-1]) if last is None else last, len(nodes) - 1 if height is None else height, **k)}


PAIRS = (b"w/.zarray", zarr2()), (b"w/0.0", V)
ROOT = node(leaf(*PAIRS))
orbax("ocdbt-ok", database(ROOT), "accept", "fine")
orbax("ocdbt-no-file", {"manifest.ocdbt": database(ROOT)["manifest.ocdbt"]}, note="its data file is not there")
orbax("ocdbt-crc", database(node(leaf(*PAIRS), sum=1)), note="the checksum of a node is wrong")
orbax("ocdbt-length", database(node(leaf(*PAIRS), n=2**60)), note="a node of another length than it says")
orbax("ocdbt-version", database(node(leaf(*PAIRS), head=b"\1\0")), kind="unsupported", note="a later version")
orbax("ocdbt-endless", database(node(leaf(*PAIRS), head=b"\xff" * 20)), note="varints without end")
orbax("ocdbt-manifest-cut", {**database(ROOT), "manifest.ocdbt": database(ROOT)["manifest.ocdbt"][:40]}, note="half of a manifest")
orbax("ocdbt-manifest-empty", {**database(ROOT), "manifest.ocdbt": b""}, note="a manifest of no bytes")
orbax("ocdbt-numbered", database(ROOT, config=bytes(16) + b"\1" + bytes(4)), kind="unsupported", note="numbered manifests")
orbax("ocdbt-root-far", database(ROOT, last=2**40), note="a root beyond its file")
orbax("ocdbt-root-wraps", database(ROOT, last=2**64 - 1), note="offset and length wrap around")
orbax("ocdbt-height", database(ROOT, height=3), note="a root of another height")
orbax("ocdbt-height-huge", database(ROOT, height=200), note="200 levels")
orbax("ocdbt-self", lambda: database(node(inner(1, b"ab", 0, 60))), note="a node that is its own child")
orbax("ocdbt-file", database(ROOT, files=num(1, 8, 0) + b"../../xx"), kind="unsafe", note="a file outside of the folder")
orbax("ocdbt-files", database(ROOT, files=num(2**40)), note="2^40 files")
orbax("ocdbt-files-none", database(ROOT, files=num(0)), note="a root in a file that is not listed")
orbax("ocdbt-file-bomb", lambda: database(node(leaf(*PAIRS, files=num(20001) + num(*[60000] * 20000) + num(60000, *[1] * 20000) + num(*[0] * 20001) + b"p" * 60000 + b"q" * 20000))),
      kind="limit", note="20,000 paths of 60,000 bytes in 200 kB")
orbax("ocdbt-keys-many", database(node(num(0, 0, 2**40))), note="2^40 keys")
orbax("ocdbt-key-long", database(node(num(0, 0, 1, 2**40))), note="a key of 2^40 bytes")
orbax("ocdbt-key-order", database(node(leaf(*PAIRS[::-1]))), note="keys that do not rise")
orbax("ocdbt-key-twice", database(node(leaf(PAIRS[0], PAIRS[0]))), note="one key twice")
orbax("ocdbt-key-wraps", database(node(leaf(*PAIRS, prefix=[2**64 - 1]))), note="a key that keeps 2^64 bytes of the one before")
orbax("ocdbt-key-bomb", lambda: database(node(leaf((b"k" * 60000, b""), *((struct.pack(">H", i).replace(b"\0", b"\1"), b"") for i in range(257, 9000) if i & 255), prefix=[60000] * (8743 - 34)))),
      kind="limit", note="thousands of keys of 60,000 bytes")
orbax("ocdbt-value-far", database(node(far(b"w/.zarray", 0, 2**40, 100))), note="a value beyond its file")
orbax("ocdbt-value-wraps", database(node(far(b"w/.zarray", 0, 2**64 - 4, 100))), note="offset and length wrap around")
orbax("ocdbt-value-file", database(node(far(b"w/.zarray", 7, 0, 4))), note="a value in a file that is not listed")
orbax("ocdbt-value-long", database(node(leaf(*PAIRS, sizes=[2**40, 24]))), note="a value beyond its node")
orbax("ocdbt-child-file", database(ROOT, node(inner(1, b"a", 0, len(ROOT), file=3))), note="a child in a file that is not listed")
orbax("ocdbt-child-far", database(ROOT, node(inner(1, b"a", 2**62, 2**62))), note="a child beyond its file")
orbax("ocdbt-child-twice", database(ROOT, node(inner(1, b"ab", 0, len(ROOT), shared=0))), note="one child twice: the same keys")
orbax("ocdbt-child-shared", database(ROOT, node(inner(1, b"a", 0, len(ROOT), shared=9))), note="a child that shares more than its key")


def ladder():
    """Each node refers to the one below it sixteen times: 16^8 leaves."""
    nodes, at = [node(leaf((b"k" * 100, b"")))], 0
    for height in range(1, 9):
        nodes.append(node(inner(height, b"abcdefghijklmnop", at, len(nodes[-1]))))
        at += len(nodes[-2])
    return database(*nodes)


orbax("ocdbt-ladder", ladder, kind="limit", note="4 billion leaves in 2 kB")
