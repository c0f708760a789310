"""pgfit.inspect: what pginfo knows, as an object."""
from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import Any, Dict, List, Optional, Tuple

from . import _errors
from ._abi import abi
from ._call import Path, Progress, call, long_call, text
from ._hints import hint_of
from ._library import lib
from ._tables import Table, count, page, size
from ._tensors import Layer, Tensor, layer_name, stats_of, tensor_of


@dataclasses.dataclass(frozen=True)
class Wrapper:
    """The parallel wrapper that wrote a file."""

    kind: str
    template: Optional[str]  # the model inside, or PyTorch's prefix
    replicas: int  # 0: does not apply
    certain: bool  # False: likely
    slices: List[str]
    merges: List[str]
    unsettled: Optional[str]  # why the file does not settle the order of its layers; unwrap() then needs like=


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of a PyTorch checkpoint; `part=` takes its path."""

    path: str
    kind: str
    tensors: int
    parameters: int
    is_model: bool


@dataclasses.dataclass(repr=False)
class Info:
    """A checkpoint's description. repr() is a table, in a notebook an HTML one.

    Attributes that are not obvious:
        ranks: of a checkpoint that many processes saved, how it came about ("saved by 4 ranks"), else None.
        rank_counts: the same in numbers ({"ranks": 4, "tensor_parallel": 2, ...}), {} if the files do not say any.
        verdict: "single", "wrapper", "nested", "ambiguous", "damaged", "no-weights" or "unknown"; reason: in a sentence.
        wrapper: the wrapper that wrote the file, or None.
        layers, tensors: in the order of the file; state: tensors of the optimizer.
        trainable, non_trainable: parameters, or None where the file does not tell.
        problems: why the file does not load into the one-device model, in sentences; [] if nothing is known against it.
        hint: the call that would help, or "".
        model_config, training_config, metadata: JSON texts in the file, or None.
    """

    path: str
    format: str
    writer: Optional[str]
    ranks: Optional[str]
    rank_counts: Dict[str, int]
    verdict: str
    reason: str
    wrapper: Optional[Wrapper]
    layers: List[Layer]
    tensors: List[Tensor]
    state: List[Tensor]
    parts: List[Part]
    trainable: Optional[int]
    non_trainable: Optional[int]
    others: Optional[str]
    model_config: Optional[str]
    training_config: Optional[str]
    metadata: Optional[str]
    evidence: List[str]
    problems: List[str]
    hint: str

    @property
    def parameters(self) -> int:
        """Elements of the model's tensors."""
        return sum(t.size for t in self.tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of the model's tensors."""
        return sum(t.nbytes for t in self.tensors)

    def _lines(self) -> List[str]:
        words = ["%s  %s%s" % (self.path, self.format, ", " + self.writer if self.writer else "")]
        words.append("  %s: %s" % (self.verdict, self.reason))
        if self.ranks:
            words.append("  %s" % self.ranks)
        words.append("  %s, %s parameters (%s)" % (count(len(self.tensors), "tensor"), count(self.parameters), size(self.nbytes)))
        if self.trainable is not None and self.non_trainable is not None:
            words.append("  trainable parameters: %s, non-trainable: %s" % (count(self.trainable), count(self.non_trainable)))
        if self.state:
            words.append("  with the state of the optimizer: %s" % count(len(self.state), "tensor"))
        if self.others:
            words.append("  other contents: %s" % self.others)
        return words

    def _end(self) -> List[str]:
        return ["problem: " + p for p in self.problems if p != self.reason] + (["try: " + self.hint] if self.hint else [])

    def _table(self) -> Table:
        if not self.tensors and self.parts:
            table = Table(["part", "is", "tensors", "params"], (2, 3))
            for p in self.parts:
                table.add(p.path, p.kind, count(p.tensors), count(p.parameters))
            return table
        stats = any(t.stats for t in self.tensors)
        table = Table(["layer", "tensor", "shape", "type", "params"] + ["min", "max", "mean", "std"] * stats, (4, 5, 6, 7, 8))
        for t in self.tensors:
            more = [getattr(t.stats, k) for k in ("min", "max", "mean", "std")] if t.stats else []
            table.add(t.layer or "", t.name, "×".join(map(str, t.shape)) or "scalar", t.dtype, count(t.size),
                      *("%.4g" % v for v in more))
        return table

    def __repr__(self) -> str:
        table = self._table()
        return "\n".join(self._lines() + (["", table.text()] if table.rows else []) + ([""] + self._end() if self._end() else []))

    def _repr_html_(self) -> str:
        return page(["\n".join(self._lines())] + self._end(), self._table())


def _open(path: Path, part: Optional[str]) -> Tuple[ctypes.c_void_p, Optional[_errors.Error]]:
    """The store, and the error of a file that is damaged or does not say which part is the model."""
    store = ctypes.c_void_p()
    wanted = abi.pg_open_opts(part=None if part is None else part.encode())
    try:
        call("pg_store_open", ctypes.byref(store), os.fsencode(path), ctypes.byref(wanted), objects=[path])
        return store, None
    except (_errors.AmbiguousError, _errors.DamagedError) as e:
        again = abi.pg_open_opts(part=b"") if isinstance(e, _errors.AmbiguousError) else abi.pg_open_opts(salvage=1)
        if lib.pg_store_open(ctypes.byref(store), os.fsencode(path), ctypes.byref(again), None):
            raise e from None
        return store, e


def _read_stats(store: ctypes.c_void_p, tensors: List[Tensor], path: Path, progress: Progress) -> List[Tensor]:
    n = len(tensors)
    out, which, steer = (abi.pg_stats * n)(), (ctypes.c_size_t * n)(*range(n)), abi.pg_stats_opts()
    long_call("pg_store_stats_of", out, None, 0, store, which, n, ctypes.byref(steer), steer=steer, objects=[path],
              progress=progress, label="inspect")
    return [dataclasses.replace(t, stats=stats_of(s)) for t, s in zip(tensors, out)]


def _with_pieces(store: ctypes.c_void_p, i: int, tensor: Tensor) -> Tensor:
    cut = lib.pg_store_pieces(store, i)
    return tensor if cut.n == 1 else dataclasses.replace(
        tensor, pieces=cut.n, cut_along=tuple(k for k in range(len(tensor.shape)) if cut.axes >> k & 1))


def _wrapper_of(f: Any) -> Wrapper:
    def names(list_: Any, n: int) -> List[str]:
        return [text(list_[i]) or "" for i in range(n)]
    return Wrapper(text(f.recogniser) or "", text(f.template_name), f.replicas, bool(f.certain), names(f.slices, f.n_slices),
                   names(f.merges, f.n_merges), text(f.unsettled))


def _describe(store: ctypes.c_void_p, path: Path, wrong: Optional[_errors.Error]) -> Info:
    found, counts = abi.pg_finding(), abi.pg_param_counts()
    call("pg_inspect", ctypes.byref(found), store, objects=[path])
    try:
        call("pg_count_params", ctypes.byref(counts), store, objects=[path])
        weights = [lib.pg_store_weight(store, i).contents for i in range(lib.pg_store_n_weights(store))]
        tensors = [_with_pieces(store, i, tensor_of(w, layer_name(store, w))) for i, w in enumerate(weights)]
        layers = [lib.pg_store_layer(store, i).contents for i in range(lib.pg_store_n_layers(store))]
        ranks = [lib.pg_store_rank_count(store, i).contents for i in range(lib.pg_store_n_rank_counts(store))]
        parts = [lib.pg_store_part(store, i).contents for i in range(lib.pg_store_n_parts(store))]
        damage = text(lib.pg_store_damage(store))
        verdict = lib.pg_verdict_name(found.verdict).decode()
        if wrong or damage:
            verdict = "ambiguous" if isinstance(wrong, _errors.AmbiguousError) else "damaged"
        reason = wrong.message if wrong else damage or text(found.reason) or ""
        wrapper = _wrapper_of(found) if verdict == "wrapper" else None
        problems = [] if verdict in ("single", "nested") else [reason]
        if found.unsettled:
            problems.append(text(found.unsettled) or "")
        if found.index:
            problems.append("one shard of several; the whole: %s" % text(found.index))
        model, training, metadata = (text(lib.pg_store_text(store, i, None)) for i in range(len(abi.enums["pg_text"])))
        return Info(os.fspath(path), lib.pg_store_format(store).decode(), text(lib.pg_store_writer(store)), text(lib.pg_store_ranks(store)),
                    {text(c.kind) or "": c.n for c in ranks}, verdict, reason,
                    wrapper, [Layer(text(x.name) or "", tuple(t.name for t in tensors[x.first:x.first + x.n_weights]))
                              for x in layers], tensors,
                    [tensor_of(lib.pg_store_state(store, i).contents) for i in range(lib.pg_store_n_state(store))],
                    [Part(text(p.path) or "", text(p.kind) or "", p.n_tensors, p.n_params, bool(p.is_model)) for p in parts],
                    counts.trainable if counts.known else None, counts.non_trainable if counts.known else None,
                    text(lib.pg_store_others(store)) or text(lib.pg_store_beside(store, None)), model, training, metadata,
                    [text(found.evidence[i]) or "" for i in range(found.n_evidence)], problems,
                    wrong.hint if wrong else hint_of(found.next))
    finally:
        lib.pg_finding_fini(ctypes.byref(found))


def inspect(path: Path, *, part: Optional[str] = None, stats: bool = False, progress: Progress = False) -> Info:
    """Finds out what a checkpoint is: a one-device model, a parallel wrapper's file, or neither.

    Args:
        path: a file or folder of any format that libpg reads.
        part: of a checkpoint of PyTorch or of a job's ranks, which part ("model_ema"); "." is everything.
        stats: also read the values; every tensor then has `stats`.
        progress: True shows a bar; a function gets (bytes done, bytes in all).

    Returns an Info, also for a damaged file from which something can be read, and for one whose parts leave open which is
    the model. Raises FileError, UnknownFormatError, DamagedError, UnsupportedError.

    >>> info = inspect("parallel.h5")
    >>> info.verdict, info.wrapper.replicas, info.wrapper.template
    ('wrapper', 2, 'model_1')
    >>> info.hint
    'pgfit.unwrap("parallel.h5", "single.h5")'
    """
    store, wrong = _open(path, part)
    try:
        info = _describe(store, path, wrong)
        if stats and not wrong:
            info.tensors = _read_stats(store, info.tensors, path, progress)
            call("pg_store_check_same", store, objects=[path])
        return info
    finally:
        lib.pg_store_close(store)
