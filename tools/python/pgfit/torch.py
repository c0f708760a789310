"""Weights for PyTorch out of any file that libpg reads, without running what is in it."""
from __future__ import annotations

from typing import Any, Dict, Optional

from ._call import Path
from ._errors import ArgumentError
from ._inspect import inspect
from ._open import open as open_checkpoint

__all__ = ["load"]


def load(path: Path, *, part: Optional[str] = None, unwrap: Optional[bool] = None, mode: str = "c") -> Dict[str, Any]:
    """A state_dict: names to tensors, for model.load_state_dict(strict=True).

    Args:
        path: .pt, .pth, .bin, .safetensors, an index of shards, or any other file that libpg reads.
        part: of a checkpoint, which part ("model_ema"); "." is everything.
        unwrap: whether to take a parallel wrapper off (DataParallel's "module.", FSDP, torch.compile); None: if there is
            one.
        mode: "c": tensors share the file's memory; what is changed in them does not reach the file. "m": copies.

    Nothing is executed: a pickle is read as data. Names of files of Keras stay Keras'; convert(layout="pytorch") maps
    them. Raises AmbiguousError (the file has several models: part), DamagedError, UnsupportedError.
    """
    import torch
    if mode not in ("c", "m"):
        raise ArgumentError('mode is "c" or "m", not %r: PyTorch has no tensors that must not be changed' % (mode,))
    if unwrap is None:
        unwrap = inspect(path, part=part).verdict == "wrapper"
    with open_checkpoint(path, part=part, unwrap=unwrap, mode=mode) as f:
        return {name: _tensor(torch, f, name) for name in f}


def _tensor(torch: Any, f: Any, name: str) -> Any:
    """The tensor in the file's memory; types that PyTorch lacks (uint16 before 2.3) are its error."""
    array, info = f.raw(name), f.info(name)
    tensor = torch.from_numpy(array.view("int16") if info.dtype == "bfloat16" else array)
    return tensor.view(getattr(torch, info.dtype)) if info.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2") else tensor
