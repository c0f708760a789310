#!/usr/bin/env python3
"""export.py: writes models/*.json, what bench.py trains; needs tf.keras 2.15. Sizes are those that GPUs are compared
with: VGG16 and ResNet-50 of keras.applications, a U-Net on 256 x 256, BERT-base on 128 words, one LSTM for two inputs."""
import json
import os
import pathlib

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
from tensorflow import keras  # noqa: E402

L = keras.layers


def unet(size=256, base=64):
    def twice(x, n):
        for _ in range(2):
            x = L.Conv2D(n, 3, padding='same', activation='relu')(x)
        return x
    image = x = keras.Input((size, size, 1))
    skips = []
    for i in range(4):
        skips.append(twice(x, base << i))
        x = L.MaxPooling2D(2)(skips[-1])
    x = twice(x, base << 4)
    for i in reversed(range(4)):
        x = L.Conv2DTranspose(base << i, 2, strides=2, padding='same')(x)
        x = twice(L.Concatenate()([x, skips[i]]), base << i)
    return keras.Model(image, L.Conv2D(1, 1, activation='sigmoid')(x))


def bert(seq=128, width=768, heads=12, layers=12, vocab=30522):
    ids, positions = keras.Input((seq,), dtype='int32'), keras.Input((seq,), dtype='int32')
    x = L.Add()([L.Embedding(vocab, width)(ids), L.Embedding(512, width)(positions)])
    x = L.LayerNormalization(epsilon=1e-12)(x)
    for _ in range(layers):
        h = L.MultiHeadAttention(heads, width // heads)(x, x)
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, h]))
        h = L.Dense(width)(L.Dense(4 * width, activation='gelu')(x))
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, h]))
    x = L.Dense(width, activation='tanh')(L.Flatten()(L.Cropping1D((0, seq - 1))(x)))
    return keras.Model([ids, positions], L.Dense(2, activation='softmax')(x))


def lstm2():
    shared = L.LSTM(64)
    a, b = keras.Input((140, 256)), keras.Input((140, 256))
    return keras.Model([a, b], L.Dense(50, activation='softmax')(L.Concatenate()([shared(a), shared(b)])))


MODELS = {
    'bert': bert,
    'lstm2': lstm2,
    'resnet50': lambda: keras.applications.ResNet50(weights=None),
    'unet': unet,
    'vgg16': lambda: keras.applications.VGG16(weights=None),
}
here = pathlib.Path(__file__).parent / 'models'
for name, make in MODELS.items():
    keras.backend.clear_session()
    model = make()
    text = json.dumps(json.loads(model.to_json()), separators=(',', ':'), sort_keys=True)
    (here / (name + '.json')).write_text(text + '\n')
    print(name, model.count_params(), len(text))
