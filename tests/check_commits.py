#!/usr/bin/env python3
"""usage: check_commits.py ROOT

The subject of a commit is "scope: verb ...", of at most 60 characters, and its body says why (CONTRIBUTING.md: "Commits").
Looks at commits that came after this check; prints those that break the rule. Exit status 77 (skipped) where there is no
repository, or no history."""
import re
import subprocess
import sys

SINCE = '52525293ede7bd7364956cd4df076acffe7ef0cd'
SUBJECT = re.compile(r'[a-z0-9][\w./-]*(?:, [a-z0-9][\w./-]*)*: \S.*')


def git(*args):
    return subprocess.run(['git', '-C', sys.argv[1], *args], capture_output=True, text=True)


def wrong(subject, body):
    if len(subject) > 60:
        return f'{len(subject)} characters (at most 60)'
    if not SUBJECT.fullmatch(subject):
        return 'no "scope: words"'
    return '' if body.strip() else 'no body that says why'


try:
    known = git('merge-base', '--is-ancestor', SINCE, 'HEAD').returncode == 0
except OSError: # no git
    known = False
if not known:
    print('no history to look at')
    sys.exit(77)
bad = 0
for entry in git('log', '--no-merges', '--format=%h%x00%s%x00%b%x01', f'{SINCE}..HEAD').stdout.split('\x01'):
    if entry.strip():
        commit, subject, body = entry.strip('\n').split('\0')
        why = wrong(subject, body)
        bad += bool(why)
        if why:
            print(f'{commit} {subject}: {why}')
sys.exit(bad != 0)
