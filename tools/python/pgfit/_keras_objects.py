"""A Keras model object and a trainer: the model goes in as the file that Keras writes, weights and optimizer come back."""
from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any, Callable, List

from ._models import keras_of
from ._open import open as open_checkpoint


def saved(model: Any, folder: str) -> str:
    """The file of a model with everything that Keras knows of it: weights, compile(), the optimizer's state."""
    major = int(keras_of(model).__version__.split(".")[0])
    path = os.path.join(folder, "model.keras" if major >= 3 else "model.h5")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # .h5 is called legacy
        model.save(path)
    return path


def take_weights(model: Any, weights: List[Any]) -> None:
    """Sets the weights of a model, in the order of its get_weights()."""
    model.set_weights([w.astype(old.dtype) for w, old in zip(weights, model.get_weights())])


def take_optimizer(model: Any, save: Callable[[str], Any]) -> None:
    """Sets the state of the model's optimizer, if it has one, to that of a trainer that `save` writes into a file."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        major = int(keras_of(model).__version__.split(".")[0])
        path = os.path.join(folder, "trained.keras" if major >= 3 else "trained.h5")
        save(path)
        with open_checkpoint(path, mode="m") as f:
            values = [f.state[name] for name in f.state]
    create = getattr(optimizer, "build", None) or getattr(optimizer, "_create_all_weights", None)  # a legacy one of Keras 2
    if create:
        create(model.trainable_variables)
    variables = optimizer.variables
    variables = list(variables() if callable(variables) and not isinstance(variables, list) else variables)
    if [tuple(v.shape) for v in variables] != [v.shape for v in values]:
        warnings.warn("the state of the optimizer stays in the trainer: Keras keeps it in another form; the weights are set")
        return
    for variable, value in zip(variables, values):
        variable.assign(value.astype(_dtype(variable)))


def _dtype(variable: Any) -> str:
    return str(getattr(variable.dtype, "name", variable.dtype))
