#!/usr/bin/env python3
"""usage: arrays.py FOLDER TESTDATA

The package in FOLDER (tools/python) over libpg.so (PG_LIBRARY), beside NumPy: arrays out of files, training, and the examples
in docstrings. Runs under PG_JUDGE_PYTHON if this Python has no NumPy; without one it is skipped (77)."""
import doctest
import importlib
import os
import pathlib
import pkgutil
import signal
import sys
import tempfile
import threading
import time
import unittest
import warnings

sys.dont_write_bytecode = True
import needs_numpy  # noqa: E402, F401
import numpy as np  # noqa: E402

sys.path[:0] = [sys.argv[1], str(pathlib.Path(__file__).resolve().parents[1])]
import pgfit  # noqa: E402
from doc_files import lay_out  # noqa: E402

TESTDATA = pathlib.Path(sys.argv[2]).resolve()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        lay_out(TESTDATA, '.')
        data = np.load('digits.npz')
        self.x, self.y = data['x0'], data['y0']

    def fit(self, **more):
        return pgfit.fit('mlp.json', self.x, self.y, **{**dict(loss='categorical_crossentropy', optimizer='adam', verbose=0,
                                                               seed=1), **more})


class Open(Case):
    def test_mapped_arrays_outlive_the_file(self):
        f = pgfit.open('parallel.h5')
        kernel = f['conv2d_1/kernel']
        self.assertIsNotNone(kernel.base)
        self.assertFalse(kernel.flags.writeable)
        f.close()
        self.assertTrue(f.closed)
        self.assertTrue(np.isfinite(kernel).all())
        with self.assertRaisesRegex(pgfit.ArgumentError, 'closed'):
            f['conv2d_1/bias']
        with self.assertRaises(KeyError):
            f['nothing']

    def test_modes(self):
        before = pathlib.Path('parallel.h5').read_bytes()
        with pgfit.open('parallel.h5', mode='c') as f:
            f['conv2d_1/bias'][...] = 7
            self.assertTrue((f['conv2d_1/bias'] == 7).all())
        self.assertEqual(pathlib.Path('parallel.h5').read_bytes(), before)
        with pgfit.open('parallel.h5', mode='m') as f:
            self.assertIsNone(f['conv2d_1/bias'].base)
        with self.assertRaises(pgfit.ArgumentError):
            pgfit.open('parallel.h5', mode='w')

    def test_every_format_gives_the_same(self):
        with pgfit.open('model.h5') as want:
            self.assertGreater(len(want.state) + len(want.model_config), 0)
            for name in ('m.safetensors', 'm.weights.h5', 'm.keras', 'npy', 'npz'):
                pgfit.convert('model.h5', name, to=name if name.startswith('np') else None)
                with pgfit.open(name) as f:
                    self.assertEqual(sorted(a.tobytes() for a in f.values()), sorted(a.tobytes() for a in want.values()), name)

    def test_every_file_can_be_read(self):
        n = 0
        for path in sorted((TESTDATA / 'files').rglob('*')):
            if path.suffix in ('.h5', '.keras', '.safetensors', '.pt', '.pth', '.npz'):
                try:
                    f = pgfit.open(path)
                except (pgfit.UnsupportedError, pgfit.UnknownFormatError, pgfit.AmbiguousError):
                    continue
                except pgfit.DamagedError:
                    self.assertIn('.aborted.', path.name)
                    continue
                with f:
                    for name, array in f.items():
                        self.assertEqual(array.shape, f.info(name).shape)
                        n += 1
        self.assertGreater(n, 500)

    def test_numpys_own_types(self):
        values = {'a': np.arange(6, dtype='>f8').reshape(2, 3), 'b': np.array(True), 'c': np.zeros((0, 4), 'i2'),
                  'd': np.arange(12, dtype='u1').reshape(3, 4).T, 'e': np.float16(1.5) * np.ones(3, 'f2')}
        for save in (np.savez, np.savez_compressed):
            save('values.npz', **values)
            with pgfit.open('values.npz') as f:
                for name, want in values.items():
                    np.testing.assert_array_equal(f[name], want)
                    self.assertEqual(f[name].dtype, want.dtype.newbyteorder('='))

    def test_bfloat16_is_exact(self):
        pgfit.convert('model.h5', 'b.safetensors', dtype='bfloat16')
        with pgfit.open('b.safetensors') as f, pgfit.open('model.h5') as want:
            name = next(iter(f))
            self.assertEqual((f.info(name).dtype, f[name].dtype, f.raw(name).dtype), ('bfloat16', 'float32', 'uint16'))
            self.assertLess(max(abs(a - b).max() for a, b in zip(f.values(), want.values())), 0.01)


class Train(Case):
    def test_history_and_weights(self):
        run = self.fit(epochs=2, metrics=['accuracy'], validation_split=0.2)
        self.assertEqual(set(run.history), {'loss', 'accuracy', 'val_loss', 'val_accuracy', 'lr'})
        self.assertEqual((run.epoch, len(run.history['loss'])), ([0, 1], 2))
        self.assertEqual([w.dtype for w in run.weights], ['float32'] * len(run.weights))
        self.assertIn('2 epochs', repr(run))

    def test_as_the_program_does(self):
        """The same bits from arrays as from the file."""
        a, b = self.fit(epochs=2, deterministic=True), None
        b = pgfit.fit('mlp.json', 'digits.npz', loss='categorical_crossentropy', optimizer='adam', verbose=0, seed=1, epochs=2,
                      deterministic=True, devices=['cpu:0', 'cpu:0'])
        for p, q in zip(a.weights, b.weights):
            np.testing.assert_array_equal(p, q)

    def test_arrays_are_taken_where_they_are(self):
        x, seen = np.asfortranarray(self.x), []
        from pgfit import _data
        data = _data.Data(self.x, self.y)
        self.assertTrue(all(any(np.shares_memory(a, b) for b in (self.x, self.y)) for a in data._arrays.values()))
        data.close()
        self.fit(callbacks=lambda epoch, logs: seen.append(logs['loss']))
        run = pgfit.fit('mlp.json', {'x0': x}, {'y0': self.y.astype('f8')}, loss='categorical_crossentropy', optimizer='adam',
                        verbose=0, seed=1)
        self.assertEqual(run.history['loss'], seen)

    def test_a_callback_that_raises(self):
        class Mine(Exception):
            pass

        def fail(epoch, logs):
            raise Mine
        with pgfit.Trainer('mlp.json', loss='mse', seed=1) as t:
            before = t.get_weights()
            with self.assertRaises(Mine):
                t.fit(self.x, self.y, epochs=3, verbose=0, callbacks=fail)
            self.assertGreater(abs(before[0] - t.get_weights()[0]).max(), 0)
            t.fit(self.x, self.y, verbose=0)  # and can go on

    def test_stop_training(self):
        class Stop:
            ended = []

            def set_model(self, model):
                self.model = model

            def on_epoch_end(self, epoch, logs):
                self.weights = self.model.get_weights()
                self.model.stop_training = epoch == 1

            def on_train_end(self, logs):
                self.ended.append(logs)
        stop = Stop()
        run = self.fit(epochs=9, callbacks=[stop])
        self.assertEqual((run.epoch, len(Stop.ended)), ([0, 1], 1))
        np.testing.assert_array_equal(stop.weights[0], run.weights[0])

    def test_callbacks_of_libpg(self):
        run = self.fit(epochs=9, validation_split=0.2, output='t.keras', callbacks=[
            'EarlyStopping:patience=0,min_delta=10', {'class_name': 'CSVLogger', 'config': {'filename': 'log.csv'}},
            'ModelCheckpoint:filepath={epoch:02d}.h5,save_weights_only'])
        self.assertEqual(len(run.epoch), 2)
        self.assertTrue(os.path.exists('log.csv') and os.path.exists('01.h5'))
        self.assertIn('t.keras', run.files)
        self.assertTrue(pgfit.check('t.keras').ok)
        with self.assertRaises(pgfit.ArgumentError):
            self.fit(callbacks='EarlyStoping')

    def test_interrupt_keeps_the_weights(self):
        with pgfit.Trainer('mlp.json', loss='mse', seed=1) as t:
            before = t.get_weights()
            with self.assertRaises(KeyboardInterrupt):
                t.fit(self.x, self.y, epochs=10 ** 6, verbose=0,
                      callbacks=lambda epoch, logs: epoch == 2 and os.kill(os.getpid(), signal.SIGINT))
            self.assertGreater(abs(before[0] - t.get_weights()[0]).max(), 0)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_other_threads_run_meanwhile(self):
        seen, stop = [], threading.Event()

        def watch():
            while not stop.is_set():
                seen.append(1)
                time.sleep(0.001)
        thread = threading.Thread(target=watch)
        thread.start()
        x = np.ones((20000, 64), 'f4')
        pgfit.predict('mlp.json', x, weights='after.h5')
        stop.set()
        thread.join()
        self.assertGreater(len(seen), 2)

    def test_evaluate_and_predict(self):
        with pgfit.Trainer('mlp.json', weights='after.h5', loss='categorical_crossentropy', metrics=['accuracy']) as t:
            p = t.predict(self.x)
            self.assertEqual(p.shape, self.y.shape)
            scores = t.evaluate(self.x, self.y)
            self.assertAlmostEqual(scores['accuracy'], (p.argmax(1) == self.y.argmax(1)).mean(), 6)
            self.assertAlmostEqual(scores['loss'], -np.log(p[self.y > 0]).mean(), 4)
            self.assertTrue(pgfit.check('after.h5', model='mlp.json', input=self.x, expect=p).ok)
            self.assertFalse(pgfit.check('before.h5', model='mlp.json', input=self.x, expect=p).ok)
            t.save('saved.h5')
            self.assertTrue(pgfit.diff('saved.h5', 'after.h5').equal)
            self.assertEqual([v.shape for v in t.variables], [w.shape for w in t.get_weights()])
        with self.assertRaises(pgfit.ArgumentError):
            t.predict(self.x)

    def test_int8(self):
        with pgfit.Trainer('mlp.json', weights='after.h5', for_prediction=True, quantize='int8') as t:
            self.assertLess(abs(t.predict(self.x) - t.predict(self.x, unquantized=True)).max(), 0.02)
            change = t.quantized(self.x)
            self.assertEqual((change['rows'], change['choices']), (len(self.x), len(self.x)))
            t.reset_states()
        for wrong in (True, 8):  # a number is no text
            with self.assertRaisesRegex(pgfit.ArgumentError, 'is a text'):
                pgfit.predict('mlp.json', self.x, quantize=wrong)
        with self.assertRaisesRegex(pgfit.ArgumentError, 'float32'):
            pgfit.fit('mlp.json', self.x, self.y, quantize='int8')

    def test_weights_that_nobody_trained(self):
        with self.assertWarnsRegex(UserWarning, 'initializers'):
            pgfit.predict('mlp.json', self.x)

    def test_sets_of_a_file(self):
        data = np.load('digits.npz')
        np.savez('sets.npz', x_train=self.x, y_train=self.y, x_test=data['xval0'], y_test=data['yval0'])
        a = pgfit.fit('mlp.json', 'sets.npz', loss='mse', verbose=0, seed=1, validation_data='test')
        b = pgfit.fit('mlp.json', self.x, self.y, loss='mse', verbose=0, seed=1, validation_data=(data['xval0'], data['yval0']))
        self.assertEqual(a.history, b.history)
        with self.assertRaises(pgfit.MismatchError) as e:
            pgfit.fit('mlp.json', self.x, loss='mse', verbose=0)
        self.assertIn('y=', e.exception.hint)

    def test_what_does_not_fit(self):
        with self.assertRaises(pgfit.MismatchError) as e:
            pgfit.fit('mlp.json', self.x[:, :3], self.y, loss='mse', verbose=0)
        self.assertEqual(e.exception.status, 'PG_E_MISMATCH')
        for x, y, more in ((self.x[:9], self.y, {}), (self.x, self.y, {'optimiser': 'adam'}), (self.x, self.y, {'precision': 'f8'}),
                           (np.array(['a']), self.y, {}), (np.float32(1), self.y, {}), ('digits.npz', self.y, {})):
            with self.assertRaises((pgfit.ArgumentError, pgfit.MismatchError)):
                pgfit.fit('mlp.json', x, y, loss='mse', verbose=0, **more)

    def test_weights_of_rows_and_classes(self):
        plain = self.fit(shuffle=False).history['loss'][0]
        self.assertNotEqual(plain, self.fit(shuffle=False, class_weight={i: 2.0 - i / 9 for i in range(10)}).history['loss'][0])
        w = np.full(len(self.x), 2, 'f4')
        self.assertAlmostEqual(2 * self.fit(shuffle=False, optimizer='sgd:learning_rate=0').history['loss'][0],
                               self.fit(shuffle=False, optimizer='sgd:learning_rate=0', sample_weight=w).history['loss'][0], 5)

    def test_warnings_are_pythons(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            self.fit(callbacks='EarlyStopping:monitor=loss')
        self.assertEqual([str(w.message) for w in caught], [])


def load_tests(loader, tests, pattern):
    """The examples in docstrings, each in a folder with the files that they speak of."""
    for module in pkgutil.iter_modules(pgfit.__path__):
        if module.name not in ('torch',):
            tests.addTests(doctest.DocTestSuite(importlib.import_module('pgfit.' + module.name), setUp=lay, tearDown=leave))
    return tests


def lay(test):
    test.folder, test.before = tempfile.TemporaryDirectory(), os.getcwd()
    os.chdir(test.folder.name)
    lay_out(TESTDATA, '.')


def leave(test):
    os.chdir(test.before)
    test.folder.cleanup()


unittest.main(argv=sys.argv[:1], verbosity=1)
