#!/usr/bin/env python3
"""Checkpoints of parallel training that the real frameworks write now, put together by the tools.

usage: checkpoints.py --tools DIR [-v]
PG_KERAS2_PYTHON (TensorFlow 2.15) saves models with layers of many kinds as checkpoints and SavedModels; from each, pgconvert must
write an .h5 that a new model loads with equal weights, and pgjoin must write every variable. PG_TORCH_PYTHON runs processes that cut
tensors over meshes of one and two dimensions and save them with torch.distributed.checkpoint; pgjoin must write what they held. PG_MEGATRON_PYTHON (megatron-core) cuts models over tensor, pipeline and expert parallel ranks, each
of which writes its file as Megatron-LM does (megatron_write.py); pgjoin must write the model that one process holds.
Without an environment its part is left out.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, finish  # noqa: E402

KERAS = r'''
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf
os.chdir(sys.argv[2])
K, L = tf.keras, tf.keras.layers

def inner():
    i = K.Input((6, 4))
    return K.Model(i, L.Dense(3, name="same")(L.LSTM(5, return_sequences=True, name="rnn")(i)), name="inner")

def models():
    seq = K.Input((6, 4))
    img = K.Input((8, 8, 3))
    yield "dense", K.Sequential([K.Input((5,)), L.Dense(4), L.BatchNormalization(), L.Dense(2, use_bias=False)])
    yield "lazy", K.Sequential([L.Dense(4, input_shape=(5,)), L.LayerNormalization(), L.PReLU()])
    yield "rnn", K.Model(seq, L.Dense(2)(L.Bidirectional(L.LSTM(3))(L.GRU(4, return_sequences=True)(L.SimpleRNN(5, return_sequences=True)(seq)))))
    yield "cells", K.Model(seq, L.RNN([L.LSTMCell(3), L.GRUCell(4)])(seq))
    yield "cell", K.Model(seq, L.RNN(L.LSTMCell(3))(seq))
    yield "attention", K.Model(seq, L.MultiHeadAttention(2, 3)(seq, seq))
    yield "nested", K.Model(seq, L.GlobalMaxPooling1D()(inner()(L.Dense(4, name="same")(seq))))
    yield "each", K.Sequential([K.Input((3, 6, 4)), L.TimeDistributed(inner()), L.TimeDistributed(L.Dense(2))])
    yield "convs", K.Model(img, L.GlobalAveragePooling2D()(L.SeparableConv2D(4, 3)(L.DepthwiseConv2D(3)(L.Conv2DTranspose(5, 3)(L.Conv2D(4, 3)(img))))))
    yield "shared", (lambda d, a, b: K.Model([a, b], L.Add()([d(a), d(b)])))(L.Dense(3, name="d"), K.Input((4,), name="a"), K.Input((4,), name="b"))
    yield "words", K.Sequential([K.Input((7,), dtype="int32"), L.Embedding(11, 3), L.Conv1D(4, 2), L.GlobalMaxPooling1D(), L.Dense(2)])

def fill(m, seed):
    rng = np.random.default_rng(seed)
    m.set_weights([rng.standard_normal(w.shape).astype(w.dtype) for w in m.get_weights()])

def save():
    for i, (name, m) in enumerate(models()):
        fill(m, i)
        os.makedirs(name)
        open(f"{name}/model.json", "w").write(m.to_json())
        m.compile("adam" if i % 2 else K.optimizers.legacy.SGD(.1, momentum=.9), "mse")
        x = [np.ones((2,) + tuple(t.shape[1:]), t.dtype.as_numpy_dtype) for t in m.inputs]
        m.train_on_batch(x if len(x) > 1 else x[0], np.zeros((2,) + tuple(m.output_shape[1:]), "f"))
        np.savez(f"{name}/want.npz", *m.get_weights())
        m.save_weights(f"{name}/w")
        tf.train.Checkpoint(model=m, optimizer=m.optimizer, step=tf.Variable(3)).save(f"{name}/ck/c")
        m.save(f"{name}/sm", save_format="tf")
        np.savez(f"{name}/values.npz", **{v.name: v.numpy() for v in m.weights})
        print(name)

def load():
    bad = 0
    for i, (name, m) in enumerate(models()):
        want = np.load(f"{name}/want.npz")
        for h5 in ("w.h5", "ck.h5", "sm.h5"):
            fill(m, 100 + i)
            try:
                m.load_weights(f"{name}/{h5}")
            except Exception as x:
                print(f"BAD {name} {h5}: {str(x)[:200]}")
                continue
            got = m.get_weights()
            if len(got) != len(want.files) or any(not np.array_equal(g, want[f]) for g, f in zip(got, want.files)):
                print(f"BAD {name} {h5}: other weights")

{"save": save, "load": load}[sys.argv[1]]()
'''

TORCH = r'''
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from safetensors.torch import save_file
os.chdir(sys.argv[1])
dist.init_process_group("gloo")
torch.manual_seed(7)
line, grid = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
full = {"a.weight": torch.randn(13, 7), "a.bias": torch.randn(13), "b.weight": torch.randn(6, 10, 3), "one": torch.randn(1), "scalar": torch.tensor(4.5),
        "half": torch.randn(9, 4).to(torch.bfloat16), "count": torch.tensor(12), "none": torch.zeros(0, 3)}
how = {"rows": lambda t: distribute_tensor(t, line, [Shard(0)]) if t.ndim else t,
       "columns": lambda t: distribute_tensor(t, line, [Shard(t.ndim - 1)]) if t.ndim else t,
       "grid": lambda t: distribute_tensor(t, grid, [Shard(0), Shard(t.ndim - 1)]) if t.ndim > 1 else t,
       "copies": lambda t: distribute_tensor(t, grid, [Replicate(), Shard(0)]) if t.ndim else t,
       "plain": lambda t: t}
for name, cut in how.items():
    model = {k: cut(v.clone()) for k, v in full.items()}
    slots = {k: {"exp_avg": cut(torch.ones_like(v)), "step": torch.tensor(3.)} for k, v in full.items() if v.is_floating_point()}
    dcp.save({"model": model, "optimizer": {"state": slots, "param_groups": [{"lr": .1}]}, "epoch": 2}, checkpoint_id=name)
    dcp.save({k: cut(v.clone()) for k, v in full.items()}, checkpoint_id=name + "-flat")
    wrapped = {"model": {"module." + k: v for k, v in model.items()}, "optimizer": {"state": {"module." + k: v for k, v in slots.items()}}}
    dcp.save(wrapped, checkpoint_id=name + "-wrapped")
if dist.get_rank() == 0:
    save_file(full, "want.safetensors")
dist.barrier()
'''



def keras(box, python, folder, bad):
    def script(what):
        r = subprocess.run([python, "-c", KERAS, what, folder], capture_output=True, text=True, timeout=800)
        if r.returncode:
            raise RuntimeError(r.stderr[-2000:])
        return r.stdout.split("\n")
    names, n = [x for x in script("save") if x], 0
    for name in names:
        at = f"{folder}/{name}"
        for source, out in (("w", "w.h5"), ("ck", "ck.h5"), ("sm", "sm.h5")):
            r = box.tool("pgconvert", "-q", "--model", f"{at}/model.json", f"{at}/{source}", f"{at}/{out}")
            n += 1
            if r.rc:
                bad.append((f"{name}: pgconvert {source}", r.err.strip()))
        r = box.tool("pgjoin", "-q", f"{at}/ck", f"{at}/ck.safetensors")
        n += 1
        if r.rc:
            bad.append((f"{name}: pgjoin", r.err.strip()))
    bad += [("Keras loads", x) for x in script("load") if x.startswith("BAD")]
    return n


def torch(box, python, folder, bad):
    script = f"{folder}/write.py"
    open(script, "w").write(TORCH)
    r = subprocess.run([python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=4", script, folder], capture_output=True, text=True,
                       timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if r.returncode:
        raise RuntimeError(r.stderr[-3000:])
    n = 0
    for name in sorted(os.listdir(folder)):
        if not os.path.isdir(f"{folder}/{name}"):
            continue
        out = f"{folder}/{name}.safetensors"
        n += 1
        wrapped = name.endswith("-wrapped")  # and with an optimizer, which safetensors do not hold
        first = () if wrapped else (("pgcheck", f"{folder}/{name}"),)
        make = "pgunwrap" if wrapped else "pgjoin"
        for argv in (*first, (make, "-q", f"{folder}/{name}", out), ("pgdiff", out, f"{folder}/want.safetensors")):
            r = box.tool(*argv)
            if r.rc:
                bad.append((f"{name}: {argv[0]}", (r.out + r.err).strip()[-300:]))
                break
    return n


def megatron_run(python, n_procs, *argv):
    r = subprocess.run([python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={n_procs}", f"{HERE}/megatron_write.py", *argv],
                       capture_output=True, text=True, timeout=800, env={**os.environ, "OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"})  # compiling takes minutes
    if r.returncode:
        raise RuntimeError(r.stderr[-3000:])
    return r.stdout.splitlines()


def megatron(box, python, folder, bad):
    names, joined = megatron_run(python, 4, folder), []
    for name in names:
        at = f"{folder}/{name}"
        case = name.removesuffix("-dist").removesuffix("-single")
        for argv in (("pgcheck", at), ("pgjoin", "-q", at, f"{at}/out.safetensors"), ("pgdiff", f"{at}/out.safetensors", f"{folder}/{case}.safetensors")):
            r = box.tool(*argv)
            if r.rc:
                bad.append((f"{name}: {argv[0]}", (r.out + r.err).strip()[-300:]))
                break
        else:
            joined.append(name)
    if not names:
        bad.append(("Megatron-Core", "wrote nothing"))
    bad += [("GPTModel.load_state_dict(strict)", x) for x in megatron_run(python, 1, "--load", folder, *joined) if not x.endswith(": ")]
    return len(names)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    box, bad, skipped, n = Box(a.tools, None, "."), [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("PG_KERAS2_PYTHON", keras), ("PG_TORCH_PYTHON", torch), ("PG_MEGATRON_PYTHON", megatron)):
            python = os.environ.get(name)
            if not python:
                skipped.append(name)
                continue
            at = f"{folder}/{part.__name__}"
            os.mkdir(at)
            n += part(box, python, at, bad)
    return finish("checkpoints", bad, n, skipped)


if __name__ == "__main__":
    sys.exit(main())
