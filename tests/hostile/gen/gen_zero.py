"""Hostile checkpoints of DeepSpeed's ZeRO: the first rank's file and model_states beside it. Standard library only."""

import os
import struct

from common import case
from gen_pickle import array, g, i, pt, raw, s, tensor, tup

RANK = "zero_pp_rank_0_mp_rank_00_optim_states.pt"


def d(**items):
    return b"}(" + b"".join(s(k) + v for k, v in items.items()) + b"u"


def items(pairs):
    return b"}(" + b"".join(s(k) + v for k, v in pairs) + b"u"


def li(*v):
    return b"](" + b"".join(v) + b"e"


def row(n=12, key="0"):
    return tensor((n,), (1,), n=n, key=key)


def pkl(v):
    return b"\x80\x02" + v + b"."


def optimizer(stage=2, count=None, rows=None, **more):
    return d(
        optimizer_state_dict=d(
            zero_stage=i(stage),
            partition_count=i(1) if count is None else count,
            **{"fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups": li(row()) if rows is None else rows},
            **more,
        ),
        ds_version=s("0.19.8"),
    )


def shape(*n):
    return g("torch", "Size") + tup(tup(*map(i, n))) + b"R"


def module(shapes=None, held=None, **more):
    return d(
        module=items([("w", tensor())]) if held is None else held,
        buffer_names=li(),
        param_shapes=li(items([("w", shape(3, 4))])) if shapes is None else shapes,
        ds_version=s("0.19.8"),
        **more,
    )


def c(cid, opt, mod, say=(), kind="corrupt", files=(), verdict="refuse"):
    @case("zero-" + cid, RANK, verdict, kind, [RANK, *say])
    def _(p):
        open(p, "wb").write(pt(pkl(opt)))
        stage3 = b"fp32_flat_groups" in opt
        name = "zero_pp_rank_0_mp_rank_00_model_states.pt" if stage3 else "mp_rank_00_model_states.pt"
        for at, v in ((name, mod), *files):
            open(os.path.join(os.path.dirname(p), at), "wb").write(v if isinstance(v, bytes) and v[:2] == b"PK" else pt(pkl(v)))


c("ranks", optimizer(count=i(65536)), module(), ["missing"])
c("no-ranks", optimizer(count=i(0)), module(), ["partition_count"])
c("negative-ranks", optimizer(count=i(-1)), module(), ["partition_count"])
c("share-of-ranks", optimizer(count=li(i(2), i(3)), rows=li(row(), row())), module(li(items([]), items([])), held=items([])))
c("stage-7", optimizer(stage=7), module())
c("long-shape", optimizer(), module(li(items([("w", shape(2**62, 4))]))), ["too large"])
c("negative-shape", optimizer(), module(li(items([("w", shape(-3, 4))]))), ["shape"])
c("nine-dimensions", optimizer(), module(li(items([("w", shape(*[1] * 9))]))), ["dimensions"])
c("shape-is-text", optimizer(), module(li(items([("w", s("3"))]))), ["shape"])
c("name-is-number", optimizer(), module(li(b"}(" + i(3) + shape(3) + b"u")))
c("beyond-the-part", optimizer(), module(li(items([("w", shape(30, 4))]))), ["too short"])
c("rest-of-the-part", optimizer(), module(li(items([("w", shape(3, 1))]))), ["group 0"])
c("gap", optimizer(param_alignment_paddings=li(li(i(2**31 - 1)))), module(), ["group 0"])
c("gaps", optimizer(param_alignment_paddings=li(li(i(0), i(0)))), module(), ["param_alignment_paddings"])
c("negative-gap", optimizer(param_alignment_paddings=li(li(i(-4)))), module(), ["param_alignment_paddings"])
c("tied-to-nothing", optimizer(), module(shared_params=items([("v", s("x"))])), ["v", "x"])
c("tie-is-number", optimizer(), module(shared_params=items([("v", i(3))])), ["shared_params"])
c("same-name", optimizer(rows=li(row(), row())), module(li(items([("w", shape(3, 4))]), items([("w", shape(3, 4))]))), ["w"])
c("more-groups", optimizer(), module(li(items([("w", shape(3, 4))]), items([]))), ["groups"])
c("held-by-no-rank", optimizer(stage=3), module(held=items([("w", tensor((0,), (1,))), ("v", tensor((0,), (1,)))])), ["v"])
c("experts", optimizer(), module(num_experts=li(*[i(65536)] * 500)), ["missing"])
c("experts-negative", optimizer(), module(num_experts=li(i(-1))), ["num_experts"])
c("slices", optimizer(), module(), ["universal_checkpoint_info"], files=[(RANK.replace("_00_", "_01_"), optimizer()), ("mp_rank_01_model_states.pt", module())])
for k in 99, 100:
    c(f"slice-{k}", optimizer(), module(), [f"mp_rank_{k}_", "99 ranks"], kind="limit", files=[(f"mp_rank_{k}_model_states.pt", module())])
c("slices-gone", optimizer(), module(mp_world_size=i(2)), ["mp_world_size", "mp_rank_01", "missing"])
c("slices-more", optimizer(), module(mp_world_size=i(1)), ["mp_world_size", "mp_rank_01"], files=[("mp_rank_01_model_states.pt", module())])
c("slices-odd", optimizer(), module(mp_world_size=s("1")), ["mp_world_size"])
c("frozen-short", optimizer(), module(frozen_param_shapes=items([("v", shape(5, 5))]), frozen_param_fragments=items([("v", tensor())])), ["v"])
c("frozen-gone", optimizer(), module(frozen_param_shapes=items([("v", shape(3, 4))]), frozen_param_fragments=items([("u", tensor())])), ["v"])
# a name of 60,000 bytes that a memo repeats: two bytes a time
LONG = s("n" * 60000) + b"q\x01"
c(
    "long-names",
    optimizer(),
    module(li(*[b"}(" + (LONG if k == 0 else b"h\x01") + shape(1) + b"u" for k in range(3000)])),
    ["names"],
)
RULES = ["tp_replicated_parameter_patterns", "parameter_with_row_parallelism_patterns"]
SECOND = RANK.replace("_00_", "_01_")
for name, param, pattern in (("group", "w", "(w)"), ("stars", "w" * 60, "w*" * 12 + "x"), ("columns", "w", "w")):
    both = module(
        li(items([(param, shape(12))])),
        held=items([(param, row())]),
        universal_checkpoint_info=items([(RULES[1], li(s(pattern)))]),
    )
    c("pattern-" + name, optimizer(), both, files=[(SECOND, optimizer()), ("mp_rank_01_model_states.pt", both)])
# patterns that each take long, but not too long; and one that repeats without end
both = module(
    li(items([(f"{k:04}" + "w" * 44, shape(1)) for k in range(12)])),
    held=items([(f"{k:04}" + "w" * 44, tensor((1,), (1,), n=12)) for k in range(12)]),
    universal_checkpoint_info=items([(RULES[1], li(*[s("\\d*" + "w*" * 3 + f"x{k}") for k in range(50000)]))]),
)
c("patterns", optimizer(), both, ["patterns", "too long"], kind="limit", files=[(SECOND, optimizer()), ("mp_rank_01_model_states.pt", both)])
both = module(held=items([("w", row())]), universal_checkpoint_info=items([(RULES[1], li(s("b?" * 99999)))]))
c("pattern-repeats", optimizer(), both, ["pattern"], files=[(SECOND, optimizer()), ("mp_rank_01_model_states.pt", both)])


def after(step):
    return d(state=b"}(" + i(0) + d(step=i(step)) + b"u")


# two ranks: the first was in stage 2 and made 3 steps
NEXT = RANK.replace("rank_0_", "rank_1_")
for name, more, word in (
    ("step", dict(base_optimizer_state=after(4)), "another step"),
    ("stage", dict(stage=1, base_optimizer_state=after(3)), "another job"),
    ("count", dict(count=i(3), base_optimizer_state=after(3)), "another job"),
):
    first = optimizer(count=i(2), base_optimizer_state=after(3))
    c("other-" + name, first, module(), [NEXT, word], files=[(NEXT, optimizer(**{"count": i(2), **more}))])
# slices that fit together, but for the step
cut = module(universal_checkpoint_info=items([]))
c("slices-step", optimizer(base_optimizer_state=after(3)), cut, [SECOND, "another step"], files=[(SECOND, optimizer(base_optimizer_state=after(4))), ("mp_rank_01_model_states.pt", cut)])
# the second slice's files are closed again, for there are many; its tied names are the first one's
many = dict(count=i(128))
half = tensor((1536,), (1,), typ="HalfStorage", n=1536)
tied = pt(pkl(module(li(items([("w", shape(1536))])), held=items([("w", half), ("v", half)]), universal_checkpoint_info=items([]))), {"0": bytes(3072)})
ranks = [(RANK.replace("rank_0_", f"rank_{k}_").replace("_00_", f"_0{m}_"), optimizer(**many)) for m in range(2) for k in range(128)]
c("tied-many", optimizer(**many), tied, kind="fine", verdict="accept", files=[("mp_rank_01_model_states.pt", tied), *ranks[1:]])
big = module(held=items([("w", tensor()), ("v", array(raw(bytes(48)), order=">"))]))
c("big-endian", optimizer(), big, ["v", "big-endian"], kind="unsupported")
# fragments in another order than the shapes, and one that is missing
n = 50000
back = module(
    frozen_param_shapes=items([(f"f{k}", shape(3, 4)) for k in range(n)] + [("gone", shape(3, 4))]),
    frozen_param_fragments=items([(f"f{k}", tensor() + b"q\x01" if k == n - 1 else b"h\x01") for k in reversed(range(n))]),
)
c("frozen-order", optimizer(), back, ["gone"])
# a pipeline's layer: each of its tensors is compared with each parameter
staged = module(li(items([(f"1.w{k}", shape(0)) for k in range(30000)] + [("1.w", shape(3, 4))])), held=b"N")
layer = items([(f"w{k}", tensor() + b"q\x01" if k == 0 else b"h\x01") for k in range(30000)])
c("layer", optimizer(), staged, ["30,000"], kind="limit", files=[("layer_01-model_states.pt", layer)])
c("more-ranks", optimizer(count=i(1)), module(), [NEXT, "another job"], files=[(NEXT, optimizer())])
