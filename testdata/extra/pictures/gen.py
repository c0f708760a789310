#!/usr/bin/env python3
"""Small pictures of every kind, and what Keras 2.15's image_dataset_from_directory() makes of them.
Run here with an environment that has tensorflow-cpu==2.15.1."""
import os
import pathlib
import shutil

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from tensorflow import keras

here = pathlib.Path(__file__).parent
rng = np.random.default_rng(3)
shutil.rmtree(here / 'classes', ignore_errors=True)


def picture(h, w, channels):
    blocks = np.kron(rng.random((h // 4 + 1, w // 4 + 1, channels)), np.ones((4, 4, 1)))[:h, :w]
    return np.clip(blocks * 255 + rng.normal(0, 6, (h, w, channels)), 0, 255).astype('u1')


def write(name, h, w, channels):
    path = here / 'classes' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = picture(h, w, channels)
    encode = tf.io.encode_png if name.endswith('.png') else tf.io.encode_jpeg
    path.write_bytes(encode(pixels).numpy())


write('cat/b.jpg', 14, 19, 3)
write('cat/a.JPEG', 9, 12, 1)
write('cat/more/c.png', 8, 7, 3)
write('cat/more-b/d.png', 11, 6, 4)
write('Ant/grey.png', 10, 15, 1)
write('Ant/z.jpg', 17, 13, 3)
for name, size, mode, how in [('rgb', (9, 10), 'rgb', 'bilinear'), ('grey', (16, 5), 'grayscale', 'bilinear'),
                              ('nearest', (9, 10), 'rgb', 'nearest')]:
    batches = keras.utils.image_dataset_from_directory(here / 'classes', label_mode='int', color_mode=mode, batch_size=4,
                                                       image_size=size, shuffle=False, interpolation=how)
    np.save(here / f'{name}.npy', np.concatenate([x.numpy() for x, _ in batches]))
    print([str(pathlib.Path(p).relative_to(here)) for p in batches.file_paths], [y.numpy() for _, y in batches])
