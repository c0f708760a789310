#!/usr/bin/env python3
"""Predictions by Keras, ONNX Runtime and OpenVINO, and the models for them.

usage: predict_peer.py make MODEL DIR          Keras: DIR/MODEL.keras, and rows DIR/MODEL.npz (all), DIR/MODEL-1.npz (one)
       predict_peer.py export MODEL DIR        PyTorch: DIR/MODEL.onnx, the same architecture, as torchvision has it
       predict_peer.py keras|onnx|openvino MODEL DIR BATCH

The last prints a JSON line: seconds from the start of the process to the first prediction (of one row), and the least time for a
row of all rows in batches."""
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
AGAIN = 3


def rows_of(model, n):
    r = np.random.default_rng(0)
    if model == 'bertmini':
        return {'x0': r.integers(0, BERT['vocab'], (n, BERT['seq'])).astype('int64'), 'x1': np.tile(np.arange(BERT['seq'], dtype='int64'), (n, 1))}
    return {'x0': r.standard_normal((n, 224, 224, 3), dtype=np.float32)}


def make(model, folder):
    import subprocess
    from tensorflow import keras
    if model in CLASSES:
        m = getattr(keras.applications, CLASSES[model][0])(weights=None)
    else:
        subprocess.run([sys.executable, os.path.join(HERE, 'keras_peer.py'), model, '--export', folder], check=True)
        with open(os.path.join(folder, model + '.json')) as f:
            m = keras.models.model_from_json(f.read())
    m.save(os.path.join(folder, model + '.keras'))
    np.savez(os.path.join(folder, model + '.npz'), **rows_of(model, ROWS[model]))
    np.savez(os.path.join(folder, model + '-1.npz'), **rows_of(model, 1))


def export(model, folder):
    import torch
    path = os.path.join(folder, model + '.onnx')
    if model in CLASSES:
        import torchvision
        m, x = getattr(torchvision.models, CLASSES[model][1])(weights=None), torch.randn(1, 3, 224, 224)
    else:
        import torch_peer
        m, x = torch_peer.build(model), torch.zeros(1, BERT['seq'], dtype=torch.int64)
    torch.onnx.export(m.eval(), x, path, input_names=['x'], dynamic_axes={'x': {0: 'n'}}, opset_version=17)


def keras_predictor(model, folder):
    from tensorflow import keras
    m = keras.models.load_model(os.path.join(folder, model + '.keras'), compile=False)
    return lambda x, batch: m.predict(list(x.values()) if len(x) > 1 else x['x0'], batch_size=batch, verbose=0)


def rows_for_onnx(model, x):
    return x['x0'] if model == 'bertmini' else np.ascontiguousarray(x['x0'].transpose(0, 3, 1, 2))


def onnx_predictor(model, folder):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    m = onnxruntime.InferenceSession(os.path.join(folder, model + '.onnx'), options, providers=['CPUExecutionProvider'])

    def predict(x, batch):
        v = rows_for_onnx(model, x)
        begun = time.time()
        for i in range(0, len(v), batch):
            m.run(None, {'x': v[i:i + batch]})
        return begun
    return predict


def openvino_predictor(model, folder):
    """As many requests at once as it thinks best; in float32, which it would leave where the processor has bfloat16."""
    import openvino
    m = openvino.Core().compile_model(os.path.join(folder, model + '.onnx'), 'CPU',
                                      {'PERFORMANCE_HINT': 'THROUGHPUT', 'INFERENCE_PRECISION_HINT': 'f32'})
    queue = openvino.AsyncInferQueue(m)

    def predict(x, batch):
        v = rows_for_onnx(model, x)
        begun = time.time()
        for i in range(0, len(v), batch):
            queue.start_async({'x': v[i:i + batch]})
        queue.wait_all()
        return begun
    return predict


def measure(predictor, model, folder, batch):
    predict = predictor(model, folder)
    predict(rows_of(model, 1), 1)
    first, best = time.time() - BEGUN, float('inf')
    x = rows_of(model, ROWS[model])
    for _ in range(AGAIN):
        begun = time.time()
        inside = predict(x, batch)  # what prepares rows for it does not count
        begun = inside if isinstance(inside, float) else begun
        best = min(best, (time.time() - begun) / ROWS[model])
    package = {'keras': 'keras', 'onnx': 'onnxruntime', 'openvino': 'openvino'}[WHAT]
    print(json.dumps({'ver': package + ' ' + importlib.metadata.version(package), 'first': round(first, 3), 'row_ms': round(best * 1e3, 4)}))


if __name__ == '__main__':
    WHAT, MODEL, FOLDER = sys.argv[1:4]
    if WHAT == 'make':
        make(MODEL, FOLDER)
    elif WHAT == 'export':
        export(MODEL, FOLDER)
    else:
        measure({'keras': keras_predictor, 'onnx': onnx_predictor, 'openvino': openvino_predictor}[WHAT], MODEL, FOLDER, int(sys.argv[4]))
