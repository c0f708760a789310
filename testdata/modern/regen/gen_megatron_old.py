#!/usr/bin/env python3
"""Writes modern/megatron-old-*: ranks' files with the names and orders of Megatron-LM before megatron-core.

usage: gen_megatron_old.py OUT       with torch 2.5 and safetensors

The whole model is random; the cuts are those of megatron/mpu/layers.py, and the orders inside query_key_value those that
fix_query_key_value_ordering() of megatron/checkpointing.py undoes: version 0 [splits, heads, size], 1 [heads, size, splits].
"""
import argparse
import os
import sys

import torch
from safetensors.torch import save_file

HEADS, SIZE, HIDDEN, LAYERS, WORDS, TP = 4, 2, 8, 2, 12, 2
E, T = "language_model.embedding.", "language_model.%s.layers.%d."


def whole(encoder, attention):
    m = {E + "word_embeddings.weight": torch.randn(WORDS, HIDDEN), E + "position_embeddings.weight": torch.randn(5, HIDDEN)}
    for i in range(LAYERS):
        t = T % (encoder, i)
        for n in ("input_layernorm", "post_attention_layernorm"):
            m[t + n + ".weight"], m[t + n + ".bias"] = torch.randn(HIDDEN), torch.randn(HIDDEN)
        for n, rows, columns in ((attention + ".query_key_value", 3 * HIDDEN, HIDDEN), (attention + ".dense", HIDDEN, HIDDEN),
                                 ("mlp.dense_h_to_4h", 4 * HIDDEN, HIDDEN), ("mlp.dense_4h_to_h", HIDDEN, 4 * HIDDEN)):
            m[t + n + ".weight"], m[t + n + ".bias"] = torch.randn(rows, columns), torch.randn(rows)
    m[f"language_model.{encoder}.final_layernorm.weight"] = torch.randn(HIDDEN)
    m[f"language_model.{encoder}.final_layernorm.bias"] = torch.randn(HIDDEN)
    return m


def reordered(t, version):
    """A rank's query_key_value, which is [heads, splits, size], as an older version held it."""
    t = t.view(HEADS // TP, 3, SIZE, *t.shape[1:])
    return (t.transpose(0, 1) if version == 0 else t.transpose(1, 2)).contiguous()


def part(name, t, rank, version):
    if "query_key_value" in name:
        own = t.chunk(TP, 0)[rank]
        return own.clone() if version == 2 else reordered(own, version).view(own.shape)
    if name.endswith(("word_embeddings.weight", "h_to_4h.weight", "h_to_4h.bias")) and "4h_to_h" not in name:
        return t.chunk(TP, 0)[rank].clone()
    return t.chunk(TP, 1)[rank].clone() if name.endswith(("dense.weight", "4h_to_h.weight")) else t.clone()


def nested(flat):
    """As language_model.py nests its dictionaries: a level each for the model, its parts and the embeddings."""
    out = {}
    for name, t in flat.items():
        path = name.split(".")
        n = 3 if path[1] == "embedding" else 2
        at = out
        for key in path[:n]:
            at = at.setdefault(key, {})
        at[".".join(path[n:])] = t
    return out


def write(name, version, encoder, attention, args):
    torch.manual_seed(3)
    m = whole(encoder, attention)
    for rank in range(TP):
        at = f"{name}/ckpt/iter_0000007/mp_rank_{rank:02d}"
        os.makedirs(at)
        state = {"iteration": 7, "model": nested({k: part(k, v, rank, version or 0) for k, v in m.items()})}
        if version is not None:
            state["checkpoint_version"] = float(version)
        if args:
            state["args"] = argparse.Namespace(**{args: TP}, num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, padded_vocab_size=WORDS)
        torch.save(state, f"{at}/model_optim_rng.pt")
    save_file(m, f"{name}/expected.safetensors")


os.umask(0o022)
os.chdir(sys.argv[1])
write("megatron-old-0", None, "transformer", "attention", None)
write("megatron-old-1", 1, "transformer", "attention", "model_parallel_size")
write("megatron-old-2", 2, "encoder", "self_attention", "tensor_model_parallel_size")
