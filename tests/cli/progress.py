#!/usr/bin/env python3
"""usage: progress.py TESTDATA TOOLS

What the tools tell while they work: on stderr only, redrawn with --progress=always, gone at the end, and
nothing at all with -q, with --progress=never, and in a pipe for what takes less than ten seconds. Ctrl-C takes the line
away, too."""
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile

testdata, tools = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
single = testdata / 'files/keras-2.2.4/cnn4-g2/template_model.h5'
parallel = testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_model.h5'
LINE = re.compile(rb'(\r\x1b\[K *\d+%  \S+ k?B of \S+ kB(  \S+ \S?B/s  ETA \d+:\d\d(:\d\d)?)?)+\r\x1b\[K')
bad = []


def expect(what, ok, text):
    if not ok:
        bad.append(what)
        print(f'FAIL {what}: {text!r}')


def number(n):
    return n.to_bytes(8, 'little')


ROWS = 2**23  # of 32 float32: a gigabyte


def enlarge_h5(old, new):
    """A copy whose kernel of 64x32 is a gigabyte of zeros behind the end, which takes no room on the disk."""
    data = old.read_bytes()
    at = data.index(number(64 * 128))  # a contiguous layout ends with address and size
    while data[at - 10:at - 8] != b'\x03\x01':
        at = data.index(number(64 * 128), at + 1)
    data = data[:at - 8] + number(len(data)) + number(ROWS * 128) + data[at + 8:]
    data = data.replace(number(64) + number(32), number(ROWS) + number(32))  # the shape, and the largest one
    end = len(data) + ROWS * 128
    pathlib.Path(new).write_bytes(data[:40] + number(end) + data[48:])  # the end of file in the superblock
    os.truncate(new, end)


def enlarge_shard(folder):
    kernel, manifest = folder / 'fc1/kernel.npy', folder / 'manifest.json'
    head = kernel.read_bytes()[:128].replace(b'(64, 32), }' + b' ' * (len(str(ROWS)) - 2), b'(%d, 32), }' % ROWS)
    kernel.write_bytes(head)
    os.truncate(kernel, 128 + ROWS * 128)
    text = manifest.read_text()
    for old, n in (('[%d, 32]', 1), ('"bytes": %d', 128), ('"rows": %d', 1)):
        text = text.replace(old % (64 * n), old % (ROWS * n))
    manifest.write_text(text)


with tempfile.TemporaryDirectory() as d:
    commands = [['pgsplit', single, f'{d}/split'], ['pgjoin', f'{d}/split', f'{d}/joined.h5'],
                ['pgunwrap', parallel, f'{d}/one.h5'], ['pgwrap', '--like', parallel, single, f'{d}/two.h5'],
                ['pgconvert', single, f'{d}/s.safetensors'], ['pgdiff', single, f'{d}/joined.h5'],
                ['pgcheck', single], ['pginfo', '--stats', parallel]]
    for tool, *operands in commands:
        for options, pattern in ((['--progress=always'], LINE), ([], re.compile(rb'')), (['-q'], re.compile(rb'')),
                                 (['--progress=never'], re.compile(rb''))):
            force = ['-f'] if tool not in ('pgdiff', 'pgcheck', 'pginfo') else []
            r = subprocess.run([tools / tool, *options, *force, *operands], capture_output=True)
            expect(f'{tool} {options}: status', r.returncode == 0, r.stderr)
            expect(f'{tool} {options}: stderr', pattern.fullmatch(r.stderr), r.stderr)
            expect(f'{tool} {options}: stdout', b'\x1b' not in r.stdout and b'ETA' not in r.stdout, r.stdout)
            percents = [int(x) for x in re.findall(rb'(\d+)%', r.stderr)]
            expect(f'{tool} {options}: never back, never above all', percents == sorted(percents) and max(percents, default=0) <= 100,
                   percents)

    # What takes long, stopped on the way: a gigabyte of zeros, which takes no room on the disk.
    big = pathlib.Path(d, 'big.npy')
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % 2**28
    big.write_bytes(b'\x93NUMPY\x01\x00' + (118).to_bytes(2, 'little') + head.ljust(117).encode() + b'\n')
    os.truncate(big, 128 + 2**30)
    os.mkdir(f'{d}/other')
    os.link(big, f'{d}/other/big.npy')
    many = testdata / 'files/keras-2.1.6/bignames/wrapper_weights.h5'
    for tool, *operands in (['pgunwrap', many, f'{d}/many.h5'], ['pgsplit', f'{d}/many.h5', f'{d}/many'],
                            ['pgjoin', f'{d}/many', f'{d}/many2.h5'], ['pgconvert', single, f'{d}/many.weights.h5']):
        r = subprocess.run([tools / tool, '--progress=always', '--no-sync', *operands], capture_output=True)
        expect(f'{tool}: begins before the first byte', tool == 'pgsplit' or r.stderr.startswith(b'\r\x1b[K  0%  0 B of'), r.stderr[:80])
    weights = testdata / 'golden/mlp_digits/init_weights.h5'
    subprocess.run([tools / 'pgwrap', '-q', '--gpus', '2', weights, f'{d}/wrapper.h5'], check=True)
    enlarge_h5(pathlib.Path(d, 'wrapper.h5'), f'{d}/large_wrapper.h5')
    enlarge_h5(weights, f'{d}/large.h5')
    subprocess.run([tools / 'pgsplit', '-q', weights, f'{d}/shards'], check=True)
    enlarge_shard(pathlib.Path(d, 'shards'))
    before = sorted(os.listdir(d))
    for tool, *operands in (['pginfo', '--stats', big], ['pgcheck', '--finite', big], ['pgdiff', big, f'{d}/other/big.npy'],
                            ['pgconvert', '--no-sync', big, f'{d}/big.safetensors'], ['pgsplit', '--no-sync', big, f'{d}/parts'],
                            ['pgunwrap', '--no-sync', f'{d}/large_wrapper.h5', f'{d}/out.h5'],
                            ['pgwrap', '--no-sync', '--gpus', '2', f'{d}/large.h5', f'{d}/out.h5'],
                            ['pgjoin', '--no-sync', f'{d}/shards', f'{d}/out.h5']):
        p = subprocess.Popen([tools / tool, '--progress=always', *operands], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        drawn = p.stderr.read(1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        expect(f'{tool}: stopped', p.returncode == 130, p.returncode)
        expect(f'{tool}: stopped, nothing of the line stays', re.search(rb'\r\x1b\[K(pg\w+: [^\r\x1b]*\n)?$', drawn + err), err[-200:])
        expect(f'{tool}: stopped, nothing on stdout', out == b'', out)
    shutil.rmtree(f'{d}/parts', ignore_errors=True)  # the same command would continue there
    expect('stopped: nothing left', sorted(os.listdir(d)) == before, os.listdir(d))
    ours, theirs = pty.openpty()  # a terminal, but all is done within half a second
    subprocess.run([tools / 'pgcheck', single], stdout=subprocess.DEVNULL, stderr=theirs,
                   env={**os.environ, 'TERM': 'xterm'})
    os.close(theirs)
    try:
        expect('terminal', not os.read(ours, 100), 'something was drawn')
    except OSError:
        pass  # closed without a byte
sys.exit(bool(bad))
