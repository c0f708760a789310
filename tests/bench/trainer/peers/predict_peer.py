#!/usr/bin/env python3
"""Predictions by Keras, ONNX Runtime and OpenVINO, and the models for them.

usage: predict_peer.py make MODEL DIR                 Keras: DIR/MODEL.keras, and rows DIR/MODEL.npz (all), DIR/MODEL-1.npz (one)
       predict_peer.py export MODEL DIR               PyTorch: DIR/MODEL.onnx, the same architecture, as torchvision has it
       predict_peer.py quantize-onnx MODEL DIR        ONNX Runtime: DIR/MODEL-int8.onnx of it
       predict_peer.py quantize-openvino MODEL DIR    OpenVINO, by NNCF: DIR/MODEL-int8.xml of it
       predict_peer.py error-onnx|error-openvino|error-pgfit MODEL DIR
       predict_peer.py keras|onnx|openvino|onnx-int8|openvino-int8 MODEL DIR BATCH

error prints a JSON line: of the outputs in int8 the relative error against those of the same program in float32; pgfit's are in
DIR/MODEL-pgfit.npz and DIR/MODEL-pgfit-int8.npz. The last prints a JSON line: seconds from the start of the process to the first
prediction (of one row), and the least time for a row of all rows in batches. The weights are random, those of MODEL.onnx are others
than those of MODEL.keras."""
import importlib.metadata
import json
import os
import sys
import time

BEGUN = float(os.environ.get('BENCH_T0', time.time()))
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('CUDA_VISIBLE_DEVICES', '')
sys.path.insert(0, HERE)
import numpy as np  # noqa: E402
from specs import BERT  # noqa: E402

ROWS = {'resnet50': 64, 'mobilenetv2': 128, 'bertmini': 256}
CLASSES = {'resnet50': ('ResNet50', 'resnet50'), 'mobilenetv2': ('MobileNetV2', 'mobilenet_v2')}  # in Keras, in torchvision
FILES = {'keras': '.keras', 'onnx': '.onnx', 'openvino': '.onnx', 'onnx-int8': '-int8.onnx', 'openvino-int8': '-int8.xml'}
BLOTCHES = (1, 7, 28, 224)  # so many along a side: images differ in more than the noise of their pixels
AGAIN = 3
FEW = 8  # rows that statistics and the ranges of int8 are taken of


def rows_of(model, n):
    r = np.random.default_rng(0)
    if model == 'bertmini':
        return {'x0': r.integers(0, BERT['vocab'], (n, BERT['seq'])).astype('int64'), 'x1': np.tile(np.arange(BERT['seq'], dtype='int64'), (n, 1))}
    x = np.zeros((n, 224, 224, 3), np.float32)
    for row in x:
        for size in BLOTCHES:
            row += np.kron(r.standard_normal((size, size, 3), dtype=np.float32), np.full((224 // size, 224 // size, 1), len(BLOTCHES) ** -.5, np.float32))
    return {'x0': x}


def keras_statistics(m, x):
    """Those of its rows are what its batch normalizations use: with random kernels and none, hardly anything of a row arrives at the end."""
    from tensorflow import keras
    layers = [layer for layer in m.layers if isinstance(layer, keras.layers.BatchNormalization)]
    usual = layers[0].momentum
    for layer in layers:
        layer.momentum = 0.
    m(x, training=True)
    for layer in layers:
        layer.momentum = usual


def torch_statistics(m, x):
    import torch
    for layer in m.eval().modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.train()
            layer.momentum = 1.
    with torch.no_grad():
        m(torch.from_numpy(x))


def make(model, folder):
    import subprocess
    from tensorflow import keras
    keras.utils.set_random_seed(0)
    if model in CLASSES:
        m = getattr(keras.applications, CLASSES[model][0])(weights=None)
        keras_statistics(m, rows_of(model, FEW)['x0'])
    else:
        subprocess.run([sys.executable, os.path.join(HERE, 'keras_peer.py'), model, '--export', folder], check=True)
        with open(os.path.join(folder, model + '.json')) as f:
            m = keras.models.model_from_json(f.read())
    m.save(os.path.join(folder, model + '.keras'))
    np.savez(os.path.join(folder, model + '.npz'), **rows_of(model, ROWS[model]))
    np.savez(os.path.join(folder, model + '-1.npz'), **rows_of(model, 1))


def export(model, folder):
    import torch
    torch.manual_seed(0)
    path = os.path.join(folder, model + '.onnx')
    if model in CLASSES:
        import torchvision
        m, x = getattr(torchvision.models, CLASSES[model][1])(weights=None), torch.randn(1, 3, 224, 224)
        torch_statistics(m, rows_for_onnx(model, rows_of(model, FEW)))
    else:
        import torch_peer
        m, x = torch_peer.build(model), torch.zeros(1, BERT['seq'], dtype=torch.int64)
    torch.onnx.export(m.eval(), x, path, input_names=['x'], dynamic_axes={'x': {0: 'n'}}, opset_version=17)


def saved(model, folder, suffix=''):
    with np.load(os.path.join(folder, model + suffix + '.npz')) as f:
        return dict(f)


def rows_for_onnx(model, x):
    return x['x0'] if model == 'bertmini' else np.ascontiguousarray(x['x0'].transpose(0, 3, 1, 2))


def few_for_onnx(model):
    return [{'x': row[None]} for row in rows_for_onnx(model, rows_of(model, FEW))]


def quantize_onnx(model, folder):
    """As its documentation has it for processors with VNNI: static for images, dynamic for transformers."""
    import onnxruntime.quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process
    path = os.path.join(folder, model)

    class Reader(q.CalibrationDataReader):
        rows = iter(few_for_onnx(model))

        def get_next(self):
            return next(self.rows, None)
    quant_pre_process(path + '.onnx', path + '-plain.onnx')
    if model in CLASSES:
        q.quantize_static(path + '-plain.onnx', path + '-int8.onnx', Reader(), per_channel=True, activation_type=q.QuantType.QUInt8,
                          weight_type=q.QuantType.QInt8)
    else:
        q.quantize_dynamic(path + '-plain.onnx', path + '-int8.onnx', per_channel=True, weight_type=q.QuantType.QInt8)


def quantize_openvino(model, folder):
    import nncf
    import openvino
    path = os.path.join(folder, model)
    m = nncf.quantize(openvino.Core().read_model(path + '.onnx'), nncf.Dataset(few_for_onnx(model)))
    openvino.save_model(m, path + '-int8.xml')


def keras_predictor(model, path):
    from tensorflow import keras
    m = keras.models.load_model(path, compile=False)
    return lambda x, batch: m.predict(list(x.values()) if len(x) > 1 else x['x0'], batch_size=batch, verbose=0)


def onnx_session(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    return onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])


def onnx_predictor(model, path):
    m = onnx_session(path)

    def predict(x, batch):
        v = rows_for_onnx(model, x)
        begun = time.time()
        for i in range(0, len(v), batch):
            m.run(None, {'x': v[i:i + batch]})
        return begun
    return predict


def openvino_compiled(path):
    """As many requests at once as it thinks best; what is not int8 in float32, which it would leave where the processor has bfloat16."""
    import openvino
    return openvino.Core().compile_model(path, 'CPU', {'PERFORMANCE_HINT': 'THROUGHPUT', 'INFERENCE_PRECISION_HINT': 'f32'})


def openvino_predictor(model, path):
    import openvino
    queue = openvino.AsyncInferQueue(openvino_compiled(path))

    def predict(x, batch):
        v = rows_for_onnx(model, x)
        begun = time.time()
        for i in range(0, len(v), batch):
            queue.start_async({'x': v[i:i + batch]})
        queue.wait_all()
        return begun
    return predict


def outputs(program, model, folder):
    """Of all rows: logits, or logarithms of probabilities, which differ from them by a constant of the row."""
    if program.startswith('pgfit'):
        return np.log(next(iter(saved(model, folder, '-' + program).values())))
    x, path = rows_for_onnx(model, saved(model, folder)), os.path.join(folder, model + FILES[program])
    return onnx_session(path).run(None, {'x': x})[0] if program.startswith('onnx') else openvino_compiled(path)({'x': x})[0]


def error(program, model, folder):
    """In shares of the norm; without the mean over classes, since what probabilities have in common would hide it."""
    whole, int8 = (y - y.mean(axis=-1, keepdims=True) for y in (outputs(p, model, folder) for p in (program, program + '-int8')))
    print(json.dumps({'error': float(np.linalg.norm(int8 - whole) / np.linalg.norm(whole))}))


def measure(program, model, folder, batch):
    package = {'keras': 'keras', 'onnx': 'onnxruntime', 'openvino': 'openvino'}[program.removesuffix('-int8')]
    predictor = {'keras': keras_predictor, 'onnxruntime': onnx_predictor, 'openvino': openvino_predictor}[package]
    predict = predictor(model, os.path.join(folder, model + FILES[program]))
    predict(saved(model, folder, '-1'), 1)
    first, best = time.time() - BEGUN, float('inf')
    x = saved(model, folder)
    for _ in range(AGAIN):
        begun = time.time()
        inside = predict(x, batch)  # what prepares rows for it does not count
        begun = inside if isinstance(inside, float) else begun
        best = min(best, (time.time() - begun) / ROWS[model])
    print(json.dumps({'ver': package + ' ' + importlib.metadata.version(package), 'first': round(first, 3), 'row_ms': round(best * 1e3, 4)}))


if __name__ == '__main__':
    WHAT, MODEL, FOLDER = sys.argv[1:4]
    if WHAT.startswith('error-'):
        error(WHAT.removeprefix('error-'), MODEL, FOLDER)
    elif WHAT in FILES:
        measure(WHAT, MODEL, FOLDER, int(sys.argv[4]))
    else:
        {'make': make, 'export': export, 'quantize-onnx': quantize_onnx, 'quantize-openvino': quantize_openvino}[WHAT](MODEL, FOLDER)
