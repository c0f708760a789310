#!/usr/bin/env python3
"""usage: link.py --tools DIR --moves PROGRAM [--only PART]

Two ranks as two machines: each in a network namespace with a host name of its own, joined by two links. mpirun talks to its daemon on
one of them, the ranks to each other on the one or the other.

  cut     no link in the middle: both ranks end with status 4 and name each other with their hosts, though mpirun may hear nothing of
          it; --resume=auto goes on to the bytes of an undisturbed run
  ranks   only what the ranks send to each other is lost: mpirun ends with that status too
  start   no link at the beginning, or none between the ranks: a message and a status, in time
  plan    --plan measures a link of 1 Gbit/s between the ranks, and what a message takes there
  moves   sums go on while no rank calls MPI, by a thread that there is not on one machine (moves.c)
  wide    training whose gradients take long on the link: the bits of two ranks on one machine; no link in the middle, or a rank that
          is killed: a message and a status, in time
  slow    the link comes down to 1 Gbit/s in the middle: the bits of one process (a delay asks for netem, which not every kernel has)

All of it runs in namespaces that the kernel takes down with the first process in them, whatever ends it: nothing stays behind. Root, or a user
who may have namespaces; ip, tc, Open MPI. Exit status 77 where one is missing."""
import argparse
import json
import os
import pathlib
import signal
import struct
import sys
import tempfile
import time

import job
import wires
from job import expect, show, until
from wires import FAR, NEAR, mislead, reset_links, set_links

options = argparse.ArgumentParser()
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--moves', required=True, type=pathlib.Path)
options.add_argument('--only')
options.add_argument('--inside', action='store_true', help=argparse.SUPPRESS)
options = options.parse_args()
tools, moves_program = options.tools.resolve(), options.moves.resolve()
mpirun = job.mpirun_of('openmpi', tools)
TIMEOUT = 3  # seconds: --comm-timeout
MARGIN = 12
DAEMON_LOST = 256 - 61  # PMIX_ERR_LOST_CONNECTION: Open MPI itself ends a rank whose daemon has ended
ABORTED = 255  # ompi_rte_abort(-1): Open MPI ends a rank in the middle of whose message the other one has gone
WHOLE = [tools / 'pgfit', '--demo', 'digits', '--seed', '3', '--deterministic', '--batch-size', '256', '--epochs', '60', '-j', '1', '-q',
         '--csv', 'log.csv', '-o', 'out.weights.h5', '--force']
KEPT = ['--resume=auto', '--resume-every', '0.05', '--comm-timeout', TIMEOUT]


def two(folder, wire, *command):
    return job.Job(wires.two(folder, mpirun, wire), 2, folder, *command)


def compare(what, folder):
    job.compare(tools, what, folder, job.left_alone(root, *WHOLE))


def slow(folder):
    reset_links()
    j = two(folder, 1, *WHOLE, '--comm-timeout', 30)
    found = j.begun(2)
    wires.slow_down(1, '1gbit')
    r = j.finish()
    expect('a link that becomes slow', found and r.returncode == 0, show(r) + str([j.said(k) for k in (0, 1)]))
    compare('a link that becomes slow', folder)


def plan(folder):
    set_links('up', 'up')
    wires.slow_down(1, '1gbit')
    command = [tools / 'pgfit', '--demo', 'digits', '-j', '1', '--json', '--plan']
    for spec in 'cpus=1,hosts=2', 'link=measure':
        r = two(folder, 1, *command, spec).finish()
        lines = r.stdout.splitlines()
        if not expect(f'plan {spec}', r.returncode == 0 and len(lines) == 1, show(r)):
            continue
        d = json.loads(lines[0])
        print(f'a link of 1 Gbit/s: {d["link"] * 8e-9:.3f} Gbit/s, {d["latency"] * 1e6:.1f} us')
        expect(f'plan {spec}: measured', d['link_measured'] and not d['inner_measured'] and (d['hosts'], d['per_host']) == (2, 1), lines[0])
        # The link lets a burst through before it slows down, and a busy machine sends less; without a limit it is 10 times as fast.
        expect(f'plan {spec}: the rate', 0.1e9 < d['link'] * 8 < 3e9, lines[0])
        expect(f'plan {spec}: the latency', 1e-7 < d['latency'] < 0.01, lines[0])


def disturbed(what, folder, wire, cut_off, command=(*WHOLE, *KEPT)):
    set_links('up', 'up')
    j = two(folder, wire, *command)
    found = j.begun(2)
    expect(f'{what}: there are two', found, show(j.finish()) if not found else '')
    cut_off()
    began = time.monotonic()
    until(f'{what}: both ranks end', j.p, lambda: j.status(0) is not None and j.status(1) is not None, TIMEOUT + MARGIN)
    expect(f'{what}: in time', time.monotonic() - began < TIMEOUT + MARGIN)
    for k, other in ((0, f'rank 1 on {FAR} '), (1, f'rank 0 on {NEAR} ')):
        text = f'rank {k}: status {j.status(k)}: {j.said(k)}'
        # where mpirun hears of the first, it may end the other one
        expect(f'{what}: status', j.status(k) == 4 or (k == 1 and wire and j.status(0) == 4), text)
        expect(f'{what}: a message', all(other in x for x in j.said(k)) and len(j.said(k)) == (j.status(k) == 4), text)
    return j


def moves(folder):
    reset_links()
    wires.slow_down(1, '1gbit')
    r = two(folder, 1, moves_program, 'apart').finish()
    expect('sums go on between machines', r.returncode == 0, show(r) + str(two_said(folder)))
    r = job.Job(wires.beside(folder, mpirun), 2, folder, moves_program, 'here').finish()
    expect('and without a thread on one', r.returncode == 0, show(r) + str(two_said(folder)))


def array(path, kind, shape, values):
    text = "{'descr': '<%s', 'fortran_order': False, 'shape': %s}" % ({'f': 'f4', 'q': 'i8'}[kind], shape)
    text += ' ' * (-(len(text) + 11) % 64) + '\n'
    path.write_bytes(b'\x93NUMPY\1\0' + struct.pack('<H', len(text)) + text.encode() + struct.pack(f'<{len(values)}{kind}', *values))


def wide_run(folder):
    """4 million weights, and little to compute: a step is the exchange of its gradients."""
    n, width = 256, 2048
    layers = [('x', 'InputLayer', {'batch_input_shape': [None, 64], 'dtype': 'float32'})]
    layers += [(f'd{k}', 'Dense', {'units': units, 'activation': act, 'use_bias': True})
               for k, (units, act) in enumerate(((width, 'relu'), (width, 'relu'), (10, 'softmax')))]
    (folder / 'wide.json').write_text(json.dumps({'class_name': 'Sequential', 'config': {'name': 'wide', 'layers': [
        {'class_name': kind, 'config': {'name': name, **config}} for name, kind, config in layers]}}))
    array(folder / 'x.npy', 'f', (n, 64), [(i * 7919 % 1000) / 500 - 1 for i in range(n * 64)])
    array(folder / 'y.npy', 'q', (n,), [i * 31 % 10 for i in range(n)])
    return [tools / 'pgfit', folder / 'wide.json', '--data', f'{folder}/x.npy,{folder}/y.npy', '--loss', 'sparse_categorical_crossentropy',
            '--seed', '3', '--batch-size', '64', '-j', '1', '-q', '--csv', 'log.csv', '-o', 'out.weights.h5', '--force']


def wide(folder):
    command = wide_run(folder)
    here = folder / 'here'
    here.mkdir()
    r = job.run([*wires.beside(here, mpirun), *command, '--epochs', '3'], here)
    expect('wide gradients on one machine', r.returncode == 0, show(r))
    reset_links()
    wires.slow_down(1, '1gbit')
    r = two(folder, 1, *command, '--epochs', '3').finish()
    expect('wide gradients', r.returncode == 0, show(r) + str(two_said(folder)))
    job.compare(tools, 'wide gradients', folder, here)
    more = [*command, '--epochs', '1000', '--comm-timeout', TIMEOUT]
    (folder / 'log.csv').unlink()
    j = disturbed('wide gradients, no link', folder, 1, lambda: mislead(1), more)
    expect('wide gradients, no link: mpirun', j.finish(30).returncode == 4)
    reset_links()
    wires.slow_down(1, '1gbit')
    (folder / 'log.csv').unlink()
    j = two(folder, 1, *more)
    found = j.begun(2)
    if found:
        os.kill(found[1], signal.SIGKILL)
    r = j.finish(TIMEOUT + MARGIN)
    expect('wide gradients, a rank is killed', found and r.returncode not in (0, 'HANG'), show(r))
    words = two_said(folder)[0]
    sooner = j.status(0) in (None, DAEMON_LOST) or (j.status(0) == ABORTED and 'pml_ob1' in words)  # Open MPI, than libpg
    expect('wide gradients, a rank is killed: the other one', sooner or (j.status(0) == 4 and 'rank 1 on ' in str(j.said(0))),
           f'{j.status(0)} {words}\n{show(r)}')


def two_said(folder):
    return [(folder / f'err.{k}').read_text() for k in (0, 1)]


def gone_on(what, folder):
    reset_links()
    j = two(folder, 0, *WHOLE, *KEPT)
    until(f'{what}: both ranks end again', j.p, lambda: j.status(0) is not None and j.status(1) is not None, 90)
    r = j.finish(10)  # mpirun does not always notice the end of its daemon
    expect(f'{what}: it goes on', [j.status(0), j.status(1)] == [0, 0] and r.returncode in (0, 'HANG'), show(r) + str([(j.status(k), j.said(k)) for k in (0, 1)]))
    compare(what, folder)


def cut(folder):
    j = disturbed('no link', folder, 0, lambda: set_links('down', 'down'))
    j.finish(1)  # mpirun itself may still wait for its daemon
    gone_on('no link', folder)


def ranks(folder):
    j = disturbed('no link between the ranks', folder, 1, lambda: mislead(1))
    r = j.finish(30)
    expect('no link between the ranks: mpirun', r.returncode == 4, show(r))
    gone_on('no link between the ranks', folder)


def begin(folder):
    set_links('up', 'up')
    mislead(1)
    for what, state in {'a rank that is not there': 'up', 'a host that is not there': 'down'}.items():
        set_links(state, state)
        j = two(folder, 1, *WHOLE, *KEPT)
        r = j.finish(90)
        text = show(r) + str([(j.status(k), j.said(k)) for k in (0, 1)])
        expect(what, r.returncode not in (0, 'HANG') and (r.stderr.strip() or any(j.said(k) for k in (0, 1))), text)
        expect(f'{what}: nothing is written', not (folder / 'out.weights.h5').exists())


if not options.inside:
    wires.go_inside()
wires.lay_links()
with tempfile.TemporaryDirectory() as root:
    for name, part in {'cut': cut, 'ranks': ranks, 'start': begin, 'plan': plan, 'moves': moves, 'wide': wide, 'slow': slow}.items():
        if options.only and name != options.only:
            continue
        with tempfile.TemporaryDirectory(dir=root) as d:
            began = time.monotonic()
            part(pathlib.Path(d))
            print(f'{name}: {time.monotonic() - began:.1f} s', flush=True)
sys.exit(bool(job.bad))
