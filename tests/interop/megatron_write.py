#!/usr/bin/env python3
"""Megatron-Core writes models as its ranks hold them, and as one process holds them.

usage: torchrun --nproc_per_node=4 megatron_write.py FOLDER [CASE ...]
       torchrun --nproc_per_node=1 megatron_write.py --load FOLDER [NAME ...]

Needs megatron-core; the processes are on CPUs, over gloo. For each case one process's model is filled with random numbers and saved
to CASE.safetensors. Megatron-Core's own resharding (dist_checkpointing) gives each rank its part, which the rank writes as
Megatron-LM's save_checkpoint() does: CASE/iter_0000020/mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt. Some cases are saved as torch_dist,
too: CASE-dist, with layers stacked, and CASE-single, with the tensors of each (singleton_local_shards), which newer jobs write; some with
the states of an optimizer, which may be the distributed one. --load has the plain model take NAME/out.safetensors with
load_state_dict(strict=True), and compares it with what was saved.
"""
import argparse
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = lambda *a: None
torch.Tensor.cuda = lambda t, *a, **k: t
from torch.overrides import TorchFunctionMode  # noqa: E402
from megatron.core import dist_checkpointing, parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.enums import ModelType  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.transformer.enums import AttnBackend  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

GELU = dict(hidden_size=16, num_attention_heads=4, ffn_hidden_size=24, num_layers=4)
LLAMA = dict(GELU, num_query_groups=2, kv_channels=6, gated_linear_unit=True, activation_func=torch.nn.functional.silu, add_bias_linear=False,
             normalization="RMSNorm")
MOE = dict(GELU, num_moe_experts=4, moe_router_topk=2, add_bias_linear=False, gated_linear_unit=True, activation_func=torch.nn.functional.silu)
# tensor, pipeline, virtual stages, experts, tied, what the model is
CASES = {
    "gelu-tp2-pp2": (2, 2, 1, 1, True, GELU),
    "gelu-tp4": (4, 1, 1, 1, True, GELU),
    "gelu-pp2-vp2": (1, 2, 2, 1, True, GELU),
    "gelu-pp4": (1, 4, 1, 1, True, GELU),
    "llama-tp2": (2, 1, 1, 1, False, dict(LLAMA, qk_layernorm=True)),
    "llama-tp2-pp2": (2, 2, 1, 1, False, LLAMA),
    "llama-tp2-pp2-vp2": (2, 2, 2, 1, False, LLAMA),
    "qkv-bias-tp2-pp2": (2, 2, 1, 1, True, dict(LLAMA, add_qkv_bias=True)),
    "llama-bf16-tp2": (2, 1, 1, 1, False, dict(LLAMA, params_dtype=torch.bfloat16, bf16=True)),
    "moe-ep2": (1, 1, 1, 2, False, MOE),
    "moe-pp2-ep2": (1, 2, 1, 2, False, MOE),
    "moe-tp2-ep2": (2, 1, 1, 2, False, MOE),
    "moe-small-tp2-ep2": (2, 1, 1, 2, False, dict(MOE, hidden_size=8, num_attention_heads=2, ffn_hidden_size=8, num_layers=2, num_moe_experts=2)),
    "moe-shared-tp2": (2, 1, 1, 1, False, dict(MOE, moe_shared_expert_intermediate_size=16)),
}
# with an optimizer (distributed?)
OPTIMIZERS = {"gelu-tp2-pp2": False, "llama-bf16-tp2": True}
# which are saved as torch_dist, with what their layers are like
DIST = {"gelu-tp2-pp2": ("dist", "single"), "llama-tp2-pp2": ("dist", "single"), "llama-bf16-tp2": ("dist",), "moe-ep2": ("dist",),
        "moe-tp2-ep2": ("dist", "single"), "moe-small-tp2-ep2": ("dist", "single"), "moe-pp2-ep2": ("dist",)}
WORDS, PADDED = 37, 40


def build(case, tp, pp, vp, ep):
    """The models of this process: one, or one of each virtual stage."""
    tied, options = case[4:]
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(tp, pp, virtual_pipeline_model_parallel_size=vp if vp > 1 else None, expert_model_parallel_size=ep,
                                             expert_tensor_parallel_size=tp)
    config = TransformerConfig(use_cpu_initialization=True, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
                               virtual_pipeline_model_parallel_size=vp if vp > 1 else None, expert_model_parallel_size=ep,
                               expert_tensor_parallel_size=tp, pipeline_dtype=torch.float32, perform_initialization=False,
                               attention_backend=AttnBackend.local, **options)
    gelu = config.normalization == "LayerNorm" and not config.gated_linear_unit
    spec = get_gpt_layer_local_spec(num_experts=config.num_moe_experts, qk_layernorm=config.qk_layernorm, normalization=config.normalization)
    models = []
    for v in range(vp):
        stage = v if vp > 1 else None
        models.append(GPTModel(config, spec, PADDED, 12, share_embeddings_and_output_weights=tied, vp_stage=stage,
                               pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
                               post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
                               position_embedding_type="learned_absolute" if gelu else "rope"))
    return models


def fill(model):
    torch.manual_seed(11)
    with torch.no_grad():
        for p in model.state_dict().values():
            if isinstance(p, torch.Tensor) and p.is_floating_point():
                p.copy_(torch.randn(p.shape))


def tensors(model):
    return {k: v for k, v in model.state_dict_for_save_checkpoint().items() if isinstance(v, torch.Tensor)}


def arguments(case):
    tp, pp, vp, ep, tied, o = case
    return argparse.Namespace(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, expert_tensor_parallel_size=tp,
        num_layers=o["num_layers"], encoder_num_layers=o["num_layers"], decoder_num_layers=None, hidden_size=o["hidden_size"],
        num_attention_heads=o["num_attention_heads"], group_query_attention="num_query_groups" in o, num_query_groups=o.get("num_query_groups", 1),
        kv_channels=o.get("kv_channels", o["hidden_size"] // o["num_attention_heads"]), ffn_hidden_size=o["ffn_hidden_size"],
        num_experts=o.get("num_moe_experts"), moe_grouped_gemm=False, transformer_impl="local", padded_vocab_size=PADDED, swiglu=o.get("gated_linear_unit", False),
        untie_embeddings_and_output_weights=not tied, multi_latent_attention=False, attention_output_gate=False,
        heterogeneous_layers_config_path=None, params_dtype=o.get("params_dtype", torch.float32), rank=dist.get_rank(), lr=1e-3, save="out",
        model_type=ModelType.encoder_or_decoder, make_vocab_size_divisible_by=PADDED // tp, tokenizer_type="NullTokenizer", vocab_size=WORDS - 1)


def write(folder, case, models):
    tp, pp, vp, ep = case[:4]
    if parallel_state.get_expert_data_parallel_rank() if ep > 1 else parallel_state.get_data_parallel_rank():
        return
    at = f"{folder}/iter_0000020/mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}"
    at += f"_{parallel_state.get_pipeline_model_parallel_rank():03d}" if pp > 1 else ""
    at += f"_{parallel_state.get_expert_model_parallel_rank():03d}" if ep > 1 else ""
    os.makedirs(at)
    state = {"args": arguments(case), "checkpoint_version": 3.0, "iteration": 20, "num_floating_point_operations_so_far": 0}
    for i, m in enumerate(models):
        state[f"model{i}" if vp > 1 else "model"] = m.state_dict_for_save_checkpoint()
    torch.save(state, f"{at}/model_optim_rng.pt")


class OnCpu(TorchFunctionMode):
    """For optimizers, which ask for CUDA by name."""

    def __torch_function__(self, f, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        r = f(*args, **kwargs)
        return r.replace("torch.", "torch.cuda.", 1) if f is torch.Tensor.type and isinstance(r, str) and "cuda" not in r else r


def optimizer_state(models, distributed, model_state):
    """After a step of length 0."""
    dtype = models[0].config.params_dtype
    with OnCpu():
        ddp = [DistributedDataParallel(m.config, DistributedDataParallelConfig(use_distributed_optimizer=distributed), m) for m in models]
        made = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=0.0, weight_decay=0.0, clip_grad=0.0, use_distributed_optimizer=distributed,
                                                      bf16=dtype == torch.bfloat16, params_dtype=dtype), ddp)
        for m in ddp:
            for p in m.parameters():
                p.main_grad.fill_(0.5)
        made.step()
        group = parallel_state.get_data_parallel_group(with_context_parallel=True)
        return made.sharded_state_dict(model_state, metadata={"distrib_optim_sharding_type": "fully_reshardable", "dp_cp_group": group,
                                                              "chained_optim_avoid_prefix": True})


def write_dist(folder, name, kind, case, models):
    """As Megatron-LM's --ckpt-format torch_dist."""
    vp, at = case[2], f"{folder}/{name}-{kind}/iter_0000020"
    if dist.get_rank() == 0:
        os.makedirs(at)
    dist.barrier()
    state = {"args": arguments(case), "checkpoint_version": 3.0, "iteration": 20}
    state["args"].rank = 0  # all ranks must say the same
    for i, m in enumerate(models):
        state[f"model{i}" if vp > 1 else "model"] = m.sharded_state_dict(metadata={"singleton_local_shards": kind == "single"})
    if kind == "dist" and name in OPTIMIZERS:
        state["optimizer"] = optimizer_state(models, OPTIMIZERS[name], state["model"])
    dist_checkpointing.save(state, at)


def run(folder, name, case):
    tp, pp, vp, ep = case[:4]
    dist.barrier()
    whole = build(case, 1, 1, 1, 1)
    fill(whole[0])
    same = [tempfile.mkdtemp(dir=folder) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(same)
    dist_checkpointing.save(whole[0].sharded_state_dict(), same[0])
    if dist.get_rank() == 0:
        save_file({k: v.detach().clone() for k, v in tensors(whole[0]).items()}, f"{folder}/{name}.safetensors")
    models = build(case, tp, pp, vp, ep)
    parts = dist_checkpointing.load({str(i): m.sharded_state_dict() for i, m in enumerate(models)}, same[0])
    for i, m in enumerate(models):
        m.load_state_dict(parts[str(i)], strict=False)
    write(f"{folder}/{name}", case, models)
    for kind in DIST.get(name, ()):
        write_dist(folder, name, kind, case, models)
    dist.barrier()
    if dist.get_rank() == 0:
        for kind in ("", *(f"-{k}" for k in DIST.get(name, ()))):
            open(f"{folder}/{name}{kind}/latest_checkpointed_iteration.txt", "w").write("20")
            print(f"{name}{kind}", flush=True)


def load(folder, name):
    """What is wrong with NAME/out.safetensors, or nothing."""
    case = CASES[name.removesuffix("-dist").removesuffix("-single")]
    model = build(case, 1, 1, 1, 1)[0]
    fill(model)
    want = {k: v.clone() for k, v in tensors(model).items()}
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    try:
        model.load_state_dict(load_file(f"{folder}/{name}/out.safetensors"), strict=True)
    except RuntimeError as x:
        return str(x)[:300]
    got = tensors(model)
    return "" if got.keys() == want.keys() and all(torch.equal(got[k], want[k]) for k in want) else "other values"


def main():
    dist.init_process_group("gloo")
    if sys.argv[1] == "--load":
        for name in sys.argv[3:]:
            print(f"{name}: {load(sys.argv[2], name)}", flush=True)
        return
    for name, case in CASES.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        run(sys.argv[1], name, case)


if __name__ == "__main__":
    main()
