"""Where TensorFlow's Keras 2, tf2onnx and onnxruntime are: makes the models, converts them with tf2onnx, and times both files in
ONNX Runtime.

usage: inside.py make NAME FOLDER | inside.py convert FOLDER | inside.py time FOLDER SECONDS      prints JSON"""
import json
import os
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
SIDES = {"MobileNetV2": 224, "ResNet50": 224, "EfficientNetB0": 224, "InceptionV3": 299, "DenseNet121": 224}


def applications(keras, name):
    return getattr(keras.applications, name)(weights=None)


def mlp(keras, L):
    return keras.Sequential([L.Input((784,)), L.Dense(512, activation="relu"), L.Dropout(0.2), L.Dense(512, activation="relu"), L.Dense(10, activation="softmax")])


def cnn(keras, L):
    return keras.Sequential([L.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Conv2D(64, 3, activation="relu"),
                             L.MaxPooling2D(), L.Flatten(), L.Dense(128, activation="relu"), L.Dense(10, activation="softmax")])


def lstm(keras, L):
    return keras.Sequential([L.Input((100,), dtype="int32"), L.Embedding(5000, 64), L.LSTM(128), L.Dense(1, activation="sigmoid")])


def bigru(keras, L):
    return keras.Sequential([L.Input((100, 32)), L.Bidirectional(L.GRU(64, return_sequences=True)), L.Bidirectional(L.GRU(64)), L.Dense(5, activation="softmax")])


def transformer(keras, L):
    x = i = L.Input((64,), dtype="int32")
    x = L.Embedding(5000, 128)(x)
    for _ in range(2):
        y = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(4, 32)(x, x)]))
        x = L.LayerNormalization()(L.Add()([y, L.Dense(128)(L.Dense(512, activation="gelu")(y))]))
    return keras.Model(i, L.Dense(2, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def unet(keras, L):
    def twice(x, n):
        for _ in range(2):
            x = L.ReLU()(L.BatchNormalization()(L.Conv2D(n, 3, padding="same", use_bias=False)(x)))
        return x
    x = i = L.Input((128, 128, 3))
    kept = []
    for n in (16, 32, 64):
        kept.append(twice(x, n))
        x = L.MaxPooling2D()(kept[-1])
    x = twice(x, 128)
    for n, k in zip((64, 32, 16), reversed(kept)):
        x = twice(L.Concatenate()([L.Conv2DTranspose(n, 2, strides=2)(x), k]), n)
    return keras.Model(i, L.Conv2D(1, 1, activation="sigmoid")(x))


def make(name, folder):
    import keras
    import numpy as np
    keras.utils.set_random_seed(1)
    own = {"MLP": mlp, "CNN": cnn, "LSTM": lstm, "BiGRU": bigru, "Transformer": transformer, "U-Net": unet}
    model = own[name](keras, keras.layers) if name in own else applications(keras, name)
    rng = np.random.default_rng(1)
    # no zeros, no ones, as training leaves them: else biases are dropped, equal ones are one, and nothing is folded
    model.set_weights([w * rng.uniform(0.8, 1.2, w.shape) + (0.01 * rng.uniform(0.5, 1, w.shape) if w.size and not w.any() else 0)
                       for w in model.get_weights()])
    s = (1,) + model.input_shape[1:]
    x = rng.integers(1, 5000, s).astype("int32") if "int" in str(model.inputs[0].dtype) else rng.uniform(0, 1, s).astype("float32")
    model.save(os.path.join(folder, "model.h5"))
    np.save(os.path.join(folder, "x.npy"), x)
    np.save(os.path.join(folder, "y.npy"), np.asarray(model(x, training=False)))
    print(json.dumps({"parameters": model.count_params()}))


def convert(folder):
    import keras
    import tf2onnx
    began = time.monotonic()
    model = keras.models.load_model(os.path.join(folder, "model.h5"), compile=False)
    tf2onnx.convert.from_keras(model, output_path=os.path.join(folder, "theirs.onnx"))
    print(json.dumps({"seconds": time.monotonic() - began}))


def timed(folder, seconds):
    """Both files in turn, one thread, batches of one row."""
    import numpy as np
    import onnx
    import onnxruntime as ort
    x, y = (np.load(os.path.join(folder, k + ".npy")) for k in "xy")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    report, runs = {}, {}
    for who in ("ours", "theirs"):
        path = os.path.join(folder, who + ".onnx")
        s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = {s.get_inputs()[0].name: x}
        got = s.run(None, feed)[0]
        runs[who] = (s, feed, [])
        report[who] = {"nodes": len(onnx.load(path).graph.node), "bytes": os.path.getsize(path), "off": float(np.abs(got - y).max() / np.abs(y).max())}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(runs["ours"][2]) < 10:
        for s, feed, times in runs.values():
            began = time.perf_counter()
            s.run(None, feed)
            times.append(time.perf_counter() - began)
    for who, (_, _, times) in runs.items():
        report[who].update(ms=1e3 * statistics.median(times), least=1e3 * min(times), runs=len(times))
    print(json.dumps({"onnxruntime": ort.__version__, **report}))


if __name__ == "__main__":
    {"make": make, "convert": convert, "time": lambda f, s: timed(f, float(s))}[sys.argv[1]](*sys.argv[2:])
