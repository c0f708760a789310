#!/usr/bin/env python3
"""usage: sweep_reads.py --tools DIR --faultrun PROGRAM --testdata DIR [--all] [--only CASE] [--trials N] [--jobs N]

Checkpoints of every format, named as people do (the folder, the one around it, a file of one rank), and an error at each
system call with which pgjoin finds out what they are and reads them. What could not be looked at must not pass for what is
not there: the tool gives the answer that it gives in peace, or ends with exit 2 and one line that names a file and says
which error it was. It must not find another format, a smaller model, damage, or nothing that it knows.

  EIO, ESTALE, EACCES, ENOMEM   as above
  EINTR, short counts           the answer that it gives in peace

Prints how many of how many passed; 77 (skipped) where programs may not be traced."""
import errno
import os
import pathlib
import sys

import sweep

options = sweep.options(__doc__, ('--testdata', dict(required=True, type=pathlib.Path)),
                        ('--trials', dict(type=int, default=24, help='of each checkpoint, when sampling')))
modern = options.testdata.resolve() / 'modern'
ERRORS = ('EIO', 'ESTALE', 'EACCES', 'ENOMEM')
UNSEEN = ('EINTR', 'short')
INTERRUPTED = ('open', 'read', 'pread')
NAMES = ('*/ckpt', '*', 'dcp-fsdp1-sharded/pytorch_model_fsdp_0', 'flax-msgpack*/*.msgpack', 'flax-*/checkpoint_*', 'tf-roots/*', 'tf-savedmodel/*',
         'dcp-fsdp2/ckpt/__0_0.distcp', 'zero3/ckpt/*/*rank_1*_optim_states.pt', 'megatron-old-1/ckpt/*/*/*.pt', 'orbax-ocdbt/ckpt/manifest.ocdbt',
         'rank-pt-dtensor/ckpt/*_rank_1.pt', 'tf-mirrored/*.data-00000-*', 'dcp-hf-safetensors/ckpt/shard-00001-*')


def trace(*fault):
    return [options.faultrun, '-c', 'all', '-p', modern, *fault]


def join(path, *fault):
    return sweep.run([options.tools / 'pgjoin', '--dry-run', path], '/', trace(*fault), dict(os.environ, LC_ALL='C.UTF-8'))


def same(a, b):
    return (a.status, a.out, a.err) == (b.status, b.out, b.err)


def trial(path, peace, n, fault):
    r = join(path, '-n', str(n), '-a', fault)
    if same(r, peace):
        return ''
    if fault in UNSEEN:
        return f'not gone on with: {r}' if r.at.startswith(INTERRUPTED) else ''
    why = os.strerror(getattr(errno, fault))
    return '' if r.status == 2 and len(r.heads) == 1 and str(modern) in r.err and why in r.err else str(r)


def sweep_path(path):
    """(passed, tried, possible) of one checkpoint."""
    peace = join(path)
    if not peace.counted:
        sweep.cannot_trace()
    full = [(n, fault) for fault in ERRORS + UNSEEN for n in range(1, peace.counted + 1)]
    plan = sweep.sample(full, options.trials, options.all)
    name = path.relative_to(modern)
    good = sweep.judge_all(name, lambda n, fault: trial(path, peace, n, fault), plan, options.jobs)
    return good, len(plan), len(full)


def main():
    paths = {p for name in NAMES for p in modern.glob(name) if not p.name.startswith(('expected', 'manifest-', 'regen'))}
    paths = sorted(paths | {modern / 'tf-mirrored/ckpt-1'})  # a prefix, which is no file
    results = [sweep_path(p) for p in paths if not options.only or options.only in str(p)]
    good, n, possible = (sum(column) for column in zip(*results))
    print(f'{len(results)} checkpoints: {good} of {n} trials, of {possible} possible')
    return good != n


sys.exit(main())
