#!/usr/bin/env python3
"""usage: sweep_changes.py --tools DIR --faultrun PROGRAM --testdata DIR [--all] [--only CASE] [--trials N]

While a file tool saves (saves.py), somebody else is at work: at each of its calls of the file system, its input is cut to half,
emptied, made longer, overwritten in two places or replaced by another file; the folder of its output is removed or moved
away; the name of its output is taken. Wanted: the old output and exit 2 with one line, or exit 0 and a whole output of the
input as it was before or after the change, never of a mixture; a name that is taken stays with who took it. No crash, and
nothing left behind. Prints how many of how many passed; 77 (skipped) where programs may not be traced."""
import os
import pathlib
import random
import shlex
import shutil
import sys
import tempfile

import saves
import sweep

options = sweep.options(__doc__, ('--testdata', dict(required=True, type=pathlib.Path)),
                        ('--trials', dict(type=int, default=14, help='of each way to save, when sampling')))
testdata = options.testdata.resolve()
CHANGES = {'cut': 'truncate -s {half} {target}', 'emptied': 'truncate -s 0 {target}',
           'longer': 'head -c 5000 /dev/zero >> {target}', 'overwritten': 'cat {other} > {target}',
           'replaced': 'mv {other} {target}', 'folder removed': 'rm -rf {work}', 'folder moved': 'mv {work} {away}',
           'name taken': 'test -e {work}/{out} || cp {other} {work}/{out}'}


class Moving:
    """A save whose inputs are copied to where they can be changed; its output if `target`, one of them, is another."""

    def __init__(self, p, root):
        self.p, self.inputs = p, {}
        self.command = [p.command[0]] + [self.take(a, root) for a in p.command[1:]]
        files = {k: v for k, v in self.inputs.items() if v is not None and not k.endswith('.json')}
        self.lay_out(root / 'peace')
        sweep.run(self.command, root / 'peace/work')
        p.after = saves.tree(root / 'peace/work')  # a page names its input
        shutil.rmtree(root / 'peace')
        self.target = max(files, key=lambda k: len(files[k])) if files else max(self.inputs, key=lambda k: len(self.inputs[k] or b''))
        self.other, self.after_other = self.find_other(root)
        status, out = self.run_with(root, self.inputs[self.target] + bytes(5000))
        self.after_longer = out if status == 0 else None

    def take(self, arg, root):
        path = pathlib.Path(arg)
        if not arg.startswith((str(testdata), str(root / 'in'))):
            return arg
        if path.is_dir():
            self.inputs['in'] = None
            self.inputs.update({'in/' + k: v for k, v in saves.tree(path).items()})
            return '../in'
        beside = path.parent.glob(path.name.split('.')[0] + '*') if path.name.endswith('.weights.json') else [path]
        self.inputs.update({b.name: b.read_bytes() for b in beside})
        return '../' + path.name

    def lay_out(self, folder):
        saves.plant(folder, self.inputs)
        saves.plant(folder / 'work', self.p.before)

    def run_with(self, root, target):
        """Status and output of a run in peace with another target."""
        folder = root / 'other'
        self.lay_out(folder)
        (folder / self.target).write_bytes(target)
        r = sweep.run(self.command, folder / 'work')
        out = self.p.part(saves.tree(folder / 'work'))
        shutil.rmtree(folder)
        return r.status, out

    def find_other(self, root):
        """The target with two bytes changed that are values, and what the command makes of it; the second is None where checksums
        forbid it."""
        whole = self.inputs[self.target]
        dice = random.Random(1)
        found = []
        for _ in range(60):
            at = dice.randrange(len(whole) // 8, len(whole))
            trial = bytearray(whole)
            for k in [*found, at]:
                trial[k] ^= 4
            status, out = self.run_with(root, trial)
            if status == 0 and out != self.p.part(self.p.after) and (not found or out != after):
                found.append(at)
                after, other = out, bytes(trial)
            if len(found) == 2:
                return other, after
        return whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], None


def trial(m, root, n, change):
    p, folder = m.p, root / f'{change.replace(" ", "-")}-{n}'
    m.lay_out(folder)
    (folder / 'other').write_bytes(m.other)
    q = {k: shlex.quote(str(v)) for k, v in dict(target=folder / m.target, other=folder / 'other', work=folder / 'work',
                                                 away=folder / 'away', out=p.out, half=len(m.inputs[m.target]) // 2).items()}
    try:
        r = sweep.run(m.command, folder / 'work', [options.faultrun, '-c', 'all', '-p', folder, '-n', str(n),
                                                   '-a', 'run:' + CHANGES[change].format(**q)],
                      dict(os.environ, TMPDIR=str(root / 'tmp'), LC_ALL='C.UTF-8'))
        place = next((folder / x for x in ('work', 'away') if (folder / x).exists()), None)
        return judge(m, r, saves.tree(place) if place else {}, change)
    finally:
        shutil.rmtree(folder)


def judge(m, r, held, change):
    p, own = m.p, m.p.part(held)
    wanted = m.after_longer if change == 'longer' else m.after_other
    state = 'changed' if wanted and own == wanted else p.state(held)
    taken = change == 'name taken' and own == {p.out: m.other}
    if r.status not in (0, 2):
        return str(r)
    if r.status == 2 and len(r.heads) != 1:
        return f'not one line: {r}'
    if change == 'folder removed' and not held:
        return ''
    if state not in ('new', 'changed') if r.status == 0 else state not in ('old', 'begun'):
        if not taken and not (r.status == 2 and 'could not be synced' in r.err):
            return f'{state} output, {r}'
    of = sorted(set(held) - set(p.before) - set(own)) if state == 'changed' else p.others(held)
    others = [k for k in of if not (p.is_folder and k.startswith(p.out + '.pg-new'))]
    return f'leaves {others}, {r}' if others else ''


def sweep_save(save, root):
    """(passed, tried, possible) of one way to save."""
    p = saves.Prepared(save, options.tools, root)
    m = Moving(p, root)
    m.lay_out(root / 'counted')
    r = sweep.run(m.command, root / 'counted/work', [options.faultrun, '-c', 'all', '-p', root / 'counted'])
    shutil.rmtree(root / 'counted')
    if not r.counted:
        sweep.cannot_trace()
    changes = [c for c in CHANGES if c != 'name taken' or not p.is_folder]
    full = [(n, change) for change in changes for n in range(1, r.counted + 1)]
    plan = sweep.sample(full, options.trials, options.all)
    good = sweep.judge_all(save.name, lambda n, change: trial(m, root, n, change), plan, options.jobs)
    print(f'{save.name}: {r.counted} calls, {good} of {len(plan)} trials ({len(full)} possible)', flush=True)
    return good, len(plan), len(full)


def main():
    with tempfile.TemporaryDirectory(dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None) as d:
        root = pathlib.Path(d).resolve()
        (root / 'tmp').mkdir()
        saves.prepare_inputs(options.tools, testdata, root / 'in')
        results = [sweep_save(s, root) for s in saves.all_saves(testdata)
                   if not s.refuses and not s.in_place and (options.only or '') in s.name]
    good, n, possible = (sum(column) for column in zip(*results))
    print(f'file tools: {good} of {n} trials, of {possible} possible')
    return good != n


sys.exit(main())
