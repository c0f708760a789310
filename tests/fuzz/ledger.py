#!/usr/bin/env python3
"""Checks ledger.tsv, and says how far each target is: executions since its parser's last change.

  ledger.py ROOT            wrong rows fail; executions that are missing are only said
  ledger.py --strict ROOT   these fail, too

A row: commit that was fuzzed, target, build, executions, finds, commit of the parser's last change
until then. It counts as long as that is still the last change. Exit 77 (skipped) without the
repository's history."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import targets

# what was looked for beside aborts: asan is AddressSanitizer, leaks too; ubsan stops at the first report
BUILDS = ('clang-asan-ubsan', 'clang-asan', 'clang-ubsan', 'clang')
HEAD = ['commit', 'target', 'build', 'executions', 'finds', 'since']


def git(root, *args):
    """What git says, or None: it fails, or is not there."""
    try:
        r = subprocess.run(['git', '-C', str(root), *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        return None
    return r.stdout.strip() if r.returncode == 0 else None


def last_change(root, target, commit):
    return git(root, 'log', '-1', '--format=%H', commit, '--', *targets.TARGETS[target].sources)


def is_changed(root, target):
    """Whether the parser differs from the commit that executions would be counted for."""
    return bool(git(root, 'status', '--porcelain', '--', *targets.TARGETS[target].sources) or
                git(root, 'rev-parse', 'HEAD') is None)


def add(root, commit, target, build, executions, found):
    """Counts a run: to the row of this build and state of the parser, which then names the newest
    commit of the library. Rows of an earlier state go, they count no longer."""
    path = root / 'tests/fuzz/ledger.tsv'
    commit = git(root, 'log', '-1', '--format=%H', commit, '--', 'libpg')[:7]
    since = last_change(root, target, commit)[:7]
    rows = [line.split('\t') for line in path.read_text().splitlines()[1:]]
    finds = int(found)
    for row in [r for r in rows if r[1] == target]:
        if row[5] != since or row[2] == build:
            rows.remove(row)
        if row[5] == since and row[2] == build:
            executions, finds = executions + int(row[3]), finds + int(row[4])
    rows.append([commit, target, build, str(executions), str(finds), since])
    rows.sort(key=lambda r: (r[1], r[2], r[0]))
    path.write_text('\n'.join('\t'.join(r) for r in [HEAD] + rows) + '\n')


def complaint(root, row):
    """What is wrong with a row, or None."""
    if len(row) != len(HEAD):
        return f'{len(row)} columns, not {len(HEAD)}'
    commit, target, build, executions, finds, since = row
    if target not in targets.TARGETS:
        return f'no target {target}'
    if build not in BUILDS:
        return f'no build {build}; one of {", ".join(BUILDS)}'
    if not re.fullmatch('[1-9][0-9]*', executions) or not re.fullmatch('0|[1-9][0-9]*', finds):
        return 'executions and finds are numbers'
    for name in (commit, since):
        if not re.fullmatch('[0-9a-f]{7,40}', name) or git(root, 'cat-file', '-t', name) != 'commit':
            return f'no commit {name}'
        if git(root, 'merge-base', '--is-ancestor', name, 'HEAD') is None:
            return f'{name} is not in the history'
    if last_change(root, target, commit) != git(root, 'rev-parse', since):
        return f'{since} is not the last change of {target} at {commit}'
    return None


def main():
    strict = sys.argv[1] == '--strict'
    root = pathlib.Path(sys.argv[-1])
    if git(root, 'rev-parse', 'HEAD') is None or git(root, 'rev-parse', '--is-shallow-repository') != 'false':
        print('no history here')
        return 77
    lines = (root / 'tests/fuzz/ledger.tsv').read_text().splitlines()
    rows = [line.split('\t') for line in lines if not line.startswith('#')]
    bad = 0
    if not rows or rows[0] != HEAD:
        print('ledger.tsv: the first row names the columns: ' + ' '.join(HEAD))
        return 1
    missing_files = [s for t in targets.TARGETS.values() for s in t.sources if not (root / s).exists()]
    for name in missing_files:
        print(f'targets.py: {name} is not there')
        bad += 1
    done = dict.fromkeys(targets.TARGETS, 0)
    now = {t: last_change(root, t, 'HEAD') for t in targets.TARGETS}
    for row in rows[1:]:
        why = complaint(root, row)
        if why:
            print('ledger.tsv: ' + ' '.join(row) + ': ' + why)
            bad += 1
        elif now[row[1]] == git(root, 'rev-parse', row[5]):
            done[row[1]] += int(row[3])
    short = 0
    for name, t in targets.TARGETS.items():
        left = max(0, t.goal - done[name])
        short += left > 0
        print(f'{name:12} {done[name]:12,} of {t.goal:12,} since {now[name][:7]}' + (f', {left:,} missing' if left else ''))
    total = sum(done.values())
    short += total < targets.IN_ALL
    print(f'{"in all":12} {total:12,} of {targets.IN_ALL:12,}')
    return 1 if bad or (strict and short) else 0


if __name__ == '__main__':
    sys.exit(main())
