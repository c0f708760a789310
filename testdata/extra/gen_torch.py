#!/usr/bin/env python3
"""Writes extra/pytorch with the real torch.save(): types, views, parameters and manners that testdata/files/pytorch does not have.

usage: gen_torch.py OUT        with torch 2.5 and safetensors

Beside each NAME.pt lies NAME.safetensors with the same tensors, contiguous, under the names that the tools give them.
"""
import os
import sys

import torch
import torch.nn as nn
from safetensors.torch import save_file

out = os.path.join(sys.argv[1], "pytorch")
os.makedirs(out, exist_ok=True)
os.chdir(out)
torch.manual_seed(11)


def case(name, obj, tensors, **kw):
    torch.save(obj, name + ".pt", **kw)
    save_file({k: v.detach().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}, name + ".safetensors")


floats = {str(t)[6:]: (torch.randn(2, 3) * 9).to(t) for t in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
ints = {str(t)[6:]: torch.randint(0, 100, (2, 3)).to(t) for t in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)}
case("types", {**floats, **ints}, {**floats, **ints})
base = torch.randn(6, 8)
views = {"plain": base, "transposed": base.t(), "slice": base[1:4, 2:7], "steps": base[::2, ::3], "column": base[:, 5], "scalar": base[2, 3],
         "expanded": base[:1].expand(4, 8), "empty": base[:0], "permuted": torch.randn(2, 3, 4, 5).permute(2, 0, 3, 1),
         "channels_last": torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last), "unfolded": torch.arange(12.).unfold(0, 5, 3),
         "bytes": torch.arange(20, dtype=torch.uint8).reshape(4, 5).t()}
case("views", views, views)
case("views_stream", views, views, _use_new_zipfile_serialization=False)
case("protocol5", views, views, pickle_protocol=5)
params = {"w": nn.Parameter(torch.randn(3)), "f": nn.Parameter(torch.randn(2, 2), requires_grad=False)}
params["w"].note = 3  # an attribute: saved through _rebuild_parameter_with_state
case("parameters", params, params)
gan = {"G": nn.Linear(3, 4).state_dict(), "D": nn.Linear(4, 1).state_dict(), "step": 9}
case("two_models", gan, {k + "." + n: t for k in ("G", "D") for n, t in gan[k].items()})
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, [3, 5])
model(torch.randn(3, 4)).sum().backward()
opt.step()
sched.step()
case("checkpoint", {"model_state_dict": model.state_dict(), "optimizer": opt.state_dict(), "scheduler": sched.state_dict(), "epoch": 2, "name": "a run",
                    "device": torch.device("cpu"), "size": torch.Size([2, 4])}, model.state_dict())
case("list", [base, {"k": base[0]}], {"0": base, "1.k": base[0]})
torch.save({"w": torch.randn(4).to(torch.float8_e4m3fn)}, "refused_float8.pt")
torch.save({"w": torch.eye(3).to_sparse()}, "refused_sparse.pt")
torch.save({"w": torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)}, "refused_quantised.pt")
torch.save(model, "refused_module.pt")


class Net(nn.Module):
    """Parameters without layers: in a list, and in a dictionary with keys that mean something elsewhere."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.scales = nn.ParameterList([torch.randn(2), torch.randn(2, 2)])
        self.heads = nn.ParameterDict({"module": torch.randn(2), "optimizer": torch.randn(1, 2), "x_y": torch.randn(3)})


net = Net()
case("parameter_names", net.state_dict(), net.state_dict())
case("parameter_dict_state", net.heads.state_dict(), net.heads.state_dict())
case("parameter_dict", dict(net.heads), net.heads.state_dict())
case("parameter_list", list(net.scales), net.scales.state_dict())
case("parameter_dict_within", {"epoch": 3, "model": dict(net.heads)}, net.heads.state_dict())
torch.save(net.heads, "refused_parameter_dict.pt")
torch.save({"epoch": 3, "model": net.heads}, "refused_parameter_dict_within.pt")
