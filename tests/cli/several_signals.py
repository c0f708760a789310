#!/usr/bin/env python3
"""usage: several_signals.py TESTDATA TOOLS

Several inputs at once (--out-dir, pgcheck -j) that are stopped in the middle: by Ctrl-C, by SIGTERM to the one process that
a person sees, by SIGKILL. What has its name is whole, whatever stopped the run; what could still act leaves no temporary and exits with
130. And without a signal: N at a time say and write what one at a time does, with a bad file among the good ones."""
import glob
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

testdata, tools = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
MB, N = 48, 6
bad = 0


def expect(what, ok, text=''):
    global bad
    if not ok:
        bad += 1
        print(f'FAIL {what}: {text}')


def write_input(path, tag):
    """A state_dict of nn.DataParallel, nearly all of it a hole; its last number tells it from others."""
    n = MB * 2**18
    head = json.dumps({'module.w': {'dtype': 'F32', 'shape': [n], 'data_offsets': [0, 4 * n]}}).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head)
        f.truncate(8 + len(head) + 4 * n - 4)
        f.seek(0, os.SEEK_END)
        f.write(struct.pack('<f', tag))


def is_whole(path, tag):
    """By the format's own rules: a header, the name without its prefix, every byte of the tensor."""
    data = path.read_bytes()
    n = int.from_bytes(data[:8], 'little')
    tensors = {k: v for k, v in json.loads(data[8:8 + n]).items() if k != '__metadata__'}
    return (list(tensors) == ['w'] and tensors['w']['shape'] == [MB * 2**18] and tensors['w']['data_offsets'] == [0, MB * 2**20]
            and len(data) == 8 + n + MB * 2**20 and data[-4:] == struct.pack('<f', tag))


def session_of(pid):
    """Processes of that session that are still there."""
    there = []
    for p in glob.glob('/proc/[0-9]*/stat'):
        try:
            fields = open(p).read().rsplit(')', 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] != 'Z':
            there.append(p)
    return there


def stop(name, jobs, hit, wants):
    """Runs until an output is there and another one is being written; then hit() sends the signal."""
    shutil.rmtree('out', ignore_errors=True)
    p = subprocess.Popen([tools / 'pgunwrap', '--no-sync', '-j', str(jobs), '--out-dir', 'out', *inputs], start_new_session=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while p.poll() is None and not (glob.glob('out/*.safetensors') and glob.glob('out/.*.pg-*')):
        time.sleep(0.001)
    expect(f'{name}: stopped in the middle', p.poll() is None)
    hit(p.pid)
    out, err = p.communicate(timeout=120)
    deadline = time.monotonic() + 120
    while session_of(p.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    expect(f'{name}: nobody goes on', not session_of(p.pid), session_of(p.pid))
    expect(f'{name}: status', p.returncode == wants, f'{p.returncode} {err}')
    done = sorted(pathlib.Path('out').glob('*.safetensors'))
    expect(f'{name}: one was done', done, os.listdir('out'))
    for path in done:
        expect(f'{name}: {path} is whole', is_whole(path, int(path.stem)))
    if wants == 130:
        expect(f'{name}: no temporary is left', len(done) == len(os.listdir('out')), os.listdir('out'))
        expect(f'{name}: the last line counts', out.splitlines()[-1].startswith('out: ') and f' of {N} files written' in out.splitlines()[-1], out)
        expect(f'{name}: not all of them', len(done) < N, out)


with tempfile.TemporaryDirectory() as d:
    os.chdir(d)
    inputs = [f'{i}.safetensors' for i in range(N)]
    for i, path in enumerate(inputs):
        write_input(path, i)
    for jobs in 1, 2:
        stop(f'Ctrl-C, -j {jobs}', jobs, lambda pid: os.killpg(pid, signal.SIGINT), 130)
        stop(f'SIGTERM to the first process, -j {jobs}', jobs, lambda pid: os.kill(pid, signal.SIGTERM), 130)
        stop(f'SIGKILL of the first process, -j {jobs}', jobs, lambda pid: os.kill(pid, signal.SIGKILL), -9)
        stop(f'SIGKILL of all, -j {jobs}', jobs, lambda pid: os.killpg(pid, signal.SIGKILL), -9)
    r = subprocess.run([tools / 'pgunwrap', '-q', '-f', '--no-sync', '-j', '2', '--out-dir', 'out', *inputs], capture_output=True, text=True)
    expect('after SIGKILL, the same command again: status', r.returncode == 0, r.stderr)
    expect('all are there, temporaries of the dead are not', sorted(os.listdir('out')) == inputs, os.listdir('out'))
    shutil.rmtree('out')

    p = subprocess.Popen([tools / 'pgcheck', '--json', '--finite', '-j', '2', *inputs * 20], start_new_session=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    time.sleep(0.1)
    os.killpg(p.pid, signal.SIGINT)
    out, err = p.communicate(timeout=120)
    expect('pgcheck, Ctrl-C: status', p.returncode == 130, f'{p.returncode} {err}')
    expect('pgcheck, Ctrl-C: a list of what is known', 0 < len(json.loads(out)) < 20 * N, out)

    files = testdata / 'files/keras-2.2.4'
    many = [files / folder / name for folder in ('cnn4-g2', 'cnnbn-g2', 'rnn-g2') for name in ('wrapper_weights.h5', 'wrapper_model.h5')]
    many = [p for p in many if p.exists()]
    for i, path in enumerate(many):
        shutil.copy(path, f'{i}.h5')
    pathlib.Path('bad.h5').write_bytes((testdata / 'negative/truncated_half.h5').read_bytes())
    operands = ['0.h5', 'bad.h5'] + [f'{i}.h5' for i in range(1, len(many))]
    said = {}
    for jobs in 1, 3:
        for what in (['pgunwrap', '--out-dir', f'by{jobs}'], ['pgconvert', '--to', 'npy', '--out-dir', f'by{jobs}/npy'], ['pgcheck'],
                     ['pgcheck', '--format', 'github'], ['pgcheck', '--format', 'tap'], ['pgcheck', '--json']):
            r = subprocess.run([tools / what[0], *what[1:], '-j', str(jobs), *operands], capture_output=True, text=True)
            said[jobs] = said.get(jobs, '') + f'{r.stdout}{r.stderr}{r.returncode}\n'.replace(f'by{jobs}', 'DIR')
            expect(f'{what}, -j {jobs}: the worst status', r.returncode == 2, r.stderr)
    expect('N at a time say what one at a time says', said[1] == said[3], f'{said[1]}\n{said[3]}')
    expect('and write the same bytes', subprocess.run(['diff', '-r', 'by1', 'by3']).returncode == 0)
    expect('all but the bad one', len([p for p in os.listdir('by3') if p.endswith('.h5')]) == len(many), os.listdir('by3'))
sys.exit(bool(bad))
