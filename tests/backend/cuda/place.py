#!/usr/bin/env python3
"""place.py PGFIT PGCHECK PLUGIN GOLDEN: pgfit --place on GPUs of plain C (host.h). Checkpoints, the state of a run, predictions
and figures are those of one device, and a run goes on in another placement; what cannot be is refused, with what to do."""
import os
import subprocess
import sys
import tempfile

pgfit, pgcheck, plugin, golden = (os.path.abspath(x) for x in sys.argv[1:])
siamese = golden + '/siamese'
env = dict(os.environ, PG_CUDA_PLUGIN=plugin, FAKE_CUDA_DEVICES='3', LC_ALL='C.UTF-8')
PLACES = ['', '*lstm*#1=cuda:1', '*lstm*#0=cuda:1,fc1=cuda:2', '*lstm*#1=cuda:0.1']
bad = 0


def tell(why):
    global bad
    print(why)
    bad = 1


def run(*args, rc=0, cwd=None):
    r = subprocess.run([pgfit, *args], capture_output=True, text=True, env=env, cwd=cwd, timeout=100)
    if r.returncode != rc:
        tell('exit %d, not %d: %s\n%s' % (r.returncode, rc, ' '.join(args), r.stderr))
    return r


def train(folder, place, epochs, *more):
    return run(siamese + '/model.json', '--weights', siamese + '/init_weights.h5', '--loss', 'categorical_crossentropy', '--metrics',
               'accuracy', '--optimizer', 'adam:clipnorm=0.05', '--data', siamese + '/data.npz', '--batch-size', '32', '--epochs',
               str(epochs), '--seed', '1', '--deterministic', '--devices', 'cuda:0', '--place', place, '-q', '--checkpoint',
               'c-{epoch}.h5', *more, cwd=folder)


def content(folder, name):
    with open(os.path.join(folder, name), 'rb') as f:
        return f.read()


def compare(one, other, names, what):
    for name in names:
        if content(one, name) != content(other, name):
            tell('%s: %s is another than on one device' % (what, name))


def refused(rc, words, *args):
    r = run(siamese + '/model.json', '--data', siamese + '/data.npz', '--loss', 'mse', *args, rc=rc)
    for word in words:
        if word not in r.stderr:
            tell('%s: not told: %s\n%s' % (' '.join(args), word, r.stderr))


with tempfile.TemporaryDirectory() as top:
    folders = [os.path.join(top, str(i)) for i in range(len(PLACES))]
    for folder, place in zip(folders, PLACES):
        os.mkdir(folder)
        train(folder, place, 2, '-o', 'o.h5')
        compare(folders[0], folder, ['c-1.h5', 'c-2.h5', 'o.h5'], place)
        if subprocess.run([pgcheck, 'c-2.h5'], cwd=folder, capture_output=True).returncode:
            tell('%s: pgcheck refuses a checkpoint' % place)
        run(siamese + '/model.json', '--weights', 'o.h5', '--predict', siamese + '/data.npz', '--devices', 'cuda:0',
            '--place', place, '-q', '--out', 'p.npy', cwd=folder)
        compare(folders[0], folder, ['p.npy'], place)
    for i, place in enumerate(PLACES):  # one epoch here, the next in another placement
        folder = os.path.join(top, 'r%d' % i)
        os.mkdir(folder)
        train(folder, place, 1)
        run('--resume', 'resume.pg', '--epochs', '2', '--place', PLACES[(i + 1) % len(PLACES)], '-q', '-o', 'o.h5', cwd=folder)
        compare(folders[0], folder, ['o.h5'], 'resumed ' + place)

r = run(siamese + '/model.json', '--data', siamese + '/data.npz', '--loss', 'categorical_crossentropy', '--devices', 'cuda:0',
        '--place', PLACES[2], '--dry-run')
for word in ('memory, 3 devices:', '  cuda:0: ', '  cuda:1: ', '  cuda:2: '):
    if word not in r.stdout:
        tell('--dry-run: not told: %s\n%s' % (word, r.stdout))
env['FAKE_CUDA_MEMORY'] = '200000'
refused(2, ['cuda:0: out of memory: its layers and a batch of 32 need ', 'try: --batch-size '], '--devices', 'cuda:0', '--place', 'fc1=cuda:1')
del env['FAKE_CUDA_MEMORY']
refused(2, ['place: cuda:7 does not exist: there are 3'], '--devices', 'cuda:0', '--place', 'fc1=cuda:7')
refused(3, ['cpu and cuda cannot share a model', 'try: --devices cuda:0'], '--place', 'fc1=cuda:1')
refused(3, ['one replica', 'try: --devices cuda:0'], '--devices', 'cuda:0,cuda:1', '--place', 'fc1=cuda:2')
refused(2, ['"cuda:0.x" is not a device'], '--devices', 'cuda:0', '--place', 'fc1=cuda:0.x')
sys.exit(bad)
