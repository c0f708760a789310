#!/usr/bin/env python3
"""Writes extra/parts: checkpoints whose parts a key or a length alone would take for something else.

usage: parts.py OUT       with torch 2.5
"""
import os
import random
import sys

import torch
import torch.nn as nn

out = os.path.join(sys.argv[1], "parts")
os.makedirs(out, exist_ok=True)
os.chdir(out)
os.umask(0o022)
torch.manual_seed(5)
random.seed(5)
torch.set_num_threads(1)

net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
optimizer = torch.optim.Adam(net.parameters())
net(torch.randn(2, 3)).sum().backward()
optimizer.step()
sd, osd = net.state_dict(), optimizer.state_dict()
two = lambda: {"w": torch.randn(3, 3), "b": torch.randn(3)}  # noqa: E731

torch.save({"model": sd, "opt_net": two(), "optimizer": osd}, "opt_net.pt")
torch.save({"model": sd, "optimizer_head": two()}, "optimizer_head.pt")
torch.save({"state_dict": sd, "mask": torch.ones(16, dtype=torch.uint8)}, "mask.pt")
torch.save({"policy": sd, "log_alpha": torch.zeros(1, requires_grad=True), "policy_optim": osd}, "sac.pt")
torch.save({"policy": sd, "log_alpha": nn.Parameter(torch.tensor(0.5))}, "log_alpha.pt")
# Megatron-LM, checkpointing.py and language_model.py
state = {"random_rng_state": random.getstate(), "torch_rng_state": torch.get_rng_state(), "cuda_rng_state": torch.zeros(16, dtype=torch.uint8),
         "rng_tracker_states": {"model-parallel-rng": torch.zeros(16, dtype=torch.uint8)}}
torch.save({"checkpoint_version": 3.0, "iteration": 10, "optimizer": osd, "rng_state": [state],
            "model": {"language_model": {"embedding": {"word_embeddings": {"weight": torch.randn(8, 4)}},
                                         "encoder": {"layers.0.dense.weight": torch.randn(4, 4), "layers.0.dense.bias": torch.randn(4)}}}}, "megatron.pt")
torch.save({"net": sd, "rng": {"torch": torch.get_rng_state(), "cuda": [torch.zeros(16, dtype=torch.uint8)]}, "optim": [osd["state"]]}, "random.pt")
torch.export.save(torch.export.export(nn.Linear(2, 1), (torch.zeros(1, 2),)), "exported.pt2")
