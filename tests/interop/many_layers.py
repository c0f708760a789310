#!/usr/bin/env python3
"""usage: many_layers.py --tools DIR

Models whose lists of names exceed an object header, split, joined and read by real Keras 2.15 (the environment
PG_KERAS2_PYTHON; without it the test is skipped, exit 77):
1. 10,000 layers, 20,000 tensors: Keras' own functions write the lists of the original and read those of the copy, in every
   format of shards (PG_SHARE, see pgbox.py: in some); h5diff finds no difference where it is installed.
2. 1,500 layers with long names, a model that Keras builds, saves, and loads strictly from the copy."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pgbox import chosen  # noqa: E402

MANY = '''
import subprocess, sys
import h5py, numpy as np
from keras.src.saving.legacy.hdf5_format import load_attributes_from_hdf5_group as load, save_attributes_to_hdf5_group as save
TOOLS, H5DIFF, *FORMATS = sys.argv[1:]
rng = np.random.default_rng(0)
names = [f"dense_{i}" for i in range(10000)]
with h5py.File("many.h5", "w") as f:
    save(f, "layer_names", [n.encode() for n in names])
    f.attrs["backend"] = b"tensorflow"
    f.attrs["keras_version"] = b"2.15.0"
    for n in names:
        g = f.create_group(n)
        weights = [f"{n}/kernel:0", f"{n}/bias:0"]
        save(g, "weight_names", [w.encode() for w in weights])
        g.create_dataset(weights[0], data=rng.normal(size=(2, 3)).astype("f4"))
        g.create_dataset(weights[1], data=rng.normal(size=3).astype("f4"))

def same(path):
    with h5py.File("many.h5") as a, h5py.File(path) as b:
        assert list(load(b, "layer_names")) == names
        assert sorted(a.attrs) == sorted(b.attrs), (sorted(a.attrs), sorted(b.attrs))
        assert "layer_names0" in b.attrs and "layer_names" not in b.attrs
        for n in names:
            listed = load(b[n], "weight_names")
            assert list(listed) == list(load(a[n], "weight_names"))
            for w in listed:
                assert np.array_equal(a[n][w], b[n][w]), w
    if H5DIFF:
        subprocess.run([H5DIFF, "-q", "many.h5", path], check=True)

for form in FORMATS:
    subprocess.run([TOOLS + "/pgsplit", "-q", "--no-sync", "--format", form, "many.h5", form], check=True)
    out = subprocess.run([TOOLS + "/pgjoin", "--no-sync", form, form + ".h5"], check=True, capture_output=True, text=True).stdout
    assert "20,000/20,000 checksums equal" in out, out
    same(form + ".h5")
# Layout of our own writer: what salvage leaves of a file whose last layer lost its list.
with h5py.File("many.h5", "r+") as f:
    del f[names[-1]].attrs["weight_names"]
r = subprocess.run([TOOLS + "/pgsplit", "-q", "--no-sync", "many.h5", "rest"], check=True, capture_output=True, text=True)
assert "20000 tensors are left, 2 of them on no list" in r.stderr, r.stderr
subprocess.run([TOOLS + "/pgjoin", "-q", "--no-sync", "rest", "rest.h5"], check=True)
with h5py.File("rest.h5") as f:
    assert list(load(f, "layer_names")) == names and list(load(f[names[-1]], "weight_names")) == [f"{names[-1]}/kernel:0", f"{names[-1]}/bias:0"]
print("10,000 layers")
'''

LONG = '''
import subprocess, sys
import h5py, numpy as np, tensorflow as tf
TOOLS, H5DIFF = sys.argv[1:3]

def build():
    x = tf.keras.layers.Input((1,))  # side by side: Keras recurses along a chain
    return tf.keras.Model(x, [tf.keras.layers.Dense(1, name=f"block_{i // 30}_a_layer_with_quite_a_long_name_for_what_it_does_{i}")(x)
                              for i in range(1500)])

a = build()
a.set_weights([np.random.default_rng(i).normal(size=w.shape) for i, w in enumerate(a.get_weights())])
a.save_weights("long.h5")
with h5py.File("long.h5") as f:
    assert "layer_names1" in f.attrs
subprocess.run([TOOLS + "/pgsplit", "-q", "--no-sync", "long.h5", "out"], check=True)
subprocess.run([TOOLS + "/pgjoin", "-q", "--no-sync", "out", "back.h5"], check=True)
if H5DIFF:
    subprocess.run([H5DIFF, "-q", "long.h5", "back.h5"], check=True)
b = build()
b.load_weights("back.h5")
assert all(np.array_equal(x, y) for x, y in zip(a.get_weights(), b.get_weights()))
print("1,500 layers with long names")
'''

parser = argparse.ArgumentParser()
parser.add_argument('--tools', required=True)
args = parser.parse_args()
python = os.environ.get('PG_KERAS2_PYTHON', '')
if not os.access(python, os.X_OK):
    print('skipped: PG_KERAS2_PYTHON names no Python with Keras 2.15')
    sys.exit(77)
env = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''}
formats = [f for f in ('npy', 'npz', 'safetensors') if f == 'npy' or chosen(f)]
for script in (MANY, LONG):
    with tempfile.TemporaryDirectory() as d:
        r = subprocess.run([python, '-c', script, os.path.abspath(args.tools), shutil.which('h5diff') or '', *formats], cwd=d, env=env)
        if r.returncode:
            sys.exit(1)
