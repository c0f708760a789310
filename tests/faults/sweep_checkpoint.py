#!/usr/bin/env python3
"""usage: sweep_checkpoint.py --tools DIR --faultrun PROGRAM [--every N] [--only CASE] [--jobs N]

A checkpoint replaces the one before, in every format and as a folder of shards; every system call by which it
does so is killed before, after and in the middle, and fails with ENOSPC (once, and from there on) and EIO.
What has the checkpoint's name is the one before or the new one, whole, every time; the training goes on and
exits 2 where the file in the end is not the new one. Then names that change and their links, a full disk, and
one that cannot be written. Prints how many of how many passed; 77 (skipped) where programs may not be traced."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import sweep

options = sweep.options(__doc__, ('--every', dict(type=int, default=2, help='every N-th call; of the kills, eight times as many')))
tools = options.tools
FAULTS = [*sweep.KILLS, 'ENOSPC', 'EIO', 'ENOSPC+']
CASES = {'full .h5': ('w.h5', []), 'weights .h5': ('w.h5', ['--save-weights-only']),
         '.weights.h5': ('w.weights.h5', []), '.keras': ('w.keras', []),
         'shards': ('w.h5', ['--save-weights-only', '--max-shard-size', '50kB']),
         'changing names': ('{epoch}.weights.h5', ['--keep', '1', '--monitor', 'loss'])}
n_good = n_all = 0


def command(name, more, epochs=1, seed=1):
    return [tools / 'pgfit', '--demo', 'digits', '--batch-size', '512', '--threads', '1', '--deterministic',
            '--epochs', str(epochs), '--seed', str(seed), '--checkpoint', 'c/' + name, '--verify', 'all',
            '-q', *more]


def run(folder, args, fault=()):
    return sweep.run(args, folder, [options.faultrun, '-w', '-p', folder / 'c', '-x', 'resume.pg', *fault] if fault else None)


def same(a, b):
    return subprocess.run([tools / 'pgdiff', a, b], capture_output=True).returncode == 0


def loads(path):
    """Every value can be read."""
    r = subprocess.run([tools / 'pginfo', '--stats', path], capture_output=True, text=True)
    return '' if r.returncode == 0 else f'{path.name}: {r.stderr}'


def judge_one(folder, case, r):
    """A name that stays: the one before or the new one."""
    name = 'w.h5.shards' if case == 'shards' else CASES[case][0]
    path = folder / 'c' / name
    if not path.exists():
        return 'the one before is lost'
    if loads(path):
        return loads(path)
    is_new = same(path, folder.parent / 'new' / 'c' / name)
    if not is_new and not same(path, folder.parent / 'old' / 'c' / name):
        return 'neither the one before nor the new one'
    if r.status == 0 and not is_new:
        return 'status 0, and it is the one before'
    return ''


def judge_many(folder, case, r):
    """Names that change: all that are there, and what links lead to."""
    files = sorted((folder / 'c').glob('[0-9]*.weights.h5'))
    if not files:
        return 'no checkpoint is left'
    for p in files:
        if loads(p):
            return loads(p)
    for link in ('best', 'last'):
        p = folder / 'c' / link
        if p.is_symlink() and not p.exists():
            return f'{link} leads to nothing'
    return ''


def trial(root, case, n, fault):
    name, more = CASES[case]
    folder = root / f'{fault}-{n}'
    shutil.copytree(root / 'old', folder, symlinks=True)
    killed = fault in sweep.KILLS
    try:
        r = run(folder, command(name, more, seed=2), [*sweep.FAULTS[fault], '-n', str(n)])
        if r.status not in ((137, 0) if killed else (0, 2)):
            return str(r)
        if r.status == 2 and 'pgfit: ' not in r.err:
            return f'status 2 without a message: {r.err}'
        wrong = (judge_many if '{' in name else judge_one)(folder, case, r)
        if wrong or not killed:
            return wrong
        again = run(folder, command(name, more, seed=2))
        if again.status:
            return f'the next run: {again}'
        left = [p.name for p in folder.rglob('*') if '.pg-' in p.name]
        return f'left behind: {left}' if left else ''
    finally:
        shutil.rmtree(folder)


def sweep_case(root, case):
    name, more = CASES[case]
    for folder, seed in (('old', 1), ('new', 2), ('counted', 2)):
        (root / folder / 'c').mkdir(parents=True)
        args = command(name, more, seed=seed)
        r = run(root / folder, args, ['-t', '100'] if folder == 'counted' else ())
        if r.status:
            sys.exit(f'{case}: {r}')
    if not r.counted:
        sweep.cannot_trace()
    plan = [job for fault in FAULTS
            for job in sweep.every(r.counted, 1 if options.all else max(1, options.every // 8) if fault in ('kill', 'half') else options.every, fault)]
    good = sweep.judge_all(case, lambda n, fault: trial(root, case, n, fault), plan, options.jobs)
    print(f'{case}: {r.counted} calls, {good} of {len(plan)} trials ({r.counted * len(FAULTS)} possible)')
    return good, len(plan)


def in_namespace(root, what, script, judge):
    """A disk of its own, where the machine allows one."""
    folder = root / what.replace(' ', '-')
    folder.mkdir()
    name, more = CASES['full .h5']
    args = ' '.join(f"'{a}'" for a in command(name, more, epochs=3))
    namespace = ['unshare', '-m'] if os.geteuid() == 0 else ['unshare', '-Urm']
    if subprocess.run([*namespace, 'true'], capture_output=True).returncode:
        print(f'{what}: not possible here')
        return 0, 0
    r = subprocess.run([*namespace, 'sh', '-c', f'mkdir c && mount -t tmpfs {script} tmpfs c || exit 99\n'
                        f'cp ../seed/c/w.h5 c/ 2>/dev/null\n{judge[0]}{args}; r=$?; cp c/w.h5 kept.h5; exit $r'],
                       cwd=folder, capture_output=True, text=True)
    if r.returncode == 99:
        print(f'{what}: not possible here')
        return 0, 0
    good = (r.returncode == 2 and judge[1] in r.stderr and
            same(folder / 'kept.h5', root / 'seed/c/w.h5'))
    print(f'{what}: {"good" if good else f"FAIL status {r.returncode}: {r.stderr}"}')
    return int(good), 1


def disks(root):
    (root / 'seed/c').mkdir(parents=True)
    name, more = CASES['full .h5']
    if run(root / 'seed', command(name, more)).status:
        sys.exit('no file to begin with')
    size = (root / 'seed/c/w.h5').stat().st_size // 1024
    yield in_namespace(root, 'a full disk', f'-o size={size * 3 // 2}k', ('', 'No space left on device'))
    yield in_namespace(root, 'a disk that is read only', '-o size=64m',
                       ('(sleep 0; mount -o remount,ro c) && ', 'Read-only file system'))


for case in [c for c in CASES if (options.only or '') in c]:
    with tempfile.TemporaryDirectory() as d:
        good, tried = sweep_case(pathlib.Path(d).resolve(), case)
        n_good += good
        n_all += tried
with tempfile.TemporaryDirectory() as d:
    for good, tried in disks(pathlib.Path(d).resolve()):
        n_good += good
        n_all += tried
print(f'{n_good} of {n_all}')
sys.exit(n_good != n_all)
