#!/usr/bin/env python3
"""Checkpoints of ZeRO that DeepSpeed writes now, put together by the tools.

usage: deepspeed.py --tools DIR [--keep FOLDER] [-v]
PG_DEEPSPEED_PYTHON (DeepSpeed, PyTorch) trains small models on 2, 3 and 4 processes in every stage: in float32, float16 and bfloat16, with
groups, padding, small subgroups, frozen parameters, parameters that the optimizer was not given, tied names, empty parameters, experts,
tensor parallelism, a pipeline; and makes universal checkpoints of them. pgjoin must write what zero_to_fp32.py writes, bit for bit; where
that refuses or loses something, what the processes held. --keep leaves the folders, for testdata/extra/zero.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, finish  # noqa: E402

COMMON = r'''
import os, sys, warnings
warnings.simplefilter("ignore")
os.environ.update(DS_ACCELERATOR="cpu", DS_BUILD_OPS="0", CUDA_VISIBLE_DEVICES="")
import torch, torch.nn as nn
'''

WRITE = COMMON + r'''
import torch.distributed as dist, deepspeed
from deepspeed.utils import logger
from safetensors.torch import save_file
logger.setLevel("ERROR")
os.chdir(sys.argv[1])
deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True # only Intel's say so; others are slower, not wrong
deepspeed.init_distributed("gloo")
R, W = dist.get_rank(), dist.get_world_size()
LOCAL = "deepspeed_moe.experts.deepspeed_experts."

class Net(nn.Module):
    def __init__(s, opt, v=13, d=5, h=7):
        super().__init__()
        s.emb = nn.Embedding(v, d)
        s.layers = nn.ModuleList(nn.ModuleDict({"up": nn.Linear(d, h), "down": nn.Linear(h, d)}) for _ in range(1 if "small" in opt else 2))
        s.head = nn.Linear(d, v, bias=False)
        if "small" not in opt: # with it: exactly 8 parameters if head is tied
            s.norm = nn.LayerNorm(d)
            s.lone = nn.Parameter(torch.randn(7, 3))
            s.register_buffer("freqs", torch.randn(5))
            s.register_buffer("count", torch.tensor([3, 4]))
        else:
            s.more = nn.Linear(d, d)
        s.g = nn.Parameter(torch.randn(1))
        if "none" in opt: s.none = nn.Parameter(torch.zeros(0, 3), requires_grad="frozen" not in opt)
        if "tied" in opt: s.head.weight = s.emb.weight
        if "moe" in opt:
            from deepspeed.moe.layer import MoE
            s.moe = MoE(d, nn.Sequential(nn.Linear(d, 3), nn.ReLU(), nn.Linear(3, d)), num_experts=opt["moe"][0], ep_size=opt["moe"][1], k=1, min_capacity=0)
    def forward(s, x):
        x = s.emb(x).mean(1)
        for l in s.layers: x = x + l["down"](torch.relu(l["up"](x)))
        if hasattr(s, "moe"): x = x + s.moe(x)[0]
        if hasattr(s, "more"): return s.head(s.more(x)) * s.g
        return s.head(s.norm(x)) * s.g + s.lone.sum()

class Block(nn.Module):
    def __init__(s, d, h):
        super().__init__()
        s.norm, s.qkv, s.o_proj, s.up_proj, s.down_proj = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, h), nn.Linear(h, d)
    def forward(s, x):
        q, k, v = s.qkv(s.norm(x)).chunk(3, -1)
        x = x + s.o_proj(q * k + v)
        return x + s.down_proj(torch.relu(s.up_proj(x)))

class Sliced(nn.Module):
    def __init__(s, d=4, h=6):
        super().__init__()
        s.embed, s.layers, s.lm_head = nn.Embedding(13, d), nn.ModuleList(Block(d, h) for _ in range(2)), nn.Linear(d, 13, bias=False)
        s.register_buffer("freqs", torch.randn(5))
    def forward(s, x):
        x = s.embed(x).mean(1)
        for l in s.layers: x = l(x)
        return s.lm_head(x)

ADAM = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}, "zero_allow_untested_optimizer": True}

def config(opt):
    zero = {"stage": opt["stage"], "stage3_param_persistence_threshold": 0}
    if "offload" in opt: zero["offload_optimizer"] = {"device": "cpu"}
    if "sub" in opt: zero["sub_group_size"] = opt["sub"]
    cfg = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": zero, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    if opt["kind"] != "fp32": cfg[opt["kind"]] = {"enabled": True}
    if opt["kind"] == "fp16": cfg["fp16"]["initial_scale_power"] = 4 # else it skips the few steps
    return cfg

def train(eng, seed):
    for i in range(2):
        torch.manual_seed(seed + i)
        eng.backward(eng(torch.randint(0, 13, (2, 6))).float().square().mean())
        eng.step()

def everyone(low, e, ep):
    """The experts of all ranks, under their numbers in the model."""
    def named(n, r):
        if LOCAL not in n: return n
        a, b = n.split(LOCAL)
        k, rest = b.split(".", 1)
        return f"{a}{LOCAL}{int(k) + e * (r % ep)}.{rest}"
    every = [None] * W
    dist.all_gather_object(every, dict(low))
    return {named(n, r): v for r in range(W - 1, -1, -1) for n, v in every[r].items()}

def plain(name, opt):
    net = Net(opt)
    if "frozen" in opt:
        net.emb.weight.requires_grad_(False)
        net.layers[0]["up"].bias.requires_grad_(False)
    ps = [p for n, p in net.named_parameters() if p.requires_grad and not ("outside" in opt and n == "lone")]
    if "groups" in opt: ps = [{"params": [p for p in ps if p.ndim > 1], "weight_decay": .1}, {"params": [p for p in ps if p.ndim < 2], "weight_decay": 0.}]
    if "moe" in opt:
        from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer as split
        ps = split({"params": ps, "name": "all"})
    eng = deepspeed.initialize(model=net, model_parameters=ps, config=config(opt), optimizer=torch.optim.AdamW(ps, lr=1e-2))[0]
    train(eng, 50 + R)
    eng.save_checkpoint(name + "/ckpt", client_state={"epoch": 3})
    with deepspeed.zero.GatheredParameters(list(net.parameters()), enabled=opt["stage"] == 3):
        low = {k: v.detach().clone().contiguous() for k, v in net.state_dict().items()}
    if "small" in opt: # for testdata: a rank of another step
        train(eng, 90)
        eng.save_checkpoint(name + "/later")
    if "moe" in opt: low = everyone(low, opt["moe"][0] // opt["moe"][1], opt["moe"][1])
    if R == 0: save_file(low, f"{name}/low.safetensors")

def sliced(name, opt):
    specs = [{"patterns": [r".*\.o_proj\.weight$", r".*\.down_proj\.weight$"], "partition_type": "row"}, {"patterns": [r".*\.up_proj\.weight$"], "partition_type": "column"},
             {"patterns": [r".*\.qkv\.weight$"], "partition_type": "column", "shape": [3, -1], "partition_dim": 0}]
    cfg = {**config(opt), **ADAM, "tensor_parallel": {"autotp_size": 2, "partition_config": {"use_default_specs": False, "layer_specs": specs}}}
    net = Sliced()
    eng = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=cfg)[0]
    train(eng, 50 + R // 2)
    eng.save_checkpoint(name + "/ckpt")

def staged(name, opt):
    from deepspeed.pipe import PipelineModule, LayerSpec, TiedLayerSpec
    class Emb(nn.Embedding):
        def forward(s, x): return super().forward(x).mean(1)
    head = lambda m, x: x @ m.weight.t()
    ends = (TiedLayerSpec("embed", Emb, 13, 4), TiedLayerSpec("embed", Emb, 13, 4, forward_fn=head)) if "tied" in opt else (LayerSpec(Emb, 13, 4), LayerSpec(nn.Linear, 4, 13))
    net = PipelineModule([ends[0], LayerSpec(nn.Linear, 4, 4), nn.ReLU(), LayerSpec(nn.BatchNorm1d, 4), LayerSpec(nn.Linear, 4, 4), ends[1]], num_stages=2,
                         loss_fn=nn.CrossEntropyLoss(), partition_method="uniform")
    eng = deepspeed.initialize(model=net, model_parameters=list(net.parameters()), config={**config(opt), **ADAM, "gradient_accumulation_steps": 2})[0]
    def data():
        while True: yield torch.randint(0, 13, (2, 6)), torch.randint(0, 13, (2,))
    it = data()
    for _ in range(2): eng.train_batch(it)
    eng.save_checkpoint(name + "/ckpt")
    every = [None] * W
    dist.all_gather_object(every, {k: v.detach().clone() for k, v in net.state_dict().items()})
    if R == 0: save_file({k: v.contiguous() for x in every for k, v in x.items()}, f"{name}/low.safetensors")

for name in sys.argv[2:]:
    how, opt = CASES[name]
    torch.manual_seed(5)
    globals()[how](name, opt)
    dist.barrier()
os._exit(0)
'''

PLAIN = {"small": ("plain", dict(stage=2, kind="bf16", small=1, tied=1)), "experts2": ("plain", dict(stage=2, kind="bf16", moe=(4, 1)))}
ODD = {"sub": ("plain", dict(stage=3, kind="bf16", sub=40, groups=1)), "odd2": ("plain", dict(stage=2, kind="bf16", groups=1, frozen=1))}
for stage in (1, 2, 3):
    for case in ({"kind": "fp32"}, {"kind": "fp16"}, {"kind": "bf16", "frozen": 1, "groups": 1}, {"kind": "bf16", "tied": 1}, {"kind": "bf16", "offload": 1},
                 {"kind": "bf16", "outside": 1, "groups": 1}, {"kind": "fp32", "none": 1, "frozen": 1}):
        if stage < 3 or not {"outside", "none"} & set(case): # of these DeepSpeed's stage 3 writes no values
            name = "-".join([str(stage), *map(str, [case["kind"], *list(case)[1:]])])
            (ODD if stage == 3 else PLAIN)[name] = ("plain", dict(stage=stage, **case))
# processes, and what they save; tensor parallelism and pipelines change DeepSpeed for all that follows
RUNS = [(2, PLAIN), (3, ODD), (4, {"experts": ("plain", dict(stage=2, kind="bf16", moe=(4, 2))), "experts1": ("plain", dict(stage=1, kind="fp32", moe=(2, 2)))}),
        (2, {"slices1": ("sliced", dict(stage=1, kind="bf16"))}),
        (4, {"slices": ("sliced", dict(stage=2, kind="fp32")), "slices3": ("sliced", dict(stage=3, kind="bf16"))}),
        (2, {"pipe": ("staged", dict(stage=1, kind="fp32")), "pipe-tied": ("staged", dict(stage=1, kind="fp32", tied=1))})]

UNIVERSAL = COMMON + r'''
import glob, types, io, contextlib
from deepspeed.checkpoint import ds_to_universal
for d in sys.argv[1:]:
    step, = [x for x in glob.glob(d + "/ckpt/global_step*") if not x.endswith("_universal")]
    args = types.SimpleNamespace(input_folder=step, output_folder=step + "_universal", num_extract_workers=1, num_merge_workers=1, keep_temp_folder=False, strict=True,
                                 inject_missing_state=True)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        ds_to_universal.main(args)
'''

JUDGE = COMMON + r'''
import contextlib, glob, io
from safetensors.torch import load_file
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as fp32
def bits(t): return t.contiguous().reshape(-1).view(torch.uint8)
def same(a, b): return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))
def read(d, what):
    p = f"{d}/{what}.safetensors"
    return load_file(p) if os.path.exists(p) else None
def compare(d, what, got, want, cast=lambda t: t, all=True):
    for k in sorted(set(got) | set(want) if all else set(want)):
        if k not in got or k not in want: print("BAD", d, what, k, "is missing" if k in want else "is not wanted")
        elif not same(cast(got[k]), cast(want[k])): print("BAD", d, what, k, "differs")
def to_float(t): return t.float() if t.is_floating_point() else t
for d in sys.argv[1:]:
    low, master, trained, state = (read(d, x) for x in ("low", "model", "module", "optimizer"))
    if low is None: low = trained # slices: no process has the whole
    compare(d, "as trained", trained, low)
    if set(master) != set(low): print("BAD", d, "has other names")
    for k in low: # the masters, rounded
        if master[k].shape != low[k].shape or not torch.equal(master[k].to(low[k].dtype), low[k]): print("BAD", d, "master", k, "is not", k)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): want = fp32(d + "/ckpt")
    except Exception as x:
        if not any(w in d for w in ("experts", "pipe", "slices")): print("BAD", d, "zero_to_fp32.py", x)
        want = {}
    compare(d, "zero_to_fp32.py", master, want, to_float, all=False)
    step = glob.glob(d + "/ckpt/*_universal/zero")
    for p in glob.glob(step[0] + "/*/*.pt") if step else []:
        n, key = p.split("/")[-2:]
        x = torch.load(p, weights_only=False)
        x = x["param"] if isinstance(x, dict) else x
        if key == "step.pt" or (key == "fp32.pt" and not torch.is_tensor(x)): continue
        ours = master if os.path.exists(os.path.dirname(p) + "/exp_avg.pt") else low # the optimizer has it, or only the module
        got = ours.get(n) if key == "fp32.pt" else state.get(f"{n}.{key[:-3]}")
        if got is None or not torch.equal(to_float(got).reshape(-1), to_float(x).reshape(-1)): print("BAD", d, "universal", n, key)
    for what in ("model", "optimizer"):
        u = read(d, "universal-" + what)
        lost = {"3.running_mean", "3.running_var", "3.num_batches_tracked"} if "pipe" in d else set() # ds_to_universal.py does not copy layers
        if u is not None: compare(d, "of a universal checkpoint", u, {k: v for k, v in (master if what == "model" else state).items() if k not in lost})
'''


def run(python, script, *args, ranks=0):
    how = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks else [python]
    r = subprocess.run([*how, script, *args], capture_output=True, text=True, timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if r.returncode:
        raise RuntimeError(r.stderr[-3000:])
    return r.stdout


def scripts(folder):
    for name, text in (("write", WRITE.replace("for name in sys.argv", f"CASES = {({k: v for _, x in RUNS for k, v in x.items()})!r}\nfor name in sys.argv")),
                       ("universal", UNIVERSAL), ("judge", JUDGE)):
        open(f"{folder}/{name}.py", "w").write(text)


def join(box, folder, names, bad):
    n = 0
    for name in names:
        d = f"{folder}/{name}"
        for part in ("model", "module", "optimizer"):
            jobs = [(f"{d}/ckpt", part)]
            step = [x for x in os.listdir(f"{d}/ckpt") if x.endswith("_universal") and x.startswith("global")]
            if step and part != "module":
                jobs.append((f"{d}/ckpt/{step[0]}", f"universal-{part}"))
            for source, out in jobs:
                r = box.tool("pgjoin", "-q", "--part", part, source, f"{d}/{out}.safetensors")
                n += 1
                if r.rc:
                    bad.append((f"{name}: pgjoin {out}", r.err.strip()))
        r = box.tool("pgjoin", "-q", "--as-trained", f"{d}/ckpt", f"{d}/trained.safetensors")
        if r.rc or open(f"{d}/trained.safetensors", "rb").read() != open(f"{d}/module.safetensors", "rb").read():
            bad.append((f"{name}: --as-trained", r.err.strip()))
    return n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tools", required=True)
    p.add_argument("--keep")
    p.add_argument("-v", action="store_true")
    a = p.parse_args()
    python, box, bad = os.environ.get("PG_DEEPSPEED_PYTHON"), Box(a.tools, None, "."), []
    if not python:
        return finish("deepspeed", bad, 0, ["PG_DEEPSPEED_PYTHON"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.keep or temporary
        scripts(folder)
        for ranks, cases in RUNS:
            run(python, f"{folder}/write.py", folder, *cases, ranks=ranks)
        names = [x for _, cases in RUNS for x in cases]
        # ds_to_universal.py refuses experts on fewer than all ranks, and empty parameters
        run(python, f"{folder}/universal.py", *[f"{folder}/{x}" for x in names if "experts" not in x and "none" not in x])
        n = join(box, folder, names, bad)
        if not bad:
            bad += [("DeepSpeed", x) for x in run(python, f"{folder}/judge.py", *[f"{folder}/{x}" for x in names]).split("\n") if x.startswith("BAD")]
    return finish("deepspeed", bad, n, [])


if __name__ == "__main__":
    sys.exit(main())
