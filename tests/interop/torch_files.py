#!/usr/bin/env python3
"""Files that the real torch.save() writes, read by the tools.

usage: torch_files.py --tools DIR --testdata DIR [-v]
PG_TORCH_PYTHON (torch, numpy, safetensors) writes checkpoints of every type, order and manner that PyTorch has, and beside each
the same tensors as safetensors. Of each, pgdiff must say that they are identical, and pgconvert or pgunwrap must write what torch
finds equal to the original. NumPy's files are treated the same. Files that are no state_dicts must be refused, by name. Without
the environment nothing is tried.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, finish  # noqa: E402

WRITE = r'''
import collections, json, os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch, torch.nn as nn
from safetensors.torch import save_file
os.chdir(sys.argv[1])
torch.manual_seed(5)
cases, refused = [], []

def twin(name, tensors):
    save_file({k: v.detach().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}, name + ".safetensors")

def case(name, obj, tensors, prefix="", suffix=".pt", part=None, **kw):
    torch.save(obj, name + suffix, **kw)
    twin(name, tensors)
    cases.append([name + suffix, name + ".safetensors", prefix, part])

def refuse(name, obj, say):
    torch.save(obj, name + ".pt")
    refused.append([name + ".pt", say])

kinds = dict(f16=torch.float16, bf16=torch.bfloat16, f32=torch.float32, f64=torch.float64, i8=torch.int8, i16=torch.int16, i32=torch.int32, i64=torch.int64,
             u8=torch.uint8, b=torch.bool)
every = {k: (torch.randn(3, 5) * 50).to(t) if t.is_floating_point else torch.randint(0, 2 if t == torch.bool else 100, (3, 5)).to(t) for k, t in kinds.items()}
case("types", every, every)
if hasattr(torch, "uint16"):
    new = {"u16": torch.arange(6, dtype=torch.int32).to(torch.uint16).reshape(2, 3), "u32": torch.arange(6).to(torch.uint32), "u64": torch.arange(6).to(torch.uint64)}
    try:
        case("unsigned", new, new)
    except KeyError:  # torch 2.5 cannot save them
        pass

base = torch.randn(40, 60)
views = {"plain": base, "transposed": base.t(), "slice": base[3:17, 5:50], "steps": base[::3, ::7], "row": base[7], "column": base[:, 9], "scalar": base[2, 3],
         "expanded": base[:1].expand(9, 60), "empty": base[:0], "permuted": torch.randn(4, 5, 6, 7).permute(2, 0, 3, 1),
         "channels_last": torch.randn(8, 3, 5, 5).to(memory_format=torch.channels_last), "flip": base.flip(0), "diagonal": base.diagonal(),
         "half": torch.randn(64, 33).half().t(), "bytes": torch.arange(200, dtype=torch.uint8).reshape(10, 20).t(), "ones": torch.randn(1, 7, 1).transpose(0, 2),
         "unfolded": torch.arange(20.).unfold(0, 5, 2), "large": torch.randn(1500, 1100).t(), "doubles": torch.randn(900, 700, dtype=torch.float64).t()}
case("views", views, views)
case("views_old", views, views, _use_new_zipfile_serialization=False)
for protocol in (3, 4, 5):
    case("protocol%d" % protocol, collections.OrderedDict(every), every, pickle_protocol=protocol)

class Python2:
    """What Python 2 pickles: an OrderedDict as a call with a list of [key, value]."""
    def __init__(self, tensors):
        self.tensors = tensors

    def __reduce__(self):
        return collections.OrderedDict, ([[k, v] for k, v in self.tensors.items()],)

case("python2", Python2(every), every, pickle_protocol=2)
case("python2_old", {"state_dict": Python2(every), "epoch": 3}, every, _use_new_zipfile_serialization=False)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.emb = nn.Embedding(11, 6)
        self.out = nn.Linear(6, 11, bias=False)
        self.out.weight = self.emb.weight  # tied
        self.register_buffer("ids", torch.arange(16).expand(1, -1))

net = Net()
sd = net.state_dict()
case("net", sd, sd)
case("net_old", sd, sd, _use_new_zipfile_serialization=False)
case("parallel", nn.DataParallel(net).state_dict(), sd, "module.")
case("parallel_old", nn.DataParallel(net).state_dict(), sd, "module.", _use_new_zipfile_serialization=False)
case("compiled", torch.compile(net).state_dict(), sd, "_orig_mod.")
case("both", nn.DataParallel(torch.compile(net)).state_dict(), sd, "module._orig_mod.")
case("cast", net.to(torch.bfloat16).state_dict(), net.state_dict())
net = Net()
sd = net.state_dict()

for make in (torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.AdamW):
    kw = {"momentum": 0.9} if make is torch.optim.SGD else {}
    opt = make(net.parameters(), lr=1e-3, **kw)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [3, 5])
    loss = net.out(net.emb(torch.randint(0, 11, (4,)))).sum() + net.bn(net.conv(torch.randn(2, 3, 8, 8))).sum()
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
    sd = net.state_dict()
    key = {torch.optim.Adam: "state_dict", torch.optim.SGD: "model_state_dict", torch.optim.RMSprop: "model", torch.optim.Adagrad: "net",
           torch.optim.AdamW: "anything"}[make]
    case("checkpoint_" + make.__name__.lower(), {"epoch": 7, "name": "run 3", "best": 0.25, "done": False, "none": None, "opt": opt.state_dict(),
         "sched": sched.state_dict(), "rng": torch.get_rng_state() if key == "never" else [1, 2], "size": torch.Size([2, 3]), "device": torch.device("cpu"),
         "dtype": torch.float32, key: sd}, sd, suffix=".pth")
case("checkpoint_parallel", {"state_dict": nn.DataParallel(net).state_dict(), "optimizer": opt.state_dict()}, sd, "module.", suffix=".pth.tar")
gan = {"G": nn.Linear(3, 4).state_dict(), "D": nn.Linear(4, 1).state_dict(), "step": 9}
case("gan", gan, {k + "." + n: t for k in ("G", "D") for n, t in gan[k].items()}, part=".")
case("gan_part", gan, gan["D"], part="D")
case("one_tensor", base, {"tensor": base})
case("list", [base, base.t()], {"0": base, "1": base.t()})
params = {"w": nn.Parameter(torch.randn(3)), "f": nn.Parameter(torch.randn(2, 2), requires_grad=False)}
case("parameters", params, params)
tagged = nn.Parameter(torch.randn(4))
tagged.note = 3  # an attribute: rebuilt through _rebuild_parameter_with_state
case("tagged", {"w": tagged}, {"w": tagged})
class Sub(torch.Tensor):
    pass
odd = {"a b/c.d:0": torch.randn(2), "\u00fcber": torch.randn(2), "": torch.randn(2)}
case("names", odd, odd)
many = {"layer.%d.weight" % i: torch.full((3,), float(i)) for i in range(3000)}
case("many", many, many)
big = {"w": torch.randn(4000, 1500), "t": torch.randn(3000, 2500).t()}
case("big", big, big)

refuse("module", net, "__main__.Net")
refuse("subclass", {"w": torch.randn(3).as_subclass(Sub)}, "__main__.Sub")
refuse("sparse", {"w": torch.eye(3).to_sparse()}, "torch._utils._rebuild_sparse_tensor")
refuse("sparse_beside", {"a.weight": torch.eye(3).to_sparse(), "a.bias": torch.ones(3)}, "a.weight: contains")
refuse("meta_beside", {"a.weight": torch.ones(3), "b.weight": torch.empty(3, device="meta")}, "b.weight: contains the class torch._utils._rebuild_meta")
refuse("complex_array", {"a.weight": torch.ones(3), "b.weight": np.ones(3, np.complex64)}, "b.weight: NumPy's type c8")
refuse("long_array", {"a.weight": np.ones(3), "b.weight": np.ones(3, np.longdouble)}, "b.weight: NumPy's type f16")


class Device:  # pickled as a tensor on an XLA device is
    def __reduce_ex__(self, protocol):
        return torch._utils._rebuild_device_tensor_from_numpy, (np.ones(3, np.float32), torch.float32, "xla:0", False)


refuse("xla_beside", {"model": {"a.weight": torch.ones(3), "b.weight": Device()}, "epoch": 2}, "b.weight: contains the class torch._utils._rebuild_device")
refuse("uninitialised", {"a.weight": torch.ones(3), "b.weight": nn.parameter.UninitializedParameter()}, "b.weight: ")
refuse("empty", nn.ReLU().state_dict(), "no tensors")
refuse("quantised", {"w": torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)}, "torch._utils._rebuild_qtensor")
pairs = {"w": torch.randn(3, 4, dtype=torch.complex64), "t": torch.randn(5, 2, dtype=torch.complex128).t(), "s": torch.randn(9, dtype=torch.complex64)[1::3]}
case("complex", pairs, {k: torch.view_as_real(v) for k, v in pairs.items()})
case("numpy_scalar", {"state_dict": sd, "best": np.float64(0.5)}, sd)
case("function", {"state_dict": sd, "f": os.path.join}, sd)
case("numpy_arrays", {"model": {k: v.numpy() for k, v in sd.items()}}, sd)
refuse("negative", {"w": torch.view_as_complex(torch.randn(3, 2)).conj().imag}, "negated")
if hasattr(torch, "float8_e4m3fn"):
    small = {"w": torch.randn(3, 7).to(torch.float8_e4m3fn), "v": torch.randn(5).to(torch.float8_e5m2)}
    case("float8", small, small)
torch.jit.script(nn.Linear(2, 3)).save("script.pt")
refused.append(["script.pt", "TorchScript"])

rng = np.random.default_rng(3)
arrays = {"w/kernel": rng.standard_normal((5, 7)).astype("f4"), "f": np.asfortranarray(rng.standard_normal((3, 4, 5))), "i": np.arange(6, dtype="i2"),
          "s": np.array(3.5, "f4"), "z": np.zeros((0, 3), "f2"), "b": np.array([True, False]), "u": np.arange(4, dtype="u8"), "h": rng.standard_normal(9).astype("f2")}
def numpy_case(name, arrays, write):
    write(name)
    save_file({k: torch.from_numpy(np.array(v, order="C").astype("i8") if v.dtype == np.uint64 else np.array(v, order="C")) for k, v in arrays.items()}, name + ".safetensors")
    cases.append([name, name + ".safetensors", "", None])
no_u = {k: v for k, v in arrays.items() if k != "u"}
numpy_case("a.npz", no_u, lambda f: np.savez(f, **no_u))
numpy_case("c.npz", no_u, lambda f: np.savez_compressed(f, **no_u))
big_npz = {"m": np.asfortranarray(rng.standard_normal((2000, 1200))), "n": rng.standard_normal(100000).astype("f4")}
numpy_case("big.npz", big_npz, lambda f: np.savez_compressed(f, **big_npz))
for k in ("f", "s", "h"):
    numpy_case(k + ".npy", {k: arrays[k]}, lambda f: np.save(f, arrays[k]))
swapped = {k: v.astype(v.dtype.newbyteorder(">")) for k, v in no_u.items()}
np.savez("swapped.npz", **swapped)
cases.append(["swapped.npz", "a.npz.safetensors", "", None])
np.save("objects.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
refused.append(["objects.npy", "pickle"])
np.savez("objects.npz", a=np.arange(3), o=np.array([None], dtype=object))
refused.append(["objects.npz", "o.npy"])
print(json.dumps([cases, refused]))
'''

# What the tools took out of testdata/extra, by the plain module's own strict loader.
LOAD = r'''
import json, sys
import torch, torch.nn as nn
from safetensors.torch import load_file

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 2)

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Linear(3, 3)

class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), Inner())
        self.head = nn.Linear(3, 2)
        self.tied = nn.Linear(3, 2, bias=False)

bad = []
for kind, got, want in json.loads(sys.argv[1]):
    net = {"net": Net, "wrapped": Wrapped}[kind]()
    try:
        net.load_state_dict(load_file(got), strict=True)
    except RuntimeError as e:
        bad.append([got, str(e)[:300]])
        continue
    for k, v in load_file(want).items():
        if not torch.equal(net.state_dict()[k], v):
            bad.append([got, "%s differs" % k])
print(json.dumps(bad))
'''

# file, part, and what it must be
CHECKPOINTS = [("imagenet.pth.tar", None, "plain"), ("tutorial.pt", None, "plain"), ("lightning.ckpt", None, "lightning"), ("timm.pth.tar", "state_dict_ema", "ema"),
               ("detectron2.pth", None, "plain"), ("detectron2_zoo.pkl", None, "plain"), ("numpy_in_torch.pth", None, "plain"), ("numpy_old.pkl", None, "plain"),
               ("mmcv.pth", None, "plain"), ("mmengine.pth", None, "plain"), ("fairseq.pt", None, "plain"), ("stylegan2.pt", "g_ema", "ema"), ("torchvision.pth", None, "plain"),
               ("torchvision_ema.pth", "model_ema", "ema"), ("dino.pth", "student", "plain"), ("dino.pth", "teacher", "ema"), ("mae.pth", None, "plain"),
               ("nanogpt.pt", None, "plain"), ("whisper.pt", None, "plain"), ("rng_beside.pt", None, "plain"), ("pytorch_model.bin", None, "plain"),
               ("accelerate_pytorch_model.bin", None, "plain")]
WRAPPED = ["dp", "compiled_inside", "compiled_twice", "checkpointed", "dp_checkpointed_compiled", "forward", "forward_dp", "dp_module", "mixed", "averaged", "copies", "fsdp",
           "fsdp_inside"]

EQUAL = r'''
import json, sys
import torch, zlib
from safetensors import safe_open
from safetensors.torch import load_file
bad = []
for a, b in json.loads(sys.argv[1]):
    x, y = load_file(a), load_file(b)
    source = a[:-len(".out.safetensors")]
    with safe_open(a, "pt") as f:
        said = f.metadata()
    if said.get("format") != "pt" and ".np" not in source:  # without it transformers' from_pretrained() refuses a file
        bad.append([a, "metadata: %s" % said])
    if said["pg.source"] != source.split("/")[-1] or said["pg.crc32"] != "%08x" % zlib.crc32(open(source, "rb").read()):
        bad.append([a, "where it comes from: %s" % said])
    if sorted(x) != sorted(y):
        bad.append([a, "names differ"])
    for k in sorted(set(x) & set(y)):
        same = x[k].dtype == y[k].dtype and x[k].shape == y[k].shape
        if not same or x[k].contiguous().view(-1).view(torch.uint8).numpy().tobytes() != y[k].contiguous().view(-1).view(torch.uint8).numpy().tobytes():
            bad.append([a, "%s differs" % k])
print(json.dumps(bad))
'''


def python(exe, code, *args):
    q = subprocess.run([exe, "-c", code] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if q.returncode:
        raise RuntimeError(q.stderr[-3000:])
    return json.loads(q.stdout.split("\n")[-2] if q.stdout.endswith("\n") else q.stdout)


def load_strictly(box, testdata, work, bad):
    """What stands in testdata/extra, unwrapped or converted; [kind of module, output, twin]."""
    loads = []
    jobs = [("net", "checkpoints", f, part, twin) for f, part, twin in CHECKPOINTS] + [("wrapped", "wrapped", f + ".pt", None, "plain") for f in WRAPPED]
    for kind, folder, f, part, twin in jobs:
        path = os.path.join(testdata, "extra", folder, f)
        out = os.path.join(work, "%s.%s.%s.safetensors" % (folder, f, part))
        options = ["--part", part] if part else []
        found = json.loads(box.tool("pginfo", "--json", *options, path).out)
        r = box.tool("pgunwrap" if found["verdict"] == "wrapper" else "pgconvert", *options, path, out)
        if r.rc != 0:
            bad.append((f, r.show()))
        else:
            loads.append([kind, out, os.path.join(testdata, "extra", folder, twin + ".safetensors")])
    return loads


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    exe = os.environ.get("PG_TORCH_PYTHON")
    if not exe or not shutil.which(exe):
        return finish("torch files", [], 0, ["no environment for torch (PG_TORCH_PYTHON)"])
    box, bad = Box(a.tools, None, a.testdata), []
    work = tempfile.mkdtemp(prefix="pgtorch")
    try:
        cases, refused = python(exe, WRITE, work)
        written = []
        for name, twin, prefix, part in cases:
            part = ["--part", part] if part else []
            path, twin = os.path.join(work, name), os.path.join(work, twin)
            r = box.tool("pgdiff", *part, path, twin)
            if r.rc != 0 or not r.out.startswith("identical"):
                bad.append((name, r.show()))
            if bool(prefix) != r.out.startswith("identical through the wrapper"):
                bad.append((name, "prefix %r: %s" % (prefix, r.out)))
            out = path + ".out.safetensors"
            r = box.tool("pgunwrap", path, out) if prefix else box.tool("pgconvert", *part, path, out)
            if r.rc != 0:
                bad.append((name, r.show()))
            else:
                written.append([out, twin])
            r = box.tool("pginfo", *part, "--json", path)
            found = json.loads(r.out)["template"] if r.rc == 0 else r.show()
            if (found or "") != prefix:
                bad.append((name, "prefix %r, expected %r" % (found, prefix)))
        for name, say in refused:
            for tool in (["pginfo"], ["pgconvert"]):
                out = [os.path.join(work, "refused.safetensors")] if tool[0] == "pgconvert" else []
                r = box.tool(*tool, os.path.join(work, name), *out)
                if r.rc != 3 or say not in r.err or len(r.heads) != 1:
                    bad.append((name, r.show()))
        for name, why in python(exe, EQUAL, json.dumps(written)):
            bad.append((os.path.basename(name), why))
        loads = load_strictly(box, a.testdata, work, bad)
        for name, why in python(exe, LOAD, json.dumps(loads)):
            bad.append((os.path.basename(name), why))
        return finish("torch files", bad, len(cases) + len(refused) + len(loads))
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
