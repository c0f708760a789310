#!/usr/bin/env python3
"""Writes extra/wrapped: state_dicts of one model under PyTorch's wrappers, nested and mixed.

usage: torch_wrappers.py OUT       with torch 2.5 and safetensors

Wrappers that clean their names in state_dict() (FSDP, checkpoint_wrapper) leave them in named_parameters(), in the state_dicts of
modules below other wrappers, and in every checkpoint that was made of those; FSDP runs on one process here, over gloo. What is no
package (Lightning's _forward_module, DeepSpeed's engine) is a class with that attribute. plain.safetensors holds the bare model, which
has a child called "module".
"""
import copy
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.nn as nn
from safetensors.torch import save_file
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

warnings.simplefilter("ignore")
out = os.path.join(sys.argv[1], "wrapped")
os.makedirs(out, exist_ok=True)
os.chdir(out)
os.umask(0o022)
torch.manual_seed(3)
torch.set_num_threads(1)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Linear(3, 3)

    def forward(self, x):
        return self.module(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), Inner())
        self.head = nn.Linear(3, 2)
        self.tied = nn.Linear(3, 2, bias=False)
        self.tied.weight = self.head.weight

    def forward(self, x):
        return self.head(self.body(x))


def wrapper(attribute):
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            setattr(self, attribute, inner)

    return Wrapper


def names(module):
    """What named_parameters() calls them, tied ones under each name."""
    return {k: v.detach().clone() for k, v in module.named_parameters(remove_duplicate=False)}


def swap(net, path, make):
    """net with a submodule wrapped."""
    parent, _, last = path.rpartition(".")
    parent = net.get_submodule(parent)
    setattr(parent, last, make(getattr(parent, last)))
    return net


base = Net()
save_file({k: v.clone() for k, v in base.state_dict().items()}, "plain.safetensors")
new = lambda: copy.deepcopy(base)  # noqa: E731
save = lambda name, tensors: torch.save(dict(tensors), name + ".pt")  # noqa: E731
forward, data, module = wrapper("_forward_module"), wrapper("_dp_module"), wrapper("module")

save("dp", nn.DataParallel(new()).state_dict())
save("compiled_inside", swap(new(), "body", torch.compile).state_dict())
save("compiled_twice", torch.compile(swap(new(), "body.1", torch.compile)).state_dict())
save("checkpointed", names(swap(swap(new(), "body.0", checkpoint_wrapper), "body.1", checkpoint_wrapper)))
save("dp_checkpointed_compiled", names(nn.DataParallel(torch.compile(swap(new(), "body", checkpoint_wrapper)))))
save("forward", forward(new()).state_dict())
save("forward_dp", forward(module(new())).state_dict())
save("module_twice", nn.DataParallel(module(new())).state_dict())
save("dp_module", swap(new(), "body", data).state_dict())
save("mixed", names(module(torch.compile(swap(swap(new(), "body.1", checkpoint_wrapper), "body.0", torch.compile)))))
average = torch.optim.swa_utils.AveragedModel(new())
save("averaged", average.state_dict())
copies = nn.Module()
copies.replicas = nn.ModuleList([new(), new()])
save("copies", copies.state_dict())
alone = nn.Module()
alone.replicas = nn.ModuleList([new()])
save("user_replicas", alone.state_dict())
save("within", swap(new(), "body", lambda m: torch.compile(nn.DataParallel(m))).state_dict())
with torch.no_grad():
    copies.replicas[1].head.bias += 1
save("refused_copies", copies.state_dict())
collides = names(swap(new(), "body.0", checkpoint_wrapper))
collides["body.0.weight"] = collides["body.0._checkpoint_wrapped_module.weight"] + 1
save("refused_collision", collides)
save("refused_unknown", swap(new(), "body", wrapper("_acme_wrapped_module")).state_dict())

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", GLOO_SOCKET_IFNAME="lo")
dist.init_process_group("gloo", rank=0, world_size=1)
sharded = FSDP(swap(new(), "body.1", lambda m: FSDP(checkpoint_wrapper(m), use_orig_params=True, device_id=torch.device("cpu"))), use_orig_params=True,
               device_id=torch.device("cpu"))
with FSDP.summon_full_params(sharded):
    own = {k: v.detach().clone() for k, v in nn.Module.named_parameters(sharded, remove_duplicate=False)}
save("fsdp", own)
save("fsdp_inside", {"module." + k.replace("_fsdp_wrapped_module.", "", 1): v for k, v in own.items()})
flat = FSDP(new(), use_orig_params=False, device_id=torch.device("cpu"))
save("refused_flat", {k: v.detach().clone() for k, v in nn.Module.named_parameters(flat)})
dist.destroy_process_group()
for f in sorted(os.listdir(".")):
    if f.endswith(".pt"):
        print(f, list(torch.load(f, weights_only=True)))
