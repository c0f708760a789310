#!/usr/bin/env python3
"""usage: int8.py --tools DIR [--make DIR | --judge DIR]

Predictions in int8 (pgfit --quantize int8), judged by ONNX Runtime: pgconvert writes the model as ONNX, ONNX Runtime's own
quantize_dynamic makes its products MatMulInteger and ConvInteger, and predicts one row at a time, so that its scales are those of
rows, too. One layer gives the same numbers; in a second one a number that lies between two bytes may become the other one, because
sums before it have another order: then what pgfit says is nearer to ONNX Runtime's than to float32, by far. ONNX Runtime has one scale
for all filters of a convolution; those of the models have the same largest magnitude. Then a network that pgfit trains on real
digits: int8 recognises as many as it does in float32, but a few, and as many as ONNX Runtime's.
Needs PG_KERAS2_PYTHON (TensorFlow 2.15) and PG_ONNX_PYTHON (onnx, onnxruntime), skips (77) without either. --make and --judge are
the halves that run under those."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ONE, DEEP = ('image', 'sequence', 'volume', 'dense'), ('mlp', 'cnn')  # layers
MODELS = ONE + DEEP
PRODUCTS = {**dict.fromkeys(ONE, 1), 'mlp': 3, 'cnn': 4, 'digits': 2}
NEAR = 1e-6  # of the norm of all numbers
FAR = 1e-3  # what int8 changes at least
PART = 0.1  # of what it changes, that a few bytes may be


def body(L, name):
    """(input, output), of dense layers and convolutions that are all worth while in int8"""
    if name == 'dense':
        x = L.Input((9, 70))
        return x, L.Dense(100)(x)
    if name == 'image':
        x = L.Input((17, 13, 5))
        return x, L.BatchNormalization()(L.Conv2D(100, 3, strides=2, padding='same')(x))
    if name == 'mlp':
        x = L.Input((300,))
        return x, L.Dense(120)(L.Dense(150, 'relu')(L.Dense(200, 'tanh')(x)))
    if name == 'sequence':
        x = L.Input((21, 24))
        return x, L.Conv1D(48, 3, padding='causal', dilation_rate=2)(x)
    if name == 'volume':
        x = L.Input((5, 6, 7, 3))
        return x, L.Conv3D(100, 2, strides=(1, 2, 1), activation='relu')(x)
    x = L.Input((17, 13, 5))
    h = L.Conv2D(100, 3, strides=2, padding='same', activation='relu')(x)
    h = L.ReLU()(L.BatchNormalization()(L.Conv2D(40, (3, 2), dilation_rate=(1, 2))(h)))
    return x, L.Conv2D(20, 3, padding='same')(L.Conv2D(64, 1, activation='tanh')(h))


def make(d):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import numpy as np
    from tensorflow import keras
    L = keras.layers
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(1)
    for name in MODELS:
        model = keras.Model(*body(L, name))
        for layer in model.layers:
            w = layer.get_weights()
            if hasattr(layer, 'kernel_size'):
                w[0] = 0.4 * w[0] / abs(w[0]).max(axis=tuple(range(w[0].ndim - 1)))
                w[1] = rng.normal(size=w[1].shape)
            elif len(w) == 4:
                w = [rng.uniform(0.5, 1.5, v.shape) for v in w]
            layer.set_weights(w)
        model.save(d / f'{name}.keras')
        x = rng.normal(size=(9, *model.input_shape[1:])) * np.arange(1, 10).reshape(9, *[1] * (len(model.input_shape) - 1))
        np.save(d / f'{name}.npy', x.astype('f4'))
    digits = np.load(d / 'digits.npz')
    np.save(d / 'digits.npy', digits['xval0'].astype('f4'))
    np.save(d / 'labels.npy', digits['yval0'])


def judge(d):
    import numpy as np
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def predict(path, x):
        s = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
        return np.concatenate([s.run(None, {s.get_inputs()[0].name: x[i:i + 1]})[0] for i in range(len(x))])

    def theirs(name):
        quantize_dynamic(str(d / f'{name}.onnx'), str(d / f'{name}.int8.onnx'), per_channel=True, weight_type=QuantType.QInt8,
                         op_types_to_quantize=['Conv', 'MatMul', 'Gemm'])
        return predict(d / f'{name}.int8.onnx', np.load(d / f'{name}.npy'))
    bad = 0
    for name in MODELS:
        want, got, plain = theirs(name), np.load(d / f'{name}.int8.npy'), np.load(d / f'{name}.float.npy')
        off, change = (np.linalg.norm(got - v) / np.linalg.norm(v) for v in (want, plain))
        print(f'{name}: {off:.1e} from ONNX Runtime in int8, {change:.1e} from float32')
        bad += not (off < (NEAR if name in ONE else PART * change) and change > FAR)
    labels = np.load(d / 'labels.npy').reshape(-1)
    right = {k: int((v.argmax(-1) == labels).sum()) for k, v in (('float32', np.load(d / 'digits.float.npy')),
                                                                 ('int8', np.load(d / 'digits.int8.npy')), ('ONNX Runtime', theirs('digits')))}
    print(f'digits: of {len(labels)} right', right)
    bad += abs(right['int8'] - right['float32']) > len(labels) // 100 or right['int8'] < right['ONNX Runtime'] - len(labels) // 100
    sys.exit(bad)


def run(*command):
    r = subprocess.run([str(v) for v in command], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f'{command}: {r.stderr}{r.stdout}')
    return r.stdout


def main():
    if '--make' in sys.argv or '--judge' in sys.argv:
        return (make if '--make' in sys.argv else judge)(pathlib.Path(sys.argv[-1]))
    tools = pathlib.Path(sys.argv[sys.argv.index('--tools') + 1]).resolve()
    keras, onnx = os.environ.get('PG_KERAS2_PYTHON'), os.environ.get('PG_ONNX_PYTHON')
    if not keras or not onnx:
        print('needs PG_KERAS2_PYTHON and PG_ONNX_PYTHON')
        return 77
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        (d / 'digits.npz').write_bytes((tools / 'digits/digits.npz').read_bytes())
        run(keras, __file__, '--make', d)
        run(tools / 'pgfit', '--demo', 'digits', '--deterministic', '-o', d / 'digits.keras', '--resume=never')
        for model in (*MODELS, 'digits'):
            whole, x = d / f'{model}.keras', d / f'{model}.npy'
            run(tools / 'pgconvert', whole, d / f'{model}.onnx')
            run(tools / 'pgfit', whole, '--predict', x, '--out', d / f'{model}.float.npy')
            said = run(tools / 'pgfit', whole, '--predict', x, '--out', d / f'{model}.int8.npy', '--quantize', 'int8', '--json')
            told = [e for e in map(json.loads, said.splitlines()) if e['event'] == 'quantized']
            if len(told) != 1 or told[0]['products'] != PRODUCTS[model] or not 0 < told[0]['rel_change'] < 0.1:
                sys.exit(f'{model}: {said}')
        return subprocess.run([onnx, __file__, '--judge', d]).returncode


if __name__ == '__main__':
    sys.exit(main())
