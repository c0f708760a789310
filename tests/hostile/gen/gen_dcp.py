"""Hostile checkpoints of torch.distributed: .metadata with its .distcp beside it, files of ranks with DTensors, shards of DCP in safetensors. Stand-ins
for torch's classes are pickled under torch's names. Standard library only."""

import io, json, os, pickle, struct, sys, types
from common import case
from gen_pickle import g, i, pt, s, sd, tensor, tup

META, FILES = "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"


def stand_in(module, name):
    cls = type(name, (), {"__module__": module, "__init__": lambda self, **k: self.__dict__.update(k)})
    parts = module.split(".")
    for n in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:n]), types.ModuleType(".".join(parts[:n])))
    setattr(sys.modules[module], name, cls)
    return cls


class Raw:
    """Anything that a pickle calls with arguments."""
    def __init__(self, module, name, *args):
        if module not in sys.modules or not hasattr(sys.modules[module], name):
            stand_in(module, name)
        self.what, self.args = getattr(sys.modules[module], name), args

    def __reduce__(self):
        return self.what, self.args


Metadata, Tensor, Bytes = (stand_in(META, n) for n in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata"))
Properties, Chunk, Index = (stand_in(META, n) for n in ("TensorProperties", "ChunkStorageMetadata", "MetadataIndex"))
Info = stand_in(FILES, "_StorageInfo")


class DType:
    __module__ = "torch"

    def __reduce__(self):
        return "float32"


F32 = DType()
sys.modules["torch"].float32 = F32


def size(*dims):
    return Raw("torch", "Size", dims)


def whole(dims=(3, 4), chunks=None, name="a", file="__0_0.distcp", at=0, n=4, transforms=None, path=None):
    """One tensor of the given chunks: (offsets, sizes), each at its own place."""
    chunks = [((0,) * len(dims), dims)] if chunks is None else chunks
    t = Tensor(properties=Properties(dtype=F32), size=size(*dims), chunks=[Chunk(offsets=size(*o), sizes=size(*z)) for o, z in chunks])
    places = {Index(fqn=name, offset=size(*o)): Info(relative_path=file, offset=at, length=n, transform_descriptors=transforms) for o, _ in chunks}
    return Metadata(state_dict_metadata={name: t}, planner_data={name: path or (name,)}, storage_data=places)


def write(p, meta, data=bytes(4096), protocol=4):
    with open(p, "wb") as f:
        f.write(meta if isinstance(meta, bytes) else pickle.dumps(meta, protocol))
    with open(os.path.join(os.path.dirname(p), "__0_0.distcp"), "wb") as f:
        f.write(data)


def dcp(cid, kind="corrupt", say=(), note="", data=bytes(4096), **k):
    case("dcp-" + cid, ".metadata", "refuse", kind, say, note)(lambda p: write(p, whole(**k), data))


def core(cid, meta, say=(), verdict="refuse", kind="corrupt", config=b'{"sharded_backend": "torch_dist"}', common=b"", note=""):
    """Megatron-Core's: layers are stacked."""
    @case("dcp-layers-" + cid, ".metadata", verdict, kind, say, note)
    def _(p):
        write(p, meta)
        for name, data in (("metadata.json", config), ("common.pt", common)):
            with open(os.path.join(os.path.dirname(p), name), "wb") as f:
                f.write(data)


L = "decoder.layers.a"
core("without-elements", whole((2**40, 0), name=L), verdict="either", note="a tensor of 2^40 layers without an element")
core("chunk-of-two", whole((2, 4), name=L), verdict="either", note="a chunk of two layers")
core("gap", whole((3, 4), [((0, 0), (1, 4)), ((2, 0), (1, 4))], name=L), ["of its"])
core("item-no-zip", whole((1, 4), name=L, n=2000), verdict="either")
core("config-deep", whole((1, 4), name=L), verdict="either", config=b"[" * 60000)
core("config-long", whole((1, 4), name=L), verdict="either", config=b" " * 10**6)
core("common-no-zip", whole((1, 4), name=L), verdict="either", common=b"PK\3\4" + bytes(100))
core("common-call", whole((1, 4), name=L), verdict="either", common=pt(b"\x80\2}" + s("args") + g("os", "system") + s("touch /tmp/pg-pwned") + b"\x85Rs."),
     note="os.system in the place of the arguments: nothing runs")
dcp("file-above", "unsafe", ["../secret"], file="../secret/x.distcp")
dcp("file-absolute", "unsafe", [], file="/etc/hostname")
dcp("file-missing", say=["missing", "__9_0.distcp"], file="__9_0.distcp")
dcp("place-behind-end", say=["a", "truncated"], at=4000, n=200)
dcp("place-wraps", say=["a"], at=2**63 - 1, n=2**63 - 1)
dcp("place-negative", say=[".metadata"], at=-1)
dcp("gap", say=["a", "of its"], chunks=[((0, 0), (2, 4))])
dcp("overlap", say=["a", "overlap"], chunks=[((0, 0), (2, 4)), ((1, 0), (2, 4))])
dcp("outside", say=["a"], chunks=[((2, 0), (3, 4))])
dcp("outside-wraps", say=["a"], chunks=[((2**63 - 1, 0), (2**63 - 1, 4))])
dcp("shape-huge", "limit", ["a"], dims=(2**40, 2**40))
dcp("rank-200", say=["a"], dims=(1,) * 200)
dcp("path-deep", "limit", ["a"], path=("k",) * 5000)
dcp("item-no-zip", say=["a"], data=b"\xff" * 4096, n=2000)
dcp("item-extension", "unsupported", ["a", "extension"], transforms=["stream.rot13/1"], n=2000)
dcp("zstd-no-frame", say=["a", "zstandard"], transforms=["stream.zstd/1"], n=2000)
# raw frame: magic, single segment off with a window of 128 KiB, blocks of 128 KiB of one byte each
BOMB = b"\x28\xb5\x2f\xfd\x00\x38" + b"".join(struct.pack("<I", (131072 << 3) | 2)[:3] + b"\0" for _ in range(8192)) + struct.pack("<I", 1)[:3]
dcp("zstd-bomb", "limit", ["a", "zstandard"], transforms=["stream.zstd/1"], data=BOMB, n=len(BOMB), note="1 GiB for a tensor of 48 bytes")


@case("dcp-object-called", ".metadata", "refuse", "unsafe", [".metadata"], "os.system in the place of a dictionary: nothing runs")
def _(p):
    m = whole()
    m.state_dict_metadata = Raw("os", "system", "touch /tmp/pwned")
    write(p, m)


@case("dcp-cut", ".metadata", "refuse", "corrupt", [".metadata"])
def _(p):
    write(p, pickle.dumps(whole(), 4)[:-40])


@case("dcp-memo-high", ".metadata", "refuse", "limit", ["remembered"])
def _(p):
    text = pickle.dumps(whole(), 4)
    write(p, text[:-1] + b"r\xff\xff\xff\x7f.")


class Again:
    """A dictionary that has one entry n times."""
    def __init__(self, key, value, n):
        self.entries = [(key, value)] * n


class Pickler(pickle._Pickler):
    def save_again(self, again):
        self.write(b"}(")
        for key, value in again.entries:
            self.save(key)
            self.save(value)
        self.write(b"u")

    dispatch = {**pickle._Pickler.dispatch, Again: save_again}


@case("dcp-chunks-shared", ".metadata", "refuse", "limit", ["shared too often"], "one list of 2,000 chunks for 20,000 tensors")
def _(p):
    m = whole((2000,), [((k,), (1,)) for k in range(2000)])
    m.state_dict_metadata = Again("a", m.state_dict_metadata["a"], 20000)
    text = io.BytesIO()
    Pickler(text, 4).dump(m)
    write(p, text.getvalue())


@case("dcp-key-shared", ".metadata", "refuse", "limit", ["shared too often"], "one key of 1 MB that is on the path of 20,000 tensors 60 times")
def _(p):
    n = 20000
    m, path = whole(), ("k" * 1000000,) * 60
    t, index = m.state_dict_metadata["a"], list(m.storage_data.items())[0]
    m.state_dict_metadata = {"t%d" % k: t for k in range(n)}
    m.planner_data = {"t%d" % k: path for k in range(n)}
    m.storage_data = {Index(fqn="t%d" % k, offset=index[0].offset): index[1] for k in range(n)}
    write(p, m)


@case("dcp-tensor-in-itself", ".metadata", "refuse", "corrupt", [".metadata"])
def _(p):
    m = whole()
    m.state_dict_metadata["a"].chunks = m.state_dict_metadata
    write(p, m)


# ---- files of ranks ----


def obj(module, name, state):
    return g(module, name) + b")\x81" + state + b"b"


def dic(items):
    return b"}(" + b"".join(s(k) + v for k, v in items) + b"u"


def dtensor(dims=(6, 4), local=None, mesh=(2,), at=(0,), placements=None, rank=0, world=(0, 1)):
    shard = obj("torch.distributed.tensor.placement_types", "Shard", dic([("dim", i(0))]))
    axes = [obj("torch.distributed._mesh_layout", "_FlatLayout", dic([("shape", tup(i(n))), ("stride", tup(i(1)))])) for n in mesh]
    on = obj("torch.distributed.device_mesh", "DeviceMesh", dic([
        ("_layout", obj("torch.distributed._mesh_layout", "_MeshLayout", dic([("axes", tup(*axes))]))), ("_coordinate_on_dim", tup(*map(i, at))),
        ("_rank", i(rank)), ("_flatten_rank_map", tup(*map(i, world)))]))
    spec = obj("torch.distributed.tensor._dtensor_spec", "DTensorSpec", dic([("mesh", on), ("placements", tup(*(placements or [shard] * len(mesh))))]))
    cls = g("torch.distributed.tensor", "DTensor")
    return g("torch._tensor", "_rebuild_from_type_v2") + tup(
        g("torch._utils", "_rebuild_wrapper_subclass"), cls, tup(cls, g("torch", "float32"), tup(*map(i, dims)), tup(i(4), i(1))),
        tup(b"N", dic([("_local_tensor", local or tensor()), ("_spec", spec)]))) + b"R"


def shard_of(dim):
    return obj("torch.distributed.tensor.placement_types", "Shard", dic([("dim", i(dim))]))


def ranks(cid, kind="corrupt", say=(), note="", **k):
    def make(p):
        with open(p, "wb") as f:
            f.write(pt(sd([("a", dtensor(**k))])))
    case("rank-" + cid, "w_rank_0.pt", "refuse", kind, say, note)(make)


ranks("missing", say=["missing", "w_rank_1.pt"])
ranks("other", say=["rank 5"], rank=5)
ranks("world-huge", say=["a"], world=(2**62,))
ranks("mesh-huge", say=["a"], mesh=(2**62, 2**62), at=(0, 0))
ranks("mesh-outside", "unsupported", ["a"], at=(7,))
ranks("mesh-many", "unsupported", ["a"], mesh=(1,) * 40, at=(0,) * 40)
ranks("dim-outside", say=["a"], placements=[shard_of(9)])
ranks("dims-negative", say=["a"], dims=(-6, 4))
ranks("dims-huge", say=["a"], dims=(2**62, 2**62))
ranks("partial", "unsupported", ["a", "summed"], placements=[obj("torch.distributed.tensor.placement_types", "Partial", dic([("reduce_op", s("sum"))]))])
ranks("placement-called", "unsupported", ["a"], placements=[g("os", "system") + tup(s("touch /tmp/pwned")) + b"R"])
ranks("local-is-dtensor", say=["a"], local=dtensor())
ranks("local-other-shape", say=["a", "another shape"], local=tensor((2, 4), (4, 1)))


# ---- DCP in safetensors ----


def cut(cid, kind="corrupt", say=(), info=None, shape=(3, 4), note=""):
    def make(p):
        n = 48
        text = info if isinstance(info, str) else json.dumps({"a": {"saved_offsets": info}})
        h = json.dumps({"__metadata__": {"DCP_SHARDING_INFO": text}, "a": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, n]}}).encode()
        with open(p, "wb") as f:
            f.write(struct.pack("<Q", len(h)) + h + bytes(n))
    case("st-cut-" + cid, "shard-00001-model-00001-of-00001.safetensors", "refuse", kind, say, note)(make)


cut("begins-late", say=["a", "of its"], info=[3, 0])
cut("wraps", say=["a"], info=[2**63 - 1, 0])
cut("huge", "limit", ["a"], info=[2**62, 2**62])
cut("too-few", say=["a", "begins"], info=[0])
cut("negative", say=["a", "begins"], info=[-1, 0])
cut("no-json", say=["00001"], info="{")
cut("deep-json", "limit", ["00001"], info="[" * 100000)
cut("other-name", say=["a", "begins"], info='{"b": {"saved_offsets": [0, 0]}}')
