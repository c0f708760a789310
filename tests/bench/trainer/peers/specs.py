"""What is trained: models, batch sizes, steps and data, the same for every program."""
SPEC = {  # batch, measured steps, steps before that, outputs
    'mlp': {'batch': 128, 'steps': 200, 'warm': 20, 'n_out': 10},
    'lenet': {'batch': 128, 'steps': 20, 'warm': 3, 'n_out': 10},
    'vggsmall': {'batch': 64, 'steps': 8, 'warm': 2, 'n_out': 10},
    'unet': {'batch': 8, 'steps': 6, 'warm': 2, 'n_out': 1},
    'lstm2': {'batch': 32, 'steps': 20, 'warm': 3, 'n_out': 50},
    'bertmini': {'batch': 16, 'steps': 6, 'warm': 2, 'n_out': 2},
    'resnet18': {'batch': 32, 'steps': 5, 'warm': 2, 'n_out': 10},
    'vgg16': {'batch': 8, 'steps': 3, 'warm': 1, 'n_out': 1000},
    'mobilenetv2': {'batch': 16, 'steps': 8, 'warm': 2, 'n_out': 100},
    'densenet121': {'batch': 16, 'steps': 5, 'warm': 2, 'n_out': 100},
    'efficientnetb0': {'batch': 16, 'steps': 6, 'warm': 2, 'n_out': 100},
    'xception': {'batch': 16, 'steps': 5, 'warm': 2, 'n_out': 100},
}
APPLICATIONS = {  # names in keras.applications, in torchvision.models
    'mobilenetv2': ('MobileNetV2', 'mobilenet_v2'), 'densenet121': ('DenseNet121', 'densenet121'),
    'efficientnetb0': ('EfficientNetB0', 'efficientnet_b0'), 'xception': ('Xception', None),
}
LEARNING_RATE = 1e-4
BERT = {'layers': 4, 'width': 256, 'heads': 4, 'ffn': 1024, 'seq': 128, 'vocab': 30522}
UNET_BASE = 32
VGGSMALL = (64, 64, 'M', 128, 128, 'M', 256, 256, 'M')
VGG16 = (64, 64, 'M', 128, 128, 'M', 256, 256, 256, 'M', 512, 512, 512, 'M', 512, 512, 512, 'M')
DISTINCT = 8  # batches of data; then they come again


def optimizer(name):
    return 'RMSprop' if name == 'lstm2' else 'Adam'


def loss(name):
    return 'binary_crossentropy' if name == 'unet' else 'sparse_categorical_crossentropy'


def data(name, batch, n_batches, channels_first=False, seed=0):
    """Random rows: list of inputs, target."""
    import numpy as np
    r = np.random.default_rng(seed)
    n, k = batch * n_batches, SPEC[name]['n_out']

    def image(h, w, c):
        return r.standard_normal((n, c, h, w) if channels_first else (n, h, w, c), dtype=np.float32)

    y = r.integers(0, k, n).astype('int64')
    if name == 'mlp':
        return [r.standard_normal((n, 784), dtype=np.float32)], y
    if name == 'lenet':
        return [image(28, 28, 1)], y
    if name in ('vggsmall', 'resnet18'):
        return [image(32, 32, 3)], y
    if name == 'vgg16':
        return [image(224, 224, 3)], y
    if name in APPLICATIONS:
        return [image(96, 96, 3)], y
    if name == 'unet':
        return [image(128, 128, 1)], (image(128, 128, 1) > 0).astype(np.float32)
    if name == 'lstm2':
        return [r.standard_normal((n, 140, 256), dtype=np.float32) for _ in range(2)], y
    return [r.integers(0, BERT['vocab'], (n, BERT['seq'])).astype('int64')], y


def report(name, version, batch, ends, warm, begun, loss_value, params):
    """Prints the line that run.py reads; ends: the time at the end of every step."""
    import json
    import math
    ms = sorted((b - a) * 1e3 for a, b in zip(ends[warm - 1:], ends[warm:]))
    assert math.isfinite(loss_value)
    print(json.dumps({'ver': version, 'model': name, 'batch': batch, 'ms_step': round(sum(ms) / len(ms), 3),
                      'ms_med': round(ms[len(ms) // 2], 3), 'ms_min': round(ms[0], 3),
                      'sps': round(batch * 1e3 * len(ms) / sum(ms), 2), 't_first': round(ends[0] - begun, 3),
                      'loss': loss_value, 'params': params}), flush=True)
