"""What calls report, as objects: their attributes are the members of the library's structs."""
from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Type, TypeVar

from ._call import text
from ._tables import Table, count, page, size
from ._tensors import Tensor, tensor_of

T = TypeVar("T")


def take(kind: Type[T], struct: Any, **more: Any) -> T:
    """Makes a report out of a struct; `more`: attributes that it does not have."""
    values = dict(more)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name not in values:
            values[field.name] = _value(struct, field)
    return kind(**values)


def _value(struct: Any, field: Any) -> Any:
    value, item = getattr(struct, field.name), field.metadata.get("of")
    if item is not None:
        return [take(item, value[i]) for i in range(getattr(struct, "n_" + field.name))]
    if field.type == "List[str]":
        return [text(value[i]) or "" for i in range(getattr(struct, "n_" + field.name))]
    if field.type == "Optional[Tensor]":
        return tensor_of(value) if value.name else None
    if isinstance(value, bytes):
        return text(value)
    return bool(value) if field.type == "bool" else value


def _many(item: Any) -> Any:
    return dataclasses.field(metadata={"of": item})


@dataclasses.dataclass
class Report:
    """What was written, or with dry_run would be.

    tensors of the model: n_tensors, with n_params elements and n_bytes bytes; of the optimizer: n_state. n_verified of
    n_written were read back and are equal to their source. notes: assumptions and things to know.
    """

    output: Optional[str]
    n_tensors: int
    n_state: int
    n_written: int
    n_verified: int
    n_params: int
    n_bytes: int
    notes: List[str]

    def _what(self) -> str:
        return ""

    def __str__(self) -> str:
        checked = "; %d/%d checksums equal" % (self.n_verified, self.n_written) if self.n_verified else "; nothing written yet"
        line = "%s: %s%s, %s parameters%s" % (self.output, self._what(), count(self.n_tensors, "tensor"), count(self.n_params),
                                              checked)
        return "\n".join([line] + ["  note: " + x for x in self.notes])


@dataclasses.dataclass
class RewriteReport(Report):
    """Of unwrap, wrap and repair. action: "unwrapped", "wrapped", "repaired", "prefix removed", "words removed" or
    "unchanged"; removed, kept: what left the file and what stayed; missing, extra: layers, with partial."""

    action: str
    template_name: Optional[str]
    replicas: int
    n_layers: int
    file_bytes: int
    added_bytes: int
    sha256: str
    removed: List[str]
    kept: List[str]
    missing: List[str]
    extra: List[str]

    def _what(self) -> str:
        inside = ' "%s"' % self.template_name if self.template_name else ""
        return "%s%s%s: " % (self.action, inside, " of %s" % count(self.replicas, "replica") if self.replicas else "")


@dataclasses.dataclass
class ConvertReport(Report):
    """Of convert. n_changed: tensors whose bytes differ from the input's; max_rel_error, n_overflow, n_underflow: of
    rounding, with dtype."""

    format: str
    file_bytes: int
    n_changed: int
    max_rel_error: float
    n_overflow: int
    n_underflow: int

    def _what(self) -> str:
        return self.format + ", "


@dataclasses.dataclass
class OnnxReport:
    """Of to_onnx. n_tensors: variables of the model; n_inits: initialisers of the graph, with n_params elements and n_bytes
    bytes; n_verified of them were read back and are equal to their source. max_rel_error: of rounding, with dtype. data_file,
    test_folder: what was written beside the model. max_change: of a prediction for n_rows rows, by quantizing n_quantized
    kernels; max_given: the largest of these predictions."""

    output: Optional[str]
    opset: int
    n_nodes: int
    n_inits: int
    n_tensors: int
    n_verified: int
    n_params: int
    n_bytes: int
    file_bytes: int
    data_file: Optional[str]
    data_bytes: int
    test_folder: Optional[str]
    n_rows: int
    n_quantized: int
    max_change: float
    max_given: float
    max_rel_error: float
    notes: List[str]

    def __str__(self) -> str:
        checked = "; %d/%d as converted" % (self.n_verified, self.n_inits) if self.n_verified else "; nothing written yet"
        line = "%s: opset %d, %s, %s, %s%s" % (self.output, self.opset, count(self.n_nodes, "node"),
                                               count(self.n_inits, "initialiser"), size(self.n_bytes), checked)
        more = ["  %s: %s of tensors" % (self.data_file, size(self.data_bytes))] if self.data_file else []
        if self.test_folder:
            more.append("  %s: %s and what the model gives for them" % (self.test_folder, count(self.n_rows, "row")))
        if self.n_quantized and self.n_rows:
            more.append("  %s as int8; predictions of %s change by %.1e or less, of %.3g" % (
                count(self.n_quantized, "kernel"), count(self.n_rows, "row"), self.max_change, self.max_given))
        return "\n".join([line] + more + ["  note: " + x for x in self.notes])


@dataclasses.dataclass
class ShardFile:
    """One file of a split."""

    path: str
    n_tensors: int
    n_bytes: int


@dataclasses.dataclass
class ShardReport(Report):
    """Of split and join. files: with the index last; n_reused: of an interrupted split; damaged: what is lost, "path
    (reason)", of a half-written input."""

    files: List[ShardFile] = _many(ShardFile)
    n_reused: int = 0
    damaged: List[str] = dataclasses.field(default_factory=list)

    def _what(self) -> str:
        return "%s, %s, " % (count(len(self.files), "file"), size(self.n_bytes)) if self.files else ""


@dataclasses.dataclass
class Check:
    """One check: "container", "structure", "wrapper", "values", "checksums" or "predicted"."""

    name: str
    ok: bool
    summary: str
    details: List[str]


@dataclasses.dataclass(repr=False)
class CheckReport:
    """Of check. ok: all of them are; damaged: the file itself is broken; hint: the call that would help, or ""."""

    path: str
    ok: bool
    damaged: bool
    fitted: bool
    checks: List[Check] = _many(Check)
    notes: List[str] = dataclasses.field(default_factory=list)
    hint: str = ""

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def _table(self) -> Table:
        table = Table(["", "check", ""])
        for c in self.checks:
            table.add("ok" if c.ok else "not ok", c.name, c.summary)
            for d in c.details:
                table.add("", "", "  " + d)
        return table

    def __repr__(self) -> str:
        end = ["  note: " + n for n in self.notes] + (["try: " + self.hint] if self.hint else [])
        return "\n".join(["%s: %s" % (self.path, "ok" if self.ok else "not ok"), self._table().text(most=200)] + end)

    def _repr_html_(self) -> str:
        return page([self.path] + self.notes + (["try: " + self.hint] if self.hint else []), self._table())


_KINDS = ("equal", "differs", "shape", "dtype", "only_a", "only_b")


@dataclasses.dataclass
class Change:
    """One tensor of a comparison; status: "equal", "differs", "shape", "dtype", "only_a" or "only_b".

    n elements, of which n_changed are beyond the tolerance and n_nan are NaN on a side; max_abs, rms: of a - b; rel_l2:
    |a - b| / |a|, cosine: between both, NaN where undefined.
    """

    kind: int
    name: str
    a: Optional[Tensor]
    b: Optional[Tensor]
    n: int
    n_changed: int
    n_nan: int
    max_abs: float
    rms: float
    rel_l2: float
    cosine: float

    @property
    def status(self) -> str:
        """How both sides compare, as a word."""
        return _KINDS[self.kind]


@dataclasses.dataclass(repr=False)
class Comparison:
    """Of diff. rows: in the order of A, then what only B has."""

    a: str
    b: str
    through_wrapper: bool
    n_params: int
    rows: List[Change] = _many(Change)

    @property
    def equal(self) -> bool:
        """Whether all tensors are."""
        return all(r.status == "equal" for r in self.rows)

    @property
    def changed(self) -> List[Change]:
        """The rows that are not equal."""
        return [r for r in self.rows if r.status != "equal"]

    def _table(self) -> Table:
        table = Table(["tensor", "status", "changed", "max |Δ|", "rms Δ", "rel L2", "cosine"], (2, 3, 4, 5, 6))
        for r in self.rows:
            numbers = ["%d/%d" % (r.n_changed, r.n), *("%.3g" % v for v in (r.max_abs, r.rms, r.rel_l2, r.cosine))]
            table.add(r.name, r.status, *(numbers if r.status == "differs" else [""] * 5))
        return table

    def _line(self) -> str:
        n = sum(r.status == "equal" for r in self.rows)
        return "%s, %s: %d of %s equal%s" % (self.a, self.b, n, count(len(self.rows), "tensor"),
                                             " through the wrapper" if self.through_wrapper else "")

    def __repr__(self) -> str:
        return self._line() + ("" if self.equal else "\n" + self._table().text())

    def _repr_html_(self) -> str:
        return page([self._line()], self._table())
