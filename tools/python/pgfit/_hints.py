"""What would help (pg_err.action) as a Python call: all of them are in one table."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Tuple

from ._abi import abi
from ._library import lib

# What the C API calls otherwise than the functions here.
_NAMES = {"template_name": "template", "n_replicas": "gpus"}
_NUMBERS = ("batch_size", "accumulate", "epochs", "threads", "lanes", "gpus")
# Members: "{x}" an argument as a literal, "x=" a keyword where that argument is there, else a word that stands for it.
_CALLS: Dict[str, Tuple[str, ...]] = {
    "PG_DO_UNWRAP": ("pgfit.unwrap", "{file|WEIGHTS}", "{out|OUT}", "like", "needs_model:like=MODEL", "needs_names:like=PLAIN",
                     "template", "partial", "in_place", "part"),
    "PG_DO_WRAP": ("pgfit.wrap", "{file|FILE}", "{out|OUT}", ":like=WRAPPER"),
    "PG_DO_CONVERT": ("pgfit.convert", "{file}", "{out|OUT}", "model", "layout"),
    "PG_DO_JOIN": ("pgfit.join", "{file}", "{out|WHOLE}", "part"),
    "PG_DO_COPY": ("pgfit.convert", "{file}", "{out|\"new.h5\"}"),
    "PG_DO_COMPARE_BY_ORDER": ("pgfit.diff", "{file}", "{other}", ":by_order=True"),
}
_WORDS = {
    "PG_DO_UNWRAP_TEMPLATE": "unwrap {file} without like, then repair(TEMPLATE, OUT, like={like}, partial=True)",
    "PG_DO_GIVE_MODEL": "model=\"model.json\": the description of the one-device model",
    "PG_DO_CHOOSE_FORMAT": "to=\"h5\", \"weights.h5\", \"keras\", \"safetensors\", \"npy\" or \"npz\"",
    "PG_DO_CHOOSE_PART": "part={part}",
    "PG_DO_OVERWRITE": "force=True   (replaces it)",
    "PG_DO_IN_PLACE": "in_place=True, without an output",
    "PG_DO_WRITE_NEW": "the same call with another file as output",
    "PG_DO_REPACK": "h5repack {file} NEW.h5   (of the HDF5 tools); then this again with NEW.h5",
    "PG_DO_LEAVE_OUT": "copy these files again, or leave their tensors out: pgfit.join(..., only=GLOB)",
    "PG_DO_LARGER_SHARDS": "a larger max_shard_size",
    "PG_DO_SMALLER_BATCH": "batch_size={batch_size}",
    "PG_DO_RENAME": "pgfit.convert(..., rename={...}), where only the names differ",
    "PG_DO_LIST_LAYERS": "man pg-layers lists the layers that can be trained",
    "PG_DO_START_AFRESH": "resume=False, or another resume_file",
    "PG_DO_USE_TEST_SET": "validation_data=\"test\"",
    "PG_DO_RESUME": "resume=True, resume_file={file}",
    "PG_DO_USE_GPU": "devices=\"cuda:0\", or without precision",
    "PG_DO_LAUNCH": "start Python with mpirun -np N, or devices=\"auto\" for this rank's GPU",
    "PG_DO_LAUNCH_RANKS": "mpirun -np {ranks}, or without deterministic",
    "PG_DO_RANK_PER_GPU": "a process for each GPU, or one for each machine (mpirun --map-by node)",
    "PG_DO_BUILD_WITH_MPI": "apt-get install {package}, then build libpg with -Dmpi=enabled",
}


def arguments_of(action: Any) -> List[Tuple[str, str]]:
    """Keys and values of an action, in order."""
    found: List[Tuple[str, str]] = []
    value = ctypes.c_char_p()
    while True:
        key = lib.pg_action_arg(ctypes.byref(action), len(found), ctypes.byref(value))
        if key is None:
            return found
        found.append((key.decode(), (value.value or b"").decode("utf-8", "surrogateescape")))


def _literal(key: str, value: str) -> str:
    if value == "":
        return "True"
    return value if key in _NUMBERS else '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"')


def _member(text: str, given: Dict[str, str]) -> str:
    """One argument of a call in the table, or "" where it is left out."""
    if text.startswith("{"):
        key, _, word = text[1:-1].partition("|")
        return _literal(key, given[key]) if key in given else word
    key, colon, fixed = text.partition(":")
    if colon:
        return fixed if not key or key in given else ""
    return "%s=%s" % (key, _literal(key, given[key] if key not in ("partial", "in_place") else "")) if key in given else ""


def _options(pairs: List[Tuple[str, str]]) -> str:
    """PG_DO_SET and PG_DO_GIVE: keywords of the same call; "or" begins another choice."""
    choices, notes = [[]], ""  # type: Tuple[List[List[str]], str]
    for key, value in pairs:
        if key == "or":
            choices.append([])
        elif key == "note":
            notes += value if value.startswith((",", ";")) else "   " + value
        else:
            name = _NAMES.get(key, key)
            choices[-1].append("%s=%s" % (name, _literal(name, value)))
    return ", or ".join(", ".join(x) for x in choices if x) + notes


def _free(wish: str, suffix: str) -> str:
    """"single.h5", or "single-2.h5" if that is there: a file that may be written."""
    stem = wish[:-len(suffix)] if suffix and wish.endswith(suffix) else wish
    name, k = wish, 1
    while os.path.exists(name) and k < 100:
        k += 1
        name = "%s-%d%s" % (stem, k, wish[len(stem):])
    return name


def hint_of(action: Any) -> str:
    """The line of an action; "" where the table has none."""
    what = abi.enums["pg_do"][action.what]
    pairs = arguments_of(action)
    given = dict(pairs)
    if "out" in given and "suffix" in given:
        given["out"] = _free(given["out"], given["suffix"])
    if what == "PG_DO_CHOOSE_DATA" or (what == "PG_DO_GIVE" and set(given) <= {"x", "y", "or"}):
        return ", ".join("or" if k == "or" else '%s=data["%s"]' % (k, v) for k, v in pairs) + "   (data = numpy.load(...))"
    if what in ("PG_DO_SET", "PG_DO_GIVE"):
        return _options(pairs)
    if what in _CALLS:
        name, *members = _CALLS[what]
        if "in_place" in given:
            members = [m for m in members if not m.startswith("{out")]
        if "split" in given:
            name = "pgfit.join(%s, %s); %s" % (_literal("", given["split"]), _literal("", given["file"]), name)
        return "%s(%s)" % (name, ", ".join(x for x in (_member(m, given) for m in members) if x))
    line = _WORDS.get(what, "")
    for key, value in pairs:
        line = line.replace("{%s}" % key, value if key in ("ranks", "package") else _literal(key, value))
    return line
