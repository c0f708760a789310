#!/usr/bin/env python3
"""usage: traces.py FILE STEPS [RANKS]: is FILE, a trace of pgfit, what it should be? STEPS: 3..7. Prints what is wrong, or what is in it.

Chrome's trace event format: spans of a thread nest; every rank has each step, on one clock; the sums of its buckets lie within a step,
and together are all gradients; operations of a thread take no longer than the step around them."""
import collections
import json
import sys

SLACK = 0.002  # us: what digits that are cut off may add up to


class Bad(Exception):
    pass


def check(ok, text):
    if not ok:
        raise Bad(text)


def end(e):
    return e['ts'] + e['dur']


def within(e, outer):
    return outer['ts'] - SLACK <= e['ts'] and end(e) <= end(outer) + SLACK


def by_thread(spans):
    found = collections.defaultdict(list)
    for e in spans:
        found[e['pid'], e['tid']].append(e)
    return found


def check_nesting(spans):
    for thread, of in by_thread(spans).items():
        around = []
        for e in sorted(of, key=lambda e: (e['ts'], -e['dur'])):
            while around and end(around[-1]) <= e['ts'] + SLACK:
                around.pop()
            check(not around or within(e, around[-1]), f'{thread}: {e} crosses {around and around[-1]}')
            around.append(e)


def check_names(events, spans):
    named = {(e['pid'], e['tid']) for e in events if e['ph'] == 'M' and e['name'] == 'thread_name'}
    for thread in by_thread(spans):
        check(thread in named, f'{thread} has no name')
    tids = [tid for _, tid in named]
    check(len(tids) == len(set(tids)), 'a tid stands in two processes')
    ranks = {e['pid'] for e in events if e['ph'] == 'M' and e['name'] == 'process_name'}
    check(ranks == {e['pid'] for e in spans}, f'names of {ranks}')


def check_step(step, spans):
    """One step of one rank: bytes of its buckets, seconds of its operations."""
    inside = [e for e in spans if e['pid'] == step['pid'] and within(e, step)]
    ops = [e for e in inside if e['cat'] in ('forward', 'backward')]
    for e in ops:
        check(e['args']['layer'] and e['args']['op'] and e['name'] == f'{e["args"]["layer"]} {e["args"]["op"]}', f'{e}')
    check({e['cat'] for e in ops} == {'forward', 'backward'}, f'{step}: operations of {sorted({e["cat"] for e in ops})}')
    for thread, of in by_thread(ops).items():
        check(sum(e['dur'] for e in of) <= step['dur'] + SLACK * len(of), f'{thread}: operations of {step} take longer than it')
    for name in ('prepare', 'forward and backward', 'sum of gradients', 'update', 'loss and metrics'):
        check(sum(e['name'] == name for e in inside) == 1, f'{step}: no or several "{name}"')
    return sum(e['args']['bytes'] for e in inside if e['name'].startswith('bucket '))


def judge(path, first, last, n_ranks=1, n_threads=None):
    """Raises Bad; the trace and its spans, if it is what it should be."""
    with open(path) as f:
        trace = json.load(f)
    events = trace['traceEvents']
    spans = [e for e in events if e['ph'] == 'X']
    check(len(spans) + sum(e['ph'] == 'M' for e in events) == len(events), 'events of other phases')
    check(all(e['ts'] >= 0 and e['dur'] >= 0 for e in spans), 'negative times')
    check({e['pid'] for e in spans} == set(range(n_ranks)), f'ranks {sorted({e["pid"] for e in spans})}')
    check(len(trace['clockErrorUs']) == n_ranks and trace['clockErrorUs'][0] == 0, f'clocks: {trace["clockErrorUs"]}')
    check_names(events, spans)
    check_nesting(spans)
    steps = collections.defaultdict(dict)
    for e in spans:
        if e['name'].startswith('step '):
            steps[e['pid']][e['args']['step']] = e
    exchanged = set()
    for rank in range(n_ranks):
        check(sorted(steps[rank]) == list(range(first, last + 1)), f'rank {rank} has steps {sorted(steps[rank])}')
        exchanged |= {check_step(e, spans) for e in steps[rank].values()}
        for e in spans:
            if e['pid'] == rank and e['name'].startswith('bucket '):
                check(any(within(e, s) for s in steps[rank].values()), f'{e} is in no step')
    check(len(exchanged) == 1 and (exchanged != {0} or n_ranks == 1), f'bytes exchanged in a step: {exchanged}')
    for k in range(first, last + 1):  # no rank ends a step before all others have begun it
        check(max(s[k]['ts'] for s in steps.values()) <= min(end(s[k]) for s in steps.values()) + sum(trace['clockErrorUs']),
              f'step {k}: the clocks differ')
    return trace, spans


def main():
    first, last = map(int, sys.argv[2].split('..'))
    try:
        _, spans = judge(sys.argv[1], first, last, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    except Bad as e:
        sys.exit(f'{sys.argv[1]}: {e}')
    print('steps', sys.argv[2] + ':', *sorted({e['cat'] for e in spans}))


if __name__ == '__main__':
    main()
