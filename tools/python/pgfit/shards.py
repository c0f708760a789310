"""Weights from the folder of shards that pgsplit writes (and pgfit, if a model exceeds the limits of HDF5).

`manifest.json` lists layers and tensors in order; a tensor lies in one or, cut along its first axis, several .npy files, or in
members of .npz and .safetensors. Only NumPy is needed beside the model's own Keras. Everything is compared with the model
before the first weight changes, and values are read layer by layer.
"""
import json
import os
import re
import zipfile
import zlib

import numpy as np

_SAFE_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<V2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
               "I8": "|i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}


class ShardError(ValueError):
    """Shards that are missing, damaged, or not of this model."""


def load_weights(model, path, verify=False, by_order=False):
    """Loads weights into `model` from one file (by Keras' own load_weights), a folder of shards, or the name of a file that
    pgfit had to split: if `path` does not exist and `path`.shards does, loads that folder."""
    path = os.fspath(path)
    if not os.path.exists(path) and os.path.isdir(path + ".shards"):
        path += ".shards"
    if os.path.isfile(os.path.join(path, "manifest.json")):
        load_shards(model, path, verify=verify, by_order=by_order)
    else:
        model.load_weights(path)


def load_shards(model, folder, verify=False, by_order=False):
    """Loads the shards of `folder` into `model`: every layer, in order, strictly.

    Args:
        model: a built Keras model.
        folder: what pgsplit wrote, with its manifest.json.
        verify: also compare the CRC-32 of every file with the manifest (reads everything twice).
        by_order: layers and weights are paired by position alone, as Keras' load_weights does, for a model whose layers
            were numbered anew in another process. Numbers and shapes must still agree.

    Raises ShardError, with the model unchanged, where a shard is missing, damaged (`verify`), of another shape, or
    where layers or weights differ in name, number or order.
    """
    folder = os.fspath(folder)
    tensors = _read_manifest(folder)
    for t in tensors:
        for f in t["files"]:
            f["full"] = _inside(folder, f["path"])
    _check_files(folder, tensors, verify)
    if any(re.search(r"(^|/)vars/\d+$", t["name"]) for t in tensors):
        plan = _by_path(model, folder, tensors, by_order)
    else:
        plan = _by_layer(model, folder, tensors, by_order)
    for _, wanted, t in ((a, shape, t) for a, items in plan for shape, t in items):
        if tuple(t["shape"]) != wanted:
            raise ShardError("%s: %s is %s, the model has %s" % (folder, t["name"], _show(t["shape"]), _show(wanted)))
        for f in t["files"]:
            _open(f, t)
    for assign, items in plan:
        assign([_read(t) for _, t in items])


def _read_manifest(folder):
    """The weights of manifest.json, in order."""
    path = os.path.join(folder, "manifest.json")
    try:
        with open(path, encoding="utf-8") as f:
            manifest = json.load(f)
        tensors = [t for t in manifest["tensors"] if t["layer"] is not None]
        for t in tensors:  # the name that Keras 3 gives to the object of a path
            about = manifest.get("attributes", {}).get(os.path.dirname(t.get("h5") or ""), {})
            t["object"] = about.get("name", {}).get("value")
        known = manifest["format"] in ("npy", "npz", "safetensors") and manifest["version"] == 1
    except FileNotFoundError:
        raise ShardError("%s: no manifest.json; a folder that pgsplit wrote has one" % folder) from None
    except (ValueError, KeyError, TypeError) as e:
        raise ShardError("%s: not a manifest of pgsplit (%s); copy it again" % (path, e)) from e
    if not known:
        raise ShardError("%s: format %s, version %s: only npy, npz and safetensors of version 1 are read here; pgjoin makes "
                         "one file of it" % (path, manifest["format"], manifest["version"]))
    if str(manifest.get("writer") or "").startswith("keras 1."):
        raise ShardError("%s: weights of Keras 1 lie otherwise; pgjoin, then pgconvert --model, makes a file of today" % path)
    return tensors


def _inside(folder, path):
    if os.path.isabs(path) or ".." in re.split(r"[/\\]", path):
        raise ShardError("%s: the manifest names \"%s\", which is outside of it" % (folder, path))
    return os.path.join(folder, *path.split("/"))


def _check_files(folder, tensors, verify):
    """Reports all missing and damaged files at once."""
    sums = {f["full"]: f.get("crc32") for t in tensors for f in t["files"]}
    wrong = ["missing  %s" % os.path.relpath(p, folder) for p in sums if not os.path.isfile(p)]
    for path, want in sums.items() if verify else ():
        if os.path.isfile(path) and want is not None:
            got = "%08x" % _crc32(path)
            if got != want:
                wrong.append("damaged  %s: crc32 %s, manifest has %s" % (os.path.relpath(path, folder), got, want))
    if wrong:
        raise ShardError("%s: %d of %d shards cannot be used; copy them again, nothing was loaded\n  %s"
                         % (folder, len(wrong), len(sums), "\n  ".join(wrong)))


def _crc32(path):
    crc = 0
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            crc = zlib.crc32(block, crc)
    return crc


# ---- pairing tensors with weights ----------------------------------------------------------------------------------------
#
# A plan is a list of (assign, [(shape, tensor)]): assign takes the values of one layer.

def _by_layer(model, folder, tensors, by_order):
    """The legacy layout: layers by name, each with its trainable weights, then the others."""
    layers = [x for x in model.layers if x.weights]
    groups = _grouped(tensors)
    if len(groups) != len(layers):
        raise ShardError("%s: %d layers with weights (%s), the model has %d (%s)%s"
                         % (folder, len(groups), _some(groups), len(layers), _some(x.name for x in layers),
                            "; pgsplit --unwrap takes the model out of a wrapper" if len(groups) == 1 else ""))
    plan = []
    for layer, (name, items) in zip(layers, groups.items()):
        if name != layer.name and not by_order:
            raise ShardError("%s: layer \"%s\" stands where the model has \"%s\"; by_order=True goes by position alone"
                             % (folder, name, layer.name))
        variables = list(layer.trainable_weights) + list(layer.non_trainable_weights)
        if len(items) != len(variables):
            raise ShardError("%s: layer \"%s\" has %d weights, \"%s\" of the model has %d"
                             % (folder, name, len(items), layer.name, len(variables)))
        for v, t in zip(variables, items):
            if _last(t["name"]) != _last(v.name) and not by_order:
                raise ShardError("%s: weight \"%s\" stands where the model has \"%s\" (layer \"%s\"); by_order=True goes by "
                                 "position alone" % (folder, t["name"], v.name, layer.name))
        plan.append((_setter(layer, variables), [(tuple(v.shape), t) for v, t in zip(variables, items)]))
    return plan


def _setter(layer, variables):
    """set_weights needs the order of layer.weights, which may differ from that of the file."""
    place = {id(v): i for i, v in enumerate(variables)}
    return lambda values: layer.set_weights([values[place[id(v)]] for v in layer.weights])


def _last(name):
    return name.split("/")[-1].split(":")[0]


def _grouped(tensors):
    groups = {}
    for t in tensors:
        groups.setdefault(t["layer"], []).append(t)
    return groups


def _by_path(model, folder, tensors, by_order):
    """The path layout of .weights.h5 and .keras: every object saves and loads its own variables by number."""
    groups = _grouped(tensors)
    plan, found = [], set()
    for path, items in groups.items():
        steps = [x for x in path.split("/") if x]
        found.add("/".join(steps[:2]))
        owner, own = _owner(model, steps), {}
        if owner is not None:
            owner.save_own_variables(own)
        numbers = [_last(t["name"]) for t in items]
        if sorted(own) != sorted(numbers):
            raise ShardError("%s: %s has %d weights, the model has %s" % (
                folder, path, len(items), "nothing of that path" if owner is None else "%d there" % len(own)))
        name = items[0]["object"]
        if name and name != getattr(owner, "name", name) and not by_order:
            raise ShardError("%s: \"%s\" stands where the model has \"%s\" (%s); by_order=True goes by position alone"
                             % (folder, name, owner.name, path))
        plan.append((_loader(owner, numbers), [(tuple(own[n].shape), t) for n, t in zip(numbers, items)]))
    missing = [x.name for key, x in _named(model.layers) if x.weights and "layers/" + key not in found]
    if missing:
        raise ShardError("%s: nothing for layers %s of the model" % (folder, _some(missing)))
    return plan


def _loader(owner, numbers):
    return lambda values: owner.load_own_variables(dict(zip(numbers, values)))


def _owner(obj, steps):
    """The object at a path: "layers/dense_1" is the second Dense among model.layers, other steps are attributes."""
    for step in steps:
        if isinstance(obj, (list, tuple, dict)):
            obj = dict(_named(obj.values() if isinstance(obj, dict) else obj)).get(step)
        else:
            obj = getattr(obj, step, getattr(obj, "_" + step, None))
    return obj if hasattr(obj, "save_own_variables") else None


def _named(objects):
    """(name, object) as Keras names the objects of a container: by class, counted from the second on."""
    seen = {}
    for x in objects:
        name = _snake(type(x).__name__)
        n = seen.get(name, 0)
        seen[name] = n + 1
        yield (name if n == 0 else "%s_%d" % (name, n)), x


def _snake(name):
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


# ---- values --------------------------------------------------------------------------------------------------------------

def _read(tensor):
    """The value of a tensor: mapped from its file if that is a single .npy, otherwise in memory."""
    parts = [_open(f, tensor) for f in tensor["files"]]
    value = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if value.dtype.kind == "V":  # bfloat16 is the upper half of a float32
        value = (np.ascontiguousarray(value).view("<u2").astype("<u4") << 16).view("<f4")
    return value


def _open(f, tensor):
    """One piece of a tensor, read as late as possible; compares its shape with the manifest."""
    path, member = f["full"], f.get("member")
    try:
        if member is None:
            value = np.load(path, mmap_mode="r", allow_pickle=False)
        elif path.endswith(".npz"):
            with zipfile.ZipFile(path) as z, z.open(member) as entry:
                value = np.lib.format.read_array(entry, allow_pickle=False)
        else:
            value = _safetensor(path, member)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as e:
        raise ShardError("%s: cannot be read (%s); copy it again" % (path, e)) from e
    want = tuple(tensor["shape"])
    if want and (len(tensor["files"]) > 1 or f["rows"] != want[0]):
        want = (f["rows"],) + want[1:]
    if tuple(value.shape) != want:
        raise ShardError("%s: holds %s, the manifest says %s; copy it again" % (path, _show(value.shape), _show(want)))
    return value


def _safetensor(path, name):
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        if n > 100000000:
            raise ValueError("its header is too long")
        entry = json.loads(f.read(n).decode("utf-8"))[name]
    begin, end = entry["data_offsets"]
    dtype = np.dtype(_SAFE_TYPES[entry["dtype"]])
    if end - begin != dtype.itemsize * int(np.prod(entry["shape"], dtype=np.int64)) or begin < 0:
        raise ValueError("offsets and shape of %s disagree" % name)
    if begin == end:
        return np.zeros(entry["shape"], dtype)
    return np.memmap(path, dtype, "r", 8 + n + begin, tuple(entry["shape"]))


def _show(shape):
    return "(%s)" % ", ".join(str(n) for n in shape)


def _some(names):
    names = list(names)
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
