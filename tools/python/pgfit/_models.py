"""Arguments that may be a file, a model's JSON as a text or dictionary, or a Keras model."""
from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, Union

from ._call import Path
from ._errors import ArgumentError

_ROOTS = ("keras", "tf_keras", "tensorflow")
ModelLike = Union[Path, Dict[str, Any], Any]


def keras_of(model: Any) -> Any:
    """The module of the Keras that made `model`."""
    for cls in type(model).__mro__:
        root = cls.__module__.split(".")[0]
        if root in _ROOTS and root in sys.modules:
            found = sys.modules[root]
            return found.keras if root == "tensorflow" else found
    raise TypeError("ParallelModelCheckpoint: the first argument is the one-device model, a Keras model, "
                    "not %s" % type(model).__name__)


def is_keras(model: Any) -> bool:
    """Whether it is a model object of some Keras."""
    return hasattr(model, "to_json") and hasattr(model, "get_weights")


def described(model: Any, file: str, as_text: str) -> Dict[str, Any]:
    """The options `file` and `as_text` of a call for a model: its path, or its JSON under a name for messages."""
    if model is None:
        return {}
    if is_keras(model):
        return {file: model.name, as_text: model.to_json()}
    if isinstance(model, dict):
        return {file: "model", as_text: json.dumps(model)}
    if isinstance(model, str) and model.lstrip().startswith("{"):
        return {file: "model", as_text: model}
    if isinstance(model, (str, os.PathLike)):
        return {file: model}
    raise ArgumentError("a model is a file, a JSON or a Keras model, not a %s" % type(model).__name__)
