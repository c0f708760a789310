#!/usr/bin/env python3
"""usage: gpus.py --by openmpi|mpich|address --tools DIR --testdata DIR --golden FILE --plugin FILE [--only PART]

Several processes train on GPUs of plain C (tests/backend/cuda/host.h), whose sums go through memory that they share, named by
the id that goes over MPI, or over an address as torchrun gives it:

  golden   runs of real Keras by 2 ranks, a GPU each
  numbers  2 ranks of a GPU, 4 of one, 2 of two: what one process gives on as many GPUs, but for rounding
  bits     --deterministic: the same bytes
  traced   --profile=trace: one file with the steps of all ranks
  refused  what cannot be, is told once
  late     a rank that comes to a sum later than another one waits: the one that never came is named, not this one
  meeting  address only: who does not come, who is of another job, a port that is taken
  gone     address only: a rank that is killed, or hangs: the others end with status 4 and name it

Exit status 77: there is no such mpirun, or libpg has no plug-in for it."""
import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import traces

options = argparse.ArgumentParser()
options.add_argument('--by', required=True, choices=('openmpi', 'mpich', 'address'))
for name in ('--tools', '--testdata', '--golden', '--plugin'):
    options.add_argument(name, required=True, type=lambda p: pathlib.Path(p).resolve())
options.add_argument('--only')
options = options.parse_args()
tools, by_address = options.tools, options.by == 'address'
mpirun = None if by_address else shutil.which(f'mpirun.{options.by}') or shutil.which('mpirun')
if not by_address and not (mpirun and (tools.parent / 'libpg/comm' / f'pg-mpi-{options.by}.so').exists()):
    print(f'no mpirun of {options.by}, or no plug-in for it')
    sys.exit(77)
bad = []
ALONE = ('OMPI_', 'PMI_', 'PMIX_', 'HYDRA_', 'MPI_', 'SLURM_', 'FAKE_', 'TORCHELASTIC_')
ENV = {k: v for k, v in os.environ.items() if not k.startswith(ALONE) and k not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK')}
ENV.update(OMPI_MCA_rmaps_base_oversubscribe='1', OMPI_MCA_btl_base_warn_component_unused='0', OMPI_ALLOW_RUN_AS_ROOT='1',
           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_hwloc_base_binding_policy='none', OMPI_MCA_btl_vader_single_copy_mechanism='none',
           UCX_TLS='self,posix', PG_CUDA_PLUGIN=str(options.plugin), FAKE_CUDA_DEVICES='4', FAKE_CUDA_NAME='GPU of plain C', PG_BUCKET_BYTES='4000', PG_TUNE='1')


def expect(what, ok, text=''):
    if not ok:
        bad.append(what)
        print(f'FAIL {what}: {text}', flush=True)


def start(argv, folder, more):
    return subprocess.Popen(argv, cwd=folder, env={**ENV, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


class Job:
    """n processes of a command, each with its rank in the environment; of: more variables of a rank."""

    def __init__(self, n, command, folder, of=None, only=None):
        command = [str(x) for x in command]
        if not by_address:
            self.all = [start([mpirun, '-np', str(n), *command], folder, {})]
            return
        with socket.socket() as s:  # as torchrun's agent, whose store listens there
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        self.all = [start(command, folder, {'RANK': str(r), 'WORLD_SIZE': str(n), 'LOCAL_RANK': str(r), 'LOCAL_WORLD_SIZE': str(n),
                                            'MASTER_ADDR': 'localhost', 'MASTER_PORT': str(port), **(of(r) if of else {})})
                    for r in (range(n) if only is None else only)]

    def end(self, timeout=120):
        """Statuses, and all that was said."""
        out = []
        until = time.monotonic() + timeout
        for p in self.all:
            try:
                out.append(p.communicate(timeout=max(0.1, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                out.append((p.communicate()[0], 'HANG'))
        self.said = [err for _, err in out]
        self.status = [p.returncode for p in self.all]
        self.text = f'status {self.status}\n' + '\n'.join(o[-1500:] + e[-2500:] for o, e in out)
        return self

    def failed_once(self):
        """All end, none well, and one of them says why."""
        lines = [x for e in self.said for x in e.split('\n') if x.startswith('pgfit:')]
        return 0 not in self.status and not any('HANG' in e for e in self.said) and len(lines) == 1


def alone(*command, folder):
    r = subprocess.run([str(x) for x in command], cwd=folder, env=ENV, capture_output=True, text=True, timeout=120)
    expect('one process', r.returncode == 0, r.stdout[-500:] + r.stderr[-2000:])


def same(what, a, b, *how):
    r = subprocess.run([tools / 'pgdiff', *how, a, b], capture_output=True, text=True)
    expect(what, r.returncode == 0, r.stdout[-1500:] + r.stderr)


def two_each(folder, command):
    """The same command, by two ranks that have two GPUs each."""
    own = folder / 'two_each.sh'
    own.write_text('#!/bin/sh\ncase ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}} in 0) d=cuda:0,cuda:1 ;; *) d=cuda:3,cuda:2 ;; esac\n'
                   'exec "$@" --devices $d\n')
    own.chmod(0o755)
    return [own, *command]


def golden(folder):
    job = Job(2, [options.golden, options.testdata, 'gpus'], folder).end()
    expect('golden', set(job.status) == {0} and 'PASSED  ] 7 test' in job.text, job.text)


def fit(model, *how):
    """pgfit of a small model, from the same weights on."""
    folder = options.testdata / 'golden' / model
    return [tools / 'pgfit', folder / 'model.json', '--weights', folder / 'init_weights.h5', '--data', folder / 'data.npz', '--loss',
            'categorical_crossentropy', '--metrics', 'accuracy', '--optimizer', 'sgd:learning_rate=0.01', '--seed', '3', '--gpu-tune', '--force', '-q', *how]


def cases():
    few = ['--steps-per-epoch', '5']
    return {'mlp': fit('mlp_digits', *few, '--batch-size', '50'), 'a last batch of few rows': fit('mlp_digits', '--batch-size', '166'),
            'accumulated': fit('mlp_digits', *few, '--batch-size', '20', '--accumulate', '3'),
            'clipped': fit('mlp_digits', *few, '--batch-size', '50', '--optimizer', 'sgd:learning_rate=0.05,clipnorm=0.5'),
            'BatchNormalization': fit('cnn_bn', *few, '--batch-size', '45'),
            'BatchNormalization over all': fit('cnn_bn', *few, '--batch-size', '45', '--bn', 'sync'),
            'fewer rows than ranks': fit('cnn_bn', *few, '--batch-size', '3'),
            'by the hosts': fit('cnn_bn', *few, '--batch-size', '45', '--cpu-merge')}


def compare(folder, what, command, how, *delta):
    for n, layouts in ((2, {'2 x 1': (2, [*command, '--devices', 'auto'])}),
                       (4, {'4 x 1': (4, [*command, '--gpus', 'all']), '2 x 2': (2, two_each(folder, command))})):
        want, got = folder / f'want{n}.weights.h5', folder / 'got.weights.h5'
        alone(*command, '--gpus', n, '-o', want, *how, folder=folder)
        for name, (ranks, argv) in layouts.items():
            job = Job(ranks, [*argv, '-o', got, *how], folder).end()
            expect(f'{what}, {name}', set(job.status) == {0}, job.text)
            same(f'{what}, {name}', got, want, *delta)
            with contextlib.suppress(OSError):
                got.unlink()


def numbers(folder):
    for what, command in cases().items():
        compare(folder, what, command, [], '--delta', '1e-6')


def bits(folder):
    for what, command in cases().items():
        if what in ('mlp', 'a last batch of few rows', 'accumulated'):
            compare(folder, what + ', deterministic', command, ['--deterministic'])


def refused(folder):
    demo = fit('mlp_digits', '--comm-timeout', '5')
    rank = '${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}'
    own = folder / 'own.sh'
    for words, said in {'--devices cuda:1': 'have the same GPU',
                        f'--devices cuda:{rank} $([ {rank} = 1 ] && echo --cpu-merge)': 'differ in deterministic, cpu_merge or gpu_tune',
                        f'--devices cuda:$(( {rank} * 7 ))': 'cuda:7 does not exist',
                        f'--devices $([ {rank} = 1 ] && echo cuda:0 || echo ref:0)': 'cannot share a batch',
                        '--devices auto --deterministic --lanes 1': 'need at least as many lanes',
                        f'--devices auto $([ {rank} = 1 ] && echo --lossy)': 'unknown option --lossy',
                        f'--devices auto $([ {rank} = 0 ] && echo --config nowhere.json)': 'nowhere.json: No such file'}.items():
        if by_address and 'ref:0' in words:
            continue
        own.write_text(f'#!/bin/sh\nexec {" ".join(map(str, demo))} {words}\n')
        own.chmod(0o755)
        job = Job(2, [own], folder).end()
        expect(f'{words}: refused', job.failed_once() and said in job.text, job.text)
    if by_address:
        job = Job(2, [*demo, '--devices', 'cpu:0'], folder).end()
        expect('CPUs', job.failed_once() and 'on CPUs they are joined by MPI' in job.text, job.text)
    five = Job(5, [*demo, '--devices', 'auto'], folder).end()
    expect('more ranks than GPUs', five.failed_once() and '5 ranks on' in five.text, five.text)


def rank_0_at(port):
    """Where it listens: the first of the ports behind that nobody else has."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for k in range(1, 17):
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port + k), 1) as s:
                if s.recv(8) == b'pg-rank\0':
                    return '127.0.0.1', port + k
        time.sleep(0.01)
    raise TimeoutError('rank 0 does not listen')


def crowd(folder, demo):
    """Strangers who are connected to rank 0 and say nothing, or the half of a greeting, before rank 1 comes."""
    took = []
    for n in 0, 20:
        with contextlib.ExitStack() as strangers:
            with socket.socket() as s:
                s.bind(('127.0.0.1', 0))
                port = s.getsockname()[1]
            where = {'MASTER_PORT': str(port), 'MASTER_ADDR': '127.0.0.1'}
            first = Job(2, demo, folder, of=lambda r: where, only=(0,))
            at = rank_0_at(port) if n else None
            for k in range(n):
                strangers.enter_context(socket.create_connection(at, 1)).sendall(b'pg-rank\0' if k % 2 else b'')
            time.sleep(0.5)
            began = time.monotonic()
            second = Job(2, demo, folder, of=lambda r: where, only=(1,)).end(60)
            first.end(60)
            took.append(time.monotonic() - began)
            expect(f'{n} strangers', first.status + second.status == [0, 0], first.text + second.text)
    expect('strangers hold nobody up', took[1] < took[0] + 4, str(took))  # each may take two seconds to speak
    print(f'start with 0 and 20 strangers: {took[0]:.2f} and {took[1]:.2f} s')


def meeting(folder):
    demo = fit('mlp_digits', '--devices', 'auto', '--comm-timeout', '2', '--steps-per-epoch', '3')
    job = Job(3, demo, folder, only=(0, 2)).end(20)
    expect('a rank that never came', job.status == [4, 4] and 'of 3 ranks 2 came to localhost, not rank 1' in job.said[0], job.text)
    job = Job(2, demo, folder, only=(1,)).end(20)
    expect('no rank 0', job.status == [4] and 'rank 0 did not answer at localhost' in job.said[0], job.text)
    with socket.socket() as s:  # somebody is there, says nothing, and goes while the machine of rank 1 stands still
        s.bind(('127.0.0.1', 0))
        s.listen()
        s.settimeout(20)
        job = Job(2, demo, folder, of=lambda r: {'MASTER_PORT': str(s.getsockname()[1] - 1), 'MASTER_ADDR': '127.0.0.1'}, only=(1,))
        s.accept()[0].close()
    os.killpg(job.all[0].pid, signal.SIGSTOP)
    try:
        time.sleep(4)
    finally:
        os.killpg(job.all[0].pid, signal.SIGCONT)
    job.end(20)
    expect('no rank 0, stopped', job.status == [4] and 'rank 0 did not answer at 127.0.0.1' in job.said[0], job.text)
    job = Job(2, demo, folder, of=lambda r: {'TORCHELASTIC_RUN_ID': f'run{r}'}).end(20)
    expect('ranks of two jobs', job.status == [4, 4], job.text)
    job = Job(2, demo, folder, of=lambda r: {'MASTER_ADDR': 'no.such.host.invalid'}, only=(1,)).end(30)
    expect('no such host', job.status == [4], job.text)  # whether it does not exist may take the system long to say
    job = Job(2, demo, folder, of=lambda r: {'MASTER_PORT': 'x'}).end(20)
    expect('no port', job.status == [4, 4] and 'MASTER_PORT do not say' in job.text, job.text)
    with socket.socket() as s:  # somebody who speaks another version
        s.bind(('127.0.0.1', 0))
        s.listen()
        p = start([str(x) for x in demo], folder, {'RANK': '1', 'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1',
                                                    'MASTER_PORT': str(s.getsockname()[1] - 1)})
        c, _ = s.accept()
        c.sendall(struct.pack('8s4I', b'pg-rank', 99, 0, 0, 2))
        out, err = p.communicate(timeout=20)
        c.close()
        expect('another version', p.returncode == 4 and 'different versions of libpg' in err, err)
    # the port behind the agent's is taken by somebody who says nothing; and strangers come to ours
    demo[demo.index('2')] = '20'
    with socket.socket() as agent, socket.socket() as silent:
        for _ in range(20):
            with contextlib.suppress(OSError):
                agent.bind(('127.0.0.1', 0))
                silent.bind(('127.0.0.1', agent.getsockname()[1] + 1))
                break
        agent.listen(), silent.listen()
        port = agent.getsockname()[1]
        job = Job(2, demo, folder, of=lambda r: {'MASTER_PORT': str(port), 'MASTER_ADDR': '127.0.0.1'})
        for words in b'', b'GET / HTTP/1.0\r\n\r\n' * 3:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port + 2), 1) as stranger:
                    stranger.sendall(words)
                    break
                time.sleep(0.01)
        job.end(30)
        expect('a port that is taken, and strangers', job.status == [0, 0], job.text)
    crowd(folder, demo)
    if socket.has_ipv6:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as s:
            s.bind(('::1', 0))
            job = Job(2, demo, folder, of=lambda r: {'MASTER_ADDR': '::1'}).end(30)
            expect('IPv6', job.status == [0, 0], job.text)


def late(folder):
    """Rank 0 waits from the start, and longer than rank 1 does; rank 2 comes when the others have left."""
    own = folder / 'own.sh'
    own.write_text('#!/bin/sh\nr=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}\ncase $r in 1) export FAKE_CUDA_LATE=40,2 ;; '
                   '2) export FAKE_CUDA_LATE=40,14 ;; esac\n"$@" 2>err.$r\ns=$?\ncat err.$r >&2\nexit $s\n')
    own.chmod(0o755)
    job = Job(3, [own, *fit('mlp_digits', '--epochs', '1000', '--devices', 'auto', '--comm-timeout', '3')], folder).end(60)
    said = [[x for x in (folder / f'err.{r}').read_text().split('\n') if x.startswith('pgfit:')] for r in range(3)]
    expect('late: all end', 0 not in job.status and not any('HANG' in e for e in job.said), job.text)
    expect('late: somebody is told of', said[0] or said[1], job.text)
    expect('late: the one that did not come', all(f'rank 2 on {socket.gethostname()} did not come' in x for x in said[0] + said[1]), job.text)
    expect('late: it says so itself', all(f'this process (rank 2 on {socket.gethostname()}) did not respond' in x for x in said[2]), job.text)
    expect('late: nobody says more', all('others' not in x for x in said[0] + said[1]), job.text)
    if by_address:
        expect('late: statuses', job.status == [4, 4, 4] and [len(x) for x in said] == [1, 1, 1], job.text)


def gone(folder):
    for what, number, victim, timeout in (('killed', signal.SIGKILL, 1, 60), ('killed', signal.SIGKILL, 0, 60),
                                          ('killed', signal.SIGKILL, 2, 60), ('hangs', signal.SIGSTOP, 1, 2)):
        job = Job(3, fit('mlp_digits', '--epochs', '100000', '--devices', 'auto', '--csv', f'log{victim}.csv', '--comm-timeout', timeout), folder)
        log = folder / f'log{victim}.csv'
        until = time.monotonic() + 30
        while time.monotonic() < until and (not log.exists() or log.stat().st_size < 200):
            time.sleep(0.01)
        os.kill(job.all[victim].pid, number)
        began = time.monotonic()
        others = [p for k, p in enumerate(job.all) if k != victim]
        while any(p.poll() is None for p in others) and time.monotonic() < began + 30:
            time.sleep(0.01)
        took = time.monotonic() - began
        os.kill(job.all[victim].pid, signal.SIGKILL)
        job.end()
        kept = [k for k in range(3) if k != victim]
        expect(f'rank {victim} {what}', [job.status[k] for k in kept] == [4, 4] and all(f'rank {victim} on ' in job.said[k] for k in kept),
               job.text)
        expect(f'rank {victim} {what}: soon', took < 8, f'{took:.1f} s')  # a silent rank has a minute, or 2 s
        log.unlink()
    job = Job(2, fit('mlp_digits', '--epochs', '3', '--devices', 'auto'), folder,
              of=lambda r: {'FAKE_CUDA_FAIL_AT': '900+'} if r == 1 else {}).end()
    expect('a GPU that fails', job.status == [4, 5] and 'rank 1 on ' in job.said[0] and 'failure that was ordered' in job.said[1], job.text)


def traced(folder):
    """Each operation is waited for; the sum over GPUs is one event."""
    for name, n, command in (('2 x 2', 2, two_each(folder, fit('cnn_bn'))), ('by the hosts', 2, fit('cnn_bn', '--devices', 'auto', '--cpu-merge'))):
        job = Job(n, [*command, '--batch-size', '48', '--profile=trace'], folder).end()
        try:
            expect(f'{name}: a run', set(job.status) == {0}, job.text) and traces.judge(folder / 'trace.json', 3, 7, n)
        except traces.Bad as e:
            expect(f'{name}: the trace', False, str(e))


for part in (golden, numbers, bits, traced, refused, late, meeting, gone):
    if options.only and part.__name__ != options.only or (part in (meeting, gone) and not by_address):
        continue
    with tempfile.TemporaryDirectory() as d:
        began = time.monotonic()
        part(pathlib.Path(d))
        print(f'{part.__name__}: {time.monotonic() - began:.1f} s', flush=True)
sys.exit(bool(bad))
