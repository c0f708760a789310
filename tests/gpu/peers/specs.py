"""Data, batches and how a measurement is told: the same for every program."""
import argparse
import json
import math
import time

MODELS = {  # batches, optimizer, loss
    'resnet50': ((64, 256), 'SGD', 'sparse_categorical_crossentropy'),
    'vgg16': ((64, 256), 'Adam', 'sparse_categorical_crossentropy'),
    'unet': ((32,), 'Adam', 'binary_crossentropy'),
    'bert': ((64,), 'Adam', 'sparse_categorical_crossentropy'),
    'lstm2': ((32, 256), 'RMSprop', 'sparse_categorical_crossentropy'),
}
LEARNING_RATE = {'SGD': 0.01, 'Adam': 1e-4, 'RMSprop': 1e-3}
MOMENTUM = 0.9
PRECISIONS = ('bf16', 'tf32', 'f32')


def data(name, n, tiny=False):
    """n random rows: list of inputs, target. Images have their channels last."""
    import numpy as np
    r = np.random.default_rng(0)

    def image(size, channels):
        return r.standard_normal((n, size, size, channels), dtype='f4')
    if name == 'bert':
        seq = 16 if tiny else 128
        ids = r.integers(0, 100 if tiny else 30522, (n, seq)).astype('i4')
        return [ids, np.tile(np.arange(seq, dtype='i4'), (n, 1))], r.integers(0, 2, n)
    if name == 'lstm2':
        return [r.standard_normal((n, 14 if tiny else 140, 256), dtype='f4') for _ in range(2)], r.integers(0, 50, n)
    if name == 'unet':
        size = 32 if tiny else 256
        return [image(size, 1)], (image(size, 1) > 0).astype('f4')
    size = {'resnet50': 64, 'vgg16': 32}[name] if tiny else 224
    return [image(size, 3)], r.integers(0, 1000, n)


def arguments(doc, modes):
    ap = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('model', choices=MODELS)
    ap.add_argument('--batch', type=int)
    ap.add_argument('--mode', choices=modes, default=modes[0])
    ap.add_argument('--precision', choices=PRECISIONS, default='f32')
    ap.add_argument('--tiny', action='store_true', help='a small model, on any device, to see that this runs')
    a = ap.parse_args()
    a.batch = a.batch or (2 if a.tiny else MODELS[a.model][0][0])
    return a


def measure(a, begun, step, wait):
    """step() begins a training step and returns its loss, wait(loss) waits for it and returns the number. Median of windows."""
    windows, each, warm = (3, 1, 2) if a.tiny else (7, 10, 10)
    value = wait(step())
    first = time.time() - begun
    for _ in range(warm):
        loss = step()
    wait(loss)
    ms = []
    for _ in range(windows):
        t = time.time()
        for _ in range(each):
            loss = step()
        value = wait(loss)
        ms.append((time.time() - t) * 1e3 / each)
    ms.sort()
    if not math.isfinite(value):
        raise SystemExit(f'loss {value}')
    return {'samples_per_s': round(a.batch * 1e3 / ms[windows // 2], 2), 'step_ms': round(ms[windows // 2], 3), 'min_ms': round(ms[0], 3),
            'first_step_s': round(first, 2), 'loss': value}


def report(a, **what):
    print(json.dumps({'model': a.model, 'batch': a.batch, 'mode': a.mode, 'precision': a.precision, **what}), flush=True)
