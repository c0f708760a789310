#!/usr/bin/env python3
"""usage: run.py --mpi openmpi|mpich --tools DIR --testdata DIR --golden FILE --moves FILE [--only PART]

Several processes train together, started by a real mpirun:

  golden   runs of real Keras, by 2 and 4 ranks, as one device or as its replicas
  apart    a host name for each rank: a thread moves sums while nobody calls MPI, and on one host there is none (moves.c); golden runs
  bits     --deterministic: 1 rank of 4 devices, 2 of 2, 4 of 1, and one process: the same bytes
  normal   the same without --deterministic: what one process of as many devices gives, but for rounding
  files    only rank 0 writes, and once; --predict and --evaluate give what one process gives
  shards   --shard-optimizer: the same files, also of what is written meanwhile and of runs that go on
  memory   the forecast against what two ranks take while they train
  plan     --plan: what a message costs is found between the ranks, then rank 0 goes on alone
  refused  another model, other data, other options on a rank: all end, one message, nothing written
  without  the plug-in is missing: one process says so
  kill     a rank that is killed: the others end with status 4 and name it; the run goes on where it was

Exit status 77: there is no such mpirun, or libpg has no plug-in for it."""
import argparse
import functools
import json
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
import zipfile

import job
from job import bad, expect, processes, run, show, start

options = argparse.ArgumentParser()
options.add_argument('--mpi', required=True, choices=('openmpi', 'mpich'))
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--testdata', required=True, type=pathlib.Path)
options.add_argument('--golden', required=True, type=pathlib.Path)
options.add_argument('--moves', required=True, type=pathlib.Path)
options.add_argument('--only')
options.add_argument('--less', action='store_true', help='a third of the cases where there are many')
options.add_argument('--kills', type=int, default=10)
options.add_argument('--seed', type=int, default=random.randrange(1 << 30))
options = options.parse_args()
tools, testdata = options.tools.resolve(), options.testdata.resolve()
mpirun = job.mpirun_of(options.mpi, tools)
same = functools.partial(job.same, tools)
dice = random.Random(options.seed)
print(f'seed {options.seed}')


def ranks(n, *command):
    return [mpirun, '-np', str(n), *map(str, command)]


def golden(folder):
    for n in (2, 4):
        for how in ((), ('deterministic',)):
            r = run(ranks(n, options.golden.resolve(), testdata, *how), folder)
            expect(f'golden by {n} ranks {" ".join(how)}', r.returncode == 0 and f'PASSED  ] 7 test' in r.stderr + r.stdout, show(r))


def apart(folder):
    names = ['unshare', '--uts', *([] if os.geteuid() == 0 else ['--user', '--map-root-user'])]
    moves = options.moves.resolve()
    r = run(ranks(2, moves, 'here'), folder)
    expect('sums on one host', r.returncode == 0, show(r))
    if run([*names, 'hostname', 'host'], folder).returncode:
        print('no host names of their own here')
        return
    own = folder / 'own.sh'
    own.write_text(f'#!/bin/sh\nexec {" ".join(names)} sh -c \'hostname host-{job.RANK}; exec "$@"\' sh "$@"\n')
    own.chmod(0o755)
    for n in (2, 3, 4):
        r = run(ranks(n, own, moves, 'apart'), folder)
        expect(f'sums of {n} hosts', r.returncode == 0, show(r))
    r = run(ranks(2, own, options.golden.resolve(), testdata), folder)
    expect('golden by 2 hosts', r.returncode == 0 and 'PASSED  ] 7 test' in r.stderr + r.stdout, show(r))


CNN = {'class_name': 'Sequential', 'config': {'name': 'cnn', 'layers': [
    {'class_name': 'InputLayer', 'config': {'name': 'in', 'batch_input_shape': [None, 8, 8, 1], 'dtype': 'float32'}},
    {'class_name': 'Conv2D', 'config': {'name': 'conv', 'filters': 8, 'kernel_size': [3, 3], 'strides': [2, 2], 'padding': 'same'}},
    {'class_name': 'BatchNormalization', 'config': {'name': 'bn', 'axis': [3]}},
    {'class_name': 'Activation', 'config': {'name': 'relu', 'activation': 'relu'}},
    {'class_name': 'Dropout', 'config': {'name': 'drop', 'rate': 0.25}},
    {'class_name': 'GlobalAveragePooling2D', 'config': {'name': 'mean'}},
    {'class_name': 'Dense', 'config': {'name': 'hidden', 'units': 12, 'activation': 'tanh', 'activity_regularizer':
                                        {'class_name': 'L2', 'config': {'l2': 0.01}}}},
    {'class_name': 'Dense', 'config': {'name': 'out', 'units': 10, 'activation': 'softmax'}}]},
    'keras_version': '2.15.0', 'backend': 'tensorflow'}
LOSS = ('--loss', 'sparse_categorical_crossentropy', '--metrics', 'accuracy')


def cases(folder, *optimizer):
    """Name, options: of models and ways to train where ranks could differ."""
    (folder / 'cnn.json').write_text(json.dumps(CNN))
    digits = tools / 'digits'
    data = next(digits.glob('*.npz'))
    cnn = [tools / 'pgfit', folder / 'cnn.json', '--data', data, '--epochs', '1', '--seed', '3', '-j', '4', '--force', *LOSS, *optimizer]
    demo = [tools / 'pgfit', '--demo', 'digits', '--epochs', '2', '--seed', '3', '-j', '4', '--force', *optimizer]
    return {'mlp': demo + ['--batch-size', '50'], 'an uneven last batch': demo + ['--batch-size', '37'],
            'accumulated': demo + ['--batch-size', '20', '--accumulate', '3'],
            'clipped': demo + ['--batch-size', '50', '--optimizer', 'sgd:learning_rate=0.05,clipnorm=0.5'],
            'BatchNormalization and Dropout': cnn + ['--batch-size', '44'],
            'fewer rows than ranks': cnn + ['--batch-size', '3', '--steps-per-epoch', '4']}


def some(cases):
    return list(cases.items())[::3 if options.less else 1]


def bits(folder):
    for name, command in some(cases(folder, '--optimizer', 'adam')):
        want = folder / 'want.weights.h5'
        r = run(command + ['--deterministic', '--devices', 'cpu:0', '-o', want, '--csv', 'log0.csv'], folder)
        expect(f'{name}: one process', r.returncode == 0, show(r))
        for n, devices in ((1, 'cpu:0,cpu:0,cpu:0,cpu:0'), (2, 'cpu:0,cpu:0'), (4, 'cpu:0')):
            got = folder / f'got{n}.weights.h5'
            r = run(ranks(n, *command, '--deterministic', '--devices', devices, '-o', got, '--csv', f'log{n}.csv'), folder)
            expect(f'{name}: {n} ranks', r.returncode == 0, show(r))
            same(f'{name}: {n} ranks, bits', got, want)
        logs = {(folder / f'log{n}.csv').read_bytes() for n in (0, 1, 2, 4)}
        expect(f'{name}: logs', len(logs) == 1, str(logs))


def normal(folder):
    # a few steps: what lies near a kink of ReLU is not the same after many, and Adam makes steps out of rounding
    for name, command in some(cases(folder, '--optimizer', 'sgd:learning_rate=0.01')):
        command += ['--epochs', '1', *(() if '--steps-per-epoch' in command else ('--steps-per-epoch', '10'))]
        want, got = folder / 'want.weights.h5', folder / 'got.weights.h5'
        r = run(command + ['--devices', 'cpu:0,cpu:0,cpu:0,cpu:0', '-o', want], folder)
        expect(f'{name}: one process', r.returncode == 0, show(r))
        for n, devices in ((2, 'cpu:0,cpu:0'), (4, 'cpu:0'), (3, 'cpu:0')):
            r = run(ranks(n, *command, '--devices', devices, '-o', got), folder)
            expect(f'{name}: {n} ranks', r.returncode == 0, show(r))
            if n != 3:  # another number of replicas is another result
                same(f'{name}: {n} ranks, but for rounding', got, want, '--delta', '1e-6')


def files(folder):
    (folder / 'x').mkdir()
    command = [tools / 'pgfit', '--demo', 'digits', '--epochs', '2', '--seed', '3', '--devices', 'cpu:0', '-j', '4', '--force', '--checkpoint', 'x/{epoch}.keras', '--csv', 'x/log.csv', '--tensorboard', 'x/logs', '-o', 'x/out.keras']
    r = run(ranks(2, *command), folder)
    expect('a run with files', r.returncode == 0 and r.stdout.count('Epoch 1/2') <= 1, show(r))
    expect('one start is told', len(re.findall(r'2 devices of 2 ranks', r.stdout)) == 1, show(r))
    names = sorted(p.name for p in (folder / 'x').iterdir())
    expect('files of rank 0', names == ['1.keras', '2.keras', 'best', 'last', 'log.csv', 'logs', 'out.keras', 'resume.pg', 'resume.pg.1'], str(names))
    expect('one event file each', all(len(list(d.iterdir())) == 1 for d in (folder / 'x/logs').iterdir()), '')
    data = next((tools / 'digits').glob('*.npz'))
    for n in (1, 2, 3):
        r = run(ranks(n, tools / 'pgfit', 'x/out.keras', '--predict', data, '--out', f'y{n}.npy', '-f', '--batch-size', '50'), folder)
        expect(f'predictions by {n}', r.returncode == 0, show(r))
    expect('predictions', len({(folder / f'y{n}.npy').read_bytes() for n in (1, 2, 3)}) == 1, 'differ')
    said = [run(ranks(n, tools / 'pgfit', 'x/out.keras', '--data', data, '--evaluate', '--json'), folder) for n in (1, 2)]
    expect('evaluation', all(r.returncode == 0 for r in said) and said[0].stdout.count('\n') == said[1].stdout.count('\n'), show(said[1]))


SMALL = {'class_name': 'Sequential', 'config': {'name': 'small', 'layers': [
    {'class_name': 'InputLayer', 'config': {'name': 'in', 'batch_input_shape': [None, 8, 8, 1], 'dtype': 'float32'}},
    {'class_name': 'Flatten', 'config': {'name': 'flat'}},
    {'class_name': 'Dense', 'config': {'name': 'hidden', 'units': 37, 'activation': 'relu', 'kernel_regularizer':
                                        {'class_name': 'L2', 'config': {'l2': 0.01}},
                                        'bias_constraint': {'class_name': 'NonNeg', 'config': {}}}},
    {'class_name': 'Dense', 'config': {'name': 'out', 'units': 10, 'activation': 'softmax'}}]},
    'keras_version': '2.15.0', 'backend': 'tensorflow'}


def shards(folder):
    (folder / 'small.json').write_text(json.dumps(SMALL))
    data = next((tools / 'digits').glob('*.npz'))
    plain = [tools / 'pgfit', '--demo', 'digits', '--epochs', '2', '--seed', '3', '-j', '4', '--force', '-q', '--full-model']
    small = [tools / 'pgfit', folder / 'small.json', '--data', data, *LOSS, '--epochs', '2', '--seed', '3', '-j', '4', '--force', '-q',
             '--full-model']
    ways = {'Adam': plain + ['--batch-size', '50', '--optimizer', 'adam'],
            'Adagrad, whose state begins with 0.1': plain + ['--batch-size', '37', '--optimizer', 'adagrad'],
            'averages of the weights': plain + ['--batch-size', '50', '--optimizer', 'sgd:momentum=0.9,use_ema=1'],
            'clipping': plain + ['--batch-size', '50', '--optimizer', 'adam:global_clipnorm=0.5'],
            'regularizers and constraints': small + ['--batch-size', '50', '--optimizer', 'adam'],
            'fewer rows than ranks': small + ['--batch-size', '3', '--steps-per-epoch', '4', '--optimizer', 'adam']}
    want, got = folder / 'want.h5', folder / 'got.h5'
    for name, command in some(ways):
        r = run(command + ['--deterministic', '--devices', 'cpu:0', '-o', want], folder)
        expect(f'{name}: one process', r.returncode == 0, show(r))
        for n in (2, 4) if name == 'Adam' else (4,):
            r = run(ranks(n, *command, '--deterministic', '--devices', 'cpu:0', '--shard-optimizer', '-o', got), folder)
            expect(f'{name}: {n} shards', r.returncode == 0, show(r))
            expect(f'{name}: {n} shards, every byte', got.read_bytes() == want.read_bytes(), 'another file')
    # three ranks, sums in MPI's order; SGD, since Adam makes steps out of rounding
    for name in ('averages of the weights', 'regularizers and constraints', 'fewer rows than ranks'):
        command = ways[name] + ['--epochs', '1', '--optimizer', 'sgd:momentum=0.9', '--devices', 'cpu:0']
        for to, how in ((want, ()), (got, ('--shard-optimizer',))):
            r = run(ranks(3, *command, *how, '-o', to), folder)
            expect(f'{name}: 3 ranks {" ".join(how)}', r.returncode == 0, show(r))
        same(f'{name}: 3 shards, but for rounding', got, want, '--delta', '1e-6')
    # a folder stands where the second checkpoint should go: what is trained is written all the same
    (folder / 'd/2.h5').mkdir(parents=True)
    r = run(ranks(2, *ways['Adam'], '--deterministic', '--devices', 'cpu:0', '--shard-optimizer', '-o', 'kept.h5', '--checkpoint', 'd/{epoch}.h5'),
            folder)
    said = [x for x in r.stderr.split('\n') if x.startswith('pgfit:')]
    expect('a checkpoint that could not be written', r.returncode not in (0, 'HANG') and len(said) == 1 and '2.h5' in said[0], show(r))
    run(ways['Adam'] + ['--deterministic', '--devices', 'cpu:0', '-o', want], folder)
    expect('-o all the same', (folder / 'kept.h5').exists() and (folder / 'kept.h5').read_bytes() == want.read_bytes(), show(r))
    # what is written while it trains, and a run that goes on with other shards
    command = ways['Adam'] + ['--deterministic', '--devices', 'cpu:0', '--checkpoint', 'c/{epoch}.h5', '--verify', 'all',
                              '--resume-every', '0.01']
    whole, parts = folder / 'whole', folder / 'parts'
    whole.mkdir(), parts.mkdir()
    r = run(command + ['--epochs', '4', '-o', 'out.h5'], whole)
    expect('checkpoints of one process', r.returncode == 0, show(r))
    for n, epochs, more in ((4, 2, ()), (2, 3, ('--resume=c/resume.pg',)), (1, 4, ('--resume=c/resume.pg',))):
        r = run(ranks(n, *command, '--shard-optimizer', '--epochs', epochs, '-o', 'out.h5', *more), parts)
        expect(f'to epoch {epochs} by {n} ranks', r.returncode == 0, show(r))
    for name in ('c/1.h5', 'c/2.h5', 'c/3.h5', 'c/4.h5', 'out.h5'):
        expect(f'{name}: every byte', (whole / name).read_bytes() == (parts / name).read_bytes(), 'another file')
    r = run(ranks(4, *ways['Adam'], '--dry-run', '--json', '--shard-optimizer', '-o', got), folder)
    plan = json.loads(r.stdout) if r.returncode == 0 else {}
    expect('the forecast', plan.get('optimizer_elsewhere', 0) >= 2.9 * plan.get('optimizer', 1), show(r))
    expect('its files are whole', plan.get('checkpoint_full', 0) == 3 * plan.get('checkpoint', 1), show(r))
    r = run([x for x in ways['Adam'] if x != '-q'] + ['--epochs', '1', '--shard-optimizer', '-o', got], folder)
    expect('alone it is told', r.returncode == 0 and 'shard-optimizer: this process is alone' in r.stdout + r.stderr, show(r))


WIDE = {**CNN, 'config': {'name': 'wide', 'layers': [
    {'class_name': 'InputLayer', 'config': {'name': 'in', 'batch_input_shape': [None, 8, 8, 1], 'dtype': 'float32'}},
    {'class_name': 'Flatten', 'config': {'name': 'flat'}},
    *[{'class_name': 'Dense', 'config': {'name': f'd{k}', 'units': n, 'activation': how}} for k, (n, how) in
      enumerate([(4096, 'relu'), (4096, 'relu'), (10, 'softmax')])]]}}


def resident(pid):
    return 1024 * int(re.search(r'^VmRSS:\s+(\d+) kB', pathlib.Path(f'/proc/{pid}/status').read_text(), re.M).group(1))


def memory(folder):
    """Gradients are 68 MB: what sums need beside them is no rounding."""
    (folder / 'wide.json').write_text(json.dumps(WIDE))
    data = next((tools / 'digits').glob('*.npz'))
    for what, how in {'halves': (), 'tree': ('--deterministic',), 'tree of shards': ('--deterministic', '--shard-optimizer')}.items():
        # that variable makes memory resident that the program never touches
        command = ['env', '-u', 'MALLOC_PERTURB_', tools / 'pgfit', folder / 'wide.json', '--data', data, *LOSS, '--batch-size', '64',
                   '--steps-per-epoch', '2', '--devices', 'cpu:0', '-j', '1', '--optimizer', 'sgd:momentum=0.9', *how]
        r = run(ranks(2, *command, '--dry-run', '--json'), folder)
        if not expect(f'{what}: a forecast', r.returncode == 0, show(r)):
            continue
        want = json.loads(r.stdout)['total']
        j = job.Job([mpirun, '-np', 2], 2, folder, *command, '--epochs', '1000', '--csv', 'log.csv', '--force', '-q')
        found = j.begun(4)
        got = [resident(pid) for pid in found.values()]
        for pid in found.values():
            os.kill(pid, signal.SIGTERM)
        j.finish()
        (folder / 'log.csv').unlink()
        print(f'{what}: forecast {want / 1e6:.1f} MB, resident {[round(x / 1e6, 1) for x in got]}')
        expect(f'{what}: the forecast', got and all(abs(x - want) <= max(0.05 * x, 8e6) for x in got), f'{want}, resident {got}')


def plan(folder):
    data, model = next((tools / 'digits').glob('*.npz')), next((tools / 'digits').glob('*.json'))
    command = [tools / 'pgfit', model, '--data', data, *LOSS, '-j', '1', '--plan']
    for n, spec, per_host in ((2, 'scale=weak', 2), (3, 'cpus=2', 2)):
        r = run(ranks(n, *command, spec, '--json'), folder)
        lines = r.stdout.splitlines()
        if not expect(f'plan by {n} ranks', r.returncode == 0 and len(lines) == 1 and not r.stderr.strip(), show(r)):
            continue
        d = json.loads(lines[0])
        expect(f'plan by {n} ranks: measured', d['inner_measured'] and not d['link_measured'], lines[0])
        expect(f'plan by {n} ranks: of the job', (d['hosts'], d['per_host']) == (1, per_host), lines[0])
        expect(f'plan by {n} ranks: a latency', 1e-8 < d['inner_latency'] < 0.05, lines[0])
        expect(f'plan by {n} ranks: a rate', 1e7 < d['inner'] < 1e12, lines[0])
    given = run(ranks(2, *command, 'cpus=2,inner=5GB', '--json'), folder)
    expect('what is given stays', given.returncode == 0 and json.loads(given.stdout)['inner'] == 5e9, show(given))
    r = run(ranks(2, *command, 'cpus=2'), folder)
    expect('it says that it was measured', r.returncode == 0 and r.stdout.count('(measured)') == 1, show(r))
    for spec in 'cpus=2,link=measure', 'hosts=2,cpus=1', 'cpu=2':
        r = run(ranks(2, *command, spec), folder, timeout=60)
        expect(f'{spec}: one message', r.returncode == 2 and len(job.said(r.stderr)) == 1, show(r))


def cut_npz(source, target):
    """The training rows of an .npz, last 16 rows first: as many, in another order."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, 'w') as new:
        for name in old.namelist():
            data = old.read(name)
            head = 10 + int.from_bytes(data[8:10], 'little')
            rows = int(re.search(rb"'shape': \((\d+)", data[:head]).group(1))
            each = (len(data) - head) // rows
            new.writestr(name, data[:head] + data[-16 * each:] + data[head:-16 * each])


def refused(folder):
    data = next((tools / 'digits').glob('*.npz'))
    shutil.copy(data, folder / 'data.npz')
    cut_npz(data, folder / 'other.npz')
    model = next((tools / 'digits').glob('*.json'))
    own = folder / 'own.sh'
    rank = job.RANK
    # rank 1 has something else
    other = {
        'another batch': f'--batch-size $(( {rank} + 30 ))',
        'other rows for validation': f'--val $([ {rank} = 1 ] && echo other.npz || echo data.npz)',
        'another seed': '--seed $(( ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} + 7 ))',
        'another optimizer': '$([ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] && echo --optimizer adam || echo --optimizer sgd)',
        'data that are not there': '--val $([ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] && echo nowhere.npz || echo data.npz)',
    }
    for name, words in other.items():
        own.write_text(f'#!/bin/sh\nexec {tools}/pgfit {model} --data data.npz --loss sparse_categorical_crossentropy -o out.h5 {words}\n')
        own.chmod(0o755)
        r = run(ranks(2, own), folder, timeout=60)
        said = [x for x in r.stderr.split('\n') if x.startswith('pgfit:')]
        expect(f'{name}: refused', r.returncode not in (0, 'HANG') and len(said) == 1 and 'rank 1' in said[0], show(r))
        expect(f'{name}: nothing written', not (folder / 'out.h5').exists())
    # what rank 0 alone could find out is told once, and soon
    run([tools / 'pgfit', model, '--predict', 'data.npz', '--out', 'y.npy'], folder)
    for name, words in {'a file that is there': ('data.npz', '--out', 'y.npy'), 'no data': ('nowhere.npz', '--out', 'z.npy'),
                        'no format': ('data.npz', '--out', 'y.txt')}.items():
        r = run(ranks(2, tools / 'pgfit', model, '--predict', *words), folder, timeout=60)
        said = [x for x in r.stderr.split('\n') if x.startswith('pgfit:')]
        expect(f'predictions, {name}', r.returncode not in (0, 'HANG') and len(said) == 1, show(r))
    for epochs in ('1', '2'):
        r = run([tools / 'pgfit', model, '--data', 'data.npz', *LOSS, '--epochs', epochs, '--checkpoint', f'c{epochs}/{{epoch}}.h5'], folder)
        expect(f'a state behind epoch {epochs}', r.returncode == 0, show(r))
    own.write_text(f'#!/bin/sh\nexec {tools}/pgfit {model} --data data.npz {" ".join(LOSS)} --epochs 3 --resume=c$(( {rank} + 1 ))/resume.pg '
                   '--checkpoint "x/{epoch}.h5"\n')
    r = run(ranks(2, own), folder, timeout=60)
    said = [x for x in r.stderr.split('\n') if x.startswith('pgfit:')]
    expect('another state to go on with', r.returncode not in (0, 'HANG') and len(said) == 1 and 'holds another state' in said[0], show(r))
    own.write_text(f'#!/bin/sh\n[ {rank} = 0 ] && exit 2\nexec {tools}/pgfit {model} --data data.npz --loss sparse_categorical_crossentropy '
                   '--comm-timeout 3\n')
    r = run(ranks(2, own), folder, timeout=30)
    expect('a rank that never came', r.returncode not in (0, 'HANG'), show(r))


def without(folder):
    """pgfit and its library without the plug-ins beside them."""
    shutil.copy(tools / 'pgfit', folder)
    command = [folder / 'pgfit', next((tools / 'digits').glob('*.json')), '--data', next((tools / 'digits').glob('*.npz')), *LOSS]
    for p in (tools.parent / 'libpg').glob('libpg.so*'):
        if p.is_file():
            shutil.copy(p, folder)
    r = run(ranks(4, *command), folder, timeout=60, more={'LD_LIBRARY_PATH': str(folder)})
    expect('no plug-in: one message', r.returncode not in (0, 'HANG') and len(job.said(r.stderr)) == 1 and f'pg-mpi-{options.mpi}.so is not there' in r.stderr,
           show(r))
    own = folder / 'own.sh'  # as on a machine of its own, where it alone is missing
    own.write_text('#!/bin/sh\nexport OMPI_COMM_WORLD_LOCAL_RANK=0 MPI_LOCALRANKID=0\n[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] && exec sleep 3\nexec "$@"\n')
    own.chmod(0o755)
    r = run(ranks(2, own, *command), folder, timeout=60, more={'LD_LIBRARY_PATH': str(folder)})
    expect('no plug-in on another machine', len(job.said(r.stderr)) == 1 and socket.gethostname() in job.said(r.stderr)[0], show(r))


def kill(folder):
    command = [tools / 'pgfit', '--demo', 'digits', '--epochs', '60', '--seed', '3', '--deterministic', '--devices', 'cpu:0', '--batch-size', '32',
               '--csv', 'log.csv', '-o', 'out.weights.h5', '--force', '-q', '--comm-timeout', '20']
    alone, killed = folder / 'alone', folder / 'killed'
    alone.mkdir(), killed.mkdir()
    r = run(ranks(4, *command), alone)
    expect('a run left alone', r.returncode == 0, show(r))
    hits, status = 0, None
    for trial in range(5 * options.kills):
        name = f'{os.getpid()}-{trial}'
        goal = job.rows_of(killed) + dice.randrange(60 // options.kills)  # epochs
        p = start(ranks(4, *command, '--resume=auto', '--resume-every', '0.05'), killed, {'PG_TEST_JOB': name})
        victim = None
        if hits < options.kills:
            found = {}
            while (len(found) < 4 or job.rows_of(killed) < goal) and p.poll() is None:
                time.sleep(0.01)
                found = processes(name)
            time.sleep(dice.uniform(0, 0.05))
            if len(found) == 4 and p.poll() is None:
                victim = dice.randrange(4)
                os.kill(found[victim], signal.SIGKILL)
        began = time.monotonic()
        try:
            out, err = p.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            expect('every rank ends', False, f'trial {trial}, rank {victim} killed: still there after 90 s\n{err[-2000:]}')
            return
        status = p.returncode
        if victim is not None and status != 0:
            hits += 1
            # or by mpirun, where it kills the others before they can say anything: MPICH's always
            told = f'rank {victim} on ' in err or f'process rank {victim} with PID' in err or 'Killed (signal 9)' in out
            expect('it is named', told, out[-500:] + err[-2000:])
            expect('they end soon', time.monotonic() - began < 30, f'{time.monotonic() - began:.1f} s')
        elif status != 0:
            expect('the run', False, f'status {status}: {err[-2000:]}')
            return
        if status == 0:
            break
    print(f'{hits} of {options.kills} kills hit')
    expect('killed often enough', hits >= options.kills // 2, f'{hits} of {options.kills}')
    same('the weights of an undisturbed run', killed / 'out.weights.h5', alone / 'out.weights.h5')
    expect('its log', (killed / 'log.csv').read_bytes() == (alone / 'log.csv').read_bytes(), (killed / 'log.csv').read_text())


for part in (golden, apart, bits, normal, files, shards, memory, plan, refused, without, kill):
    if options.only and part.__name__ != options.only:
        continue
    with tempfile.TemporaryDirectory() as d:
        began = time.monotonic()
        part(pathlib.Path(d))
        print(f'{part.__name__}: {time.monotonic() - began:.1f} s', flush=True)
sys.exit(bool(bad))
