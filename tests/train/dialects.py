#!/usr/bin/env python3
"""usage: dialects.py TESTDATA TOOLS

Every model in testdata/files that pgfit can train, by each of the files that its Keras wrote of it (weights, full models,
files of wrappers, shards): the predictions are those that this Keras made (y0.npy), and after an epoch of training the
weights load strictly again and predict something else. Genuine Keras 1.2.2 to 3.10 wrote them: testdata/README.md.
PG_SHARE (pgbox.py) leaves out some models."""
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import pgbox  # noqa: E402

TOLERANCE = 1e-5
# Layers whose meaning is Python code.
REFUSED = {'keras-2.1.6/lambdatpl-g2': 'Lambda', 'keras-2.2.4/lambdatpl-g2': 'Lambda', 'keras-2.2.4/bert-g2': 'Lambda'}
# Files that are not of this model: cut off while they were written, or of what the user had before.
NOT_OURS = ('aborted', 'rescue', 'user_template')
AT_LEAST = 450


def npy(raw):
    """[floats] of the bytes of a float32 .npy in row-major order."""
    assert raw[:6] == b'\x93NUMPY'
    head = 10 + struct.unpack('<H', raw[8:10])[0]
    assert b"'<f4'" in raw[:head] and b"'fortran_order': False" in raw[:head], raw[:head]
    return list(struct.unpack('<%df' % ((len(raw) - head) // 4), raw[head:]))


def predictions(path):
    with open(path, 'rb') as f:
        if f.read(2) == b'PK':
            with zipfile.ZipFile(path) as z:
                return [npy(z.read('y%d.npy' % k)) for k in range(len(z.namelist()))]
        f.seek(0)
        return [npy(f.read())]


def pack(out, here, names):
    with zipfile.ZipFile(out, 'w') as z:
        for name in names:
            z.write(os.path.join(here, name), name)


class Tally:
    def __init__(self, tools):
        self.tools, self.n, self.bad, self.models = tools, 0, 0, 0

    def check(self, what, ok, why=''):
        self.n += 1
        if not ok:
            self.bad += 1
            print('FAIL', what, why)
        return ok

    def run(self, tool, *argv):
        return subprocess.run([os.path.join(self.tools, tool), *argv], capture_output=True, text=True)


def sources(here):
    """(file, arguments of pgfit that name model and weights)"""
    model = os.path.join(here, 'template.json')
    for name in sorted(os.listdir(here)):
        path = os.path.join(here, name)
        if any(word in name for word in NOT_OURS) or name.endswith(('.npy', '.json', '.py')):
            continue
        if '_model' in name or '_legacy' in name or name.endswith('.keras'):
            yield name, [path]
        elif os.path.exists(model):
            if os.path.isdir(path):
                path = next(os.path.join(path, x) for x in sorted(os.listdir(path)) if x.endswith('.json'))
            yield name, [model, '--weights', path]


def try_folder(t, here, name, d):
    names = sorted(os.listdir(here))
    xs, ys = ([x for x in names if x[0] == c and x[1:2].isdigit() and x.endswith('.npy')] for c in 'xy')
    if not ys:
        return
    rows, want = os.path.join(d, 'rows.npz'), os.path.join(d, 'want.npz')
    pack(rows, here, xs + ys)
    pack(want, here, ys)
    expected = predictions(want)
    t.models += 1
    trained = False
    for file, model in sources(here):
        what, out, y = '%s/%s' % (name, file), os.path.join(d, 'w.h5'), os.path.join(d, 'y.npz' if len(ys) > 1 else 'y.npy')
        r = t.run('pgfit', *model, '--predict', rows, '--out', y, '-f', '-q')
        if name in REFUSED:
            t.check(what + ' is refused', r.returncode == 3 and REFUSED[name].lower() in (r.stdout + r.stderr).lower(), r.stderr)
            continue
        if not t.check(what + ' predicts', r.returncode == 0, r.stderr):
            continue
        got = predictions(y)
        worst = max(abs(a - b) for u, v in zip(got, expected) for a, b in zip(u, v))
        t.check(what + ' predicts as its Keras', [len(u) for u in got] == [len(v) for v in expected] and worst <= TOLERANCE,
                'off by %g' % worst)
        if trained:
            continue
        trained = True
        r = t.run('pgfit', *model, '--data', rows, '--loss', 'hinge', '--optimizer', 'sgd', '-o', out, '-f', '-q')
        if t.check(what + ' trains', r.returncode == 0, r.stderr):
            r = t.run('pgfit', model[0], '--weights', out, '--predict', rows, '--out', y, '-f', '-q')
            t.check(what + ' loads what was trained', r.returncode == 0 and predictions(y) != got, r.stderr)


def main(testdata, tools):
    t = Tally(tools)
    files = os.path.join(testdata, 'files')
    for writer in sorted(os.listdir(files)):
        for model in sorted(os.listdir(os.path.join(files, writer))) if 'keras' in writer else ():
            name = '%s/%s' % (writer, model)
            if pgbox.chosen(name):
                with tempfile.TemporaryDirectory() as d:
                    try_folder(t, os.path.join(files, writer, model), name, d)
    print('%d models, %d checks, %d failed' % (t.models, t.n, t.bad))
    return t.bad != 0 or ('PG_SHARE' not in os.environ and t.n < AT_LEAST)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
