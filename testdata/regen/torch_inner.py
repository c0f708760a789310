#!/usr/bin/env python3
"""Writes extra/within: state_dicts of a model with PyTorch's wrappers inside of it.

usage: torch_inner.py OUT       with torch 2.5 and safetensors

DataParallel calls what it wraps "module", as people call children of their own: child.pt is such a model, its names have the form
of inner.pt's. plain.safetensors holds the bare model of the first, child.safetensors that of the other.
"""
import copy
import os
import sys

import torch
import torch.nn as nn
from safetensors.torch import save_file

out = os.path.join(sys.argv[1], "within")
os.makedirs(out, exist_ok=True)
os.chdir(out)
os.umask(0o022)
torch.manual_seed(4)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self, body, head=nn.Identity()):
        super().__init__()
        self.backbone = body
        self.head = head


class Held(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.module = inner


body, head = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2)
new = lambda wrap=lambda m: m, wrap2=lambda m: m: Net(wrap(copy.deepcopy(body)), wrap2(copy.deepcopy(head)))  # noqa: E731
DP, C = nn.DataParallel, torch.compile
plain = lambda name, model: save_file({k: v.clone() for k, v in model.state_dict().items()}, name + ".safetensors")  # noqa: E731
save = lambda name, model: torch.save(dict(model.state_dict()), name + ".pt")  # noqa: E731

plain("plain", new())
plain("child", new(Held))
save("child", DP(new(Held)))
save("inner", new(DP))
save("inner_both", new(DP, DP))
save("dp_inner", DP(new(DP)))
save("dp_inner_both", DP(new(DP, DP)))
save("compiled_inner", C(new(DP)))
save("inner_compiled", new(lambda m: C(DP(m))))
save("compiled_in_inner", new(lambda m: DP(C(m))))
save("dp_compiled_in_inner", DP(new(lambda m: DP(C(m)))))
