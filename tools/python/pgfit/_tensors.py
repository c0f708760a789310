"""Descriptions of tensors and layers, as the library has them."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Dict, Optional, Tuple

from ._call import text
from ._library import lib

_NONE = ctypes.c_size_t(-1).value  # PG_NONE


@dataclasses.dataclass(frozen=True)
class Stats:
    """Values of a tensor; min, max, mean and std are over the finite ones."""

    min: float
    max: float
    mean: float
    std: float
    zeros: int
    nan: int
    inf: int
    crc32: int


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor of a file; nothing is read of it but its description."""

    name: str
    layer: Optional[str]
    shape: Tuple[int, ...]
    dtype: str  # as NumPy writes it, or "bfloat16", "float8_e4m3fn", "float8_e5m2"
    nbytes: int
    stats: Optional[Stats] = None
    pieces: int = 1  # of a checkpoint that many ranks saved: how many make it up, and along which axes it is cut
    cut_along: Tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer in the order of the file."""

    name: str
    tensors: Tuple[str, ...]


def tensor_of(weight: Any, layer: Optional[str] = None) -> Tensor:
    """Of a pg_weight."""
    return Tensor(text(weight.name) or "", layer, tuple(weight.dims[:weight.rank]),
                  lib.pg_dtype_name(weight.dtype).decode(), weight.n_bytes)


def stats_of(s: Any) -> Stats:
    """Of a pg_stats."""
    return Stats(s.min, s.max, s.mean, s.std, s.n_zero, s.n_nan, s.n_inf, s.crc32)


def layer_name(store: Any, weight: Any) -> Optional[str]:
    """The layer of a weight, or None where files have no layers."""
    return None if weight.layer == _NONE else text(lib.pg_store_layer(store, weight.layer).contents.name)


def keys_of(tensors: Any) -> Dict[str, int]:
    """A name for each tensor, in order: its own, with the layer in front where several share it."""
    own: Dict[str, int] = {}
    for t in tensors:
        own[t.name] = own.get(t.name, 0) + 1
    keys: Dict[str, int] = {}
    for i, t in enumerate(tensors):
        key = t.name if own[t.name] == 1 or t.layer is None else "%s/%s" % (t.layer, t.name)
        n, wanted = 1, key
        while key in keys:
            n += 1
            key = "%s#%d" % (wanted, n)
        keys[key] = i
    return keys
