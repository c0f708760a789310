"""Two machines in one: network namespaces with host names of their own, joined by two links. All that runs in them ends with the first
process in them, whatever ends it, and the kernel takes the namespaces down: nothing stays behind."""
import os
import shutil
import subprocess
import sys

from job import bad, expect

NEAR, FAR = 'pg-near', 'pg-far'
WIRES = ('10.97.0', '10.98.0')  # of mpirun, of the ranks


def skip(why):
    print(why)
    sys.exit(1 if bad else 77)


def sh(*words):
    return subprocess.run(words, capture_output=True, text=True)


def go_inside():
    """Namespaces of its own for network, mounts and processes; the end of this process is the end of all in them."""
    own = ['unshare', *([] if os.geteuid() == 0 else ['--user', '--map-root-user']), '--mount', '--net', '--pid', '--fork', '--kill-child',
           '--mount-proc']
    if not all(map(shutil.which, ('unshare', 'ip', 'tc'))) or sh(*own, 'true').returncode:
        skip('no namespaces here')
    os.execvp(own[0], [*own, sys.executable, *sys.argv, '--inside'])


def end_of(space, k):
    return f'{space}{k}'


def lay_links():
    if sh('mount', '-t', 'tmpfs', 'none', '/run').returncode or any(sh('ip', 'netns', 'add', s).returncode for s in (NEAR, FAR)):
        skip('no namespaces here')
    for k, net in enumerate(WIRES):
        if sh('ip', 'link', 'add', end_of(NEAR, k), 'netns', NEAR, 'type', 'veth', 'peer', 'name', end_of(FAR, k), 'netns', FAR).returncode:
            skip('no links between namespaces here')
        for n, space in enumerate((NEAR, FAR), 1):
            for words in (('link', 'set', 'lo', 'up'), ('addr', 'add', f'{net}.{n}/24', 'dev', end_of(space, k))):
                expect('a namespace', sh('ip', '-n', space, *words).returncode == 0)


def set_links(*states):
    for k, state in enumerate(states):
        for space in (NEAR, FAR):
            expect('a link', sh('ip', '-n', space, 'link', 'set', end_of(space, k), state).returncode == 0)


def reset_links():
    set_links('down', 'down')  # which forgets addresses
    set_links('up', 'up')


def mislead(wire):
    """A link that is up, and loses all that is sent: each side has a wrong address of the other."""
    for n, space in ((2, NEAR), (1, FAR)):
        words = ('neigh', 'replace', f'{WIRES[wire]}.{n}', 'lladdr', '02:00:00:00:00:99', 'dev', end_of(space, wire), 'nud', 'permanent')
        expect('a link that loses', sh('ip', '-n', space, *words).returncode == 0)


def slow_down(wire, rate):
    for space in (NEAR, FAR):
        r = sh('tc', '-n', space, 'qdisc', 'replace', 'dev', end_of(space, wire), 'root', 'tbf', 'rate', rate, 'burst', '256kb', 'latency', '50ms')
        if r.returncode:
            skip(f'no slow links here: {r.stderr}')


def script(path, text, space):
    side = 'exec ip netns exec %s unshare --uts sh -c \'hostname %s; exec "$@"\' sh'
    path.write_text('#!/bin/sh\n' + text % (side % (space, space)))
    path.chmod(0o755)
    return path


def beside(folder, mpirun):
    """How Open MPI starts two ranks on one side."""
    return [script(folder / 'near.sh', '%s "$@"\n', NEAR), mpirun, '--bind-to', 'none', '-np', '2']


def two(folder, mpirun, wire):
    """How Open MPI starts a rank on each side; they talk over that wire, mpirun over the first."""
    agent, near = script(folder / 'agent.sh', 'shift\n%s sh -c "$*"\n', FAR), script(folder / 'near.sh', '%s "$@"\n', NEAR)
    return [near, mpirun, '--bind-to', 'none', '--leave-session-attached', '--mca', 'plm_rsh_agent', agent, '--mca', 'btl', 'tcp,self', '--mca',
            'btl_tcp_if_include', WIRES[wire] + '.0/24', '--mca', 'oob_tcp_if_include', WIRES[0] + '.0/24', '--host',
            f'{WIRES[0]}.1:1,{WIRES[0]}.2:1', '-np', '2']
