#!/usr/bin/env python3
"""Checkpoints that the real Flax and Orbax write now, on one device and on eight, put together by pgjoin.

usage: jax_trees.py --tools DIR [-v]
PG_JAX_PYTHON (jax, flax, optax, orbax-checkpoint, safetensors) saves trees in every form that it has, and beside each what it held;
pgcheck must call it whole, and what pgjoin writes must have the same names, types, shapes and bytes. What was cut must be refused.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, finish  # noqa: E402

WRITE = r'''
import os, pickle, sys, warnings
warnings.simplefilter("ignore")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax, jax.numpy as jnp, ml_dtypes, numpy as np, optax, orbax.checkpoint as ocp
from flax import jax_utils, linen as nn, nnx, serialization
from flax.training import checkpoints, train_state
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

os.chdir(sys.argv[1])
home, rng = os.getcwd(), np.random.default_rng(5)
devices = np.array(jax.devices())
line, grid, few = Mesh(devices, ("a",)), Mesh(devices.reshape(4, 2), ("a", "b")), Mesh(devices[:4].reshape(2, 2), ("a", "b"))

def bits(a):
    """What pgjoin writes: complex numbers become pairs."""
    a = np.asarray(a)
    return np.stack([a.real, a.imag], -1) if a.dtype == np.complex64 else a

def flat(tree, at=""):
    if isinstance(tree, dict):
        return {k: v for key in tree for k, v in flat(tree[key], f"{at}{key}/").items()}
    if isinstance(tree, (list, tuple)):
        return flat({str(i): x for i, x in enumerate(tree)}, at)
    return {at[:-1]: bits(tree)} if hasattr(tree, "shape") else {}

def want(name, tree):
    """The arrays of a tree, beside what was saved."""
    with open(f"{home}/{name}.want", "wb") as f:
        pickle.dump({k: (str(v.dtype), v.shape, v.tobytes()) for k, v in flat(tree).items()}, f)
    print(name, flush=True)

def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)

params = {"embed": {"embedding": normal(48, 40)}, "block": [{"kernel": normal(16, 8, 24), "bias": normal(24)}, {"scale": normal(24, dtype=ml_dtypes.bfloat16)}],
          "head": {"kernel": normal(8, 16, dtype=np.float16), "table": np.arange(64, dtype=np.int32).reshape(8, 8), "mask": np.arange(16) % 3 == 0,
                   "phase": (normal(8) + 1j * normal(8)).astype(np.complex64), "codes": np.arange(32, dtype=np.uint8), "small": np.arange(8, dtype=np.int8),
                   "temperature": np.float32(.5), "zeros": np.zeros((16, 8), np.float32), "odd": normal(7, 5)}}

# ---- how arrays lie on devices ----

def cut(mesh, *axes):
    def put(x):
        x = np.asarray(x)
        spec = [axis if k < x.ndim and (n := mesh.shape.get(axis, 1)) and x.shape[k] % n == 0 else None for k, axis in enumerate(axes[:x.ndim])]
        return jax.device_put(x, NamedSharding(mesh, P(*spec)))
    return lambda tree: jax.tree.map(put, tree)

places = {"host": lambda t: t, "one": lambda t: jax.tree.map(jnp.asarray, t), "rows": cut(line, "a"), "columns": cut(line, None, "a"),
          "grid": cut(grid, "a", "b"), "turned": cut(grid, "b", "a"), "few": cut(few, "a", "b"), "copies": cut(grid, "b")}

# ---- Orbax ----

for name, put in places.items():
    tree = put(params)
    for ocdbt in (True, False):
        for zarr3 in (True, False):
            handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)
            to = f"orbax-{name}{'-ocdbt' if ocdbt else ''}{'-zarr3' if zarr3 else ''}"
            with ocp.Checkpointer(handler) as c:
                c.save(f"{home}/{to}", args=ocp.args.PyTreeSave(tree))
            want(to, params)
small = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=512), params)
for zarr3 in (True, False):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_zarr3=zarr3)) as c:
        to = f"orbax-small-chunks{'-zarr3' if zarr3 else ''}"
        c.save(f"{home}/{to}", args=ocp.args.PyTreeSave(places["columns"](params), save_args=small))
    want(to, params)
with ocp.StandardCheckpointer() as c:
    c.save(f"{home}/orbax-standard", places["grid"](params))
want("orbax-standard", params)

class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        x = nn.BatchNorm(use_running_average=not train)(nn.Conv(8, (3, 3))(x))
        return nn.Dense(4)(nn.LSTMCell(6)(nn.LSTMCell(6).initialize_carry(jax.random.key(1), (2, 5)), nn.Dense(5)(x.mean((1, 2))))[1])

variables = Net().init(jax.random.key(3), jnp.ones((2, 8, 8, 3)))
tx = optax.chain(optax.clip_by_global_norm(1.), optax.adamw(1e-3, mu_dtype=jnp.bfloat16))
state = train_state.TrainState.create(apply_fn=Net().apply, params=variables["params"], tx=tx)
state = state.apply_gradients(grads=jax.tree.map(jnp.ones_like, state.params))
model = {"params": state.params}

everything = {"model": params, "empty": {}, "none": None, "list": [], "note": "a text", "count": 7, "rate": .25, "flag": True, "big": 2 ** 40}
with ocp.PyTreeCheckpointer() as c:
    c.save(f"{home}/orbax-leaves", everything)
got = ocp.PyTreeCheckpointer().restore(f"{home}/orbax-leaves")
got["model"]["head"]["temperature"] = np.float32(.5)  # restored as a number of Python
want("orbax-leaves", {**got, "count": np.int64(7), "rate": np.float64(.25), "flag": np.bool_(True), "big": np.int64(2 ** 40)})
with ocp.PyTreeCheckpointer() as c:
    c.save(f"{home}/orbax-state", cut(line, "a")(jax.tree.map(np.asarray, serialization.to_state_dict(state))))
want("orbax-state", model)
with ocp.PyTreeCheckpointer() as c:
    c.save(f"{home}/orbax-state-class", state)
want("orbax-state-class", model)
with ocp.CheckpointManager(f"{home}/orbax-manager", options=ocp.CheckpointManagerOptions(max_to_keep=2)) as m:
    for step in (9, 10, 100):
        m.save(step, args=ocp.args.StandardSave(jax.tree.map(lambda x: x * step, {"params": variables["params"]})))
want("orbax-manager", jax.tree.map(lambda x: x * 100, {"params": variables["params"]}))
with ocp.CheckpointManager(f"{home}/orbax-items") as m:
    m.save(3, args=ocp.args.Composite(state=ocp.args.StandardSave(model), config=ocp.args.JsonSave({"layers": 3})))
want("orbax-items", model)

class Mlp(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 4, rngs=rngs)])
        self.norm = nnx.BatchNorm(4, rngs=rngs)

net = Mlp(nnx.Rngs(0))
_, net_state = nnx.split(net)
with ocp.StandardCheckpointer() as c:
    c.save(f"{home}/orbax-nnx", net_state)
got = ocp.StandardCheckpointer().restore(f"{home}/orbax-nnx")
want("orbax-nnx", got)
with ocp.StandardCheckpointer() as c:
    c.save(f"{home}/orbax-nnx-pure", nnx.to_pure_dict(net_state))
want("orbax-nnx-pure", nnx.to_pure_dict(net_state))

# ---- msgpack ----

def write(name, data, tree):
    os.mkdir(name)
    open(f"{name}/flax_model.msgpack", "wb").write(data)
    want(name, tree)

write("flax-tree", serialization.msgpack_serialize(serialization.to_state_dict(jax.tree.map(lambda x: x, params))), params)
write("flax-variables", serialization.to_bytes(variables), variables)
write("flax-state", serialization.to_bytes(state), model)
write("flax-copies", serialization.to_bytes(jax_utils.replicate(variables)), variables)
write("flax-state-copies", serialization.to_bytes(jax_utils.replicate(state)), model)
write("flax-leaves", serialization.msgpack_serialize({"count": 300, "rate": .5, "note": "text", "flag": True, "none": None, "z": 1 + 2j, "scalar": np.float32(3),
                                                      "w": params["head"]["kernel"]}), {"scalar": np.float32(3), "w": params["head"]["kernel"]})
for name, first in {"scalar": np.float32(2.5), "double": np.float64(2.5), "int": 500, "minus": -5, "float": .1, "flag": True, "text": "hello", "wide": 2 ** 60,
                    "none": None}.items():
    write(f"flax-first-{name}", serialization.msgpack_serialize({"a": first, "b": params["head"]["kernel"]}),
          {**({"a": np.asarray(first)} if isinstance(first, np.generic) else {}), "b": params["head"]["kernel"]})
serialization.MAX_CHUNK_SIZE = 700
write("flax-chunks", serialization.msgpack_serialize(serialization.to_state_dict(params)), params)
write("flax-nnx", serialization.msgpack_serialize(jax.tree.map(np.asarray, nnx.to_pure_dict(net_state))), nnx.to_pure_dict(net_state))
os.environ["FLAX_USE_ORBAX_CHECKPOINTING"] = "false"
import flax
flax.config.update("flax_use_orbax_checkpointing", False)
checkpoints.save_checkpoint(f"{home}/flax-legacy", state, 12)
want("flax-legacy", model)
flax.config.update("flax_use_orbax_checkpointing", True)
checkpoints.save_checkpoint(f"{home}/flax-checkpoints", state, 12)
want("flax-checkpoints", model)
'''


COMPARE = r'''
import glob, pickle, sys
from safetensors import safe_open
import ml_dtypes
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    want = pickle.load(open(path[:-len("safetensors")] + "want", "rb"))
    with safe_open(path, "np") as f:
        got = {k: f.get_tensor(k) for k in f.keys()}
    bad = sorted(set(got) ^ set(want)) or [k for k in got if (str(got[k].dtype), got[k].shape, got[k].tobytes()) != want[k]]
    if bad:
        print(path, *bad[:5])
'''


def source(folder, name):
    at = f"{folder}/{name}"
    for inner in ("flax_model.msgpack", "checkpoint_12"):
        if os.path.exists(f"{at}/{inner}"):
            return f"{at}/{inner}"
    return at


def join(box, folder, name):
    """The first tool that is not content, and what it says."""
    at = source(folder, name)
    for argv in (("pgcheck", at), ("pgjoin", "-q", at, f"{folder}/{name}.safetensors")):
        r = box.tool(*argv)
        if r.rc:
            return argv[0], (r.out + r.err).strip()[-300:]
    return None


def cut(box, folder, name):
    """The files that hold values are cut (OCDBT keeps old ones, too): pgjoin must refuse, and write nothing."""
    at = f"{folder}/{name}-cut"
    shutil.copytree(f"{folder}/{name}", at)
    files = [os.path.join(base, f) for base, _, names in os.walk(at) if base != at for f in names if "metadata" not in base]
    most = max(map(os.path.getsize, files))
    for f in files:
        if os.path.getsize(f) > most / 3:
            os.truncate(f, 99)
    r = box.tool("pgjoin", "-q", at, f"{at}/out.safetensors")
    if r.rc == 2 and not os.path.exists(f"{at}/out.safetensors"):
        return None
    return "cut", f"status {r.rc}: {r.err.strip()[-200:]}"


def run(box, python, folder):
    bad = []
    r = subprocess.run([python, "-c", WRITE, folder], capture_output=True, text=True, timeout=800)
    names = r.stdout.split()
    if r.returncode:
        bad.append(("JAX writes", r.stderr[-1500:]))
    for name in names:
        found = [join(box, folder, name)] + ([cut(box, folder, name)] if name.startswith("orbax-grid") else [])
        bad += [(f"{name}: {f[0]}", f[1]) for f in found if f]
    r = subprocess.run([python, "-c", COMPARE, folder], capture_output=True, text=True, timeout=300)
    bad += [("other values", x) for x in (r.stdout + r.stderr).splitlines()]
    return bad, len(names)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    python = os.environ.get("PG_JAX_PYTHON")
    if not python:
        return finish("jax trees", [], 0, ["no environment for JAX (PG_JAX_PYTHON)"])
    with tempfile.TemporaryDirectory() as folder:
        bad, n = run(Box(a.tools, None, "."), python, folder)
    return finish("jax trees", bad, n, [])


if __name__ == "__main__":
    sys.exit(main())
