#!/usr/bin/env python3
"""PyTorch: a plain loop over tensors in memory.

usage: torch_peer.py MODEL [--mode eager|cl|bf16|compile|autotune|ddp] [--steps N]
cl: channels_last for images; bf16: the same with autocast to bfloat16; autotune: torch.compile with max-autotune; ddp: two processes of one thread each over gloo."""
import argparse
import os
import subprocess
import sys
import time

from specs import APPLICATIONS, BERT, DISTINCT, LEARNING_RATE, SPEC, UNET_BASE, VGG16, VGGSMALL, data, optimizer, report

BEGUN = float(os.environ.setdefault('BENCH_T0', str(time.time())))
WORLD = 2
COMPILED = {'compile': None, 'autotune': 'max-autotune'}  # torch.compile's mode
os.environ.setdefault('CUDA_VISIBLE_DEVICES', '')
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def arguments():
    ap = argparse.ArgumentParser()
    ap.add_argument('model', choices=SPEC)
    ap.add_argument('--mode', default='eager')
    ap.add_argument('--steps', type=int)
    ap.add_argument('--rank', type=int, default=-1)
    return ap.parse_args()


def two_processes():
    env = {**os.environ, 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(20000 + os.getpid() % 20000), 'OMP_NUM_THREADS': '1'}
    ps = [subprocess.Popen([sys.executable, *sys.argv, '--rank', str(r)], env=env) for r in range(WORLD)]
    return max(p.wait() for p in ps)


def relu():
    return nn.ReLU(inplace=True)


def vgg(plan, *widths):
    layers, n = [], 3
    for v in plan:
        layers += [nn.MaxPool2d(2)] if v == 'M' else [nn.Conv2d(n, v, 3, padding=1), relu()]
        n = n if v == 'M' else v
    layers.append(nn.Flatten())
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o), relu()]
    return nn.Sequential(*layers[:-1])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        b = UNET_BASE

        def twice(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), relu(), nn.Conv2d(o, o, 3, padding=1), relu())
        self.down = nn.ModuleList([twice(b << (i - 1) if i else 1, b << i) for i in range(5)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(b << (i + 1), b << i, 2, 2) for i in range(4)])
        self.up = nn.ModuleList([twice(b << (i + 1), b << i) for i in range(4)])
        self.last = nn.Conv2d(b, 1, 1)

    def forward(self, x):
        skips = []
        for i in range(4):
            skips.append(self.down[i](x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.down[4](x)
        for i in reversed(range(4)):
            x = self.up[i](torch.cat([self.grow[i](x), skips[i]], 1))
        return self.last(x)


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.short = nn.Sequential()
        if stride != 1 or i != o:
            self.short = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.b2(self.c2(F.relu(self.b1(self.c1(x)), inplace=True)))
        return F.relu(y + self.short(x), inplace=True)


def resnet18(k):
    blocks, i = [], 64
    for o, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(i, o, stride), Block(o, o, 1)]
        i = o
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), relu(), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, k))


class Lstm2(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lstm, self.last = nn.LSTM(256, 64, batch_first=True), nn.Linear(128, k)

    def forward(self, a, b):
        return self.last(torch.cat([self.lstm(x)[1][0][0] for x in (a, b)], 1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        w = BERT['width']
        self.q, self.k, self.v, self.o = (nn.Linear(w, w) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(w, 1e-12), nn.LayerNorm(w, 1e-12)
        self.f1, self.f2 = nn.Linear(w, BERT['ffn']), nn.Linear(BERT['ffn'], w)

    def forward(self, x):
        n, t, w = x.shape

        def heads(v):
            return v.view(n, t, BERT['heads'], -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)))
        x = self.n1(x + self.o(y.transpose(1, 2).reshape(n, t, w)))
        return self.n2(x + self.f2(F.gelu(self.f1(x))))


class Bert(nn.Module):
    def __init__(self, k):
        super().__init__()
        w = BERT['width']
        self.words, self.norm = nn.Embedding(BERT['vocab'], w), nn.LayerNorm(w, 1e-12)
        self.positions = nn.Parameter(torch.randn(BERT['seq'], w) * 0.02)
        self.layers = nn.Sequential(*[Encoder() for _ in range(BERT['layers'])])
        self.pool, self.last = nn.Linear(w, w), nn.Linear(w, k)

    def forward(self, ids):
        x = self.layers(self.norm(self.words(ids) + self.positions))
        return self.last(torch.tanh(self.pool(x[:, 0])))


def xception(k):
    """As keras.applications has it; torchvision has none."""
    def conv(i, o, size, stride=1, pad=0):
        return [nn.Conv2d(i, o, size, stride, pad, bias=False), nn.BatchNorm2d(o)]

    def separable(i, o):
        return [nn.Conv2d(i, i, 3, 1, 1, groups=i, bias=False), nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o)]

    class Sum(nn.Module):
        def __init__(self, body, short):
            super().__init__()
            self.body, self.short = nn.Sequential(*body), nn.Sequential(*short)

        def forward(self, x):
            return self.body(x) + self.short(x)

    def down(i, middle, o, first):
        body = [*([nn.ReLU()] if first else []), *separable(i, middle), relu(), *separable(middle, o), nn.MaxPool2d(3, 2, 1)]
        return Sum(body, conv(i, o, 1, 2))

    def flat():
        return Sum([m for _ in range(3) for m in (nn.ReLU(), *separable(728, 728))], [])
    return nn.Sequential(*conv(3, 32, 3, 2), relu(), *conv(32, 64, 3), relu(), down(64, 128, 128, False), down(128, 256, 256, True),
                         down(256, 728, 728, True), *[flat() for _ in range(8)], down(728, 728, 1024, True), *separable(1024, 1536), relu(),
                         *separable(1536, 2048), relu(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, k))


def build(name):
    k = SPEC[name]['n_out']
    if name in APPLICATIONS and APPLICATIONS[name][1]:
        import torchvision
        return getattr(torchvision.models, APPLICATIONS[name][1])(weights=None, num_classes=k)
    return {
        'mlp': lambda: nn.Sequential(nn.Linear(784, 512), relu(), nn.Linear(512, 512), relu(), nn.Linear(512, k)),
        'lenet': lambda: nn.Sequential(nn.Conv2d(1, 32, 3), relu(), nn.Conv2d(32, 64, 3), relu(), nn.MaxPool2d(2),
                                       nn.Flatten(), nn.Linear(9216, 128), relu(), nn.Linear(128, k)),
        'vggsmall': lambda: vgg(VGGSMALL, 4096, 512, k),
        'xception': lambda: xception(k),
        'vgg16': lambda: vgg(VGG16, 25088, 4096, 4096, k),
        'unet': UNet,
        'resnet18': lambda: resnet18(k),
        'lstm2': lambda: Lstm2(k),
        'bertmini': lambda: Bert(k),
    }[name]()


def train(a):
    torch.manual_seed(0)
    batch, warm = SPEC[a.model]['batch'], max(SPEC[a.model]['warm'], 2 if a.mode in COMPILED else 1)
    steps, world, ddp = a.steps or SPEC[a.model]['steps'], 1, a.mode == 'ddp'
    if ddp:
        import torch.distributed as dist
        dist.init_process_group('gloo', rank=a.rank, world_size=WORLD)
        torch.set_num_threads(1)
        world = WORLD
    rows = batch // world
    n = min(warm + steps, DISTINCT)
    x, y = data(a.model, rows, n, channels_first=True, seed=max(a.rank, 0))
    x, y = [torch.from_numpy(v) for v in x], torch.from_numpy(y)
    m = build(a.model)
    if a.mode in ('cl', 'bf16') and x[0].dim() == 4:
        m, x = m.to(memory_format=torch.channels_last), [v.to(memory_format=torch.channels_last) for v in x]
    params = sum(p.numel() for p in m.parameters())
    net = nn.parallel.DistributedDataParallel(m) if ddp else m
    opt = getattr(torch.optim, optimizer(a.model))(m.parameters(), LEARNING_RATE)
    objective = F.binary_cross_entropy_with_logits if a.model == 'unet' else F.cross_entropy
    forward = torch.compile(net, mode=COMPILED[a.mode]) if a.mode in COMPILED else net
    net.train()
    ends, value = [], 0.0
    for i in range(warm + steps):
        at = slice(i % n * rows, (i % n + 1) * rows)
        opt.zero_grad(set_to_none=True)
        with torch.autocast('cpu', torch.bfloat16, enabled=a.mode == 'bf16'):
            out = forward(*[v[at] for v in x])
        error = objective(out.float(), y[at])
        error.backward()
        opt.step()
        value = error.item()
        ends.append(time.time())
    if a.rank <= 0:
        report(a.model, torch.__version__, batch, ends, warm, BEGUN, value, params)
    if ddp:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == '__main__':
    ARGS = arguments()
    sys.exit(two_processes() if ARGS.mode == 'ddp' and ARGS.rank < 0 else train(ARGS))
