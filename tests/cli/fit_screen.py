#!/usr/bin/env python3
"""usage: fit_screen.py TESTDATA TOOLS

pgfit on a terminal: what is seen at the end has whole lines only. Checkpoints, changed rates, an early stop and
warnings come between the bars, never within one; in a narrow window too. In a pipe there are no escapes."""
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

testdata, tools = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
golden = testdata / 'golden/mlp_digits'
BAR = re.compile(r'\d+/\d+ \[=+\] - [\d.]+s \d+[mu]?s/step - loss: \d\.\d{4} - accuracy: \d\.\d{4} - val_loss: \d\.\d{4} '
                 r'- val_accuracy: \d\.\d{4} - lr: [\d.e-]+')
LINES = [re.compile(p) for p in (
    r'pgfit [\d.]+: 1 device .*', r'digits.npz: 500 train, .*', r'Epoch \d+/\d+', BAR.pattern, r'  … ckpt/\d\d\.weights\.h5',
    r'Epoch \d+: val_loss did not improve for 1 epoch; learning rate \S+ → \S+', r'Epoch \d+: early stop .*; best epoch \d+ restored',
    r'warning: epoch \d+: .*ckpt.*', r'note: .*', r'val_loss [▁-█]+  \d.*', r'kept: ckpt/.* \((best|last|best, last)\)',
    r'\d+ epochs in .*', r'load it:  model.load_weights\("ckpt/.*"\)', r'')]
bad = []


def expect(what, ok, text):
    if not ok:
        bad.append(what)
        print(f'FAIL {what}: {text}')


def seen(data, columns):
    """What a terminal of so many columns shows, all of it."""
    lines, column = [[]], 0
    for c in re.findall(r'\x1b\[K|\x1b\[[\d;]*m|.|\n', data, re.S):
        if c == '\r':
            column = 0
        elif c == '\n':
            lines.append([])
            column = 0
        elif c == '\x1b[K':
            del lines[-1][column:]
        elif c[0] != '\x1b':
            if column == columns:  # wraps: a line that goes on below
                lines.append(['+'])
                column = 0
            lines[-1][column:column + 1] = [c]
            column += 1
    return [''.join(l) for l in lines]


def run(columns, *options, interrupt=False):
    with tempfile.TemporaryDirectory() as d:
        for name in ('model.json', 'data.npz'):
            (pathlib.Path(d) / name.replace('data', 'digits')).write_bytes((golden / name).read_bytes())
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        p = subprocess.Popen([tools / 'pgfit', 'model.json', '--data', 'digits.npz', '--val', 'digits.npz', '--loss',
                              'categorical_crossentropy', '--metrics', 'accuracy', '--seed', '7', *options], cwd=d,
                             stdin=theirs, stdout=theirs, stderr=theirs,
                             env={**os.environ, 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8', 'NO_COLOR': '1'})
        os.close(theirs)
        out = b''
        if interrupt:
            out = os.read(ours, 65536)
            time.sleep(0.3)
            p.send_signal(signal.SIGINT)
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:
                break
            if not more:
                break
            out += more
        return p.wait(), out.decode().replace('\r\n', '\n')


# Rates that make it worse at once: every callback has something to say.
options = ['--optimizer', 'sgd:lr=1', '--epochs', '30', '--reduce-lr', 'patience=1,factor=0.5', '--early-stop',
           'patience=3,restore_best', '--checkpoint', 'ckpt/{epoch:02d}.weights.h5', '--keep', '2']
status, data = run(200, *options)
lines = seen(data, 200)
expect('status', status == 0, data)
for line in lines:
    expect('a whole line', any(p.fullmatch(line) for p in LINES), line)
for what, pattern in (('checkpoints', LINES[4]), ('rates', LINES[5]), ('stop', LINES[6]), ('kept', LINES[10])):
    expect(what, any(pattern.fullmatch(l) for l in lines), lines)
begun = sum(bool(LINES[2].fullmatch(l)) for l in lines)
expect('a bar for each epoch', begun == sum(bool(BAR.fullmatch(l)) for l in lines), lines)

status, data = run(40, *options)
drawn = re.findall(r'\r([^\r\n]*)\x1b\[K(?!\n)', data)
expect('no bar is wider than the window', all(len(l) < 40 for l in drawn), drawn)

status, data = run(200, '--epochs', '1000000', '--resume=never', interrupt=True)
expect('an interrupted bar stands alone', status == 130 and re.fullmatch(r'pgfit: interrupted in epoch \d+, after .*', seen(data, 200)[-2]), data)
status, data = run(200, '--epochs', '1', '--quiet', '--checkpoint', 'ckpt/{epoch}.h5')
expect('--quiet', (status, data) == (0, ''), data)
sys.exit(bool(bad))
