#!/usr/bin/env python3
"""usage: progress.py FOLDER TESTDATA

progress=True beside the real tqdm: its bar has the label, reaches the number of bytes that the tool counts, and is closed
whether the call ends, fails, or is interrupted by what a callback raises; without tqdm a line on stderr stands in. Runs where NumPy and tqdm are:
in this Python, or in that of PG_PACKAGES_PYTHON; else it is skipped (77)."""
import contextlib
import importlib.util
import io
import os
import pathlib
import signal
import sys
import tempfile
import threading
import unittest
import unittest.mock

if not all(importlib.util.find_spec(m) for m in ('numpy', 'tqdm')):
    judge = os.environ.pop('PG_PACKAGES_PYTHON', '')  # once
    if not os.path.exists(judge):
        print('needs NumPy and tqdm, or PG_PACKAGES_PYTHON')
        sys.exit(77)
    os.execv(judge, [judge, *sys.argv])
FOLDER, TESTDATA = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
sys.path.insert(0, str(FOLDER))
import pgfit  # noqa: E402
import tqdm  # noqa: E402
import tqdm.auto  # noqa: E402

PARALLEL = TESTDATA / 'files/keras-2.2.4/cnn4-g2/wrapper_weights.h5'


class Kept(tqdm.auto.tqdm):
    """tqdm itself, which remembers its bars and draws each step."""
    bars = []

    def __init__(self, **options):
        super().__init__(mininterval=0, miniters=1, ascii=True, ncols=80, **options)
        self.bars.append(self)


class Progress(unittest.TestCase):
    def setUp(self):
        there = os.getcwd()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, there)
        os.chdir(folder.name)
        Kept.bars = []
        patch = unittest.mock.patch('tqdm.auto.tqdm', Kept)
        patch.start()
        self.addCleanup(patch.stop)

    def drawn(self, call):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            call()
        return said.getvalue()

    def check_bar(self, text, counted=None):
        bar, = Kept.bars
        self.assertTrue(bar.disable, 'closed')
        self.assertTrue(text.endswith('\n'), text)
        if counted:
            self.assertEqual((bar.n, bar.total), counted)
            self.assertEqual(bar.n, bar.total)
            self.assertRegex(text, r'\w+: 100%\|#+\| [\d.]+k?/[\d.]+k? ')

    def test_every_long_call_fills_a_bar(self):
        for function, *operands in (pgfit.unwrap, PARALLEL, 'single.h5'), (pgfit.wrap, 'single.h5', 'again.h5'), (pgfit.split, 'single.h5', 'shards'), \
                (pgfit.join, 'shards', 'joined.h5'), (pgfit.convert, 'single.h5', 'single.safetensors'), (pgfit.diff, 'single.h5', 'joined.h5'), \
                (pgfit.check, 'single.h5'):
            with self.subTest(function.__name__):
                options = {} if function in (pgfit.diff, pgfit.check) else {'force': True}
                options.update({'gpus': 2} if function is pgfit.wrap else {})
                counted, Kept.bars = [], []
                text = self.drawn(lambda: function(*operands, progress=True, **options))
                function(*operands, progress=lambda done, total: counted.append((done, total)), **options)
                self.check_bar(text, counted[-1])

    def test_a_call_that_fails_closes_its_bar(self):
        pathlib.Path('bad.h5').write_bytes(PARALLEL.read_bytes()[:9000])
        with self.assertRaises(pgfit.Error):
            self.drawn(lambda: pgfit.unwrap('bad.h5', 'out.h5', progress=True))
        bar, = Kept.bars
        self.assertTrue(bar.disable)

    def test_ctrl_c_closes_the_bar(self):
        with open('large.npy', 'wb') as f:  # a gigabyte of zeros, which takes no room
            head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % 2**28
            f.write(b'\x93NUMPY\x01\x00' + (118).to_bytes(2, 'little') + head.ljust(117).encode() + b'\n')
            f.truncate(128 + 2**30)
        said = io.StringIO()
        timer = threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
        timer.start()
        with contextlib.redirect_stderr(said), self.assertRaises(KeyboardInterrupt):
            pgfit.check('large.npy', finite=True, progress=True)
        self.check_bar(said.getvalue())
        self.assertLess(Kept.bars[0].n, 2**30)

    def test_without_tqdm_a_line_stands_in(self):
        with unittest.mock.patch.dict(sys.modules, {'tqdm': None, 'tqdm.auto': None}):
            text = self.drawn(lambda: pgfit.check(PARALLEL, finite=True, progress=True))
        self.assertRegex(text, r'^(\rcheck: +\d+ %)+\n$')
        self.assertEqual(Kept.bars, [])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
