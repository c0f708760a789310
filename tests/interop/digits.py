#!/usr/bin/env python3
"""usage: digits.py --tools DIR [--keras FOLDER]

What `pgfit --demo digits` trains on two devices passes pgcheck, loads into real Keras 2.15, and predicts the same
there as pgfit does, well. Needs PG_KERAS2_PYTHON (TensorFlow 2.15) and skips (77) without it. --keras is the half
that runs under that Python."""
import os
import pathlib
import subprocess
import sys
import tempfile


def under_keras(d):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import keras
    import numpy as np
    data = np.load(d / 'digits.npz')
    model = keras.models.model_from_json((d / 'digits.json').read_text())
    model.load_weights(d / 'trained.h5')
    keras_says, ours = model.predict(data['xval0'], verbose=0), np.load(d / 'ours.npy')
    difference = float(np.abs(keras_says - ours).max())
    accuracy = float((keras_says.argmax(1) == data['yval0']).mean())
    print(f'largest difference {difference:.1e}, accuracy in Keras {accuracy:.4f}')
    return difference < 1e-5 and accuracy > 0.95


def main():
    tools = pathlib.Path(sys.argv[sys.argv.index('--tools') + 1]).resolve()
    python = os.environ.get('PG_KERAS2_PYTHON')
    if not python:
        print('needs PG_KERAS2_PYTHON')
        return 77
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        for f in ('digits.json', 'digits.npz'):
            (d / f).write_bytes((tools / 'digits' / f).read_bytes())
        subprocess.run([python, '-c', "import numpy as np; np.save('x.npy', np.load('digits.npz')['xval0'])"], cwd=d, check=True)
        for command in (['pgfit', '--demo', 'digits', '--devices', 'cpu:0,cpu:1', '-o', 'trained.h5'],
                        ['pgcheck', '--model', 'digits.json', 'trained.h5'],
                        ['pgfit', '-q', 'digits.json', '--weights', 'trained.h5', '--predict', 'x.npy', '--out', 'ours.npy']):
            subprocess.run([tools / command[0], *command[1:]], cwd=d, check=True)
        return subprocess.run([python, __file__, '--keras', d]).returncode


if '--keras' in sys.argv:
    sys.exit(not under_keras(pathlib.Path(sys.argv[sys.argv.index('--keras') + 1])))
sys.exit(main())
