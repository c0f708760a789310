"""pgfit.open: a checkpoint as a mapping of names to NumPy arrays."""
from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from . import _errors
from ._abi import abi
from ._call import Path, call, text
from ._library import lib
from ._tables import count
from ._tensors import Tensor, keys_of, layer_name, tensor_of

if TYPE_CHECKING:
    import numpy as np


class Tensors(Mapping):  # type: ignore[type-arg]
    """Names to arrays, read when they are asked for. Keras' ":0" at the end of a name may be left out."""

    def __init__(self, file: "Checkpoint", tensors: List[Tensor], read: str, place: str) -> None:
        self._file, self._tensors, self._read, self._place = file, tensors, read, place
        self._keys = keys_of(tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, name: object) -> bool:
        return name in self._keys or "%s:0" % (name,) in self._keys

    def __getitem__(self, name: str) -> "np.ndarray[Any, Any]":
        return self._file._array(self, self._index(name))

    def info(self, name: str) -> Tensor:
        """Description of a tensor: shape, type, layer; nothing is read."""
        return self._tensors[self._index(name)]

    def raw(self, name: str) -> "np.ndarray[Any, Any]":
        """The array; of bfloat16 and float8, which NumPy lacks, the bits as uint16 or uint8 and no copy."""
        return self._file._array(self, self._index(name), raw=True)

    def _index(self, name: str) -> int:
        i = self._keys.get(name, self._keys.get("%s:0" % name))
        if i is None:
            raise KeyError(name)
        return i

    def __repr__(self) -> str:
        state = " (closed)" if self._file.closed else ""
        return "<%s of %s%s>" % (count(len(self), "tensor"), self._file.path, state)


_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def _widened(bits: "np.ndarray[Any, Any]", dtype: str) -> "np.ndarray[Any, Any]":
    """The values of a type that NumPy lacks, as float32, which holds all of them."""
    import numpy as np
    if dtype == "bfloat16":  # the upper half of a float32
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(bits.shape)
    if dtype == "float8_e5m2":  # the upper half of a float16
        return (bits.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float32).reshape(bits.shape)
    code = np.arange(128)
    exponent, fraction = code >> 3, code & 7
    positive = np.where(exponent > 0, np.ldexp(8.0 + fraction, exponent - 10), np.ldexp(fraction.astype(float), -9))
    positive[127] = np.nan
    return np.concatenate([positive, -positive]).astype(np.float32)[bits]


class Checkpoint(Tensors):
    """An open file: a mapping of its weights; `state` is one of the optimizer's tensors.

    Arrays that are mapped from the file, or read, outlive close(); to ask for another one after it is an error.
    """

    def __init__(self, path: Path, part: Optional[str], unwrap: bool, mode: str) -> None:
        self.path, self._mode, self._lock = os.fspath(path), mode, threading.Lock()
        self._maps: Dict[int, mmap.mmap] = {}
        self._store: Optional[ctypes.c_void_p] = _store(path, part, unwrap)
        store = self._store
        weights = [lib.pg_store_weight(store, i).contents for i in range(lib.pg_store_n_weights(store))]
        super().__init__(self, [tensor_of(w, layer_name(store, w)) for w in weights], "pg_store_read", "pg_store_place")
        self.state = Tensors(self, [tensor_of(lib.pg_store_state(store, i).contents)
                                    for i in range(lib.pg_store_n_state(store))], "pg_store_read_state", "pg_store_place_state")
        self.model_config, self.training_config, self.metadata = (
            text(lib.pg_store_text(store, i, None)) for i in range(len(abi.enums["pg_text"])))

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._store is None

    def close(self) -> None:
        """Closes the file; arrays that were taken stay valid."""
        with self._lock:
            store, self._store = self._store, None
            self._maps.clear()
        lib.pg_store_close(store)

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_store", None) is not None:
            self.close()

    def _array(self, of: Tensors, i: int, raw: bool = False) -> "np.ndarray[Any, Any]":
        import numpy as np
        t = of._tensors[i]
        dtype = np.dtype(_BITS.get(t.dtype, t.dtype))
        with self._lock:
            if self._store is None:
                raise _errors.ArgumentError("%s: closed; take arrays before that" % self.path, object=self.path)
            array = self._mapped(of, i, t, dtype)
            if array is None:
                array = np.empty(t.shape, dtype)
                call(of._read, self._store, i, 0, array.ctypes.data, array.nbytes, objects=[self.path])
                array.flags.writeable = self._mode != "r"
        return array if raw or t.dtype not in _BITS else _widened(array, t.dtype)

    def _mapped(self, of: Tensors, i: int, t: Tensor, dtype: Any) -> Any:
        """The tensor in the file itself, or None where its bytes there are not those of an array."""
        import numpy as np
        offset = ctypes.c_uint64()
        fd = getattr(lib, of._place)(self._store, i, ctypes.byref(offset))
        if fd < 0 or offset.value % dtype.alignment or self._mode == "m":
            return None
        if fd not in self._maps:
            access = mmap.ACCESS_COPY if self._mode == "c" else mmap.ACCESS_READ
            self._maps[fd] = mmap.mmap(fd, 0, access=access)
        return np.ndarray(t.shape, dtype, self._maps[fd], offset.value)


def _store(path: Path, part: Optional[str], unwrap: bool) -> ctypes.c_void_p:
    store, name = ctypes.c_void_p(), None if part is None else part.encode()
    if unwrap:
        options = abi.pg_convert_opts(unwrap=1, write=abi.pg_write_opts(part=name))
        call("pg_convert_open", ctypes.byref(store), os.fsencode(path), ctypes.byref(options), None, objects=[path])
    else:
        call("pg_store_open", ctypes.byref(store), os.fsencode(path), ctypes.byref(abi.pg_open_opts(part=name)), objects=[path])
    return store


def open(path: Path, *, part: Optional[str] = None, unwrap: bool = False, mode: str = "r") -> Checkpoint:
    """Opens a checkpoint of any format that libpg reads as a mapping of names to arrays.

    Args:
        path: the file or folder.
        part: of a checkpoint of PyTorch or of a job's ranks, which part ("model_ema"); "." is everything.
        unwrap: the one-device model inside a parallel wrapper's file, under the names that it has there.
        mode: "r": arrays are read-only and mapped from the file where it holds them as they are; "c": mapped, but they may
            be changed, which does not reach the file; "m": copies in memory.

    Names are those in the file, with the layer in front where two tensors share one. bfloat16 and float8 come as float32,
    which holds every value of them. Nothing is executed, whatever the file is. Raises FileError, UnknownFormatError,
    DamagedError, UnsupportedError, AmbiguousError (the file has several models: part).

    As with numpy.memmap, a mapped file must not be cut short while its arrays are in use.

    >>> with open("parallel.h5", unwrap=True) as f:
    ...     kernel = f["conv2d_1/kernel"]
    >>> kernel.shape, str(kernel.dtype)
    ((3, 3, 1, 4), 'float32')
    """
    if mode not in ("r", "c", "m"):
        raise _errors.ArgumentError('mode is "r", "c" or "m", not %r' % (mode,))
    return Checkpoint(path, part, unwrap, mode)
