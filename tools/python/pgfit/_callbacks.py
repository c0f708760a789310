"""Callbacks in Python: what pg_fit() calls, and what becomes of an exception there."""
from __future__ import annotations

import json
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _errors
from ._abi import abi
from ._call import text

# Keras' own that act on the optimizer that trains, which is not Keras'. libpg has them under the same names.
_OWN = ("BackupAndRestore", "LearningRateScheduler", "ReduceLROnPlateau", "SwapEMAWeights", "TensorBoard")


class Run:
    """What a callback sees as its model if the model is no Keras object."""

    stop_training = False

    def __init__(self, weights: Callable[[], List[Any]]) -> None:
        self._weights = weights

    def get_weights(self) -> List[Any]:
        """The weights as they are now, in the order of Keras' get_weights()."""
        return self._weights()


def divided(callbacks: Any) -> Tuple[List[bytes], List[Any]]:
    """Those of libpg, as it takes them ("EarlyStopping:patience=3", or a dictionary with class_name and config), and those
    in Python: objects with Keras' methods, or functions f(epoch, logs)."""
    specs, objects = [], []
    if callbacks is None:
        callbacks = []
    for one in callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]:
        if isinstance(one, str):
            specs.append(one.encode())
        elif isinstance(one, dict):
            specs.append(json.dumps(one).encode())
        else:
            for cls in type(one).__mro__:
                if cls.__name__ in _OWN and "keras" in cls.__module__:
                    raise _errors.UnsupportedError(
                        "%s of Keras changes an optimizer that does not train here" % cls.__name__, "PG_E_UNSUPPORTED",
                        hint='callbacks=["%s:..."], libpg\'s own, with Keras\' parameters' % cls.__name__)
            objects.append(one)
    return specs, objects


class Hooks:
    """Passes what pg_fit() tells to callbacks in Python. What they raise is kept in `raised` and stops the training."""

    def __init__(self, objects: Sequence[Any], model: Any, sync: Callable[[], None], show: Optional[Callable[..., None]],
                 batch_shown: Optional[Callable[[int, int], None]], stop: Any) -> None:
        self.objects, self.model, self._sync, self._show, self._batch_shown = list(objects), model, sync, show, batch_shown
        self._stop = stop  # pg_fit_opts.stop
        self.raised: Optional[BaseException] = None
        self.history: Dict[str, List[float]] = {}
        self.epochs: List[int] = []
        self.notes: List[str] = []
        self.files: List[str] = []
        self.params: Dict[str, Any] = {}
        self._done, self._last = 0, {}  # type: Tuple[int, Dict[str, float]]
        model.stop_training = False
        names = ("train_begin", "epoch_begin", "batch_end", "epoch_end", "event")
        types = dict(abi.pg_callback._fields_)
        self._kept = {name: types[name](self._guard(getattr(self, "_" + name))) for name in names}
        self.struct = abi.pg_callback(**self._kept)
        for one in self.objects:
            if hasattr(one, "set_model"):
                one.set_model(model)

    def _guard(self, function: Callable[..., None]) -> Callable[..., int]:
        """Nothing may be raised through C."""
        def guarded(_user: Any, *arguments: Any) -> int:
            try:
                if self.raised is None:
                    function(*arguments[:-1])
            except BaseException as e:
                self.raised = e
            return int(abi.PG_OK if self.raised is None else abi.PG_E_CANCELLED)
        return guarded

    def tell(self, moment: str, *arguments: Any) -> None:
        """Calls a method of every object that has it; a function is called at the end of each epoch."""
        for one in self.objects:
            method = getattr(one, moment, None)
            if method is None and moment == "on_train_batch_end":
                method = getattr(one, "on_batch_end", None)
            if method is not None:
                method(*arguments)
            elif moment == "on_epoch_end" and callable(one):
                one(*arguments)
        if getattr(self.model, "stop_training", False):
            self._stop.value = 1

    def _train_begin(self, run: Any) -> None:
        r = run.contents
        self.params = {"epochs": r.n_epochs, "steps": r.n_batches, "batch_size": r.batch_size, "samples": r.n_train,
                       "optimizer": text(r.optimizer), "devices": text(r.devices), "verbose": 0}
        for one in self.objects:
            if hasattr(one, "set_params"):
                one.set_params(dict(self.params))
        self.tell("on_train_begin", {})

    def _epoch_begin(self, epoch: int) -> None:
        self.tell("on_epoch_begin", epoch, {})

    def _batch_end(self, batch: int, _own: Any, running: Any) -> None:
        self._done += 1
        if self._batch_shown:
            self._batch_shown(self._done, self.params["epochs"] * self.params["steps"])
        if self.objects:
            self.tell("on_train_batch_end", batch, _logs(running))

    def _epoch_end(self, epoch: int, logs: Any) -> None:
        self._last = _logs(logs)
        self.epochs.append(epoch)
        for name, value in self._last.items():
            self.history.setdefault(name, []).append(value)
        if self._show:
            self._show(epoch, self.params["epochs"], self._last)
        if self.objects:
            self._sync()
            self.tell("on_epoch_end", epoch, dict(self._last))

    def _event(self, event: Any) -> None:
        words = text(event.contents.text) or ""
        if event.contents.kind == abi.PG_EVENT_CHECKPOINT:
            self.files.append(text(event.contents.file) or "")
        elif event.contents.kind == abi.PG_EVENT_WARNING:
            warnings.warn(words, stacklevel=2)
        else:
            self.notes.append(words)

    def end(self) -> None:
        """on_train_end, when the weights are where the callbacks look for them."""
        self.tell("on_train_end", dict(self._last))


def _logs(logs: Any) -> Dict[str, float]:
    l = logs.contents
    return {l.names[i].decode(): l.values[i] for i in range(l.n)}
