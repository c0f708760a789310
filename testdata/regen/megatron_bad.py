#!/usr/bin/env python3
"""Writes extra/megatron/bad-*: two ranks of Megatron-LM that do not fit together.

usage: megatron_bad.py OUT       with torch 2.5
"""
import argparse
import os
import sys

import torch

ARGS = dict(tensor_model_parallel_size=2, pipeline_model_parallel_size=1, padded_vocab_size=8)
WORDS, PLACES = "embedding.word_embeddings.weight", "embedding.position_embeddings.weight"


class Call:
    def __reduce__(self):
        return os.system, ("touch /tmp/ran",)


def rank(r, args=ARGS, more=(), **top):
    model = {WORDS: torch.full((4, 2), r + .5), PLACES: torch.arange(6.).view(3, 2)}
    model.update(more)
    state = {"args": argparse.Namespace(**{**ARGS, **args}), "checkpoint_version": 3.0, "iteration": 7,
             "model": {k: v for k, v in model.items() if v is not None}}
    return {**state, **top}


def write(name, *ranks, n_parts=1):
    for i, state in enumerate(ranks):
        at = f"bad-{name}/mp_rank_{i:02d}" if n_parts == 1 else f"bad-{name}/mp_rank_00_{i:03d}"
        os.makedirs(at)
        torch.save(state, f"{at}/model_optim_rng.pt")


def without_args(state):
    del state["args"]
    return state


def both(name, **how):
    write(name, rank(0, **how), rank(1, **how))


os.umask(0o022)
os.makedirs(os.path.join(sys.argv[1], "megatron"), exist_ok=True)
os.chdir(os.path.join(sys.argv[1], "megatron"))
torch.manual_seed(9)
write("iteration", rank(0), rank(1, iteration=8))
write("args", rank(0), rank(1, args={"padded_vocab_size": 12}))
write("copies", rank(0), rank(1, more={PLACES: torch.ones(3, 2)}))
write("shape", rank(0), rank(1, more={WORDS: torch.zeros(4, 3)}))
write("type", rank(0), rank(1, more={WORDS: torch.zeros(4, 2, dtype=torch.bfloat16)}))
write("lacks", rank(0), rank(1, more={WORDS: None}))
write("more", rank(0), rank(1, more={"adapter.weight": torch.zeros(2)}))
both("vocabulary", args={"padded_vocab_size": 7})
both("ranks", args={"tensor_model_parallel_size": 4})
both("fewer-ranks", args={"tensor_model_parallel_size": 1})
both("many-ranks", args={"tensor_model_parallel_size": 1 << 39})
both("product", args={"tensor_model_parallel_size": 1 << 33, "pipeline_model_parallel_size": 1 << 33})
both("layers", args={"num_layers": 2}, more={"decoder.layers.0.input_layernorm.weight": torch.arange(2.)})
both("numbers", args={"num_layers": 1}, more={"decoder.layers.1.input_layernorm.weight": torch.arange(2.)})
both("version", checkpoint_version=7)
both("call", extra=Call())
both("no-model", model=[1, 2])
both("scalar", more={WORDS: torch.tensor(1.)})
both("one-axis", more={"decoder.layers.0.mlp.linear_fc2.weight": torch.ones(4)})
both("odd-halves", args={"swiglu": True}, more={"decoder.layers.0.mlp.linear_fc1.weight": torch.ones(5, 2), "decoder.layers.0.mlp.linear_fc2.weight": torch.ones(2, 2)})
both("no-halves", args={"swiglu": True}, more={"decoder.layers.0.mlp.linear_fc1.weight": torch.ones(4, 2), "decoder.layers.0.mlp.linear_fc2.weight": torch.ones(2, 4)})
write("unknown", *(rank(r, more={"adapter.weight": torch.randn(2, 2)}) for r in range(2)))
both("constant", more={"adapter.weight": torch.ones(2, 2)})
both("heads", checkpoint_version=0, more={"language_model.encoder.layers.0.self_attention.query_key_value.weight": torch.ones(12, 2)})
both("experts", args={"num_experts": 1}, more={"decoder.layers.0.mlp.experts.local_experts.1.linear_fc2.weight": torch.ones(2, 2)})
both("experts-cut", args={"num_experts": 2, "expert_tensor_parallel_size": 1}, more={"decoder.layers.0.mlp.experts.local_experts.1.linear_fc2.weight": torch.ones(2, 2)})
PP = {"tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 2, "padded_vocab_size": 4}
write("stages-tied", rank(0, args=PP), rank(0, args=PP, more={WORDS: torch.zeros(4, 2), PLACES: None}), n_parts=2)
write("stages-shape", rank(0, args=PP), rank(0, args=PP, more={WORDS: torch.zeros(3, 2), PLACES: None}), n_parts=2)
LAYER = {WORDS: None, PLACES: None, "encoder.layers.0.input_layernorm.weight": torch.arange(2.)}
write("stages-end", *(without_args(rank(0, more=LAYER)) for s in range(2)), n_parts=2)
write("norm", *(rank(0, more={"decoder.layers.0.mixer.norm.weight": torch.ones(2)}) for r in range(2)))
write("stages-names", rank(0, args=PP), rank(0, args=PP, more={PLACES: None}))
