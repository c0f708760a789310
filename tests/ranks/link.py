#!/usr/bin/env python3
"""usage: link.py --tools DIR [--rate 1gbit] [--delay 1ms]

Two ranks as two machines: each in a network namespace with a host name of its own, joined by a link that tc slows down. The numbers
are those of one process. Needs root, ip and tc, Open MPI; exit status 77 where there is one missing."""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ap = argparse.ArgumentParser()
ap.add_argument('--tools', required=True, type=pathlib.Path)
ap.add_argument('--rate', default='1gbit')
ap.add_argument('--delay', default='1ms')
a = ap.parse_args()
tools = a.tools.resolve()
mpirun = shutil.which('mpirun.openmpi')
plugin = tools.parent / 'libpg/comm/pg-mpi-openmpi.so'
A, B = 'pg-a-%d' % os.getpid(), 'pg-b-%d' % os.getpid()
bad = []


def sh(*words):
    return subprocess.run(words, capture_output=True, text=True)


def expect(what, ok, text=''):
    if not ok:
        bad.append(what)
        print(f'FAIL {what}: {text}', flush=True)


def join():
    """Two namespaces and the link between them; False where that is not allowed."""
    link = 'pg%d' % (os.getpid() % 100000)
    for words in (('ip', 'netns', 'add', A), ('ip', 'netns', 'add', B),
                  ('ip', 'link', 'add', link + 'a', 'netns', A, 'type', 'veth', 'peer', 'name', link + 'b', 'netns', B)):
        if sh(*words).returncode:
            return None
    for space, end, address in ((A, link + 'a', '10.97.0.1/24'), (B, link + 'b', '10.97.0.2/24')):
        for words in (('link', 'set', 'lo', 'up'), ('addr', 'add', address, 'dev', end), ('link', 'set', end, 'up')):
            expect('a namespace', sh('ip', '-n', space, *words).returncode == 0)
        begin = ('tc', '-n', space, 'qdisc', 'add', 'dev', end, 'root')
        if sh(*begin, 'netem', 'rate', a.rate, 'delay', a.delay).returncode:  # a kernel without it can be slow, but not far away
            print('no netem: a rate without a delay')
            if sh(*begin, 'tbf', 'rate', a.rate, 'burst', '256kb', 'latency', '50ms').returncode:
                return None
    return link + 'b'


def start(folder, *words):
    agent = folder / 'agent.sh'
    agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {B} unshare --uts sh -c "hostname pg-far; $*"\n')
    agent.chmod(0o755)
    argv = ['ip', 'netns', 'exec', A, mpirun, '--allow-run-as-root', '--bind-to', 'none', '--mca', 'plm_rsh_agent', agent, '--mca', 'btl',
            'tcp,self', '--mca', 'btl_tcp_if_include', '10.97.0.0/24', '--mca', 'oob_tcp_if_include', '10.97.0.0/24', '--host',
            '10.97.0.1:1,10.97.0.2:1', '-np', '2', tools / 'pgfit', '--demo', 'digits', '--seed', '3', '--deterministic', '-j', '1', '-q',
            '--force', '--batch-size', '32', '-o', folder / 'out.weights.h5', *words]
    return subprocess.Popen(list(map(str, argv)), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(p, seconds):
    try:
        return p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, err = p.communicate()
        return out, 'HANG\n' + err


def main(folder):
    end = join()
    if not end or not mpirun or not plugin.exists():
        print('no network namespaces, tc or Open MPI here')
        return 77
    want = folder / 'alone'
    want.mkdir()
    r = sh(str(tools / 'pgfit'), '--demo', 'digits', '--seed', '3', '--deterministic', '-q', '--force', '--batch-size', '32', '--epochs', '3',
           '-o', str(want / 'out.weights.h5'))
    expect('one process', r.returncode == 0, r.stderr)
    here = folder / 'slow'
    here.mkdir()
    began = time.monotonic()
    p = start(here, '--epochs', '3', '--comm-timeout', '10')
    out, err = finish(p, 120)
    expect('a slow link', p.returncode == 0, err[-2000:])
    r = sh(str(tools / 'pgdiff'), str(here / 'out.weights.h5'), str(want / 'out.weights.h5'))
    expect('the bits of one process', r.returncode == 0, r.stdout[-500:] + r.stderr)
    print(f'{time.monotonic() - began:.1f} s')
    return bool(bad)


with tempfile.TemporaryDirectory() as d:
    try:
        status = main(pathlib.Path(d))
    finally:
        for space in (A, B):
            sh('ip', 'netns', 'del', space)
sys.exit(status)
