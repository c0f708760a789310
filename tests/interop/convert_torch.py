#!/usr/bin/env python3
"""PyTorch's side of convert.py: the same models as nn.Modules take what pgconvert --layout pytorch wrote, and predict what Keras did.

usage: convert_torch.py JOBS.json      a list of [safetensors file, model of convert_models.py, folder with x0.npy and y0.npy]; one JSON
                                       report a line. With "out" as fourth element the module's own state_dict is saved there, every
                                       tensor changed, with its new predictions in out.y.npy."""
import json
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv2d, self.dense, self.dense_1 = nn.Conv2d(1, 4, 3), nn.Linear(36, 6), nn.Linear(6, 5)

    def forward(self, x):
        x = F.max_pool2d(self.conv2d(x.permute(0, 3, 1, 2)).relu(), 2).flatten(1)
        return self.dense_1(self.dense(x).relu()).softmax(1)


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv2d, self.batch_normalization = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, eps=1e-3)
        self.depthwise_conv2d = nn.Conv2d(4, 8, 3, groups=4)
        self.separable_conv2d = nn.ModuleDict({"depthwise": nn.Conv2d(8, 8, 2, groups=8, bias=False), "pointwise": nn.Conv2d(8, 6, 1)})
        self.p_re_lu, self.conv2d_transpose = nn.PReLU(6), nn.ConvTranspose2d(6, 5, 3, stride=2)
        self.batch_normalization_1 = nn.BatchNorm1d(5 * 4 * 4, eps=1e-3)
        self.dense, self.dense_1 = nn.Linear(80, 7), nn.Linear(7, 3)

    def forward(self, x):
        x = self.depthwise_conv2d(self.batch_normalization(self.conv2d(x.permute(0, 3, 1, 2)).relu()))
        x = self.separable_conv2d["pointwise"](self.separable_conv2d["depthwise"](x))
        x = F.max_pool2d(self.conv2d_transpose(self.p_re_lu(x)).tanh(), 2).flatten(1)
        return self.dense_1(self.dense(self.batch_normalization_1(x)).relu())


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv2d, self.layer_normalization, self.layer_normalization_1 = nn.Conv2d(2, 3, 2), nn.LayerNorm(3, eps=1e-3), nn.LayerNorm(48, eps=1e-3)
        self.p_re_lu, self.dense, self.dense_1 = nn.PReLU(48), nn.Linear(48, 7), nn.Linear(7, 3)

    def forward(self, x):
        x = self.layer_normalization(self.conv2d(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.dense_1(self.dense(self.p_re_lu(self.layer_normalization_1(x.flatten(1)))).relu())


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.multi_head_attention = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer_normalization, self.conv1d = nn.LayerNorm(8, eps=1e-3), nn.Conv1d(8, 6, 3)
        self.gru, self.bidirectional = nn.GRU(6, 5, batch_first=True), nn.GRU(5, 3, batch_first=True, bidirectional=True)
        self.time_distributed, self.simple_rnn, self.dense_1 = nn.Linear(6, 4), nn.RNN(4, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        x = self.embedding(x.long())
        x = self.layer_normalization(x + self.multi_head_attention(x, x, x)[0])
        x = self.conv1d(x.transpose(1, 2)).transpose(1, 2)
        x = self.time_distributed(self.bidirectional(self.gru(x)[0])[0])
        return self.dense_1(self.simple_rnn(x)[1][0])


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.layer_normalization = nn.LSTM(4, 5, batch_first=True), nn.LayerNorm(5, eps=1e-3)
        self.bidirectional, self.dense = nn.LSTM(5, 3, batch_first=True, bidirectional=True), nn.Linear(6, 2)

    def forward(self, x):
        h = self.bidirectional(self.layer_normalization(self.lstm(x)[0]))[1][0]
        return self.dense(torch.cat([h[0], h[1]], 1))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.ModuleDict({"conv2d": nn.Conv2d(2, 3, 2, bias=False), "dense": nn.Linear(48, 4)})
        self.head = nn.ModuleDict({"dense_1": nn.Linear(4, 3), "batch_normalization": nn.BatchNorm1d(3, eps=1e-3)})
        self.conv3d, self.conv3d_transpose, self.o_ut = nn.Conv3d(1, 3, 2), nn.ConvTranspose3d(3, 2, 2), nn.Linear(5, 2)

    def forward(self, a):
        x = self.enc["dense"](self.enc["conv2d"](a.permute(0, 3, 1, 2)).flatten(1))
        x = self.head["batch_normalization"](self.head["dense_1"](x).relu())
        v = self.conv3d_transpose(self.conv3d(a.reshape(-1, 1, 5, 5, 2)).relu()).mean((2, 3, 4))
        return self.o_ut(torch.cat([x, v], 1))


MODELS = {"cnn": Cnn, "torch_image": Image, "torch_flat": Flat, "torch_text": Text, "torch_rnn": Rnn, "torch_nested": Nested}


def judge(path, model, folder, out=None):
    m = MODELS[model]()
    w = load_file(path)
    m.load_state_dict(w, strict=True)
    m.eval()
    x = torch.tensor(np.load(folder + "/x0.npy"))
    y = m(x).detach().numpy()
    worst = float(np.abs(y - np.load(folder + "/y0.npy")).max())
    if out:
        torch.manual_seed(1)
        new = {k: v if k.endswith("num_batches_tracked") else (v * 0.9 + torch.rand_like(v) * 0.1).contiguous() for k, v in m.state_dict().items()}
        m.load_state_dict(new)
        save_file(new, out)
        np.save(out + ".y.npy", m(x).detach().numpy())
    return worst


def main():
    with open(sys.argv[1]) as f:
        jobs = json.load(f)
    for job in jobs:
        try:
            worst = judge(*job)
            print(json.dumps({"error": None if worst < 2e-6 else "predictions differ by %g" % worst, "worst": worst}))
        except Exception as e:
            print(json.dumps({"error": "%s: %s" % (type(e).__name__, str(e)[:600])}))


if __name__ == "__main__":
    main()
