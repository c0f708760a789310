#!/usr/bin/env python3
"""A checkpoint of torch.distributed.checkpoint as a large job leaves it: its .metadata, and files with holes for the data.

usage: folder.py OUT [--ranks 256] [--layers 80] [--hidden 8192] [--heads 64] [--kv-heads 8] [--ffn 28672] [--vocab 128256] [--optimizer] [--data] [--tools DIR]
The defaults are those of a Llama of 70 billion parameters in bfloat16, cut by FSDP2 along the first axis. torch's own classes make .metadata. --optimizer
adds both averages of AdamW in float32. --data writes each chunk as torch.save() does, with holes instead of zeros, so that pgjoin can read it; without
it the files are holes altogether, which pginfo and pgjoin --dry-run do not mind. --tools runs these two of DIR and prints seconds and the largest memory of each.
"""
import argparse
import io
import os
import pickle
import subprocess
import sys

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata)


def tensors(a):
    head = a.hidden // a.heads
    yield "tok_embeddings.weight", (a.vocab, a.hidden)
    for i in range(a.layers):
        at = f"layers.{i}."
        yield at + "attention.wq.weight", (a.hidden, a.hidden)
        yield at + "attention.wk.weight", (a.kv_heads * head, a.hidden)
        yield at + "attention.wv.weight", (a.kv_heads * head, a.hidden)
        yield at + "attention.wo.weight", (a.hidden, a.hidden)
        for name, shape in (("w1", (a.ffn, a.hidden)), ("w2", (a.hidden, a.ffn)), ("w3", (a.ffn, a.hidden))):
            yield f"{at}feed_forward.{name}.weight", shape
        yield at + "attention_norm.weight", (a.hidden,)
        yield at + "ffn_norm.weight", (a.hidden,)
    yield "norm.weight", (a.hidden,)
    yield "output.weight", (a.vocab, a.hidden)


def entries(a):
    for name, shape in tensors(a):
        yield ("model", name), shape, torch.bfloat16
        for slot in ("exp_avg", "exp_avg_sq") if a.optimizer else ():
            yield ("optimizer", "state", name, slot), shape, torch.float32


def chunks(shape, ranks):
    """Rank, offset and size of each part of ceil(n / ranks) rows."""
    step = -(-shape[0] // ranks)
    for rank in range(ranks):
        start = min(rank * step, shape[0])
        if start < shape[0] or rank == 0:
            yield rank, start, min(step, shape[0] - start)


class Holes:
    """Files of torch.save() for a shape, made once: what comes before and after the zeros, and how many they are."""
    def __init__(self):
        self.made = {}

    def of(self, shape, dtype, data):
        key = shape, dtype
        if key not in self.made:
            n = torch.Size(shape).numel() * dtype.itemsize
            if not data:
                self.made[key] = b"", n + 1500, b""
            else:
                f = io.BytesIO()
                torch.save(torch.zeros(shape, dtype=dtype), f)
                text = f.getvalue()
                at = text.find(bytes(n)) if n > 64 else 0
                self.made[key] = text[:at], n if n > 64 else 0, text[at + n:] if n > 64 else text
        return self.made[key]


# in a process of its own: what this one holds would count as memory of the tool
MEASURE = """
import os, subprocess, sys, time
start = time.monotonic()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
print("%s: %.1f s (%.1f s of CPU), %d MiB, status %d" % (os.path.basename(sys.argv[1]), time.monotonic() - start, used.ru_utime + used.ru_stime,
                                                         used.ru_maxrss >> 10, os.waitstatus_to_exitcode(status)))
"""


def measure(*command):
    subprocess.run([sys.executable, "-c", MEASURE, *command], check=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    for name, value in (("ranks", 256), ("layers", 80), ("hidden", 8192), ("heads", 64), ("kv-heads", 8), ("ffn", 28672), ("vocab", 128256)):
        ap.add_argument(f"--{name}", type=int, default=value)
    ap.add_argument("--optimizer", action="store_true")
    ap.add_argument("--data", action="store_true")
    ap.add_argument("--tools")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    files = [open(f"{a.out}/__{r}_0.distcp", "wb") for r in range(a.ranks)]
    meta = Metadata(state_dict_metadata={}, planner_data={}, storage_data={}, storage_meta=StorageMeta())
    holes, n_chunks = Holes(), 0
    for path, shape, dtype in entries(a):
        name, parts = ".".join(path), []
        for rank, start, n in chunks(shape, a.ranks):
            offsets, sizes = (start,) + (0,) * (len(shape) - 1), (n,) + shape[1:]
            parts.append(ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)))
            head, zeros, tail = holes.of(sizes, dtype, a.data)
            f, length = files[rank], len(head) + zeros + len(tail)
            # each rank sends objects of its own: nothing of them is shared in the pickle
            meta.storage_data[MetadataIndex("".join(list(name)), torch.Size(offsets), rank)] = _StorageInfo(f"__{rank}_0.distcp", f.tell(), length)
            f.write(head)
            f.seek(zeros, 1)
            f.write(tail)
            n_chunks += 1
        meta.state_dict_metadata[name] = TensorStorageMetadata(TensorProperties(dtype=dtype), torch.Size(shape), parts)
        meta.planner_data[name] = path
    for f in files:
        f.truncate(f.tell())
        f.close()
    with open(f"{a.out}/.metadata", "wb") as f:
        pickle.dump(meta, f)
    print(f"{len(meta.state_dict_metadata)} tensors, {n_chunks} chunks, .metadata {os.path.getsize(a.out + '/.metadata')} bytes", flush=True)
    if a.tools:
        measure(f"{a.tools}/pginfo", a.out)
        measure(f"{a.tools}/pgjoin", "--dry-run", a.out, f"{a.out}.safetensors")


if __name__ == "__main__":
    main()
