"""Hostile checkpoints of Megatron-LM: iter_0000001/mp_rank_00[_...]/model_optim_rng.pt beside others. Standard library only."""

import os

from common import case
from gen_pickle import g, i, pt, s, tensor
from gen_zero import d, items, li, pkl

RANK = "mp_rank_00/model_optim_rng.pt"


def namespace(**values):
    return g("argparse", "Namespace") + b")\x81" + d(**values) + b"b"


def rank(model=None, args=None, version=None, **more):
    return d(
        model=items([("decoder.final_layernorm.weight", tensor())]) if model is None else model,
        checkpoint_version=i(3) if version is None else version,
        args=namespace(tensor_model_parallel_size=i(1), num_layers=i(1)) if args is None else args,
        iteration=i(1),
        **more,
    )


def c(cid, value, say=(), kind="corrupt", others=(), verdict="refuse"):
    """others: folders of further ranks, and what their files hold."""

    @case("megatron-" + cid, RANK, verdict, kind, say)
    def _(p):
        above = os.path.dirname(os.path.dirname(p))
        for name, v in ((os.path.basename(os.path.dirname(p)), value), *others):
            os.makedirs(os.path.join(above, name), exist_ok=True)
            with open(os.path.join(above, name, "model_optim_rng.pt"), "wb") as f:
                f.write(v if v[:2] == b"PK" or not v else pt(pkl(v)))


c("ranks-claimed", rank(args=namespace(tensor_model_parallel_size=i(65536))), ["missing"])
c("ranks-beyond", rank(args=namespace(tensor_model_parallel_size=i(2**31 - 1), pipeline_model_parallel_size=i(2**31 - 1))))
c("stages-without-layers", rank(args=namespace(tensor_model_parallel_size=i(1), pipeline_model_parallel_size=i(3))), ["3 pipeline"])
c("version-text", rank(version=s("3")), ["checkpoint_version"])
c("no-tensors", rank(model=items([])), verdict="either")
c("shape-huge", rank(model=items([("a.weight", tensor((2**31 - 1, 2**31 - 1), (2**31 - 1, 1)))])), ["a.weight"])
c("shape-negative", rank(model=items([("a.weight", tensor((-3, 4)))])), ["a.weight"])
c("many-models", d(**{f"model{k}": items([]) for k in range(3000)}), ["stages"], kind="limit")
TWO = namespace(tensor_model_parallel_size=i(2))
c("rank-empty", rank(args=TWO), others=[("mp_rank_01", b"")], say=["mp_rank_01"])
c("rank-no-pickle", rank(args=TWO), others=[("mp_rank_01", b"PK\3\4" + bytes(60))], say=["mp_rank_01"])
c("rank-no-model", rank(args=TWO), others=[("mp_rank_01", d(args=namespace()))], say=["mp_rank_01"])
c("rank-high", rank(), others=[("mp_rank_99999", rank())], say=["mp_rank"])
c("rank-other-iteration", rank(args=TWO), ["mp_rank_01"], others=[("mp_rank_01", rank(args=TWO).replace(s("iteration") + i(1), s("iteration") + i(2)))])
c("other-shape", rank(model=items([("a.linear_proj.weight", tensor())]), args=TWO),
  others=[("mp_rank_01", rank(model=items([("a.linear_proj.weight", tensor((4, 3), (3, 1)))]), args=TWO))], say=["linear_proj"])
c("lacks", rank(args=TWO), others=[("mp_rank_01", rank(model=items([("b", tensor())]), args=TWO))])
