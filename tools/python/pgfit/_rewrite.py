"""The tools that write: unwrap, wrap, repair, split, join, convert. Keywords are the tools' options."""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import tempfile
from typing import Any, Dict, Iterator, Optional, Tuple, Type, TypeVar, Union

from . import _errors
from ._abi import abi
from ._call import Path, Progress, call, fill, long_call
from ._library import lib
from ._models import ModelLike, described
from ._reports import ConvertReport, OnnxReport, Report, RewriteReport, ShardReport, take

R = TypeVar("R", bound=Union[Report, OnnxReport])
_NAMES = {"template": "template_name", "gpus": "n_replicas", "jobs": "n_threads", "max_shard_size": "max_shard_bytes"}


def _write(function: str, kind: Type[R], src: Path, dst: Optional[Path], options: Any, keywords: Dict[str, Any],
           progress: Progress) -> R:
    """Calls one of pg_NAME_file(in, out, opts, report, err)."""
    fill(options, keywords, _NAMES)
    struct = {RewriteReport: abi.pg_rewrite_report, ConvertReport: abi.pg_convert_report, ShardReport: abi.pg_shard_report,
              OnnxReport: abi.pg_onnx_report}[kind]
    report, fini = struct(), getattr(lib, struct.__name__ + "_fini")
    out = None if dst is None else os.fsencode(dst)
    try:
        long_call(function, os.fsencode(src), out, ctypes.byref(options), ctypes.byref(report), steer=options.write,
                  objects=[src] if dst is None else [src, dst], progress=progress)
        return take(kind, report, output=os.fspath(src if dst is None else dst))
    except _errors.Error as e:
        if kind is ShardReport:  # all of them, not only the first
            for what in ("missing", "damaged"):
                lost = getattr(report, what)
                e.details += ["%s: %s" % (what, lost[i].decode("utf-8", "replace")) for i in range(getattr(report, "n_" + what))]
        raise
    finally:
        fini(ctypes.byref(report))


def unwrap(src: Path, dst: Optional[Path] = None, *, like: ModelLike = None, template: Optional[str] = None,
           strip_prefix: Optional[str] = None, partial: bool = False, weights_only: bool = False, no_optimizer: bool = False,
           in_place: bool = False, part: Optional[str] = None, sha256: bool = False, force: bool = False, dry_run: bool = False,
           no_sync: bool = False, skip_verify: bool = False, progress: Progress = False) -> RewriteReport:
    """Takes the one-device model out of a parallel wrapper's file, with its optimizer and description.

    Args:
        src: the file; with in_place it is changed itself (legacy .h5), and dst is left out.
        dst: the new file, in the format of src (safetensors for files of torch.save()).
        like: the model that the output must fit: a Keras model, its JSON, a full .h5 or .keras; for PyTorch a file with
            the bare model's names.
        template: take out this nested model, whatever the verdict.
        strip_prefix: PyTorch: remove this prefix instead of the one found.
        partial: write although layers are missing or too many; the report lists them.
        weights_only, no_optimizer: leave out descriptions and optimizer, or the optimizer.
        part: of a PyTorch checkpoint, which part.
        sha256: report the output's SHA-256.
        force: replace dst. dry_run: check all, write nothing. no_sync: do not wait for the disk. skip_verify: do not read
            the output back.
        progress: True shows a bar (tqdm's if it is there); a function gets (bytes done, bytes in all).

    dst appears whole or not at all. Raises NothingToDoError, AmbiguousError (the file does not settle the order of its
    layers: like), MismatchError, UnsupportedError, ArgumentError (dst exists), and those of open().

    >>> report = unwrap("parallel.h5", "single.h5")
    >>> report.action, report.template_name, report.n_verified, report.n_written
    ('unwrapped', 'model_1', 8, 8)
    """
    return _write("pg_unwrap_file", RewriteReport, src, dst, abi.pg_unwrap_opts(), {
        **described(like, "like", "like_text"), "template": template, "strip_prefix": strip_prefix, "partial": partial,
        "weights_only": weights_only, "no_optimizer": no_optimizer, "in_place": in_place, "part": part, "sha256": sha256,
        "force": force, "dry_run": dry_run, "no_sync": no_sync, "skip_verify": skip_verify}, progress)


def repair(src: Path, dst: Optional[Path] = None, *, like: ModelLike, **options: Any) -> RewriteReport:
    """Makes a file fit a model: layers renumbered, reordered, or inside a wrapper; with partial=True also missing ones.

    unwrap() with the model, and its other arguments.

    >>> repair("parallel.h5", "fits.h5", like="model.json").n_layers
    8
    """
    if like is None:
        raise _errors.ArgumentError("like: repair needs the model that the file must fit")
    return unwrap(src, dst, like=like, **options)


def wrap(src: Path, dst: Optional[Path] = None, *, like: Optional[Path] = None, gpus: Optional[int] = None,
         name: Optional[str] = None, in_place: bool = False, part: Optional[str] = None, sha256: bool = False, force: bool = False,
         dry_run: bool = False, no_sync: bool = False, skip_verify: bool = False, progress: Progress = False) -> RewriteReport:
    """The reverse of unwrap: makes a parallel wrapper's file of a one-device model's.

    Args:
        like: a file of such a wrapper: wrap as it does; or
        gpus: as keras.utils.multi_gpu_model(model, gpus) does, with
        name: the template's name as a layer.
    The others are unwrap()'s. Raises MismatchError, ArgumentError (not exactly one of like and gpus).

    >>> wrap("model.h5", "for4.h5", gpus=4).replicas
    4
    """
    if (like is None) == (gpus is None):
        raise _errors.ArgumentError("give either like, a wrapper's file, or gpus, a number")
    return _write("pg_wrap_file", RewriteReport, src, dst, abi.pg_wrap_opts(), {
        "like": like, "gpus": gpus, "name": name, "in_place": in_place, "part": part, "sha256": sha256, "force": force,
        "dry_run": dry_run, "no_sync": no_sync, "skip_verify": skip_verify}, progress)


def _size(text: Union[None, int, str]) -> int:
    if not isinstance(text, str):
        return text or 0
    n = ctypes.c_uint64()
    call("pg_shard_size", ctypes.byref(n), text.encode())
    return n.value


def split(src: Path, folder: Path, *, format: str = "npy", max_shard_size: Union[None, int, str] = None,
          max_tensors: Optional[int] = None, unwrap: bool = False, sha256: bool = False, jobs: Optional[int] = None,
          part: Optional[str] = None, force: bool = False, dry_run: bool = False, no_sync: bool = False, skip_verify: bool = False,
          progress: Progress = False) -> ShardReport:
    """Cuts a checkpoint into shards, with manifest.json or the format's own index.

    Args:
        folder: where the shards go; an interrupted split there is continued.
        format: "npy" (one file per tensor), "npz", "safetensors" or "keras".
        max_shard_size: bytes, or "100MB", "1.5GiB"; of npy, larger tensors are cut along their first axis.
        max_tensors: in one shard, npy excepted.
        unwrap: the one-device model of a parallel wrapper's file.
        sha256: also write SHA256SUMS. jobs: npy: so many files at a time.
    The others are unwrap()'s. Raises ArgumentError (the folder is not empty) and those of open().

    >>> report = split("model.h5", "out")
    >>> len(report.files), report.files[-1].path
    (9, 'manifest.json')
    """
    which = ctypes.c_int()
    if not lib.pg_shard_format_by_name(ctypes.byref(which), format.encode()):
        raise _errors.ArgumentError('format is "npy", "npz", "safetensors" or "keras", not "%s"' % format)
    return _write("pg_split_file", ShardReport, src, folder, abi.pg_split_opts(), {
        "format": which.value, "max_shard_size": _size(max_shard_size), "max_tensors": max_tensors, "unwrap": unwrap, "sha256": sha256,
        "jobs": jobs, "part": part, "force": force, "dry_run": dry_run, "no_sync": no_sync, "skip_verify": skip_verify}, progress)


def _part(part: Optional[str], as_trained: bool) -> Optional[str]:
    if as_trained and part is not None:
        raise _errors.ArgumentError("part and as_trained exclude each other")
    return "module" if as_trained else part


def join(src: Path, dst: Path, *, only: Optional[str] = None, dtype: Optional[str] = None,
         max_shard_size: Union[None, int, str] = None, job: Optional[Tuple[int, int]] = None, finish: bool = False,
         part: Optional[str] = None, as_trained: bool = False, rules: Optional[str] = None, threads: int = 0, force: bool = False,
         dry_run: bool = False, no_sync: bool = False, skip_verify: bool = False, progress: Progress = False) -> ShardReport:
    """Joins shards into the file that was split; of what the ranks of a job left (DCP, ZeRO, ...), writes the model.

    Args:
        src: the folder, its manifest or index, or one shard; a checkpoint of DCP, DeepSpeed, TensorFlow, Orbax or Flax.
        dst: a file; of a checkpoint of many ranks also a folder (max_shard_size, or it ends with "/"), in the layout of
            Hugging Face's libraries.
        only: tensors whose "layer/weight" matches, "conv*" for example.
        dtype: "float32", "float16" or "bfloat16", for all floating-point weights.
        max_shard_size: bytes, or "5GB".
        part: of what a job saved, which part ("app.model"), as in open().
        job: (k, n): writes the k-th of n shares, counted from 1, as other processes write theirs. finish: when all are
            through, proves their shards and writes the index.
        as_trained: of DeepSpeed, the weights in the type of training instead of the float32 ones; it is part="module".
        rules: settle what the files of a job's ranks leave open: "megatron-lm-0", "NAME=same".
        threads: to read a checkpoint; 0: one for each processor.
    The others are unwrap()'s. Raises DamagedError, whose details list all missing and damaged shards.

    >>> folder = split("model.h5", "shards").output
    >>> join(folder, "back.h5").n_verified
    8
    """
    k, n = job or (0, 0)
    return _write("pg_join_file", ShardReport, src, dst, abi.pg_join_opts(), {
        "only": only, "dtype": dtype, "max_shard_size": _size(max_shard_size), "job": k, "n_jobs": n, "finish": finish,
        "part": _part(part, as_trained), "rules": rules, "n_threads": threads, "force": force, "dry_run": dry_run, "no_sync": no_sync,
        "skip_verify": skip_verify}, progress)


@contextlib.contextmanager
def _as_file(names: Union[None, Path, Dict[str, str]]) -> Iterator[Optional[Path]]:
    """The path of a JSON file with these names."""
    if not isinstance(names, dict):
        yield names
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
        json.dump(names, f)
        f.flush()
        yield f.name


def convert(src: Path, dst: Path, *, to: Optional[str] = None, model: ModelLike = None, unwrap: bool = False,
            layout: str = "keras", rename: Union[None, Path, Dict[str, str]] = None, dtype: Optional[str] = None,
            keras: Optional[int] = None, part: Optional[str] = None, as_trained: bool = False, rules: Optional[str] = None, force: bool = False,
            dry_run: bool = False, no_sync: bool = False, skip_verify: bool = False, progress: Progress = False) -> ConvertReport:
    """Writes the same weights in another container, bit by bit.

    Args:
        to: "h5", "weights.h5", "keras", "safetensors"; None: as the suffix of dst says; "npy", "npz": a folder.
        model: the description, if src has none and the target needs one: a Keras model, its JSON, a full .h5 or .keras.
        unwrap: the one-device model of a parallel wrapper's file.
        layout: "pytorch": what load_state_dict(strict=True) takes.
        rename: new names by old ones, or a JSON file of them (safetensors).
        dtype: "float32", "float16" or "bfloat16" for all floating-point weights; the report has the rounding error.
        keras: 2 or 3: the Keras whose description is written.
        as_trained: as for join().
        rules: as join()'s.
    The others are unwrap()'s. Raises MismatchError, UnsupportedError (names what the target cannot hold).

    >>> convert("model.h5", "model.safetensors").format
    'safetensors'
    """
    layouts = ("keras", "pytorch")
    if layout not in layouts:
        raise _errors.ArgumentError('layout is "keras" or "pytorch", not "%s"' % layout)
    with _as_file(rename) as names:
        return _write("pg_convert_file", ConvertReport, src, dst, abi.pg_convert_opts(), {
            **described(model, "model", "model_text"), "to": to, "unwrap": unwrap, "layout": layouts.index(layout),
            "rename": names, "dtype": dtype, "keras": keras, "part": _part(part, as_trained), "rules": rules, "force": force, "dry_run": dry_run,
            "no_sync": no_sync, "skip_verify": skip_verify}, progress)


def to_onnx(src: Path, dst: Path, *, model: ModelLike = None, dtype: Optional[str] = None, opset: int = 0, batch: int = 0,
            sizes: Optional[str] = None, layout: str = "nhwc-input", fold_bn: bool = False, external_data: bool = False,
            check: Optional[Path] = None, quantize: Optional[str] = None, part: Optional[str] = None,
            force: bool = False, dry_run: bool = False, no_sync: bool = False, skip_verify: bool = False,
            progress: Progress = False) -> OnnxReport:
    """Writes a model as ONNX, as it predicts; of a wrapper's file the one-device model.

    Args:
        model: the description, if src has none: a Keras model, its JSON, a full .h5 or .keras.
        dtype: "float16" or "bfloat16": what weights become and what is computed; inputs and outputs keep their type.
        opset: 13 to 24, for bfloat16 22 to 24; 0: the oldest that the model needs.
        batch: rows of each run; 0: any number.
        sizes: "64,64": what the shapes of the inputs leave open, in order; None: it stays open.
        layout: "nchw-input": images come and go with channels first.
        fold_bn: normalisations after convolutions go into the kernels.
        external_data: tensors go into dst + ".data"; done anyway beyond 2 GB.
        check: a .npy or .npz; rows of it and what the model gives for them go into the folder dst + ".test".
        quantize: "int8": kernels become int8 with a scale per output channel; the report says what that changes.
    The others are unwrap()'s. Raises UnsupportedError (names the layer that ONNX cannot say), MismatchError.

    >>> to_onnx("model.h5", "model.onnx").opset
    13
    """
    layouts = ("nhwc-input", "nchw-input")
    if layout not in layouts:
        raise _errors.ArgumentError('layout is "nhwc-input" or "nchw-input", not "%s"' % layout)
    return _write("pg_onnx_file", OnnxReport, src, dst, abi.pg_onnx_opts(), {
        **described(model, "model", "model_text"), "dtype": dtype, "opset": opset, "batch": batch, "sizes": sizes,
        "channels_first": layouts.index(layout), "fold_bn": fold_bn, "external_above": int(external_data),
        "check": check, "quantize": quantize, "part": part, "force": force, "dry_run": dry_run,
        "no_sync": no_sync, "skip_verify": skip_verify}, progress)
