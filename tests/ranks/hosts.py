#!/usr/bin/env python3
"""usage: hosts.py --tools DIR

pgfit --hosts: what it asks mpirun for, in the words of either MPI; lists that are none, no mpirun; and a run of two processes on this host by
each mpirun that is here and has a plug-in."""
import argparse
import contextlib
import os
import pathlib
import pty
import shlex
import shutil
import subprocess
import sys
import tempfile

import job
from job import bad, expect, said, show

options = argparse.ArgumentParser()
options.add_argument('--tools', required=True, type=pathlib.Path)
tools = options.parse_args().tools.resolve()
pgfit = str(tools / 'pgfit')
VERSIONS = {'openmpi': ('mpirun (Open MPI) 4.1.4', 'mpirun (OpenRTE) 2.1.1', 'prterun (PRRTE) 3.0.2'),
            'mpich': ('HYDRA build details:\\n    Version: 4.0.2', 'Intel(R) MPI Library for Linux* OS, Version 2021.8')}
ROOT = ['--allow-run-as-root'] if os.geteuid() == 0 else []


def script(path, text):
    path.write_text('#!/bin/sh\n' + text)
    path.chmod(0o755)


def fake(folder, version, status=0):
    """An mpirun that tells what it is asked for, an argument per line."""
    script(folder / 'mpirun', f'[ "$*" = --version ] && {{ printf "{version}\\n"; exit 0; }}\nprintf "%s\\n" "$@" >asked\nexit {status}\n')


def call(folder, *arguments, path=None, more=()):
    env = {**job.ENV, 'PATH': f'{folder}:{os.environ["PATH"]}' if path is None else path, **dict(more)}
    (folder / 'asked').unlink(missing_ok=True)
    r = subprocess.run([pgfit, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    asked = (folder / 'asked').read_text().splitlines() if (folder / 'asked').exists() else None
    return r, asked


def words_of(kind, hosts, n):
    return [*ROOT, '--bind-to', 'none', '--host', hosts, '-np', str(n)] if kind == 'openmpi' else ['-hosts', hosts, '-np', str(n)]


def asks(folder):
    rest = ['--demo', 'digits', '-o', 'a file.h5']
    for kind, version in [(k, v) for k, texts in VERSIONS.items() for v in texts]:
        fake(folder, version, 7)
        for hosts, n in (('a:2,b:2', 4), ('a,b:3', 4), ('node-1.example:4096', 4096), ('localhost', 1)):
            want = [*words_of(kind, hosts, n), pgfit, *rest]
            for given in (['--hosts', hosts, *rest], [*rest, f'--hosts={hosts}']):
                r, asked = call(folder, *given)
                expect(f'{version}: {given}', asked == want and r.returncode == 7, f'{asked} instead of {want}\n{show(r)}')
                shown = r.stderr.splitlines()
                expect(f'{version}: the command is shown', len(shown) == 1 and shown[0].startswith('mpirun ') and f' {hosts} ' in shown[0], r.stderr)
    r, asked = call(folder, '--hosts', 'a:2', '-q', *rest)
    expect('-q is quiet', asked and r.stdout == r.stderr == '', show(r))
    (folder / 'c.json').write_text('{"hosts": "a:2,b:2"}')
    r, asked = call(folder, '--config', 'c.json', *rest)
    expect('hosts in a --config', asked == [*words_of('mpich', 'a:2,b:2', 4), pgfit, '--config', 'c.json', *rest], str(asked))
    for variable in ('OMPI_COMM_WORLD_RANK', 'PMI_RANK', 'PMIX_RANK'):
        r, asked = call(folder, '--hosts', 'a:2', '--demo', 'digits', '--dry-run', more={variable: '0'})
        expect(f'not once more where {variable} is set', asked is None and r.returncode == 0, show(r))


def refuses(folder):
    fake(folder, VERSIONS['openmpi'][0])
    for hosts in ('', ',', 'a,', ',a', 'a,,b', 'a:', ':2', 'a:0', 'a:-1', 'a:+2', 'a: 2', 'a:2x', 'a:2:3', 'a:4097', 'a:99999999999999999999', 'a:2 b:2', 'a b:2', '-a:2'):
        r, asked = call(folder, '--hosts', hosts, '--demo', 'digits')
        told = said(r.stderr)
        expect(f'--hosts "{hosts}"', asked is None and r.returncode == 2 and len(told) == 1 and '--hosts' in told[0], show(r))
    empty = folder / 'empty'
    empty.mkdir()
    script(empty / 'sh', f'exec {shutil.which("sh")} "$@"\n')
    for what, text in (('no mpirun', None), ('another mpirun', 'echo mpirun of nobody\n'), ('an mpirun that fails', 'exit 1\n')):
        if text:
            script(empty / 'mpirun', text)
        r, _ = call(folder, '--hosts', 'a:2', '--demo', 'digits', path=str(empty))
        expect(what, r.returncode == 3 and len(said(r.stderr)) == 1 and 'no mpirun' in r.stderr and 'try: ' in r.stderr, show(r))


BAR = '\x1b[K'


def on_terminal(folder):
    ours, theirs = pty.openpty()
    env = {**job.ENV, 'PATH': f'{folder}:{os.environ["PATH"]}', 'TERM': 'xterm'}
    p = subprocess.Popen([pgfit, '--hosts', 'localhost:2', '--demo', 'digits', '--epochs', '1', '--devices', 'cpu:0'], cwd=folder, env=env,
                         stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    out = b''
    with contextlib.suppress(OSError):  # so ends a terminal
        while more := os.read(ours, 65536):
            out += more
    os.close(ours)
    p.wait(120)
    return out.decode(errors='replace')


def runs(folder):
    n = 0
    for mpi in ('openmpi', 'mpich'):
        own, plugin = shutil.which(f'mpirun.{mpi}'), tools.parent / 'libpg/comm' / f'pg-mpi-{mpi}.so'
        if not own or not plugin.exists():
            continue
        n += 1
        script(folder / 'mpirun', f'exec {shlex.quote(own)} "$@"\n')
        r, _ = call(folder, '--hosts', 'localhost:2', '--demo', 'digits', '--epochs', '1', '--devices', 'cpu:0', '-o', f'{mpi}.keras', '--comm-timeout', '60',
                    more={'TERM': 'xterm'})
        expect(f'two processes by {mpi}', r.returncode == 0 and 'of 2 ranks' in r.stdout and (folder / f'{mpi}.keras').exists(), show(r))
        expect(f'{mpi}: lines in a pipe', BAR not in r.stdout, r.stdout)
        if mpi == 'openmpi':  # MPICH's mpirun makes a pipe of everything
            shown = on_terminal(folder)
            expect(f'{mpi}: a bar on a terminal', BAR in shown, shown)
        r, _ = call(folder, '--hosts', 'localhost:2', '--demo', 'digits', '-o', f'{mpi}.keras', '--comm-timeout', '60')
        expect(f'a refusal by {mpi}', r.returncode == 2 and len(said(r.stderr)) == 1, show(r))
    if n == 0:
        print('no mpirun with a plug-in: nothing was run by one')


for part in (asks, refuses, runs):
    with tempfile.TemporaryDirectory() as d:
        part(pathlib.Path(d))
sys.exit(bool(bad))
