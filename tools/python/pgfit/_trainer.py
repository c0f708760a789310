"""pgfit.Trainer: a model on one or more devices, and fit(), evaluate() and predict() over it."""
from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import tempfile
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Union

from . import _errors, _keras_objects
from ._abi import abi
from ._call import Bar, Path, Progress, call, fill, long_call, text
from ._callbacks import Hooks, Run, divided as divided_callbacks
from ._data import Data, validation
from ._library import lib
from ._models import ModelLike, described, is_keras
from ._options import divided, spec
from ._tensors import Tensor, tensor_of


class History:
    """What fit() returns, as Keras' does: `history` has a list of numbers for each loss and metric, one for each epoch, and
    the learning rate; `epoch` the numbers of the epochs, `params` the run's. `notes`: how model and data were understood;
    `files`: checkpoints that were written; `weights`: arrays in the order of Keras' get_weights()."""

    def __init__(self, hooks: Hooks, model: Any, weights: List[Any], notes: List[str]) -> None:
        self.history, self.epoch, self.params, self.files = hooks.history, hooks.epochs, hooks.params, hooks.files
        self.model, self.weights, self.notes = model, weights, notes + hooks.notes

    def __repr__(self) -> str:
        return "<History of %d epochs: %s>" % (len(self.epoch), ", ".join("%s %.4g" % (k, v[-1]) for k, v in self.history.items()))


class Trainer:
    """A model with its weights and optimizer, for several calls of fit(), evaluate() and predict().

    Args:
        model: a model of Keras 2 or 3 (its weights, compile() settings and optimizer state are taken), a full .h5 or
            .keras, a model's JSON as a file, text or dictionary.
        weights: a file with initial weights, in any format.
        optimizer, loss, metrics: as Keras takes them by name; parameters as in "adam:learning_rate=0.01". Several outputs:
            a dictionary of their names. What is not given comes from the model.
        devices: "cpu:0" or a list of replicas ("cpu:0", "cpu:1"), "cuda:0"; "auto".
        options: the other members of pg_train_opts (freeze, replace_head, seed, threads, deterministic, precision,
            quantize, schedule, rules, ...), see man pgfit.

    Raises UnsupportedError naming all layers that cannot be trained, MismatchError, ArgumentError.
    """

    def __init__(self, model: ModelLike, *, weights: Optional[Path] = None, optimizer: Any = None, loss: Any = None,
                 metrics: Any = None, devices: Any = None, **options: Any) -> None:
        self._trainer: Optional[ctypes.c_void_p] = None
        self.model = model
        self._is_models_optimizer = is_keras(model) and optimizer is None
        train, fit = divided(dict(options, weights=weights, optimizer=optimizer, loss=loss, metrics=metrics, devices=devices))
        strange = sorted(set(fit) - set(train))
        if strange:
            raise _errors.ArgumentError("%s: an option of fit()" % ", ".join(strange))
        with contextlib.ExitStack() as stack:
            if is_keras(model):
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                described_as = {"model": _keras_objects.saved(model, folder)}
            else:
                described_as = described(model, "model", "model_text")
            o, trainer = fill(abi.pg_train_opts(), {**described_as, **train}), ctypes.c_void_p()
            long_call("pg_trainer_open", ctypes.byref(trainer), ctypes.byref(o), steer=o,
                      objects=[x for x in (described_as["model"], weights) if x is not None])
        self._trainer = trainer

    def close(self) -> None:
        """Frees it; weights that were taken stay."""
        trainer, self._trainer = self._trainer, None
        if trainer is not None:
            lib.pg_trainer_close(trainer)

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _handle(self) -> ctypes.c_void_p:
        if self._trainer is None:
            raise _errors.ArgumentError("the trainer is closed")
        return self._trainer

    @property
    def notes(self) -> List[str]:
        """How the files were understood, a sentence each."""
        t = self._handle()
        return [text(lib.pg_trainer_note(t, i)) or "" for i in range(lib.pg_trainer_n_notes(t))]

    @property
    def variables(self) -> List[Tensor]:
        """Descriptions of the weights, in the order of Keras' get_weights(); names are "layer/variable"."""
        t = self._handle()
        return [tensor_of(lib.pg_trainer_weight(t, i).contents) for i in range(lib.pg_trainer_n_weights(t))]

    def get_weights(self) -> List[Any]:
        """The weights as arrays, in the order of Keras' get_weights()."""
        import numpy as np
        found = []
        for i, v in enumerate(self.variables):
            values = np.empty(v.size, np.float64)
            call("pg_trainer_read", self._handle(), i, values.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), values.size)
            found.append(values.astype("float32" if v.dtype == "bfloat16" else v.dtype).reshape(v.shape))
        return found

    def save(self, path: Path, *, force: bool = False, full_model: bool = False) -> str:
        """Writes .h5, .weights.h5, .keras or .safetensors; full_model: of .h5, the description and optimizer too."""
        o = abi.pg_save_opts(force=force, full_model=full_model)
        call("pg_trainer_save", self._handle(), os.fsencode(path), ctypes.byref(o), objects=[path])
        return text(lib.pg_trainer_saved(self._handle())) or ""

    def _warn_if_untrained(self) -> None:
        if lib.pg_trainer_is_untrained(self._handle()):
            warnings.warn("no file provided the weights: these are those of the model's initializers", stacklevel=3)

    def _give_back(self) -> None:
        if is_keras(self.model):
            _keras_objects.take_weights(self.model, self.get_weights())

    def fit(self, x: Any, y: Any = None, *, batch_size: int = 32, epochs: int = 1, verbose: int = 1, callbacks: Any = None,
            validation_data: Any = None, validation_split: float = 0.0, shuffle: Union[bool, str] = True,
            class_weight: Optional[Dict[int, float]] = None, sample_weight: Any = None, progress: Progress = False,
            **options: Any) -> History:
        """Trains, as Keras' fit() does. See pgfit.fit()."""
        train, more = divided(dict(options, batch_size=batch_size, epochs=epochs, validation_split=validation_split))
        strange = sorted(set(train) - set(more))
        if strange:
            raise _errors.ArgumentError("%s: an option of Trainer()" % ", ".join(strange))
        specs, objects = divided_callbacks(callbacks)
        o, stop, last = fill(abi.pg_fit_opts(), more), ctypes.c_int(0), ctypes.c_int(0)
        o.cancel, o.stop = ctypes.pointer(stop), ctypes.pointer(last)
        o.no_shuffle, o.shuffle_batches = not shuffle, shuffle == "batch"
        if class_weight:
            o.class_weight = spec(class_weight).encode()
        names = (ctypes.c_char_p * len(specs))(*specs)
        if specs:
            o.callbacks, o.n_callbacks = ctypes.cast(names, ctypes.POINTER(ctypes.c_char_p)), len(specs)
        subject = self.model if is_keras(self.model) else Run(self.get_weights)
        bar = Bar("fit", "batch") if progress is True else None
        shown = progress if callable(progress) else bar
        hooks = Hooks(objects, subject, self._give_back, _line if verbose else None, shown, last)
        with contextlib.ExitStack() as stack:
            data = stack.enter_context(Data(x, y, sample_weight))
            held = validation(validation_data, x)
            if held:
                stack.enter_context(held)
                o.validation = held.handle
            if bar:
                stack.callback(bar.close)
            interrupted = stack.enter_context(_interrupts(stop))
            failure = self._run(data, o, hooks)
            notes = self.notes + data.notes()
        if failure is None or isinstance(failure, _errors.CancelledError) or hooks.raised:
            self._end(hooks)
        if hooks.raised:
            raise hooks.raised
        if interrupted:
            raise KeyboardInterrupt
        if failure:
            raise failure
        return History(hooks, self.model, self.get_weights(), notes)

    def _run(self, data: Data, o: Any, hooks: Hooks) -> Optional[_errors.Error]:
        try:
            call("pg_fit", self._handle(), data.handle, ctypes.byref(o), ctypes.byref(hooks.struct))
        except _errors.Error as e:
            return e
        return None

    def _end(self, hooks: Hooks) -> None:
        """Weights and optimizer go back into a Keras model, then callbacks hear of the end."""
        self._give_back()
        if self._is_models_optimizer:
            _keras_objects.take_optimizer(self.model, lambda path: self.save(path, full_model=True))
        if hooks.raised is None:
            hooks.end()

    def evaluate(self, x: Any, y: Any = None, *, sample_weight: Any = None, batch_size: int = 32,
                 steps: Optional[int] = None, unquantized: bool = False) -> Dict[str, float]:
        """Loss and metrics over all rows, by name, as Keras' evaluate(return_dict=True).

        unquantized: as if the trainer had been made without quantize.
        """
        given = {"batch_size": batch_size, "steps": steps, "unquantized": unquantized}
        o, logs = fill(abi.pg_predict_opts(), given), abi.pg_logs()
        self._warn_if_untrained()
        with Data(x, y, sample_weight) as data:
            long_call("pg_evaluate", self._handle(), data.handle, ctypes.byref(o), ctypes.byref(logs), steer=o)
            return {logs.names[i].decode(): logs.values[i] for i in range(logs.n)}

    def predict(self, x: Any, *, batch_size: int = 32, steps: Optional[int] = None, unquantized: bool = False) -> Any:
        """Outputs for every row: an array of shape (rows, ...), or a list of them for several outputs.

        unquantized: as if the trainer had been made without quantize.
        """
        given = {"batch_size": batch_size, "steps": steps, "unquantized": unquantized}
        o, outputs = fill(abi.pg_predict_opts(), given), []  # type: ignore[var-annotated]
        types = dict(abi.pg_predictions._fields_)
        begin, rows = types["begin"](_begin(outputs)), types["rows"](_rows(outputs))
        to = abi.pg_predictions(begin=begin, rows=rows)
        self._warn_if_untrained()
        with Data(x) as data:
            long_call("pg_predict", self._handle(), data.handle, ctypes.byref(o), ctypes.byref(to), steer=o)
        return outputs[0] if len(outputs) == 1 else outputs

    def reset_states(self) -> None:
        """Zeros for the states of stateful layers, as Keras' reset_states()."""
        call("pg_trainer_reset_states", self._handle())

    def quantized(self, x: Any, *, batch_size: int = 32, steps: Optional[int] = None) -> Dict[str, Any]:
        """What quantize="int8" changes: rows (of all steps, if none are given) are predicted in both ways.

        "products": how many are in int8, 0 if none is large enough; "rel_change": a share, of the "output" that changes most;
        "max_change" of one of its numbers, of "max_given" at most; "choices" and "same": rows of classes, and those whose
        largest number is of the same class.
        """
        o, found = fill(abi.pg_predict_opts(), {"batch_size": batch_size, "steps": steps}), abi.pg_quantized()
        with Data(x) as data:
            long_call("pg_predict_quantized", self._handle(), data.handle, ctypes.byref(o), ctypes.byref(found), steer=o)
        of = {name.removeprefix("n_"): getattr(found, name) for name, _ in found._fields_}
        return {**of, "output": text(found.output)}


def _begin(outputs: List[Any]) -> Callable[..., int]:
    """Makes the arrays that predictions go into."""
    def begin(_user: Any, weights: Any, n: int, _err: Any) -> int:
        import numpy as np
        try:
            outputs.extend(np.empty(t.shape, t.dtype) for t in (tensor_of(weights[i]) for i in range(n)))
        except BaseException:
            return int(abi.PG_E_NOMEM)
        return int(abi.PG_OK)
    return begin


def _rows(outputs: List[Any]) -> Callable[..., int]:
    """Copies rows to their place."""
    def rows(_user: Any, output: int, first: int, n: int, values: int, _err: Any) -> int:
        part = outputs[output][first:first + n]
        ctypes.memmove(part.ctypes.data, values, part.nbytes)
        return int(abi.PG_OK)
    return rows


def _line(epoch: int, epochs: int, logs: Dict[str, float]) -> None:
    """One epoch, for verbose=1."""
    print("Epoch %d/%d  %s" % (epoch + 1, epochs, "  ".join("%s: %.4g" % item for item in logs.items())), flush=True)


@contextlib.contextmanager
def _interrupts(stop: "ctypes.c_int") -> Iterator[List[int]]:
    """Ctrl-C ends the training after its batch, so that the weights are whole; a second one is Python's."""
    seen: List[int] = []
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) in (None, signal.SIG_IGN):
        yield seen
        return
    before = signal.getsignal(signal.SIGINT)

    def handler(number: int, frame: Any) -> None:
        if seen and callable(before):
            before(number, frame)
        seen.append(number)
        stop.value = 1
    signal.signal(signal.SIGINT, handler)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
