#!/usr/bin/env python3
"""PyTorch's side of wrap.py, alive for all models: one question a line on stdin, one answer a line on stdout.

question  [model.json, file of pgconvert --layout pytorch, x.npz, y.npz]
answer    {"outcome": "right" | "wrong" | "skipped", "why"}
The modules are made from Keras' description, called like the layers, with "." and "/" in names as "_". The file must load strictly, and the
model predict what Keras did. A layer without a torch.nn module of its own here counts as skipped.
"""
import json
import sys

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F


class Untried(Exception):
    pass


def activation(name, x, axis=-1):
    if name in (None, "linear"):
        return x
    if name == "softmax":
        return x.softmax(axis)
    if name in ("relu", "tanh", "sigmoid", "elu"):
        return getattr(F, name)(x) if name == "elu" else getattr(torch, name)(x)
    raise Untried("activation %s" % name)


def same_padding(x, kernel):
    """Keras pads the end of an axis one more where the sum is odd."""
    pads = []
    for n in reversed(kernel):
        pads += [(n - 1) // 2, n // 2]
    return F.pad(x, pads)


def first(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def conv(module, c, x):
    x = first(x)
    return last(module(same_padding(x, c["kernel_size"]) if c["padding"] == "same" else x))


class Layer:
    """One layer of the description: make(config, weights) is its module, call(module, config, x) what it does."""

    def __init__(self, spec, weights, prefix):
        self.cls, self.c, self.module, self.x = spec["class_name"], spec["config"], None, None
        self.turned = False  # a Flatten of a sequence that a convolution gave: (c, n) in PyTorch, where others hold (n, c)
        make = getattr(self, "make_" + self.cls, None)
        if make:
            own = {k[len(prefix) + 1:]: v for k, v in weights.items() if k.startswith(prefix + ".")}
            self.module = make(own)

    def make_Dense(self, w):
        return nn.Linear(w["weight"].shape[1], w["weight"].shape[0], bias="bias" in w)

    def call_Dense(self, x):
        return activation(self.c["activation"], self.module(x))

    def make_Conv1D(self, w):
        s = w["weight"].shape
        return [nn.Conv1d, nn.Conv2d][len(s) - 3](s[1], s[0], tuple(s[2:]), bias="bias" in w)

    make_Conv2D = make_Conv1D

    def make_DepthwiseConv2D(self, w):
        s = w["weight"].shape
        return nn.Conv2d(s[0] // self.c["depth_multiplier"], s[0], tuple(s[2:]), groups=s[0] // self.c["depth_multiplier"], bias="bias" in w)

    def make_Conv2DTranspose(self, w):
        s = w["weight"].shape
        return nn.ConvTranspose2d(s[0], s[1], tuple(s[2:]), bias="bias" in w)

    def make_SeparableConv2D(self, w):
        d, p = w["depthwise.weight"].shape, w["pointwise.weight"].shape
        n = d[0] // self.c["depth_multiplier"]
        return nn.ModuleDict({"depthwise": nn.Conv2d(n, d[0], tuple(d[2:]), groups=n, bias=False),
                              "pointwise": nn.Conv2d(p[1], p[0], 1, bias="pointwise.bias" in w)})

    def call_Conv1D(self, x):
        return activation(self.c["activation"], conv(self.module, self.c, x))

    call_Conv2D = call_DepthwiseConv2D = call_Conv1D

    def call_Conv2DTranspose(self, x):
        return activation(self.c["activation"], last(self.module(first(x))))

    def call_SeparableConv2D(self, x):
        return activation(self.c["activation"], last(self.module["pointwise"](first(conv(self.module["depthwise"], self.c, x)))))

    def make_BatchNormalization(self, w):
        return nn.BatchNorm1d(len(w["running_mean"]), eps=self.c["epsilon"], affine="weight" in w)

    def call_BatchNormalization(self, x):
        return self.module(x.reshape(-1, x.shape[-1])).reshape(x.shape)

    def make_LayerNormalization(self, w):
        if not w:
            raise Untried("LayerNormalization without weights")
        return nn.LayerNorm(tuple(w["weight"].shape), eps=self.c["epsilon"])

    def call_LayerNormalization(self, x):
        return self.module(x)

    def make_PReLU(self, w):
        return nn.PReLU(len(w["weight"]))

    def call_PReLU(self, x):
        return last(self.module(first(x)))

    def make_Embedding(self, w):
        return nn.Embedding(*w["weight"].shape)

    def call_Embedding(self, x):
        return self.module(x.long())

    def recurrent(self, cls, c, w, two=False):
        h = w["weight_hh_l0"].shape[1]
        kind = {"LSTM": nn.LSTM, "GRU": nn.GRU, "SimpleRNN": nn.RNN}[cls]
        return kind(w["weight_ih_l0"].shape[1], h, batch_first=True, bias="bias_ih_l0" in w, bidirectional=two)

    def make_LSTM(self, w):
        return self.recurrent(self.cls, self.c, w)

    make_GRU = make_SimpleRNN = make_LSTM

    def call_LSTM(self, x):
        y = self.module(x)[0]
        return y if self.c["return_sequences"] else y[:, -1]

    call_GRU = call_SimpleRNN = call_LSTM

    def make_Bidirectional(self, w):
        inner = self.c["layer"]
        return self.recurrent(inner["class_name"], inner["config"], w, True)

    def call_Bidirectional(self, x):
        y, h = self.module(x)[0], self.module.hidden_size
        return y if self.c["layer"]["config"]["return_sequences"] else torch.cat([y[:, -1, :h], y[:, 0, h:]], 1)

    def make_TimeDistributed(self, w):
        if self.c["layer"]["class_name"] != "Dense":
            raise Untried("TimeDistributed of another layer than Dense")
        return self.make_Dense(w)

    def call_TimeDistributed(self, x):
        return activation(self.c["layer"]["config"]["activation"], self.module(x))

    def make_MultiHeadAttention(self, w):
        return nn.MultiheadAttention(w["out_proj.weight"].shape[0], self.c["num_heads"], bias="in_proj_bias" in w, batch_first=True)

    def call_MultiHeadAttention(self, x, *others):
        return self.module(x, x, x)[0]

    def call_Dropout(self, x):
        return x

    def call_Activation(self, x):
        return activation(self.c["activation"], x)

    def call_ReLU(self, x):
        return x.relu()

    def call_Softmax(self, x):
        return x.softmax(-1)

    def call_LeakyReLU(self, x):
        return F.leaky_relu(x, self.c["alpha"])

    def call_RepeatVector(self, x):
        return x[:, None].repeat(1, self.c["n"], 1)

    def call_Flatten(self, x):
        return (x if x.dim() < 4 and not self.turned else first(x)).flatten(1)

    def call_MaxPooling2D(self, x):
        return last(F.max_pool2d(F.pad(first(x), [0, 1, 0, 1], value=-torch.inf), 2, 1))

    def call_GlobalAveragePooling1D(self, x):
        return x.mean(1)

    def call_GlobalAveragePooling2D(self, x):
        return x.mean((1, 2))

    def call_Add(self, *x):
        return sum(x)

    def call_Multiply(self, a, b):
        return a * b

    def call_Average(self, a, b):
        return (a + b) / 2

    def call_Subtract(self, a, b):
        return a - b

    def call_Maximum(self, a, b):
        return torch.maximum(a, b)

    def call_Concatenate(self, *x):
        return torch.cat(x, -1)


class Net(nn.Module):
    """A functional or sequential model of the description."""

    def __init__(self, config, weights, prefix=""):
        super().__init__()
        self.c, self.parts, self.flat = config, {}, {}
        for spec in config["layers"]:
            name = spec["config"]["name"]
            module = name.replace(".", "_").replace("/", "_")
            full = prefix + module
            if spec["class_name"] in ("Functional", "Sequential"):
                part = Net(spec["config"], weights, full + ".")
                own = part
            else:
                if not hasattr(Layer, "call_" + spec["class_name"]) and spec["class_name"] != "InputLayer":
                    raise Untried(spec["class_name"])
                part = Layer(spec, weights, full)
                part.turned = spec["class_name"] == "Flatten" and "Conv" in self.source(spec)
                own = part.module
            self.parts[name] = part
            if own is not None and any(True for _ in own.state_dict()):
                self.add_module(module if not hasattr(self, module) else module, own)

    def source(self, spec):
        """The class of the layer that gave the channels of what this one is called with."""
        same = "Activation BatchNormalization Dropout Flatten LayerNormalization LeakyReLU PReLU ReLU Softmax MaxPooling2D".split()
        at = {s["config"]["name"]: s for s in self.c["layers"]}
        while spec["class_name"] in same:
            if "inbound_nodes" in spec:
                ref = spec["inbound_nodes"][0][0]
                before = at[ref if isinstance(ref, str) else ref[0]]
            else:
                before = self.c["layers"][max(0, self.c["layers"].index(spec) - 1)]
            if before is spec:
                return ""
            spec = before
        return spec["class_name"]

    def call(self, name, args):
        part = self.parts[name]
        return part(*args) if isinstance(part, Net) else getattr(part, "call_" + part.cls)(*args)

    def forward(self, *xs):
        if "input_layers" not in self.c:
            x = xs[0]
            for spec in self.c["layers"]:
                x = x if spec["class_name"] == "InputLayer" else self.call(spec["config"]["name"], [x])
            return x
        values = {(ref[0], 0, 0): x for ref, x in zip(self.c["input_layers"], xs)}
        todo = [(s["config"]["name"], k, node) for s in self.c["layers"] for k, node in enumerate(s["inbound_nodes"])]
        while todo:
            left = []
            for name, k, node in todo:
                node = [node] if isinstance(node[0], str) else node
                extra = [v for ref in node for v in (ref[3] if len(ref) > 3 else {}).values() if isinstance(v, list) and v and v[0] in self.parts]
                refs = [tuple(ref[:3]) for ref in node]
                if not all(r in values for r in refs) or not all(tuple(r[:3]) in values for r in extra):
                    left.append((name, k, node))
                    continue
                y = self.call(name, [values[r] for r in refs])
                own = isinstance(self.parts[name], Net)  # a model's first node is that of its own inputs
                for j, v in enumerate(y if isinstance(y, tuple) else [y]):
                    values[name, k + own, j] = v
            if len(left) == len(todo):
                raise Untried("a graph with other calls")
            todo = left
        outs = [values[tuple(ref)] for ref in self.c["output_layers"]]
        return tuple(outs) if len(outs) > 1 else outs[0]


def judge(like, path, x, y):
    with open(like) as f:
        config = json.load(f)["config"]
    weights = load_file(path)
    net = Net(config, weights)
    net.load_state_dict(weights, strict=True)
    net.eval()
    xs, ys = ([z[k] for k in z.files] for z in (np.load(x), np.load(y)))
    with torch.no_grad():
        got = net(*[torch.tensor(a) for a in xs])
    worst = 0.0
    for a, b in zip(got if isinstance(got, tuple) else (got,), ys):
        if tuple(a.shape) != b.shape:
            return "wrong", "prediction of another shape"
        if "Flatten" in str(config) and a.dim() == 2:  # (c, ...) and (..., c) flattened, where no Dense follows, are in another order
            a, b = a.sort(1)[0], np.sort(b, 1)
        worst = max(worst, float(np.abs(a.numpy() - b).max() / max(1.0, float(np.abs(b).max()))))
    return ("right", "") if worst < 1e-5 else ("wrong", "predictions differ")


def main():
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            outcome, why = judge(*json.loads(line))
        except Untried as e:
            outcome, why = "skipped", str(e)
        except Exception as e:
            outcome, why = "wrong", "%s: %s" % (type(e).__name__, str(e)[:300].replace("\n", " "))
        print(json.dumps({"outcome": outcome, "why": why}), flush=True)


if __name__ == "__main__":
    main()
