#!/usr/bin/env python3
"""PyTorch: a plain loop, eager or compiled. One measurement, one line of JSON. Data lie on the device, images with their
channels last; Adam is fused. Models are those of keras_models.py.

usage: torch_peer.py MODEL [--batch N] [--mode eager|compile] [--precision bf16|tf32|f32] [--tiny]"""
import sys
import time

sys.dont_write_bytecode = True
BEGUN = time.time()
from specs import LEARNING_RATE, MODELS, MOMENTUM, arguments, data, measure, report  # noqa: E402

a = arguments(__doc__, ('eager', 'compile'))
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.precision != 'f32'
torch.manual_seed(0)


def norm(n):
    return nn.BatchNorm2d(n, eps=1.001e-5, momentum=0.01)


def relu():
    return nn.ReLU(inplace=True)


class Block(nn.Module):
    """Of ResNet-50: the stride in the first convolution, biases in all, as keras.applications has it."""

    def __init__(self, i, n, stride, project):
        super().__init__()
        self.short = nn.Sequential(nn.Conv2d(i, 4 * n, 1, stride), norm(4 * n)) if project else nn.Identity()
        self.body = nn.Sequential(nn.Conv2d(i, n, 1, stride), norm(n), relu(), nn.Conv2d(n, n, 3, padding=1), norm(n), relu(),
                                  nn.Conv2d(n, 4 * n, 1), norm(4 * n))

    def forward(self, x):
        return F.relu(self.short(x) + self.body(x))


def resnet50():
    blocks, i = [], 64
    for n, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            blocks.append(Block(i, n, 1 if k else stride, k == 0))
            i = 4 * n
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), norm(64), relu(), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(2048, 1000))


def vgg16(size):
    layers, i = [], 3
    for n, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(i, n, 3, padding=1), relu()]
            i = n
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * (size // 32) ** 2, 4096), relu(), nn.Linear(4096, 4096), relu(),
                         nn.Linear(4096, 1000))


class UNet(nn.Module):
    def __init__(self, base):
        super().__init__()

        def twice(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), relu(), nn.Conv2d(o, o, 3, padding=1), relu())
        self.down = nn.ModuleList([twice(base << (i - 1) if i else 1, base << i) for i in range(5)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(base << (i + 1), base << i, 2, 2) for i in range(4)])
        self.up = nn.ModuleList([twice(base << (i + 1), base << i) for i in range(4)])
        self.last = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skips = []
        for i in range(4):
            skips.append(self.down[i](x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.down[4](x)
        for i in reversed(range(4)):
            x = self.up[i](torch.cat([self.grow[i](x), skips[i]], 1))
        return self.last(x)


class Encoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.n1, self.n2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.f1, self.f2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = self.n1(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, w)))
        return self.n2(x + self.f2(F.gelu(self.f1(x))))


class Bert(nn.Module):
    def __init__(self, width, heads, layers, vocab):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(vocab, width), nn.Embedding(512, width), nn.LayerNorm(width, 1e-12)
        self.layers = nn.Sequential(*[Encoder(width, heads) for _ in range(layers)])
        self.pool, self.last = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, ids, positions):
        x = self.layers(self.norm(self.words(ids) + self.places(positions)))
        return self.last(torch.tanh(self.pool(x[:, 0])))


class Lstm2(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(256, 64, batch_first=True), nn.Linear(128, 50)

    def forward(self, *xs):
        return self.last(torch.cat([self.lstm(x)[1][0][0] for x in xs], 1))


model = {
    'bert': lambda: Bert(64, 4, 2, 100) if a.tiny else Bert(768, 12, 12, 30522),
    'lstm2': Lstm2,
    'resnet50': resnet50,
    'unet': lambda: UNet(8 if a.tiny else 64),
    'vgg16': lambda: vgg16(32 if a.tiny else 224),
}[a.model]().to(DEVICE).train()
x, y = data(a.model, a.batch, a.tiny)
x, y = [torch.from_numpy(v).to(DEVICE) for v in x], torch.from_numpy(y).to(DEVICE)
if a.model in ('resnet50', 'unet', 'vgg16'):
    model = model.to(memory_format=torch.channels_last)
    x = [v.permute(0, 3, 1, 2) for v in x]  # rows as they lie
if a.model == 'unet':
    y = y.permute(0, 3, 1, 2)
name = MODELS[a.model][1]
more = {'SGD': {'momentum': MOMENTUM}, 'Adam': {'fused': DEVICE == 'cuda'}, 'RMSprop': {'alpha': 0.9}}[name]
optimizer = getattr(torch.optim, name)(model.parameters(), LEARNING_RATE[name], **more)
objective = F.binary_cross_entropy_with_logits if a.model == 'unet' else F.cross_entropy
forward = torch.compile(model) if a.mode == 'compile' else model


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=a.precision == 'bf16'):
        out = forward(*x)
    value = objective(out.float(), y)
    value.backward()
    optimizer.step()
    return value


figures = measure(a, BEGUN, step, lambda value: value.item())
report(a, **figures, peak_mem_bytes=torch.cuda.max_memory_allocated() if DEVICE == 'cuda' else None,
       device=torch.cuda.get_device_name() if DEVICE == 'cuda' else 'cpu', version=torch.__version__,
       parameters=sum(p.numel() for p in model.parameters()))
