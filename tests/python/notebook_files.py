"""notebook.py, files: every function on files, beside h5py and safetensors."""
import json
import pathlib
import sys

import h5py
import numpy as np
import pgfit
from safetensors.numpy import load_file, save_file

# What is this file?
info = pgfit.inspect('parallel.h5', stats=True)
assert info.verdict == 'wrapper' and info.wrapper.replicas == 2
with h5py.File('parallel.h5') as h, pgfit.open('parallel.h5') as f:
    group = h['model_1']
    assert len(f) == len(info.tensors) == 8
    for name, array in f.items():
        want = group[name][()]
        np.testing.assert_array_equal(array, want)
        stats = next(t.stats for t in info.tensors if t.name == name)
        assert (np.float32(stats.min), np.float32(stats.max)) == (want.min(), want.max())

# Take the model out, and put it back.
report = pgfit.unwrap('parallel.h5', 'single.h5')
assert report.n_verified == report.n_written == 8
with h5py.File('single.h5') as h, h5py.File('model.h5') as m:
    names = [n.decode() for n in h.attrs['layer_names']]
    weighted = [n.decode() for n in m['model_weights'].attrs['layer_names']]
    assert names == [n for n in weighted if len(m['model_weights'][n].attrs['weight_names'])], names
    for layer in names:
        for w in h[layer].attrs['weight_names']:
            np.testing.assert_array_equal(h[layer][w][()], m['model_weights'][layer][w][()])
assert pgfit.diff('single.h5', 'model.h5').equal
assert pgfit.check('single.h5', model='model.json').ok and not pgfit.check('parallel.h5', model='model.json').ok
pgfit.wrap('single.h5', 'again.h5', gpus=2, name='model_1')
with h5py.File('again.h5') as h:
    assert len(h.attrs['layer_names']) == 5 and list(h['model_1'].attrs['weight_names'])
pgfit.repair('again.h5', 'repaired.h5', like=json.loads(pathlib.Path('model.json').read_text()))
assert pgfit.diff('repaired.h5', 'model.h5').equal

# Shards, as NumPy loads them.
pgfit.split('single.h5', 'out', progress=lambda done, all: None)
np.testing.assert_array_equal(np.load('out/conv2d_1/kernel.npy'), pgfit.open('single.h5')['conv2d_1/kernel'])
pgfit.join('out', 'joined.h5')
assert pathlib.Path('joined.h5').stat().st_size and pgfit.diff('joined.h5', 'single.h5').equal

# What the ranks of a job left, whole and as shards that two jobs write.
ranks = pathlib.Path(sys.argv[2]) / 'modern/dcp-fsdp2/ckpt'
pgfit.join(ranks, 'whole.safetensors')
for k in 1, 2:
    pgfit.join(ranks, 'hub', max_shard_size='4kB', job=(k, 2))
pgfit.join(ranks, 'hub', max_shard_size='4kB', finish=True)
listed = json.loads(pathlib.Path('hub/model.safetensors.index.json').read_text())['weight_map']
whole = load_file('whole.safetensors')
assert set(listed) == set(whole) and len(set(listed.values())) > 1
for name, file in listed.items():
    np.testing.assert_array_equal(load_file('hub/' + file)[name], whole[name])
zero = pathlib.Path(sys.argv[2]) / 'extra/zero/small'
for write in pgfit.join, pgfit.convert:
    write(zero / 'ckpt', 'trained.safetensors', as_trained=True, force=True)
    assert pgfit.diff('trained.safetensors', zero / 'module.safetensors').equal
    try:
        write(zero / 'ckpt', 'no.safetensors', as_trained=True, part='model')
        raise AssertionError('two parts at a time')
    except pgfit.ArgumentError as e:
        assert 'as_trained' in str(e) and not pathlib.Path('no.safetensors').exists()

# Other containers; a change made with NumPy comes back as one.
pgfit.convert('single.h5', 'single.safetensors')
tensors = load_file('single.safetensors')
with pgfit.open('single.safetensors') as f:
    assert sorted(f) == sorted(tensors)
    for name, want in tensors.items():
        np.testing.assert_array_equal(f[name], want)
key = sorted(tensors)[0]
tensors[key] = tensors[key] + np.float32(1)
save_file(tensors, 'changed.safetensors')
change = pgfit.diff('single.safetensors', 'changed.safetensors')
assert [r.name for r in change.changed] and len(change.changed) == 1 and abs(change.changed[0].max_abs - 1) < 1e-6

# What the ranks of a job saved, beside what the frameworks themselves put together; a whole file of it, and one of Keras' again.
MODERN = pathlib.Path(sys.argv[2]).resolve() / 'modern'
for saved in ('dcp-fsdp2/ckpt', 'dcp-tp-fsdp2/ckpt', 'zero2-groups/ckpt', 'zero3-tied/ckpt', 'orbax-ocdbt/ckpt', 'orbax-zarr-per-array/ckpt',
              'orbax-manager-standard/ckpt', 'flax-msgpack/flax_model.msgpack', 'flax-msgpack-chunked/flax_model.msgpack'):
    folder = MODERN / saved
    want = load_file(folder.parent / 'expected.safetensors')
    info = pgfit.inspect(folder)
    assert len(info.tensors) == len(want) and info.verdict == 'single', (saved, info)
    report = pgfit.join(folder, 'whole.safetensors', force=True)
    assert report.n_verified == len(want), (saved, report)
    whole = load_file('whole.safetensors')
    with pgfit.open(folder) as f:
        assert sorted(f) == sorted(want) == sorted(whole), saved
        for name, array in f.items():
            np.testing.assert_array_equal(array, want[name])
            np.testing.assert_array_equal(whole[name], want[name])
    assert pgfit.diff(folder, 'whole.safetensors').equal and pgfit.check(folder).ok, saved
    pgfit.split(folder, pathlib.Path(saved).parts[0])
    assert pgfit.diff(pathlib.Path(saved).parts[0], folder).equal
pgfit.join(MODERN / 'dcp-tp-fsdp2/ckpt', 'part.safetensors', part='app.model')
want = load_file(MODERN / 'dcp-tp-fsdp2/expected.safetensors')
with pgfit.open(MODERN / 'dcp-tp-fsdp2/ckpt', part='app.model') as f:
    assert sorted(f) == sorted(want) == sorted(load_file('part.safetensors'))
for call in (pgfit.open, pgfit.inspect, lambda path, part: pgfit.join(path, 'none', part=part),
             lambda path, part: pgfit.convert(path, 'none.safetensors', part=part)):
    try:
        call(MODERN / 'dcp-tp-fsdp2/ckpt', part='nets')
    except pgfit.ArgumentError as e:
        assert 'no part "nets"' in e.message
    else:
        raise AssertionError('guessed')
for saved in ('tf-save-weights/w', 'tf-savedmodel/sm'):
    folder = MODERN / saved
    pgfit.convert(folder, 'keras.h5', model=folder.parent / 'model.json', force=True)
    with h5py.File('keras.h5') as h, h5py.File(folder.parent / 'expected_model.h5') as m:
        values = [[g[layer][w][()] for layer in g.attrs['layer_names'] for w in g[layer].attrs['weight_names']]
                  for g in (h, m.get('model_weights', m))]
        assert len(values[0]) == len(values[1]) > 0
        for ours, theirs in zip(*values):
            np.testing.assert_array_equal(ours, theirs)

# Training on arrays; predictions are those of a matrix product.
x, y = np.load('digits.npz')['x0'], np.load('digits.npz')['y0']
run = pgfit.fit('mlp.json', x, y, loss='categorical_crossentropy', optimizer='adam', epochs=3, verbose=0, output='t.safetensors')
assert run.history['loss'][2] < run.history['loss'][0]
with pgfit.open('t.safetensors') as f:
    assert sorted(a.tobytes() for a in f.values()) == sorted(w.tobytes() for w in run.weights)
p = pgfit.predict('mlp.json', x, weights='t.safetensors')
loss = pgfit.evaluate('mlp.json', x, y, weights='t.safetensors', loss='categorical_crossentropy')['loss']
assert abs(-np.log(p[y > 0]).mean() - loss) < 1e-5

# As ONNX: what Python reads back is what the model has (tests/interop/onnx_models.py runs it).
report = pgfit.to_onnx('t.safetensors', 't.onnx', model='mlp.json')
with pgfit.open('t.onnx') as f:
    assert report.n_verified == len(f) >= len(run.weights)
    stored = {a.tobytes() for a in f.values()}
    assert all(w.tobytes() in stored or w.T.tobytes() in stored for w in run.weights)
