"""Rows for a trainer: arrays in memory, without copies, or files."""
from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Dict, List, Optional, Tuple

from . import _errors
from ._abi import abi
from ._call import call, text
from ._library import lib


@functools.lru_cache(maxsize=None)
def _dtypes() -> Dict[str, int]:
    """pg_dtype by the names that NumPy gives to types."""
    return {lib.pg_dtype_name(i).decode(): i for i in range(len(abi.enums["pg_dtype"]))}


def _named(values: Any, letter: str) -> Dict[str, Any]:
    """Arrays by the key that libpg knows them by: "x0", "x1", ... in the order of the model, or the caller's names."""
    if values is None:
        return {}
    if isinstance(values, dict):
        return dict(values)
    if isinstance(values, (list, tuple)) and values and all(hasattr(v, "shape") for v in values):
        return {letter + str(i): v for i, v in enumerate(values)}
    return {letter + "0": values}


def _array(key: str, value: Any) -> Any:
    """The value as the library can use it in place; only what it could not is copied."""
    import numpy as np
    array = np.asarray(value)
    if array.dtype.name not in _dtypes():
        raise _errors.ArgumentError("%s: numbers are needed, not %s" % (key, array.dtype))
    if array.ndim == 0:
        raise _errors.ArgumentError("%s: an array of rows is needed, not a number" % key)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


class Data:
    """A pg_data, and what must stay in memory while it is open."""

    def __init__(self, x: Any, y: Any = None, weights: Any = None) -> None:
        self.handle = ctypes.c_void_p()
        self.rows: Optional[int] = None
        if isinstance(x, (str, os.PathLike)):
            if y is not None or weights is not None:
                raise _errors.ArgumentError("x is a file: it holds the targets and weights, too")
            call("pg_data_open", ctypes.byref(self.handle), os.fsencode(x), objects=[x])
            return
        if isinstance(weights, dict):
            raise _errors.ArgumentError("sample_weight: an array, or a list of them in the order of the outputs")
        values = {**_named(x, "x"), **_named(y, "y"), **_named(weights, "w")}
        self._arrays = {key: _array(key, value) for key, value in values.items()}
        self._keys = [key.encode() for key in values]
        rows = {key: a.shape[0] for key, a in self._arrays.items()}
        if len(set(rows.values())) > 1:
            raise _errors.MismatchError("arrays differ in their number of rows: %s" % ", ".join(
                "%s %d" % item for item in rows.items()), status="PG_E_MISMATCH")
        self.rows = next(iter(rows.values()), 0)
        table = (abi.pg_array * len(self._keys))()
        for entry, key, a in zip(table, self._keys, self._arrays.values()):
            if a.ndim > abi.constants["PG_MAX_RANK"]:
                raise _errors.ArgumentError("%s: %d dimensions, at most %d are supported" % (
                    key.decode(), a.ndim, abi.constants["PG_MAX_RANK"]))
            entry.key, entry.dtype, entry.rank, entry.values = key, _dtypes()[a.dtype.name], a.ndim, a.ctypes.data
            entry.dims[:a.ndim] = a.shape
        call("pg_data_arrays", ctypes.byref(self.handle), table, len(self._keys))

    def notes(self) -> List[str]:
        """How the data were interpreted, once they have been used."""
        return [text(lib.pg_data_note(self.handle, i)) or "" for i in range(lib.pg_data_n_notes(self.handle))]

    def close(self) -> None:
        """Lets go of the arrays."""
        handle, self.handle = self.handle, ctypes.c_void_p()
        lib.pg_data_close(handle)

    def __enter__(self) -> "Data":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def validation(value: Any, x: Any) -> Optional[Data]:
    """validation_data as Keras takes it: (x, y) or (x, y, weights); or a file, or "test" or "val" of the file x."""
    if value is None:
        return None
    if isinstance(value, str) and value in ("test", "val") and isinstance(x, (str, os.PathLike)):
        data = Data(x)
        call("pg_data_set", data.handle, value.encode(), objects=[x])
        return data
    if isinstance(value, (str, os.PathLike)):
        return Data(value)
    parts: Tuple[Any, ...] = tuple(value)
    if len(parts) not in (2, 3):
        raise _errors.ArgumentError("validation_data is (x, y), (x, y, sample_weight) or a file")
    return Data(*parts)
