"""Keywords of the trainer as members of pg_train_opts and pg_fit_opts: values that are words or lists become what they take."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Dict, Tuple

from ._abi import abi
from ._errors import ArgumentError

# Members that are numbers in C and words here.
_WORDS: Dict[str, Tuple[str, ...]] = {
    "optimizer_rules": ("auto", "legacy", "new"), "precision": ("model", "tf32", "bfloat16", "float16", "float32", "bfloat16=emulate"),
    "batch_norm": ("auto", "replica", "sync"), "conv": ("auto", "direct", "winograd"), "reset_states": ("never", "epoch"),
    "resume": ("never", "always", "auto"),
}
# Members that are text: a number would be taken for an address.
_TEXT = {name for of in (abi.pg_train_opts, abi.pg_fit_opts) for name, kind in of._fields_ if kind is ctypes.c_char_p}
_TRAIN = {name for name, _ in abi.pg_train_opts._fields_} - {"model", "model_text", "optimizer_json", "cancel"}
_FIT = {name for name, _ in abi.pg_fit_opts._fields_} - {"validation", "callbacks", "n_callbacks", "cancel", "stop", "settings",
                                                          "output", "replaces_output"}


def spec(value: Any) -> str:
    """Names as libpg reads them: {"a": ["mse", "mae"]} is "a=mse,a=mae", [1, 0.5] is "1,0.5"."""
    if isinstance(value, dict):
        return ",".join("%s=%s" % (k, one) for k, v in value.items() for one in (v if isinstance(v, (list, tuple)) else [v]))
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _optimizer(value: Any) -> Dict[str, str]:
    """A name with parameters, Keras' dictionary, or an optimizer of Keras."""
    if hasattr(value, "get_config"):
        value = {"class_name": type(value).__name__, "config": value.get_config()}
    if isinstance(value, dict):
        return {"optimizer_json": json.dumps(value, default=float)}
    return {"optimizer": spec(value)}


def _member(name: str, value: Any) -> Any:
    if name in _WORDS:
        if value is True or value is False:
            value = _WORDS[name][int(value)]
        if value not in _WORDS[name]:
            raise ArgumentError("%s is one of %s, not %r" % (name, ", ".join(_WORDS[name]), value))
        return _WORDS[name].index(value)
    if name in _TEXT and isinstance(value, (bool, int, float)):
        raise ArgumentError("%s is a text, not %r" % (name, value))
    return value if isinstance(value, (int, float, str, os.PathLike)) else spec(value)


def divided(options: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Members of pg_train_opts and of pg_fit_opts for these keywords; ArgumentError names one that neither has."""
    train: Dict[str, Any] = {}
    fit: Dict[str, Any] = {}
    for name, value in options.items():
        if name not in _TRAIN | _FIT:
            raise ArgumentError("%s: no such option; there are %s" % (name, ", ".join(sorted(_TRAIN | _FIT))))
        if value is None:
            continue
        if name == "optimizer":
            train.update(_optimizer(value))
        if name in _TRAIN and name != "optimizer":
            train[name] = _member(name, value)
        if name in _FIT:
            fit[name] = _member(name, value)
    return train, fit
