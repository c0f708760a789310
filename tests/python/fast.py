#!/usr/bin/env python3
"""usage: fast.py FOLDER TESTDATA

The package in FOLDER (tools/python) over libpg.so (PG_LIBRARY), with nothing but Python: everything that needs no NumPy."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [sys.argv[1], str(pathlib.Path(__file__).resolve().parents[1])]
import pgfit  # noqa: E402
from doc_files import lay_out  # noqa: E402
from pgfit import _library  # noqa: E402

TESTDATA = pathlib.Path(sys.argv[2]).resolve()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        lay_out(TESTDATA, '.')

    def refused(self, kind, call, *arguments, **keywords):
        with self.assertRaises(kind) as caught:
            call(*arguments, **keywords)
        return caught.exception


class Inspect(Case):
    def test_a_wrapper(self):
        info = pgfit.inspect('parallel.h5')
        self.assertEqual((info.format, info.verdict), ('keras-h5-weights', 'wrapper'))
        self.assertEqual((info.wrapper.replicas, info.wrapper.template, info.wrapper.slices),
                         (2, 'model_1', ['lambda_1', 'lambda_2']))
        self.assertEqual(info.tensors[0].shape, (3, 3, 1, 4))
        self.assertEqual((info.parameters, info.nbytes, len(info.tensors)), (987, 3948, 8))
        self.assertIn('conv2d_1/kernel:0', repr(info))
        self.assertIn('try: ' + info.hint, repr(info))
        self.assertTrue(info.problems)
        self.assertIn('<td', info._repr_html_())

    def test_a_model_has_no_problem(self):
        info = pgfit.inspect('model.h5', stats=True)
        self.assertEqual((info.verdict, info.problems, info.hint, info.wrapper), ('single', [], '', None))
        self.assertEqual((info.trainable, info.non_trainable, len(info.state)), (987, 0, len(info.state)))
        self.assertLess(info.tensors[0].stats.min, info.tensors[0].stats.max)
        self.assertTrue(info.model_config.startswith('{'))

    def test_names_cannot_break_a_page(self):
        table = pgfit._inspect.Table(['name'])
        table.add('<script>\x1b[31m')
        self.assertIn('&lt;script&gt;\\x1b[31m', table.html())

    def test_parts_of_a_checkpoint(self):
        path = TESTDATA / 'extra/checkpoints/torchvision_ema.pth'
        info = pgfit.inspect(path)
        self.assertEqual(info.verdict, 'ambiguous')
        part = next(p for p in info.parts if p.is_model)
        self.assertTrue(pgfit.inspect(path, part=part.path).tensors)
        self.assertIn(part.path, repr(info))
        error = self.refused(pgfit.AmbiguousError, pgfit.convert, path, 'x.safetensors')
        self.assertIn('part=', error.hint)

    def test_what_cannot_be_read(self):
        error = self.refused(pgfit.FileError, pgfit.inspect, 'nowhere.h5')
        self.assertIsInstance(error, OSError)
        self.assertEqual((error.status, error.errno, error.object), ('PG_E_IO', 2, 'nowhere.h5'))
        pathlib.Path('text.h5').write_text('no checkpoint, but a text')
        self.refused(pgfit.UnknownFormatError, pgfit.inspect, 'text.h5')
        error = self.refused(pgfit.DamagedError, pgfit.inspect, 'broken.h5')
        self.assertIn('truncated', str(error))


class Rewrite(Case):
    def test_unwrap_and_wrap(self):
        report = pgfit.unwrap('parallel_full.h5', 'single.h5', sha256=True)
        self.assertEqual((report.action, report.replicas, report.n_verified), ('unwrapped', 2, report.n_written))
        self.assertEqual((len(report.sha256), report.output), (64, 'single.h5'))
        self.assertTrue(any('lambda_1' in x for x in report.removed))
        self.assertIn('checksums equal', str(report))
        pgfit.wrap('single.h5', 'again.h5', like='parallel.h5')
        self.assertTrue(pgfit.diff('again.h5', 'parallel.h5').equal)
        pgfit.unwrap('parallel.h5', in_place=True)
        self.assertEqual(pgfit.inspect('parallel.h5').verdict, 'single')

    def test_refusals(self):
        error = self.refused(pgfit.NothingToDoError, pgfit.unwrap, 'model.h5', 'out.h5')
        self.assertFalse(os.path.exists('out.h5'))
        self.assertEqual(error.status, 'PG_E_NO')
        pathlib.Path('out.h5').write_text('mine')
        error = self.refused(pgfit.ArgumentError, pgfit.unwrap, 'parallel.h5', 'out.h5')
        self.assertIn('force=True', error.hint)
        self.assertIn('try: force=True', str(error))
        self.assertEqual(pathlib.Path('out.h5').read_text(), 'mine')
        self.refused(pgfit.ArgumentError, pgfit.wrap, 'model.h5', 'w.h5')
        self.refused(pgfit.MismatchError, pgfit.repair, 'parallel.h5', 'o.h5', like='mlp.json')
        self.refused(TypeError, pgfit.unwrap, 'parallel.h5', 'x.h5', partiall=True)

    def test_a_model_as_text_and_dictionary(self):
        import json
        text = pathlib.Path('model.json').read_text()
        for like in (text, json.loads(text), pathlib.Path('model.json')):
            self.assertEqual(pgfit.repair('parallel.h5', 'r.h5', like=like, force=True).n_tensors, 8)

    def test_dry_run(self):
        report = pgfit.unwrap('parallel.h5', 'out.h5', dry_run=True)
        self.assertEqual((report.n_tensors, report.n_verified, os.path.exists('out.h5')), (8, 0, False))

    def test_shards(self):
        report = pgfit.split('model.h5', 'out', max_shard_size='1kB', jobs=2)
        self.assertEqual(report.files[-1].path, 'manifest.json')
        self.assertTrue(pgfit.diff('model.h5', 'out').equal)
        self.assertTrue(pgfit.check('out').ok)
        pgfit.join('out', 'back.h5', threads=1)
        self.assertTrue(pgfit.diff('model.h5', 'back.h5').equal)
        os.remove(os.path.join('out', report.files[0].path))
        error = self.refused(pgfit.DamagedError, pgfit.join, 'out', 'other.h5')
        self.assertTrue(any(report.files[0].path in d for d in error.details))
        self.refused(pgfit.ArgumentError, pgfit.split, 'model.h5', 'o2', max_shard_size='100')
        self.refused(pgfit.ArgumentError, pgfit.split, 'model.h5', 'o2', format='zip')

    def test_to_onnx(self):
        report = pgfit.to_onnx('model.h5', 'm.onnx')
        self.assertEqual((report.opset, report.n_verified), (13, report.n_inits))
        self.assertIn('12 nodes', str(report))
        self.assertEqual(pgfit.inspect('m.onnx').format, 'onnx')
        self.assertGreater(pgfit.to_onnx('model.h5', 'h.onnx', dtype='float16', opset=20, layout='nchw-input').max_rel_error, 0)
        beside = pgfit.to_onnx('model.h5', 'b.onnx', external_data=True, check=TESTDATA / 'files/keras-2.2.4/cnn4-g2/x0.npy', quantize='int8')
        self.assertGreater(beside.max_change, 0)
        self.assertLess(beside.max_change, 0.05 * beside.max_given)
        self.assertEqual((beside.test_folder, beside.data_file, beside.n_rows), ('b.onnx.test', None, 8))
        self.assertIn('4 kernels as int8; predictions of 8 rows', str(beside))
        self.assertEqual(pgfit.to_onnx('model.h5', 'c.onnx', external_data=True).data_file, 'c.onnx.data')
        self.refused(pgfit.ArgumentError, pgfit.to_onnx, 'model.h5', 'x.onnx', opset=3)
        self.refused(pgfit.ArgumentError, pgfit.to_onnx, 'model.h5', 'x.onnx', layout='tf')

    def test_convert(self):
        self.assertEqual(pgfit.convert('model.h5', 'm.safetensors').format, 'safetensors')
        first = pgfit.inspect('m.safetensors').tensors[0].name
        pgfit.convert('model.h5', 'n.safetensors', rename={first: 'other'}, dtype='bfloat16')
        self.assertEqual([(t.name, t.dtype) for t in pgfit.inspect('n.safetensors').tensors if t.name == 'other'],
                         [('other', 'bfloat16')])
        self.assertGreater(pgfit.convert('model.h5', 'h.safetensors', dtype='float16').max_rel_error, 0)
        self.refused(pgfit.ArgumentError, pgfit.convert, 'model.h5', 'x.h5', layout='tf')
        pgfit.convert('model.h5', 'w.weights.h5')
        error = self.refused(pgfit.MismatchError, pgfit.convert, 'w.weights.h5', 'back.h5')
        self.assertTrue(error.hint)


class Judge(Case):
    def test_check(self):
        report = pgfit.check('parallel.h5', model='model.json')
        self.assertFalse(report.ok)
        self.assertTrue(report['values'].ok)
        self.assertTrue(report['structure'].details)
        self.assertIn('pgfit.unwrap("parallel.h5"', report.hint)
        self.assertIn('not ok', repr(report))
        self.assertTrue(pgfit.check('model.h5', model='model.json').ok)
        self.assertTrue(pgfit.check('broken.h5').damaged)
        self.refused(pgfit.FileError, pgfit.check, 'nowhere.h5')

    def test_diff(self):
        self.assertTrue(pgfit.diff('parallel.h5', 'model.h5').through_wrapper)
        found = pgfit.diff('before.h5', 'after.h5')
        self.assertFalse(found.equal)
        self.assertEqual({r.status for r in found.changed}, {'differs'})
        self.assertGreater(found.changed[0].max_abs, 0)
        self.assertEqual(found.rows[0].a.shape, found.rows[0].b.shape)
        self.assertTrue(pgfit.diff('before.h5', 'after.h5', abs=1e9).equal)
        self.refused(pgfit.MismatchError, pgfit.diff, 'before.h5', 'model.h5')


class GpuCheck(Case):
    """On wheels that are made here: the plug-in's, NVIDIA's, and with the checks."""

    def check(self, *arguments):
        path = os.pathsep.join([sys.argv[1], 'site'])
        return subprocess.run([sys.executable, '-m', 'pgfit.gpu_check', *arguments], env={**os.environ, 'PYTHONPATH': path}, text=True,
                              capture_output=True)

    def says(self, words, *arguments):
        r = self.check(*arguments)
        self.assertEqual((r.returncode, r.stdout), (2, ''))
        self.assertRegex(r.stderr, rf'^pgfit.gpu_check: .*{words}.*\n$')

    def make(self, path, text=''):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_says_which_wheel_is_missing(self):
        self.says('wheel pgfit-cuda13 is not installed: pip install pgfit-cuda13')
        self.make('site/pgfit_cuda13/__init__.py')
        for library in 'cu13/lib/libcudart.so.13', 'cu13/lib/libcublasLt.so.13', 'cudnn/lib/libcudnn.so.9':
            self.make('site/nvidia/' + library)
        self.says('not installed: pip install nvidia-nccl-cu13 nvidia-cuda-nvrtc$')
        for library in 'nccl/lib/libnccl.so.2', 'cu13/lib/libnvrtc.so.13':
            self.make('site/nvidia/' + library)
        self.says('has no checks in it: give --pack DIR')
        self.says('nowhere: not a folder', '--pack', 'nowhere')

    def test_runs_the_checks_with_this_python(self):
        self.make('pack/run.sh', 'echo "$@"; command -v python3; exit 7\n')
        os.mkdir('pack/exe')
        r = self.check('--pack', 'pack', '--quick')
        self.assertEqual(r.returncode, 7)
        self.assertEqual(r.stdout.split(), ['--out', os.path.abspath('gpu-check'), '--quick',
                                            os.path.join(os.path.dirname(sys.executable), 'python3')])


class Steering(Case):
    def test_progress(self):
        told = []
        pgfit.unwrap('parallel.h5', 'out.h5', progress=lambda done, all: told.append((done, all)))
        self.assertTrue(told)
        self.assertTrue(all(done <= n for done, n in told))

    def test_progress_that_fails_ends_the_call(self):
        def fail(done, all):
            raise KeyError('mine')
        self.refused(KeyError, pgfit.unwrap, 'parallel.h5', 'out.h5', progress=fail)
        self.assertFalse(os.path.exists('out.h5'))

    def test_interrupt_leaves_nothing(self):
        def interrupt(done, all):
            os.kill(os.getpid(), signal.SIGINT)
            while not seen:  # the main thread passes it on
                pass
        seen, before = [], signal.getsignal(signal.SIGINT)

        def handler(number, frame):
            seen.append(1)
            before(number, frame)
        signal.signal(signal.SIGINT, handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        sys.setswitchinterval(1e-4)
        large()
        self.refused(KeyboardInterrupt, pgfit.convert, 'large.safetensors', 'out.safetensors', progress=interrupt)
        self.assertEqual([f for f in os.listdir('.') if 'out' in f], [])

    def test_names_that_are_no_utf8(self):
        os.rename('parallel.h5', os.fsdecode(b'p\xff.h5'))
        self.assertEqual(pgfit.inspect(os.fsdecode(b'p\xff.h5')).verdict, 'wrapper')

    def test_a_library_that_is_not_there(self):
        places = _library._places
        self.addCleanup(setattr, _library, '_places', places)
        self.assertTrue(any('pgfit' in p for p in places()))
        _library._places = lambda: iter(['/nowhere/libpg.so', __file__])
        error = self.refused(pgfit.LibraryError, _library.path)
        self.assertIsInstance(error, ImportError)
        self.assertIn('/nowhere/libpg.so', str(error))
        self.assertIn(__file__, str(error))

    def test_the_version_is_the_librarys(self):
        self.assertTrue(os.path.samefile(_library.path(), os.environ['PG_LIBRARY']))
        self.assertEqual(_library.lib.pg_version().decode(), pgfit.__version__)

    def test_every_action_has_words(self):
        from pgfit import _hints
        silent = {'PG_DO_NOTHING', 'PG_N_DO', 'PG_DO_SET', 'PG_DO_GIVE', 'PG_DO_CHOOSE_DATA'}
        of_plans = {'PG_DO_MEASURE_LINK'}
        words = set(_hints._CALLS) | set(_hints._WORDS)
        self.assertEqual(set(_hints.abi.enums['pg_do']) - silent - of_plans, words)


def large():
    """large.safetensors, of 64 MB: long enough to be interrupted."""
    header = b'{"w":{"dtype":"F32","shape":[16777216],"data_offsets":[0,67108864]}}'
    with open('large.safetensors', 'wb') as f:
        f.write(len(header).to_bytes(8, 'little') + header)
        f.truncate(8 + len(header) + 67108864)


unittest.main(argv=sys.argv[:1], verbosity=1)
