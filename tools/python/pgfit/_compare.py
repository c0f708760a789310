"""The tools that judge: check and diff."""
from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from typing import Any, Iterator, List, Optional

from ._abi import abi
from ._call import Path, Progress, fill, long_call, text
from ._hints import hint_of
from ._library import lib
from ._models import ModelLike, described
from ._reports import CheckReport, Comparison, take


@contextlib.contextmanager
def _as_files(*values: Any) -> Iterator[List[Optional[Path]]]:
    """Paths; arrays are put into .npy files, several outputs into an .npz."""
    with tempfile.TemporaryDirectory() as folder:
        paths: List[Optional[Path]] = []
        for i, value in enumerate(values):
            if value is not None and not isinstance(value, (str, os.PathLike)):
                import numpy as np
                several = isinstance(value, (list, tuple, dict))
                path = os.path.join(folder, "%d.%s" % (i, "npz" if several else "npy"))
                if isinstance(value, dict):
                    np.savez(path, **value)
                elif several:
                    np.savez(path, **{"xy"[i] + str(k): v for k, v in enumerate(value)})
                else:
                    np.save(path, value)
                value = path
            paths.append(value)
        yield paths


def check(path: Path, *, model: ModelLike = None, finite: bool = False, no_wrapper: bool = False, strict: bool = False,
          sha256: Optional[Path] = None, input: Any = None, expect: Any = None, device: Optional[str] = None,
          tolerance: Optional[float] = None, part: Optional[str] = None, progress: Progress = False) -> CheckReport:
    """Will Keras load this file strictly, on one device, and are its values sane?

    Args:
        model: what the file must fit: a Keras model, its JSON, a full .h5 or .keras; None: its own description.
        finite, no_wrapper: run only these checks, and those that other arguments ask for.
        strict: layers of unknown classes fail instead of being noted.
        sha256: a SHA256SUMS file with the sum that the file must have.
        input, expect: rows of inputs and the predictions to expect, as arrays (several: a list or dictionary) or files.
        device: where to predict ("cpu:0"); alone: predictions for made-up rows must be finite.
        tolerance: |difference| <= tolerance * max(1, |expected|), 1e-4 if not given.

    A file that fails, even a damaged one, is a report with ok False. Raises FileError and UnsupportedError.

    >>> report = check("parallel.h5", model="model.json")
    >>> report.ok, report["values"].ok, report["wrapper"].ok
    (False, True, False)
    """
    options, report = abi.pg_check_opts(), abi.pg_check_report()
    with _as_files(input, expect) as (rows, wanted):
        fill(options, {**described(model, "model", "model_text"), "only_finite": finite, "only_no_wrapper": no_wrapper,
                       "strict": strict, "sha256": sha256, "input": rows, "expect": wanted, "device": device,
                       "tolerance": tolerance, "part": part})
        try:
            long_call("pg_check_file", ctypes.byref(report), os.fsencode(path), ctypes.byref(options), steer=options,
                      objects=[path], progress=progress)
            hint = hint_of(report.action) if report.action.what else text(report.hint) or ""
            return take(CheckReport, report, path=os.fspath(path), hint=hint)
        finally:
            lib.pg_check_report_fini(ctypes.byref(report))


def diff(a: Path, b: Path, *, abs: float = 0.0, rel: float = 0.0, by_order: bool = False, ignore: Optional[str] = None,
         quick: bool = False, part: Optional[str] = None, part_b: Optional[str] = None, progress: Progress = False) -> Comparison:
    """Are two checkpoints the same model? Across formats, and through a wrapper.

    Args:
        abs, rel: elements are equal if |a-b| <= abs, or |a-b| <= rel * |a|.
        by_order: pair tensors by position, not by name.
        ignore: leave out tensors whose name matches this pattern.
        quick: stop at the first difference; rows may then be incomplete.
        part, part_b: of PyTorch checkpoints; part_b: B's, if it is another one.

    Raises MismatchError (no name in common; the hint says whether by_order would help), ArgumentError, DamagedError.

    >>> diff("parallel.h5", "model.h5").equal
    True
    """
    options, found = abi.pg_compare_opts(), abi.pg_comparison()
    fill(options, {"abs": abs, "rel": rel, "by_order": by_order, "ignore": ignore, "quick": quick, "part": part, "part_b": part_b})
    try:
        long_call("pg_compare_files", ctypes.byref(found), os.fsencode(a), os.fsencode(b), ctypes.byref(options), steer=options,
                  objects=[a, b], progress=progress)
        return take(Comparison, found, a=os.fspath(a), b=os.fspath(b))
    finally:
        lib.pg_comparison_fini(ctypes.byref(found))
