"""pgfit.fit, evaluate and predict: a Trainer for one call."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

from ._call import Path, Progress
from ._errors import ArgumentError
from ._models import ModelLike
from ._options import divided
from ._trainer import History, Trainer


def _once(model: ModelLike, options: Dict[str, Any]) -> Tuple[Trainer, Dict[str, Any]]:
    """A trainer for one call; what of the options is the call's own."""
    train, fit = divided({k: v for k, v in options.items() if v is not None})
    own = {k: v for k, v in options.items() if k in fit}
    return Trainer(model, **{k: v for k, v in options.items() if k in train or (k == "optimizer" and v is not None)}), own


def fit(model: ModelLike, x: Any, y: Any = None, *, batch_size: int = 32, epochs: int = 1, verbose: int = 1, callbacks: Any = None,
        validation_data: Any = None, validation_split: float = 0.0, shuffle: Union[bool, str] = True,
        class_weight: Optional[Dict[int, float]] = None, sample_weight: Any = None, output: Optional[Path] = None,
        force: bool = False, progress: Progress = False, **options: Any) -> History:
    """Trains a model with libpg as Keras would, on one device or several; no wrapper is ever in the files.

    Args:
        model: a model of Keras 2 or 3, a full .h5 or .keras, a model's JSON as a file, text or dictionary. A Keras model
            gets the trained weights, and its optimizer the trained state.
        x, y: arrays of rows, lists of them in the order of inputs and outputs, or dictionaries by name; they are used where
            they are, without a copy. Or x is a file of data, as man pgfit describes them.
        batch_size: rows of a step, over all devices. epochs: where the numbers of epochs end (initial_epoch: begin).
        verbose: 1 prints a line for each epoch. progress: True shows a bar; a function gets (batches done, in all).
        callbacks: libpg's by Keras' names and parameters ("EarlyStopping:patience=3,restore_best_weights"), objects with
            Keras' methods, or functions f(epoch, logs). They may set model.stop_training. on_train_batch_begin and those
            of validation and prediction are not called; Keras' own that change the optimizer are refused. What a callback
            raises ends the training, the weights are kept, and the exception is raised here. So does Ctrl-C.
        validation_data: (x, y), (x, y, sample_weight), a file, or "test": the set of that name in the file x.
        validation_split: share of the rows, taken from the end.
        shuffle: "batch": neighbouring rows stay together.
        output: file for the trained model (.h5, .weights.h5, .keras, .safetensors); force replaces one.
        options: Trainer's (optimizer, loss, metrics, devices, freeze, seed, deterministic, ...) and pg_fit_opts' members
            (initial_epoch, steps_per_epoch, validation_steps, validation_freq, accumulate, terminate_on_nan, resume_file,
            resume, trace, ...).

    Returns a History. Raises MismatchError (data do not fit the model), ArgumentError, UnsupportedError, DeviceError.

    >>> import numpy as np
    >>> digits = np.load("digits.npz")
    >>> run = fit("mlp.json", digits["x0"], digits["y0"], loss="categorical_crossentropy", optimizer="adam", verbose=0)
    >>> sorted(run.history)
    ['loss', 'lr']
    """
    if options.get("quantize") is not None:
        raise ArgumentError("quantize belongs to predict() and evaluate(); training stays in float32")
    trainer, own = _once(model, options)
    with trainer:
        run = trainer.fit(x, y, batch_size=batch_size, epochs=epochs, verbose=verbose, callbacks=callbacks,
                          validation_data=validation_data, validation_split=validation_split, shuffle=shuffle,
                          class_weight=class_weight, sample_weight=sample_weight, progress=progress, **own)
        if output is not None:
            run.files.append(trainer.save(output, force=force))
    return run


def evaluate(model: ModelLike, x: Any, y: Any = None, *, sample_weight: Any = None, batch_size: int = 32,
             steps: Optional[int] = None, **options: Any) -> Dict[str, float]:
    """Loss and metrics of a model over all rows, by name, as Keras' evaluate(return_dict=True).

    Arguments are those of fit(); options are Trainer's.

    >>> import numpy as np
    >>> digits = np.load("digits.npz")
    >>> sorted(evaluate("mlp.json", digits["x0"], digits["y0"], weights="after.h5", loss="mse", metrics="mae"))
    ['loss', 'mae']
    """
    with Trainer(model, **options) as trainer:
        return trainer.evaluate(x, y, sample_weight=sample_weight, batch_size=batch_size, steps=steps)


def predict(model: ModelLike, x: Any, *, batch_size: int = 32, steps: Optional[int] = None, **options: Any) -> Any:
    """Predictions for every row: an array of shape (rows, ...), or a list for several outputs.

    Arguments are those of fit(); options are Trainer's (weights, devices).

    >>> import numpy as np
    >>> predict("mlp.json", np.load("digits.npz")["x0"], weights="after.h5").shape
    (500, 10)
    """
    with Trainer(model, for_prediction=True, **options) as trainer:
        return trainer.predict(x, batch_size=batch_size, steps=steps)
