#!/usr/bin/env python3
"""usage: slurm.py --tools DIR [--only PART,PART]

Jobs of a real Slurm: a controller and four nodes on this machine, each with a name of its own where that is allowed, for this test alone.

  bits      srun, by every MPI that Slurm and libpg have: 2 and 4 tasks give the bytes of one process
  alone     srun without an MPI is told so, once; a batch script that calls pgfit itself is one process
  killed    a task that is killed: the others end with status 4 and name it and its node; the job goes on where it was
  cancelled scancel, which does what the end of a job's time does: the state is kept, and gone on with on more nodes
  requeued  a batch job that Slurm puts back into the queue goes on where it was

Exit status 77: there is no Slurm, nothing by which it could join processes, or this user may not run its daemons."""
import argparse
import contextlib
import ctypes
import functools
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import job
from job import expect, run, show

options = argparse.ArgumentParser()
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--only')
options = options.parse_args()
tools = options.tools.resolve()
pgfit = tools / 'pgfit'
compare = functools.partial(job.compare, tools)
N_NODES = 4
PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'scancel', 'scontrol', 'sinfo', 'squeue')
os.environ['PATH'] += ':/usr/sbin:/sbin'  # where daemons are, and users do not look
KEPT = ['--resume=auto', '--resume-every', '0.05']


def skip(why):
    print(why)
    sys.exit(77)


def free_ports(n):
    """Below those that systems give to whoever asks for any: no other test has one of them before the daemons do."""
    ports = []
    while len(ports) < n:
        port = random.randrange(15000, 32000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(('127.0.0.1', port))
            ports += [port] if port not in ports else []
    return ports


def children():
    return [int(x) for p in pathlib.Path('/proc/self/task').glob('*/children') for x in p.read_text().split()]


class Cluster:
    """Daemons of this process: what they start and leave behind becomes its child, and all end with it."""
    libc = ctypes.CDLL(None)
    daemons = ()

    def __init__(self, root):
        self.root = root
        self.libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        ports = free_ports(1 + N_NODES)
        self.own_names = os.geteuid() == 0 and subprocess.run(['unshare', '--uts', 'hostname', 'n0'], capture_output=True).returncode == 0
        here = socket.gethostname().split('.')[0]
        user = subprocess.run(['id', '-un'], capture_output=True, text=True).stdout.strip()
        key = root / 'munge.key'
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        conf = f'''ClusterName=pg
SlurmctldHost={here}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/%n/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
ReturnToService=2
KillWait=30
MpiDefault=none
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
'''
        for k in range(N_NODES):
            conf += f'NodeName=n{k} NodeHostname={here} NodeAddr=127.0.0.1 Port={ports[1 + k]} CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1\n'
        (root / 'state').mkdir()
        (root / 'slurm.conf').write_text(conf)
        job.ENV.update(SLURM_CONF=str(root / 'slurm.conf'), UCX_TLS='self,tcp')  # as between machines
        self.daemons = []
        self.start('munged', 'munged', '-F', f'--socket={root}/munge.socket', f'--key-file={key}', f'--log-file={root}/munged.log',
                   f'--pid-file={root}/munged.pid', f'--seed-file={root}/munged.seed')
        self.wait('munged', lambda: (root / 'munge.socket').exists())
        self.start('slurmctld', 'slurmctld', '-D', '-f', root / 'slurm.conf')
        for k in range(N_NODES):
            own = root / f'n{k}'
            (own / 'spool').mkdir(parents=True)
            shutil.copy(root / 'slurm.conf', own)
            # The folder's name is that of the job, the same on all nodes. The default, which takes turns of ring and tree, lets ranks out of
            # MPI_Init before others are ready: one job in 20 of a program that does nothing else dies in Open MPI (Slurm 22.05, Open MPI 4.1).
            (own / 'mpi.conf').write_text(f'PMIxCliTmpDirBase={own}\nPMIxCollFence=tree\n')
            command = ['slurmd', '-D', '-f', own / 'slurm.conf', '-N', f'n{k}']
            if self.own_names:
                command = ['unshare', '--uts', 'sh', '-c', 'hostname $0; exec "$@"', f'n{k}', *command]
            self.start(f'n{k}', *command)
        self.wait('four idle nodes', lambda: self.ask('sinfo', '-h', '-N', '-o', '%T').split() == ['idle'] * N_NODES)

    def start(self, name, *command):
        with open(self.root / f'{name}.out', 'w') as out:
            self.daemons.append(subprocess.Popen(list(map(str, command)), cwd=self.root, env=job.ENV, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                                 preexec_fn=lambda: self.libc.prctl(1, signal.SIGKILL, 0, 0, 0)))  # PR_SET_PDEATHSIG

    def wait(self, what, condition):
        end = time.monotonic() + 60
        while not condition():
            dead = [p for p in self.daemons if p.poll() is not None]
            if dead or time.monotonic() > end:
                for p in self.root.glob('*.out'):
                    print(f'{p.name}: {p.read_text()[-1500:]}')
                if dead and os.geteuid() != 0:
                    skip(f'{dead[0].args[0]} ends at once; root may run it')
                raise RuntimeError(f'{what}: none')
            time.sleep(0.1)

    def ask(self, *command):
        return subprocess.run(list(map(str, command)), env=job.ENV, capture_output=True, text=True, timeout=60).stdout

    def close(self):
        for p in self.daemons:
            p.kill()
            p.wait()
        end = time.monotonic() + 20
        while children() and time.monotonic() < end:  # steps of jobs, and what they started
            for pid in children():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def mpis():
    """How srun may join processes, where libpg has the plug-in for it."""
    found = cluster.ask('srun', '--mpi=list').split()
    return [how for how, mpi in (('pmix', 'openmpi'), ('pmi2', 'mpich'))
            if how in found and (tools.parent / 'libpg/comm' / f'pg-mpi-{mpi}.so').exists()]


def srun(n, how, *more):
    return ['srun', '-N', n, f'--mpi={how}', *more]


def demo(epochs):
    return [pgfit, '--demo', 'digits', '--seed', '3', '--deterministic', '--devices', 'cpu:0', '--batch-size', '256', '--csv', 'log.csv', '-q',
            '--epochs', epochs, '-o', 'out.weights.h5', '--force']


def want(epochs=None):
    return job.left_alone(root, *demo(epochs or EPOCHS))


def node_of(p, rank):
    """The name of the machine that a rank says it is on."""
    return (p.folder / f'host.{rank}').read_text().strip()


class Step(job.Job):
    """A job step of n tasks, by n nodes, whose ranks also leave behind where they are."""

    def __init__(self, n, how, folder, *command):
        super().__init__(srun(n, how), n, folder, 'sh', '-c', 'hostname >host.$SLURM_PROCID; exec "$@"', 'sh', *command)


def bits(folder):
    for how in joined:
        for n, more in ((2, ()), (4, ()), (2, ('-n', 4))):
            here = folder / f'{how}{n}{len(more)}'
            here.mkdir()
            r = run([*srun(n, how, *more), *(x for x in demo(3) if x != '-q')], here)
            ranks = more[1] if more else n
            expect(f'{how}, {ranks} on {n}', r.returncode == 0 and r.stdout.count(f'devices of {ranks} ranks') == 1, show(r))
            compare(f'{how}, {ranks} on {n}', here, want(3))


def alone(folder):
    r = run(['srun', '-N', 2, '-n', 4, '--mpi=none', *DEMO], folder)
    expect('no MPI', 'Exited with exit code 3' in r.stderr and len(job.said(r.stderr)) == 1 and '--mpi=pmix' in r.stderr, show(r))
    (folder / 'batch.sh').write_text('#!/bin/sh\nexec "$@"\n')
    r = run(['sbatch', '-W', '-N', 2, '-n', 4, '-o', 'batch.log', 'batch.sh', *(x for x in demo(3) if x != '-q')], folder)
    text = (folder / 'batch.log').read_text() if (folder / 'batch.log').exists() else ''
    expect('a batch script that calls pgfit', r.returncode == 0 and ' 1 device (' in text, show(r) + text)
    compare('a batch script that calls pgfit', folder, want(3))


def again(what, folder, n, how):
    r = run([*srun(n, how), *DEMO, *KEPT], folder)
    expect(f'{what}: it goes on', r.returncode == 0, show(r))
    compare(what, folder, want())


def killed(folder):
    for how, victim in zip(joined, (1, 0)):
        here = folder / how
        here.mkdir()
        j = Step(2, how, here, *DEMO, *KEPT, '--comm-timeout', 5)
        found = j.begun(3)
        if found:
            os.kill(found[victim], signal.SIGKILL)
        r = j.finish()
        other = 1 - victim
        text = f'{show(r)}\nstatus {j.status(other)}: {j.said(other)}'
        expect(f'{how}, killed', r.returncode not in (0, 'HANG') and j.status(other) == 4 and len(j.said(other)) == 1, text)
        expect(f'{how}, killed: it is named', all(f'rank {victim} on {node_of(j, victim)} ' in x for x in j.said(other)), text)
        expect(f'{how}, killed: there is something left to do', job.rows_of(here) < EPOCHS, text)
        again(f'{how}, killed', here, 2, how)


def cancelled(folder):
    for how in joined:
        here = folder / how
        here.mkdir()
        p = job.start([*srun(2, how), *DEMO, '--resume=auto'], here)  # no shell: it would be ended by the same signal
        step = job.until(f'{how}: a job', p, lambda: cluster.ask('squeue', '-h', '-t', 'R', '-o', '%i').split())
        job.until(f'{how}: epoch 3', p, lambda: job.rows_of(here) >= 3)
        for words in (['-s', 'TERM'], ['-s', 'TERM'], []):  # at the end of a job's time it comes several times
            subprocess.run(['scancel', *words, *step], env=job.ENV)
        r = job.finish(p, 60)
        said = job.said(r.stderr)
        expect(f'{how}, cancelled', r.returncode == 130 and 'Killed' not in r.stderr, show(r))
        expect(f'{how}, cancelled: one message', len(said) == 1 and 'saved resume.pg' in said[0], show(r))
        again(f'{how}, cancelled', here, 4, how)


def requeued(folder):
    how = joined[0]
    words = ' '.join(map(str, [*DEMO, '--resume=auto']))
    (folder / 'batch.sh').write_text(f'#!/bin/sh\n#SBATCH --nodes=2 --requeue --open-mode=append --output=batch.log\nexec srun --mpi={how} {words}\n')
    number = re.search(r'\d+', cluster.ask('sbatch', '-D', folder, folder / 'batch.sh')).group()
    state = lambda: re.search(r'JobState=(\w+)(?:.|\n)*Restarts=(\d+)', cluster.ask('scontrol', 'show', 'job', number)).groups()
    end = time.monotonic() + 90
    while job.rows_of(folder) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    cluster.ask('scontrol', 'requeue', number)
    while state() != ('COMPLETED', '1') and state()[0] != 'FAILED' and time.monotonic() < end:
        time.sleep(0.2)
    text = str(state()) + ((folder / 'batch.log').read_text() if (folder / 'batch.log').exists() else '')
    if expect('requeued', state() == ('COMPLETED', '1') and text.count('saved resume.pg') == 1, text):
        compare('requeued', folder, want())


missing = [x for x in PROGRAMS if not shutil.which(x)]
if missing:
    skip(f'no {", ".join(missing)}')
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # daemons end then, too
cluster = Cluster.__new__(Cluster)
with tempfile.TemporaryDirectory() as root:
    root = pathlib.Path(root)
    root.chmod(0o755)  # munged wants to be found
    try:
        cluster.__init__(root)
        EPOCHS = 20 if cluster.own_names else 150  # which takes MPI about as long through memory
        DEMO = demo(EPOCHS)
        joined = mpis()
        if not joined:
            skip('no --mpi=pmix or --mpi=pmi2 of srun with a plug-in for it')
        for part in (bits, alone, killed, cancelled, requeued):
            if options.only and part.__name__ not in options.only.split(','):
                continue
            folder = root / part.__name__
            folder.mkdir()
            began = time.monotonic()
            part(folder)
            print(f'{part.__name__}: {time.monotonic() - began:.1f} s', flush=True)
        print(f'by {", ".join(joined)}; nodes {"with names of their own" if cluster.own_names else "that share a name"}')
    finally:
        cluster.close()
sys.exit(bool(job.bad))
