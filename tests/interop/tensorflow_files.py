#!/usr/bin/env python3
"""Checkpoints that the real TensorFlow writes, made one file by the tools.

usage: tensorflow_files.py --tools DIR
PG_KERAS2_PYTHON (TensorFlow 2.15) writes checkpoints of models that it makes up, in each manner that TensorFlow has. Of Keras' models
pgcheck must say that it fits, pgconvert --model must make a file that load_weights() takes, with the weights that the model had, and
pgconvert of a SavedModel one that load_model() takes; pgjoin must write what
tf.train.load_checkpoint() reads. Without the environment nothing is tried.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TREE = r'''
import json, os, struct, sys
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import numpy as np, tensorflow as tf
K, L, V1 = tf.keras, tf.keras.layers, tf.compat.v1

def convolutions():
    i = K.Input((8, 8, 3), name="picture")
    x = L.BatchNormalization()(L.Conv2D(5, 3, padding="same", use_bias=False)(i))
    x = L.Add()([L.DepthwiseConv2D(3, padding="same")(L.PReLU(shared_axes=[1, 2])(x)), x])
    return K.Model(i, L.Dense(4)(L.GlobalAveragePooling2D()(L.SeparableConv2D(6, 3)(x))))

def words():
    return K.Sequential([K.Input((7,), dtype="int32"), L.Embedding(19, 6), L.Bidirectional(L.LSTM(4, return_sequences=True)), L.TimeDistributed(L.Dense(3)),
                         L.GRU(5, reset_after=False), L.LayerNormalization(), L.Dense(2)])

def attention():
    i = K.Input((5, 8))
    x = L.MultiHeadAttention(2, 4, name="mha")(i, i)
    inner = K.Sequential([K.Input((5, 8)), L.Dense(6, activation="relu"), L.Dense(8)], name="inner")
    return K.Model(i, L.Dense(1)(L.Flatten()(inner(L.LayerNormalization()(x)))))

def half():
    K.mixed_precision.set_global_policy("float64")
    try:
        return K.Sequential([K.Input((3,)), L.Dense(4), L.BatchNormalization(), L.Dense(2)])
    finally:
        K.mixed_precision.set_global_policy("float32")

models = dict(convolutions=convolutions, words=words, attention=attention, float64=half)

def made(name):
    K.utils.set_random_seed(91 + len(name))
    m = models[name]()
    m.set_weights([np.random.standard_normal(w.shape).astype(w.dtype) for w in m.get_weights()])
    return m

def rows(m):
    i = m.inputs[0]
    n = (4,) + tuple(i.shape[1:])
    return np.random.randint(0, 19, n) if i.dtype.is_integer else np.random.standard_normal(n).astype(i.dtype.as_numpy_dtype)

def trained(m, optimizer):
    m.compile(optimizer, "mse")
    x = rows(m)
    m.fit(x, np.zeros(m.predict(x, verbose=0).shape), verbose=0)
    return m

def load_tensors(path):
    """The tensors of a file of safetensors."""
    types = dict(F16="<f2", F32="<f4", F64="<f8", I8="i1", I16="<i2", I32="<i4", I64="<i8", U8="u1", U16="<u2", U32="<u4", U64="<u8", BOOL="?")
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    head.pop("__metadata__", None)
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], types[v["dtype"]]).reshape(v["shape"]) for k, v in head.items()}
'''

WRITE = TREE + r'''
os.chdir(sys.argv[1])
optimizers = dict(convolutions=K.optimizers.Adam(), words=K.optimizers.legacy.RMSprop(momentum=.5), attention=K.optimizers.legacy.Adam(amsgrad=True),
                  float64=K.optimizers.SGD(.1, momentum=.9))
keras = []
for name in models:
    m = trained(made(name), optimizers[name])
    open(name + ".json", "w").write(m.to_json())
    np.savez(name + ".npz", *m.get_weights())
    m.save_weights(name + "-weights")
    m.save(name + "-model")
    tf.train.CheckpointManager(tf.train.Checkpoint(model=m, optimizer=m.optimizer, step=tf.Variable(4)), name + "-manager", max_to_keep=2).save()
    m.export(name + "-export")
    keras += [[name, name + end] for end in ("-weights", "-model", "-manager", "-export")]
json.dump(keras, open("keras.json", "w"))
'''

MIRRORED = TREE + r'''
os.chdir(sys.argv[1])
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 3)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
with strategy.scope():
    m = made("convolutions")
    m.compile(K.optimizers.Adam(), "mse")
assert strategy.num_replicas_in_sync == 3
x = np.random.standard_normal((6, 8, 8, 3)).astype("f")
m.fit(tf.data.Dataset.from_tensor_slices((x, np.zeros((6, 4), "f"))).batch(6), verbose=0)
np.savez("mirrored.npz", *m.get_weights())
open("mirrored.json", "w").write(m.to_json())
m.save_weights("mirrored-weights")
'''

SAVER = TREE + r'''
os.chdir(sys.argv[1])
V1.disable_eager_execution()
rng = np.random.default_rng(5)
with V1.variable_scope("net", partitioner=V1.fixed_size_partitioner(3)):
    V1.get_variable("table", (7, 4), initializer=V1.random_normal_initializer(seed=3))
with V1.variable_scope("net"):
    for i, kind in enumerate((np.float16, np.float64, np.int32, np.int64, np.uint8, np.bool_)):
        V1.get_variable("v%d" % i, initializer=(rng.standard_normal((3, 2)) * 9).astype(kind), trainable=False)
    V1.get_variable("scalar", initializer=np.float32(2.5))
    w = V1.get_variable("w", initializer=rng.standard_normal((5, 3)).astype("f"))
step = V1.train.AdamOptimizer(.1).minimize(V1.reduce_sum(w * w))
with V1.Session() as s:
    s.run(V1.global_variables_initializer())
    s.run(step)
    for sharded in (0, 1):
        os.makedirs("saver%d" % sharded)
        V1.train.Saver(sharded=bool(sharded)).save(s, "saver%d/m" % sharded, global_step=3)
'''

JUDGE = TREE + r'''
os.chdir(sys.argv[1])
wrong = []
for name, made_of, out in json.load(open("made.json")):
    if "-own" in out:
        m = K.models.load_model(out)
    else:
        m = K.models.model_from_json(open(name + ".json").read())
        m.load_weights(out)
    z = np.load(name + ".npz")
    for k, w in enumerate(m.get_weights()):
        if not np.array_equal(w, z["arr_%d" % k]):
            wrong.append("%s, of %s: %s differs" % (out, made_of, m.weights[k].name))
    print("ok  ", out, "of", made_of, "loads with the weights of the model")
for out, prefix, skipped in json.load(open("joined.json")):
    got, r = load_tensors(out), tf.train.load_checkpoint(prefix)
    want = {k: r.get_tensor(k) for k in r.get_variable_to_shape_map()}
    if out.startswith("saver"):
        want = {k: v for k, v in want.items() if "Adam" not in k and not k.startswith("beta")}
        if {k: v.tobytes() for k, v in got.items()} != {k: v.tobytes() for k, v in want.items()}:
            wrong.append("%s: %s, not %s" % (out, sorted(got), sorted(want)))
    else:
        left = [(v.shape, v.tobytes()) for v in want.values() if hasattr(v, "tobytes")]
        for k, v in got.items():
            if (v.shape, v.tobytes()) not in left:
                wrong.append("%s: %s is not in the checkpoint" % (out, k))
        n = len(np.load(skipped + ".npz").files)
        if len(got) != n:
            wrong.append("%s: %d tensors, the model has %d" % (out, len(got), n))
    print("ok  ", out, len(got), "tensors")
sys.exit("\n".join(wrong) or None)
'''


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--tools', required=True)
    tools = os.path.abspath(p.parse_args().tools)
    python = os.environ.get('PG_KERAS2_PYTHON')
    if not python:
        print('PG_KERAS2_PYTHON is not set')
        return 77
    with tempfile.TemporaryDirectory() as box:
        for program in (WRITE, MIRRORED, SAVER):
            done = subprocess.run([python, '-c', program, box], stderr=subprocess.PIPE, check=False)
            if done.returncode:
                return done.stderr.decode()[-2000:]

        def tool(name, *args):
            subprocess.run([os.path.join(tools, name), *args], cwd=box, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(box, 'keras.json')) as f:
            keras = json.load(f) + [['mirrored', 'mirrored-weights']]
        made, joined = [], []
        for model, source in keras:
            for suffix in ('.h5', '.weights.h5'):
                tool('pgconvert', '--model', model + '.json', source, source + suffix)
                made.append([model, source, source + suffix])
            tool('pgcheck', '--model', model + '.json', source)
            if source.endswith('-model'):  # with its own description
                for suffix in ('-own.h5', '-own.keras'):
                    tool('pgconvert', source, source + suffix)
                    made.append([model, source, source + suffix])
            tool('pgjoin', source, source + '.safetensors')
            ends = {'-model': '/variables/variables', '-export': '/variables/variables', '-manager': '/ckpt-1'}
            prefix = source + ends.get(source[len(model):], '')
            joined.append([source + '.safetensors', prefix, model])
        for saver in ('saver0', 'saver1'):
            tool('pgjoin', saver, saver + '.safetensors')
            joined.append([saver + '.safetensors', saver + '/m-3', ''])
        for name, what in (('made', made), ('joined', joined)):
            with open(os.path.join(box, name + '.json'), 'w') as f:
                json.dump(what, f)
        return subprocess.run([python, '-c', JUDGE, box], check=False).returncode


sys.exit(main())
