#!/usr/bin/env python3
"""attend.py PGFIT PLUGIN GOLDEN: training in 16 bits on the GPU of plain C (host.h), whose library does attention or does not: what
is learned is the same but for rounding. With dropout of the probabilities and with masks it does not, as 10 keys are no multiple of
8: nothing of it is taken."""
import array
import json
import os
import subprocess
import sys
import tempfile

pgfit, plugin, golden = (os.path.abspath(x) for x in sys.argv[1:])
bert = golden + '/bert_mini'
bad = 0


def tell(why):
    global bad
    print(why)
    bad = 1


def model(path, dropout, masked):
    """The golden one with heads of 8 features, which a library can move."""
    with open(bert + '/model.json') as f:
        m = json.load(f)
    embeddings = 0
    for layer in m['config']['layers']:
        config = layer['config']
        if layer['class_name'] == 'MultiHeadAttention':
            config.update(key_dim=8, value_dim=8, dropout=dropout)
        elif layer['class_name'] == 'Embedding':
            config['mask_zero'] = masked and embeddings == 0
            embeddings += 1
    with open(path, 'w') as f:
        json.dump(m, f)


def run(folder, library, *args):
    env = dict(os.environ, PG_CUDA_PLUGIN=plugin, FAKE_CUDA_LOG=folder + '/log', LC_ALL='C.UTF-8')
    if library:
        env['FAKE_CUDA_ATTEND'] = library
    open(folder + '/log', 'w').close()
    r = subprocess.run([pgfit, *args], capture_output=True, text=True, env=env, cwd=folder, timeout=200)
    if r.returncode:
        tell('exit %d: %s\n%s' % (r.returncode, ' '.join(args), r.stderr))
    with open(folder + '/log') as f:
        lines = f.read()
    return lines.count('queue attend_forward'), lines.count('queue attend_backward')


def predictions(path):
    with open(path, 'rb') as f:
        b = f.read()
    values = array.array('f')
    values.frombytes(b[10 + int.from_bytes(b[8:10], 'little'):])
    return values


def train(folder, library):
    counts = run(folder, library, 'm.json', '--data', bert + '/data.npz', '--loss', 'sparse_categorical_crossentropy', '--optimizer',
                 'adam', '--batch-size', '32', '--epochs', '2', '--seed', '1', '--devices', 'cuda:0', '--gpu-tune', '--precision', 'bfloat16',
                 '-q', '--force', '-o', 'o.h5')
    run(folder, None, 'm.json', '--weights', 'o.h5', '--predict', bert + '/data.npz', '--out', 'p.npy', '--force', '-q')
    return counts, predictions(folder + '/p.npy')


with tempfile.TemporaryDirectory() as top:
    for dropout, masked, does in (0.0, False, True), (0.2, False, False), (0.0, True, False):
        what = 'dropout %g, %s' % (dropout, 'masked' if masked else 'not masked')
        model(top + '/m.json', dropout, masked)
        none, ours = train(top, None)
        some, theirs = train(top, 'fast')
        if none != (0, 0):
            tell('%s: a library that is not there does %s' % (what, none))
        if some != ((4, 4) if does else (0, 0)):  # twice on trial, in the step that is recorded once for each layer
            tell('%s: the library does %s' % (what, some))
        apart = max(abs(a - b) for a, b in zip(ours, theirs))
        if len(ours) != len(theirs) or (not 0 < apart < 0.01 if does else apart):
            tell('%s: predictions are %g apart' % (what, apart))
sys.exit(bad)
