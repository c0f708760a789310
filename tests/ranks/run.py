#!/usr/bin/env python3
"""usage: run.py --mpi openmpi|mpich --tools DIR --testdata DIR --golden FILE --moves FILE --factors FILE [--only PART]

Several processes train together, started by a real mpirun:

  golden   runs of real Keras, by 2 and 4 ranks, as one device or as its replicas
  apart    a host name for each rank: a thread moves sums while nobody calls MPI, and on one host there is none (moves.c); golden runs
  bits     --deterministic: 1 rank of 4 devices, 2 of 2, 4 of 1, and one process: the same bytes
  normal   the same without --deterministic: what one process of as many devices gives, but for rounding
  files    only rank 0 writes, and once; --predict and --evaluate give what one process gives
  shards   --shard-optimizer: the same files, also of what is written meanwhile and of runs that go on
  swaps    --shard-optimizer with SwapEMAWeights, before and behind what writes checkpoints: the same files
  memory   the forecast against what two ranks take while they train
  rounded  --compress: sums in factors (factors.c); the loss is hardly another one, and ranks stay equal; where it cannot be it is refused
  traced   --profile=trace: one file with the steps of all ranks, also of a run that is stopped or loses a rank
  plan     --plan: what a message costs is found between the ranks, then rank 0 goes on alone
  refused  another model, other data, other options on a rank: all end, one message, nothing written
  data     data that differ in the middle of a file: the row, the ranks and the file are named
  misused  options of one rank that cannot be: all end soon, with its message
  without  the plug-in is missing: one process says so
  kill     a rank that is killed: the others end with status 4 and name it; the run goes on where it was

PG_SHARE (pgbox.py) leaves out some. Exit status 77: there is no such mpirun, or libpg has no plug-in for it."""
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
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib

import job
import traces
from job import bad, chosen, expect, processes, run, show, start

options = argparse.ArgumentParser()
options.add_argument('--mpi', required=True, choices=('openmpi', 'mpich'))
options.add_argument('--tools', required=True, type=pathlib.Path)
options.add_argument('--testdata', required=True, type=pathlib.Path)
options.add_argument('--golden', required=True, type=pathlib.Path)
options.add_argument('--moves', required=True, type=pathlib.Path)
options.add_argument('--factors', required=True, type=pathlib.Path)
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
    said = [run(ranks(n, tools / 'pgfit', 'x/out.keras', '--predict', data, '--out', f'q{n}.npy', '--quantize', 'int8'), folder) for n in (1, 2)]
    expect('predictions in int8', all(r.returncode == 0 and r.stdout.count(' in int8; ') == 1 for r in said), show(said[1]))
    expect('the same in int8', (folder / 'q1.npy').read_bytes() == (folder / 'q2.npy').read_bytes() != (folder / 'y1.npy').read_bytes(), 'differ')
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


def swaps(folder):
    """A checkpoint holds weights and averages of one moment, of its callback's turn."""
    keeps = {'class_name': 'ModelCheckpoint', 'config': {'filepath': 'c/{epoch}-{loss:.3f}.h5'}}
    often = {'class_name': 'ModelCheckpoint', 'config': {'filepath': 'c/b{epoch}-{batch}.h5', 'save_freq': 7}}
    swap, late = ({'class_name': 'SwapEMAWeights', 'config': {'swap_on_epoch': x}} for x in (False, True))
    stop = {'class_name': 'EarlyStopping', 'config': {'patience': 1, 'min_delta': 9}}
    ways = {'validation': [swap, keeps], 'epochs': [late, keeps], 'epochs, behind': [keeps, late],
            'every 7 batches, the last of an epoch too': [often, late], 'a stop': [late, keeps, stop]}
    command = [tools / 'pgfit', '--demo', 'digits', '--seed', '3', '-j', '2', '-q', '--full-model', '--force', '--deterministic', '--devices',
               'cpu:0', '--optimizer', 'sgd:momentum=0.9,use_ema,ema_momentum=0.9', '--steps-per-epoch', '7',
               '-o', 'out.h5']
    for k, (name, callbacks) in enumerate(some(ways)):
        whole, parts = folder / f'whole{k}', folder / f'parts{k}'
        for where, start_by in ((whole, lambda n, *x: list(map(str, x))), (parts, ranks)):
            where.mkdir()
            (where / 'run.json').write_text(json.dumps({'callbacks': callbacks}))
            for n, epochs, more in ((2, 2, ()), (4, 4, ('--resume=c/resume.pg',))):
                r = run(start_by(n, *command, *(() if where == whole else ('--shard-optimizer',)), '--config', 'run.json', '--epochs', epochs,
                                 '--resume-every', '0.01', *more), where)
                expect(f'{name}: to epoch {epochs}', r.returncode == 0, show(r))
        files = sorted(str(p.relative_to(whole)) for p in whole.glob('**/*.h5'))
        expect(f'{name}: checkpoints', len(files) > 2 and files == sorted(str(p.relative_to(parts)) for p in parts.glob('**/*.h5')), str(files))
        for one in files:
            expect(f'{name}: {one}, every byte', (whole / one).read_bytes() == (parts / one).read_bytes(), 'another file')


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
        want = json.loads(r.stdout.splitlines()[-1])['total']  # notes come first
        j = job.Job([mpirun, '-np', 2], 2, folder, *command, '--epochs', '1000', '--csv', 'log.csv', '--force', '-q')
        found = j.begun(4)
        got = [resident(pid) for pid in found.values()]
        for pid in found.values():
            os.kill(pid, signal.SIGTERM)
        j.finish()
        (folder / 'log.csv').unlink()
        print(f'{what}: forecast {want / 1e6:.1f} MB, resident {[round(x / 1e6, 1) for x in got]}')
        expect(f'{what}: the forecast', got and all(abs(x - want) <= max(0.05 * x, 8e6) for x in got), f'{want}, resident {got}')


def rounded(folder):
    command = [tools / 'pgfit', '--demo', 'digits', '--epochs', '12', '--seed', '3', '-j', '1', '--devices', 'cpu:0', '--force', '--batch-size', '50', '--json']
    # Adam makes steps out of rounding; factors leave out more, and make up for it over several steps, by SGD at least
    for optimizer, most in (('sgd:learning_rate=0.05', {'bfloat16': 0.02, 'powersgd:rank=2': 0.3}), ('adam', {'bfloat16': 0.1, 'powersgd:rank=2': 2})):
        for n in (2, 4):
            losses = {}
            for k, how in enumerate((None, *most)):
                way = ['--compress', how] if how else []
                r = run(ranks(n, *command, '--optimizer', optimizer, *way, '-o', f'out{k}.weights.h5'), folder, more={'PG_BUCKET_BYTES': '4096'})
                found = [json.loads(x) for x in r.stdout.splitlines() if x.startswith('{"event": "epoch"')]
                expect(f'{optimizer} by {n} ranks {how}', r.returncode == 0 and len(found) == 12, show(r))
                losses[how] = [x['loss'] for x in found]
                if not how:
                    continue
                off = [abs(b / a - 1) for a, b in zip(losses[None], losses[how])]
                print(f'{optimizer}, {n} ranks: losses {losses[None][-1]:.5f} and {losses[how][-1]:.5f}, at most {max(off, default=0):.2%} apart')
                expect(f'{optimizer} by {n} ranks, {how}: the loss', off and 0 < max(off) < most[how] and losses[how][-1] < losses[how][0] / 8, str(losses))
                expect(f'{optimizer} by {n} ranks, {how}: other bits',
                       (folder / 'out0.weights.h5').read_bytes() != (folder / f'out{k}.weights.h5').read_bytes(), 'the same')
    for n in (2, 3, 4):
        r = run(ranks(n, options.factors.resolve()), folder)
        expect(f'factors by {n} ranks', r.returncode == 0, show(r))
    for n, how, why in ((3, ('bfloat16',), 'a power of two'), (2, ('bfloat16', '--deterministic'), 'deterministic excludes it'),
                        (2, ('powersgd', '--shard-optimizer'), 'choose one'), (2, ('powersgd:rank=0',), 'from 1 to 64'),
                        (2, ('powersgd:rang=4',), 'rang'), (2, ('top-k',), 'powersgd:rank=4')):
        r = run(ranks(n, *command, '--compress', *how, '-o', 'no.weights.h5'), folder, timeout=60)
        expect(f'compress by {n} ranks {how}: refused', r.returncode in (1, 2, 3) and len(job.said(r.stderr)) == 1 and why in r.stderr, show(r))
        expect(f'compress by {n} ranks {how}: nothing written', not (folder / 'no.weights.h5').exists())


def traced(folder):
    command = [tools / 'pgfit', '--demo', 'digits', '--seed', '3', '-j', '2', '--devices', 'cpu:0', '--force',
               '--batch-size', '50', '--optimizer', 'adam', '-o', 'out.weights.h5']
    ways = {'buckets': (), 'tree': ('--deterministic',), 'owners': ('--shard-optimizer',), 'tree of owners': ('--deterministic', '--shard-optimizer')}
    for (name, how), n in zip(ways.items(), (3, 2, 3, 4)):
        plain = run(ranks(n, *command, '--epochs', '2', *how), folder, more={'PG_BUCKET_BYTES': '2048'})
        expect(f'{name}: without a trace', plain.returncode == 0, show(plain))
        os.replace(folder / 'out.weights.h5', folder / 'plain.weights.h5')
        r = run(ranks(n, *command, '--epochs', '2', '--profile=trace,steps=20..40', *how), folder, more={'PG_BUCKET_BYTES': '2048'})
        if not expect(f'{name}: a trace', r.returncode == 0 and r.stdout.count('steps 20 to 40 are in trace.json') == 1, show(r)):
            continue
        try:
            _, spans = traces.judge(folder / 'trace.json', 20, 40, n)
            kinds = {e['cat'] for e in spans}
            expect(f'{name}: kinds', kinds >= {'step', 'forward', 'backward', 'exchange', 'update', 'data', 'callbacks'}, str(kinds))
            expect(f'{name}: validation', any(e['name'].startswith('validation batch') for e in spans), 'none')
            expect(f'{name}: buckets', (max(e['args'].get('bucket', 0) for e in spans) > 0) == ('--deterministic' not in how), 'as many as before')
        except traces.Bad as e:
            expect(f'{name}: the trace', False, str(e))
        if '--deterministic' in how:
            same(f'{name}: the same bits', folder / 'out.weights.h5', folder / 'plain.weights.h5')
    own = folder / 'own.sh'
    own.write_text(f'#!/bin/sh\nexec "$@" --profile=trace,steps=3..$(( {job.RANK} + 5 ))\n')
    own.chmod(0o755)
    (folder / 'trace.json').unlink(missing_ok=True)
    r = run(ranks(2, own, *command), folder, timeout=60)
    expect('other steps on a rank: refused', r.returncode == 1 and len(job.said(r.stderr)) == 1 and 'rank 1' in r.stderr, show(r))
    expect('other steps on a rank: nothing written', not (folder / 'trace.json').exists())
    endless = [*command, '--epochs', '100000', '--csv', 'log.csv', '-q', '--profile=trace,steps=5..1000000000']
    for name, signal_of in {'stopped': signal.SIGTERM, 'lost': signal.SIGKILL}.items():
        here = folder / name
        here.mkdir()
        j = job.Job([mpirun, '-np', 2], 2, here, *endless, '--comm-timeout', '20')
        found = j.begun(4)
        for k, pid in found.items():
            if signal_of == signal.SIGTERM or k == 1:
                os.kill(pid, signal_of)
        r = j.finish()
        if not (here / 'trace.json').exists():  # MPICH's launcher kills the others before they can write
            expect(f'{name}: a trace', name == 'lost' and options.mpi == 'mpich', show(r))
            continue
        trace = json.loads((here / 'trace.json').read_text())
        missing = trace['otherData']['ranks_missing']
        expect(f'{name}: ranks', missing == (name == 'lost') and {e['pid'] for e in trace['traceEvents']} == set(range(2 - missing)), f'{missing} are missing')
        expect(f'{name}: it is told', name == 'stopped' or 'what rank 0 did until then is in trace.json' in (here / 'err.0').read_text(),
               (here / 'err.0').read_text())


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
        'int8': f'--predict data.npz --out y8.npy $([ {rank} = 1 ] && echo --quantize int8)',
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


def npy(values, shape, kind='<f4'):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    return b'\x93NUMPY\x01\0' + struct.pack('<H', len(head)) + head.encode() + values


def png(shade):
    """8x8, grey."""
    def chunk(name, data):
        return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 8, 8, 8, 0, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(b''.join(bytes([0] + [shade] * 8) for _ in range(8)))) + chunk(b'IEND', b''))


def sets_of_rows(folder):
    """Name, files (of rank 0), what rank 1 has otherwise, and what is said of that."""
    n = 500
    x, y = bytearray(n * 256), bytearray(n * 4)
    for i in range(n):
        x[i * 256:(i + 1) * 256] = struct.pack('<64f', *[(i + k) % 7 for k in range(64)])
        y[i * 4:i * 4 + 4] = struct.pack('<i', i % 10)
    other = bytearray(x)
    other[256 * 250 + 100] ^= 1  # a bit, in the middle
    for name, rows in ('same', x), ('other', other):
        d = folder / name
        d.mkdir()
        for kind, how in ('stored.npz', zipfile.ZIP_STORED), ('packed.npz', zipfile.ZIP_DEFLATED):
            with zipfile.ZipFile(d / kind, 'w', how) as z:
                z.writestr('x0.npy', npy(rows, (n, 8, 8, 1)))
                z.writestr('y0.npy', npy(y, (n,), '<i4'))
        (d / 'x.npy').write_bytes(npy(rows, (n, 8, 8, 1)))
        (d / 'y.npy').write_bytes(npy(y, (n,), '<i4'))
        (d / 'x.idx').write_bytes(struct.pack('>BBBB4I', 0, 0, 8, 4, n, 8, 8, 1) + bytes(rows[::4]))
        (d / 'y.idx').write_bytes(struct.pack('>BBBBI', 0, 0, 8, 1, n) + bytes(y[::4]))
        for k in range(100):
            at = d / 'photos' / str(k % 10) / f'{k:03}.png'
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(png((k + (name == 'other' and k == 57)) % 256))
        (d / 'table.csv').write_text('\n'.join(f'{i},{(i + (name == "other" and i == 321)) * 0.5},{i % 2}' for i in range(n)))
    # rank 1 has other bits in a tenth of what is too large to be compared as a whole; most of the file is a hole
    for name in 'same', 'other':
        with open(folder / name / 'large.npy', 'wb') as f:
            f.write(npy(b'', (1100000, 8, 8, 1)))
            if name == 'other':
                f.seek(600000 * 256, 1)
                f.write(b'\1' * (100000 * 256))
                f.seek(-700000 * 256, 1)
            f.seek(1100000 * 256 - 1, 1)
            f.write(b'\0')
        (folder / name / 'classes.npy').write_bytes(npy(bytes(1100000), (1100000,), '|u1'))
    return {'stored.npz': 'row 250 of "x0"', 'packed.npz': 'row 250 of "x0"', 'x.npy,y.npy': 'row 250 of "x0"', 'x.idx,y.idx': 'row 250 of "x0"',
            'photos': 'photos/7/057.png: not the same', 'table.csv': 'row 321 of "x0"',
            'large.npy,classes.npy': 'row 6'}


def data(folder):
    """Data that differ in the middle of a file."""
    sets = sets_of_rows(folder)
    dense = {'class_name': 'Dense', 'config': {'name': 'd', 'units': 2, 'activation': 'softmax'}}
    two = {'class_name': 'Sequential', 'config': {'name': 'two', 'layers': [
        {'class_name': 'InputLayer', 'config': {'name': 'in', 'batch_input_shape': [None, 2], 'dtype': 'float32'}}, dense]},
        'keras_version': '2.15.0', 'backend': 'tensorflow'}
    (folder / 'two.json').write_text(json.dumps(two))
    (folder / 'small.json').write_text(json.dumps(SMALL))
    own, rank = folder / 'own.sh', job.RANK
    own.write_text(f'#!/bin/sh\nd=same; [ {rank} = 1 ] && d=$OTHER\ncd $d && exec {tools}/pgfit "$@"\n')
    own.chmod(0o755)
    calls = {'trained': ['--data', '{}', '--steps-per-epoch', '2'], 'evaluated': ['--data', '{}', '--evaluate', '--steps-per-epoch', '1']}
    for name, said in some(sets):
        model = folder / ('two.json' if name.endswith('csv') else 'small.json')
        for what, words in calls.items():
            if what == 'evaluated' and name.startswith('large'):
                continue
            command = [own, model, *[w.format(name) for w in words], *LOSS, '-v', '--comm-timeout', '60']
            r = run(ranks(2, *command), folder, timeout=100, more={'OTHER': 'other'})
            told = job.said(r.stderr)
            expect(f'{name} {what}: refused', r.returncode in (1, 2) and len(told) == 1 and said in told[0] and '(rank 0)' in told[0] and '(rank 1)' in told[0],
                   show(r))
            r = run(ranks(2, *command), folder, timeout=100, more={'OTHER': 'same'})
            want = f'compared {name}: ' + ('1,056 pieces, spread by the seed, of 1,100,000 rows' if name.startswith('large') else 'all of ')
            expect(f'{name} {what}: the same', r.returncode == 0 and r.stdout.count(want) == 1, show(r))
    (folder / 'other' / 'photos/7/057.png').rename(folder / 'other' / 'photos/7/058.png')
    r = run(ranks(2, own, folder / 'small.json', '--data', 'photos', *LOSS), folder, timeout=60, more={'OTHER': 'other'})
    expect('names of pictures', r.returncode != 0 and len(job.said(r.stderr)) == 1 and 'is 7/057.png on ' in r.stderr and ', 7/058.png on ' in r.stderr, show(r))
    r = run([own, folder / 'small.json', '--data', 'stored.npz', *LOSS, '-v', '--epochs', '1'], folder)
    expect('one process compares nothing', r.returncode == 0 and 'compared' not in r.stdout, show(r))


def misused(folder):
    """What one rank cannot do it says before it has joined anything; the others do not wait for it."""
    own, rank = folder / 'own.sh', job.RANK
    command = f'{tools}/pgfit {next((tools / "digits").glob("*.json"))} --data {next((tools / "digits").glob("*.npz"))} {" ".join(LOSS)} -o out.h5'
    words = {'--lossy': 'unknown option --lossy', '--epochs many': '--epochs: "many" is not', '--config nowhere.json': 'nowhere.json: No such file',
             '--csv': '--csv needs a value', '--no-shuffle --shuffle': 'exclude each other', '--resume=nowhere.pg': 'nowhere.pg: No such file',
             '--checkpoint x.h5,keep=no': 'x.h5,keep=no: '}
    for bad_one in (0, 1, 2):
        for wrong, what in some(words):
            own.write_text(f'#!/bin/sh\n[ {rank} = {bad_one} ] && set -- {wrong}\nexec {command} "$@"\n')
            own.chmod(0o755)
            began = time.monotonic()
            r = run(ranks(3, own), folder, timeout=60)
            seconds = time.monotonic() - began
            told = job.said(r.stderr)
            expect(f'{wrong} on rank {bad_one}: one message, of that rank', r.returncode not in (0, 'HANG') and len(told) == 1 and
                   f'rank {bad_one} on ' in told[0] and what in told[0], show(r))
            expect(f'{wrong} on rank {bad_one}: soon', seconds < 25, f'{seconds:.1f} s')
            expect(f'{wrong} on rank {bad_one}: nothing written', not (folder / 'out.h5').exists())
    r = run(ranks(2, *command.split(), '--lossy'), folder, timeout=60)
    expect('--lossy everywhere: once, of no rank', r.returncode not in (0, 'HANG') and job.said(r.stderr) == ['pgfit: unknown option --lossy; did you mean --loss?'],
           show(r))


def without(folder):
    """pgfit and its library without the plug-ins beside them."""
    shutil.copy(tools / 'pgfit', folder)
    command = [folder / 'pgfit', next((tools / 'digits').glob('*.json')), '--data', next((tools / 'digits').glob('*.npz')), *LOSS]
    for p in (tools.parent / 'libpg').glob('libpg.so*'):
        if p.is_file():
            shutil.copy(p, folder)
    r = run(ranks(4, *command), folder, timeout=60, more={'LD_LIBRARY_PATH': str(folder)})
    expect('no plug-in: one message', r.returncode not in (0, 'HANG') and len(job.said(r.stderr)) == 1 and f'pg-mpi-{options.mpi}.so is missing' in r.stderr,
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


for part in (golden, apart, bits, normal, files, shards, swaps, memory, rounded, traced, plan, refused, data, misused, without, kill):
    if part.__name__ != options.only if options.only else not chosen(options.mpi + part.__name__):
        continue
    with tempfile.TemporaryDirectory() as d:
        began = time.monotonic()
        part(pathlib.Path(d))
        print(f'{part.__name__}: {time.monotonic() - began:.1f} s', flush=True)
sys.exit(bool(bad))
