#!/usr/bin/env python3
"""usage: sweep_files.py --tools DIR --faultrun PROGRAM --testdata DIR [--all] [--only CASE] [--trials N] [--jobs N]

Every way in which a file tool saves (saves.py), and at each of its calls of the file system (reading the input
too) every fault of sweep.py: errors and short counts once and from there on, SIGKILL before, after and in the middle,
SIGINT and SIGTERM. Wanted:

  error    the old output and exit 2 with one line that says why, or the new one and exit 0. One exception: the folder
           could not be synced, which is known only when the new output has its name: it says so with exit 2.
           Of a write, a sync, a renaming and the close that tells what was written late: always exit 2
  EINTR, short counts   the new output and exit 0: a call that can be interrupted goes on
  signal   the old output and exit 130, or, where it came too late, the new one and exit 0; a second SIGINT ends it at once
  SIGKILL  the old output or the new one, bit for bit; the same command then completes, and removes what the killed run
           has left

Nothing else is left behind; where no file can be removed (unlink fails, or every call from some point on) the next run
removes it. A split that fails is a folder without its last file, which the same command completes.
Prints how many of how many passed; 77 (skipped) where programs may not be traced."""
import collections
import os
import pathlib
import shutil
import sys
import tempfile
import threading

import saves
import sweep

options = sweep.options(__doc__, ('--testdata', dict(required=True, type=pathlib.Path)),
                        ('--trials', dict(type=int, default=36, help='of each way to save, when sampling')),
                        ('--faults', dict(default=','.join(sweep.FAULTS), help='these only, with commas')),
                        ('--dir', dict(type=pathlib.Path, help='work there (a file system to try)')))
testdata = options.testdata.resolve()
counts = collections.Counter()  # of good trials, by fault
tried = collections.Counter()
ends = collections.Counter()  # (fault, state, status)
lock = threading.Lock()


def trace(root, *fault):
    return [options.faultrun, '-c', 'all', '-p', root, '-p', testdata, *fault]


def environment(root):
    return dict(os.environ, TMPDIR=str(root / 'tmp'), LC_ALL='C.UTF-8')


def completes(p, root, folder, state):
    """The same command after what happened; what was wrong, or ''."""
    if state == 'new' and '-f' not in p.command:
        return ''  # it would only say that the output exists, or that there is nothing to do
    r = sweep.run(p.command, folder, env=environment(root))
    held = saves.tree(folder)
    if r.status != 0 or p.state(held) != 'new':
        return f'the same command again: {r}, {p.state(held)} output'
    return f'the next run leaves {p.others(held)}' if p.others(held) else ''


INTERRUPTED = ('open', 'read', 'pread', 'write', 'pwrite', 'fsync', 'fdatasync', 'syncfs', 'ftruncate', 'fallocate', 'close', 'ioctl',
               'copy_file_range')
TELLING = ('write', 'pwrite', 'fsync', 'fdatasync', 'syncfs', 'rename', 'link')


def ignored(p, n, fault, r):
    """A fault that must not be seen at all, or one that must be told, and is not; or ''."""
    others = fault == 'EINTR+' and (r.at == 'close' or '-j' in p.command)  # the next calls are not the same one again
    if fault.rstrip('+') in ('EINTR', 'short') and r.at.startswith(INTERRUPTED) and not others:
        return f'not gone on with: {r}' if r.status and not p.save.refuses else ''
    told = r.at.startswith(TELLING) or n == p.last_close
    return 'not told' if fault.startswith('E') and not fault.startswith('EINTR') and told and r.status == 0 else ''


def judge(p, fault, r, held):
    """What was wrong, or ''; and whether the same command must complete."""
    state, others = p.state(held), p.others(held)
    kind = 'kill' if fault in sweep.KILLS else 'signal' if fault.startswith('SIG') else 'error'
    unfinished = state == 'begun' or (p.is_folder and any(k.startswith(p.out + '.pg-new') for k in others))
    if state not in ('old', 'new', 'begun'):
        return f'{state} output, {r}', False
    if kind == 'kill':
        return '' if r.status in (137, 0) else str(r), not p.save.refuses
    late = r.status == 2 and any(x in r.err for x in ('could not be synced', 'may not have reached the disk')) or r.status == 130 and fault == 'SIGINT+'
    if state == 'new' and r.status != 0 and not p.save.refuses and not late:
        return f'the new output, and {r}', False
    if state != 'new' and r.status == 0:
        return f'exit 0, and the {state} output', False
    if r.status not in ((0, 130) + (2,) * p.save.refuses if kind == 'signal' else (0, 2)):
        return str(r), False
    if r.status == 2 and len(r.heads) != 1:
        return f'not one line: {r}', False
    if fault == 'SIGINT+' and p.save.beside:
        return '', bool(others)  # it ended at once: data without a model, as after a kill
    cannot_remove = fault.endswith('+') and (kind == 'error' or p.save.in_place) or r.at.startswith(('unlink', 'rmdir', 'ftruncate'))
    if others and not cannot_remove and not unfinished:
        return f'leaves {others}, {r}', False
    return '', unfinished or bool(others)


def trial(p, root, n, fault):
    folder = root / f'{fault}-{n}'
    saves.plant(folder, p.before)
    try:
        r = sweep.run(p.command, folder, trace(root, *sweep.FAULTS[fault], '-n', str(n)), environment(root))
        held = saves.tree(folder)
        wrong, again = judge(p, fault, r, held)
        wrong = wrong or ignored(p, n, fault, r)
        if not wrong and p.state(held) == 'new' and p.mode(folder) != p.mode_after:
            wrong = f'mode {p.mode(folder):o}'
        if not wrong and again:
            wrong = completes(p, root, folder, p.state(held))
        with lock:
            tried[fault] += 1
            counts[fault] += not wrong
            ends[fault, p.state(held), r.status] += 1
        return wrong
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def calls_of(p, root):
    """The calls of a run in peace: (number, class, its line's other words)."""
    saves.plant(root / 'counted', p.before)
    r = sweep.run(p.command, root / 'counted', [*trace(root), '-l', root / 'calls'], environment(root))
    shutil.rmtree(root / 'counted')
    if not r.counted:
        sweep.cannot_trace()
    calls = [line.split(' ') for line in (root / 'calls').read_text().splitlines()]
    return [(int(n), kind, rest) for n, kind, *rest in calls]


def without_clones(p, root):
    """What a run in peace leaves where the file system shares no blocks: perhaps another output, as good."""
    saves.plant(root / 'uncloned', p.before)
    sweep.run(p.command, root / 'uncloned', [options.faultrun, '-c', 'clone', '-n', '1', '-s', '-a', 'ENOTSUP'], environment(root))
    held = saves.tree(root / 'uncloned')
    shutil.rmtree(root / 'uncloned')
    return held


def in_one_step(calls):
    """The call that changes a file in place: a write within one sector, which no kill can halve."""
    return next(n for n, kind, rest in calls if kind == 'write' and rest[-2] == '0' and int(rest[-1]) <= 512)


def last_close(calls):
    """Of a temporary before it gets its name."""
    named = next((n for n, kind, rest in calls if kind == 'rename'), 0)
    return max((n for n, kind, rest in calls if n < named and kind == 'close' and '.pg-' in rest[2]), default=0)


def vital(calls, more):
    """What no sample leaves out: the calls that a save consists of, each failed and interrupted."""
    first = {}
    for n, kind, rest in reversed(calls):
        if kind in ('write', 'trunc', 'falloc', 'fsync', 'rename'):
            first[kind] = n
    last_sync = max((n for n, kind, rest in calls if kind == 'fsync'), default=0)  # of the folder
    return [(n, fault) for n in {*first.values(), last_sync, *more} for fault in ('EIO', 'EINTR', 'short', 'torn', 'SIGINT')]


def sweep_save(save, root):
    """(passed, tried, possible) of one way to save."""
    p = saves.Prepared(save, options.tools, root)
    calls = calls_of(p, root)
    p.uncloned = without_clones(p, root)
    step = in_one_step(calls) if save.in_place else 0
    p.last_close = 0 if p.is_folder else last_close(calls)
    full = [(n, fault) for fault in options.faults.split(',') for n, kind, _ in calls
            if (n, fault) != (step, 'half') and (fault != 'torn' or kind == 'write')]
    plan = sweep.sample(full, options.trials, options.all)
    plan += [job for job in vital(calls, {step, p.last_close}) if job in full and job not in plan]
    good = sweep.judge_all(save.name, lambda n, fault: trial(p, root, n, fault), plan, options.jobs)
    print(f'{save.name}: {len(calls)} calls, {good} of {len(plan)} trials ({len(full)} possible)', flush=True)
    return good, len(plan), len(full)


def main():
    with tempfile.TemporaryDirectory(dir=options.dir or ('/dev/shm' if os.access('/dev/shm', os.W_OK) else None)) as d:
        root = pathlib.Path(d).resolve()
        (root / 'tmp').mkdir()
        saves.prepare_inputs(options.tools, testdata, root / 'in')
        inputs = saves.tree(root / 'in')
        results = [sweep_save(s, root) for s in saves.all_saves(testdata) if not options.only or options.only in s.name]
        changed = saves.tree(root / 'in') != inputs
        left = list((root / 'tmp').iterdir())
    good, n, possible = (sum(column) for column in zip(*results))
    for fault in options.faults.split(','):
        print(f'{fault}: {counts[fault]} of {tried[fault]}; ' +
              ', '.join(f'{state} {status}: {k}' for (f, state, status), k in sorted(ends.items()) if f == fault))
    deaf = [f for f in ('SIGINT', 'SIGTERM') if tried[f] > 50 and not any(k[0] == f and k[2] == 130 for k in ends)]
    for fault in deaf:
        print(f'FAIL {fault} was never heard')
    if changed:
        print('FAIL an input was changed')
    if left:
        print(f'FAIL left in TMPDIR: {left}')
    print(f'file tools: {good} of {n} trials, of {possible} possible')
    return bool(changed or left or deaf or good != n)


sys.exit(main())
