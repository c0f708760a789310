#!/usr/bin/env python3
"""usage: load_shards.py --tools DIR --testdata DIR --page FILE

Shards are loaded as the manual page says, by the page's own Python blocks: by numpy against h5py, by each
Keras into a model whose predictions are then those of the genuine file, by PyTorch into a state_dict.
Environments are those of run.py; PG_TORCH_PYTHON is one with torch and safetensors. One that is not
there is left out; with none the test is skipped (exit 77)."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

NUMPY = '''
import h5py
want = h5py.File(SOURCE, "r")["model_weights"]
n = 0
for t in manifest["tensors"]:
    if t["layer"] is None:
        continue
    got = load(t)
    assert isinstance(got, np.memmap) or len(t["files"]) > 1 or got.ndim == 0, type(got)
    assert np.array_equal(got, want[t["layer"]][t["name"]][()]), t["name"]
    n += 1
assert n == 8, n
'''
KERAS_BEFORE = '''
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
def build():
    from keras import layers
    return keras.Sequential([keras.Input((4,)), layers.Dense(5, activation="tanh", name="a"),
                             layers.BatchNormalization(name="n"), layers.Dense(3, name="b")])
genuine, model = build(), build()
genuine.load_weights("w.h5")
'''
KERAS_AFTER = '''
x = np.linspace(-1, 1, 40, dtype="float32").reshape(10, 4)
assert np.array_equal(genuine.predict(x, verbose=0), model.predict(x, verbose=0))
assert all(np.array_equal(p, q) for p, q in zip(genuine.get_weights(), model.get_weights()))
'''
MAKE_KERAS = KERAS_BEFORE.replace('genuine, model = build(), build()\ngenuine.load_weights("w.h5")',
                                  '''
import numpy as np
m = build()
r = np.random.default_rng(7)
m.set_weights([r.uniform(.5, 2, w.shape).astype("float32") for w in m.get_weights()])
m.save_weights("w.h5")
''')
TORCH_BEFORE = '''
from safetensors.torch import load_file
want = load_file(SOURCE)
class Model:
    def load_state_dict(self, state):
        assert list(sorted(state)) == list(sorted(want))
        assert all(torch.equal(state[k], want[k]) for k in want)
model = Model()
'''

p = argparse.ArgumentParser()
for name in ('tools', 'testdata', 'page'):
    p.add_argument('--' + name, required=True)
a = p.parse_args()
blocks = re.findall(r'```python\n(.*?)```', open(a.page, encoding='utf-8').read(), re.S)
numpy_block, keras_block, torch_block = blocks[:3]
bad = n = 0


def python(variable):
    exe = os.environ.get(variable)
    return exe if exe and os.path.exists(exe) else None


def judge(what, exe, code, folder):
    global bad, n
    n += 1
    r = subprocess.run([exe, '-c', code], cwd=folder, capture_output=True, text=True)
    print(f'{"FAIL" if r.returncode else "ok"} {what}')
    if r.returncode:
        bad += 1
        print(r.stdout[-500:] + r.stderr[-2000:])


def split(source, folder, *options):
    subprocess.run([os.path.join(a.tools, 'pgsplit'), '-q', '--force', *options, source,
                    os.path.join(folder, 'out')], check=True)


with tempfile.TemporaryDirectory() as d:
    model = os.path.abspath(os.path.join(a.testdata, 'files/keras-2.2.4/cnn4-g2/template_model.h5'))
    torch_file = os.path.abspath(os.path.join(a.testdata, 'files/pytorch/cnn/single.safetensors'))
    if python('PG_JUDGE_PYTHON'):
        for options in ([], ['--max-shard-size', '300B']):
            split(model, d, *options)
            judge('numpy ' + ' '.join(options), python('PG_JUDGE_PYTHON'),
                  f'SOURCE = {model!r}\n' + numpy_block + NUMPY, d)
    for name in ('PG_KERAS2_PYTHON', 'PG_KERAS3_PYTHON'):
        if python(name):
            file = 'w.h5' if '2' in name else 'w.weights.h5'
            subs = [t.replace('w.h5', file) for t in (MAKE_KERAS, KERAS_BEFORE)]
            judge(name + ' saves', python(name), subs[0], d)
            split(os.path.join(d, file), d)
            block = keras_block
            if file != 'w.h5':  # the path layout has names of classes, the manifest's "h5" tells the layer's
                block = 'keys = {"a": "layers/dense", "n": "layers/batch_normalization", "b": "layers/dense_1"}\n' + \
                    keras_block.replace('== layer.name', '== keys[layer.name]')
            judge(name, python(name), numpy_block + subs[1] + block + KERAS_AFTER, d)
    if python('PG_TORCH_PYTHON'):
        split(torch_file, d)
        judge('PyTorch', python('PG_TORCH_PYTHON'),
              f'SOURCE = {torch_file!r}\n' + numpy_block + 'import torch\n' + TORCH_BEFORE + torch_block, d)
if not n:
    print('no environment')
    sys.exit(77)
sys.exit(bad != 0)
