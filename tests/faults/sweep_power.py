#!/usr/bin/env python3
"""usage: sweep_power.py --tools DIR --faultrun PROGRAM --testdata DIR [--all] [--only CASE] [--subsets N]

Records the calls of every way to save (saves.py) and builds from them every state of the disk that a kill or a loss of power
could leave (crashstates.py): each holds the old output or the new one. Of a file that is changed in place there is also every
choice of the writes between two syncs. A folder of shards may be without its last file;
then the same command completes it. Prints how many of how many states passed; 77 (skipped) where programs may not be traced."""
import os
import pathlib
import shutil
import sys
import tempfile

import crashstates
import saves
import sweep

options = sweep.options(__doc__, ('--testdata', dict(required=True, type=pathlib.Path)),
                        ('--subsets', dict(type=int, default=8, help='random subsets of what was not synced, per prefix')),
                        ('--reruns', dict(type=int, default=8, help='states that are completed, per way to save, when sampling')))


def record(p, root):
    """The calls of a run in peace."""
    saves.plant(root / 'work', p.before)
    r = sweep.run(p.command, root / 'work', [options.faultrun, '-p', root / 'work', '-r', root / 'record'])
    ops = list(crashstates.read_record(root / 'record', root / 'work'))
    held = saves.tree(root / 'work')
    shutil.rmtree(root / 'work')
    shutil.rmtree(root / 'record')
    if not r.counted:
        sweep.cannot_trace()
    return ops, held


def completes(p, root, what, held):
    """What is wrong with the same command's next run; or ''."""
    folder = root / what.replace(' ', '-')
    saves.plant(folder, held)
    r = sweep.run(p.command, folder)
    left = saves.tree(folder)
    shutil.rmtree(folder)
    if r.status or p.state(left) != 'new' or p.others(left):
        return f'the same command again: {r}, {p.state(left)} output, beside it {p.others(left)}'
    return ''


def sweep_save(save, root):
    """(passed, tried) of one way to save."""
    p = saves.Prepared(save, options.tools, root)
    ops, held = record(p, root)
    durable = '--no-sync' not in p.command
    states = [(f'killed after {what}', tree) for what, tree in crashstates.after_kill(p.before, ops)]
    if states[-1][1] != held:
        print(f'FAIL {save.name}: the record does not lead to what the command left')
        return 0, 1
    if durable or save.in_place:  # there, the order is kept even without the last wait
        states += [(f'power lost after {what}', tree) for what, tree in
                   crashstates.after_power_loss(p.before, ops, options.subsets, options.seed)]
    if save.in_place:
        states += [(f'power lost after {what}', tree) for what, tree in crashstates.after_lost_writes(p.before, ops, save.out)]
    good, begun = 0, {}
    for what, tree in states:
        state = p.state(tree)
        good += state in ('old', 'new', 'begun')
        if state not in ('old', 'new', 'begun'):
            print(f'FAIL {save.name}: {what}: {state} output; {[o[:2] for o in ops[:int(what.split(" after ")[1].split()[0])]][-3:]}')
        elif state == 'begun' or p.others(tree) and (state == 'old' or '-f' in p.command):
            begun[what] = tree
    ends = {p.state(tree) for what, tree in states if f' after {len(ops)} calls' in what} if durable else set()
    if ends - {'new'}:
        print(f'FAIL {save.name}: not durable after it has ended: {ends} output')
        good -= 1
    chosen = sweep.sample([(what,) for what in begun], options.reruns, options.all)
    again = sweep.judge_all(save.name, lambda what: completes(p, root, what, begun[what]), chosen, options.jobs)
    print(f'{save.name}: {len(ops)} changes, {good} of {len(states)} states; {again} of {len(chosen)} completed ({len(begun)} possible)', flush=True)
    return good + again, len(states) + len(chosen)


def main():
    testdata = options.testdata.resolve()
    with tempfile.TemporaryDirectory(dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None) as d:
        root = pathlib.Path(d).resolve()
        saves.prepare_inputs(options.tools, testdata, root / 'in')
        results = [sweep_save(s, root) for s in saves.all_saves(testdata) if not s.refuses and (options.only or '') in s.name]
    good, n = (sum(column) for column in zip(*results))
    print(f'file tools: {good} of {n} states')
    return good != n


sys.exit(main())
