#!/usr/bin/env python3
"""libpg's table of layer classes against real Keras: every class of keras.layers is built, and the variables that Keras makes
(names, shapes, trainable or not, order) are compared with what libpg foretells from the model's JSON alone.

usage: layer_vars.py --vars PROGRAM [-v]      PROGRAM: the test program vars.c
       layer_vars.py --emit DIR               run inside a Keras: writes DIR/<case>.json and DIR/cases.json
Environments: PG_KERAS2_PYTHON, PG_KERAS3_PYTHON, as in run.py; with none of them the test is skipped (exit 77)."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

SEQ, IMG, VOL, VID, VEC, IDS = (6, 5), (8, 8, 3), (6, 6, 6, 3), (4, 8, 8, 3), (5,), (6,)


def recipes(L, v3):
    """(name, layer, input shape or list of them)"""
    two = [SEQ, SEQ]
    yield from ((n, getattr(L, n)(*a, **k), s) for n, a, k, s in (
        ("Dense", (4,), {}, VEC), ("Dense", (4,), {"use_bias": False}, SEQ), ("Dense", (4,), {"trainable": False}, VEC),
        ("Embedding", (9, 4), {}, IDS), ("EinsumDense", ("abc,cd->abd",), {"output_shape": (None, 7), "bias_axes": "d"}, SEQ),
        ("Conv1D", (4, 3), {}, SEQ), ("Conv2D", (4, (3, 2)), {}, IMG), ("Conv2D", (6, 3), {"groups": 3}, IMG),
        ("Conv3D", (4, 2), {}, VOL), ("Conv1DTranspose", (4, 2), {}, SEQ), ("Conv2DTranspose", (4, 2), {}, IMG),
        ("Conv3DTranspose", (4, 2), {}, VOL), ("DepthwiseConv1D", (2,), {"depth_multiplier": 2}, SEQ),
        ("DepthwiseConv2D", (2,), {"depth_multiplier": 2}, IMG), ("SeparableConv1D", (4, 2), {"depth_multiplier": 2}, SEQ),
        ("SeparableConv2D", (4, 2), {}, IMG), ("BatchNormalization", (), {}, IMG),
        ("BatchNormalization", (), {"scale": False}, SEQ), ("BatchNormalization", (), {"center": False}, SEQ),
        ("BatchNormalization", (), {"trainable": False}, SEQ), ("LayerNormalization", (), {}, SEQ),
        ("LayerNormalization", (), {"axis": [1, 2]}, SEQ), ("LayerNormalization", (), {"axis": [-1, -2]}, SEQ), ("LayerNormalization", (), {"scale": False}, SEQ),
        ("GroupNormalization", (5,), {}, SEQ), ("Normalization", (), {}, VEC), ("Normalization", (), {"mean": [0.0] * 5, "variance": [1.0] * 5}, VEC),
        ("UnitNormalization", (), {}, SEQ), ("PReLU", (), {"shared_axes": [1]}, SEQ), ("PReLU", (), {}, IMG),
        ("SimpleRNN", (3,), {}, SEQ), ("LSTM", (3,), {}, SEQ), ("LSTM", (3,), {"use_bias": False}, SEQ), ("GRU", (3,), {}, SEQ),
        ("GRU", (3,), {"reset_after": False}, SEQ), ("ConvLSTM1D", (3, 2), {}, (4, 6, 5)), ("ConvLSTM2D", (3, 2), {}, VID),
        ("ConvLSTM3D", (3, 2), {}, (2,) + VOL), ("RNN", ([L.LSTMCell(3), L.GRUCell(4), L.SimpleRNNCell(2)],), {}, SEQ),
        ("RNN", (L.GRUCell(3),), {}, SEQ), ("Bidirectional", (L.LSTM(3),), {}, SEQ),
        ("Bidirectional", (L.GRU(3),), {"backward_layer": L.GRU(4, go_backwards=True), "merge_mode": "concat"}, SEQ),
        ("TimeDistributed", (L.Dense(3),), {}, SEQ), ("TimeDistributed", (L.BatchNormalization(),), {}, SEQ),
        ("SpectralNormalization", (L.Conv2D(4, 2),), {}, IMG), ("SpectralNormalization", (L.Dense(4),), {}, VEC),
        ("MultiHeadAttention", (2, 3), {"value_dim": 4}, two), ("MultiHeadAttention", (2, 3), {"use_bias": False}, two),
        ("Attention", (), {"use_scale": True, "score_mode": "concat"}, two), ("Attention", (), {}, two),
        ("AdditiveAttention", (), {}, two), ("AdditiveAttention", (), {"use_scale": False}, two),
        ("Discretization", (), {"bin_boundaries": [0.0, 1.0]}, VEC), ("Activation", ("relu",), {}, VEC),
        ("CategoryEncoding", (4,), {}, IDS), ("CenterCrop", (4, 4), {}, IMG), ("Cropping1D", (1,), {}, SEQ), ("Dot", (1,), {}, two),
        ("Dropout", (0.1,), {}, VEC), ("AlphaDropout", (0.1,), {}, VEC), ("GaussianDropout", (0.1,), {}, VEC),
        ("GaussianNoise", (0.1,), {}, VEC), ("Permute", ((2, 1),), {}, SEQ), ("RepeatVector", (3,), {}, VEC),
        ("Rescaling", (0.5,), {}, IMG), ("Reshape", ((30,),), {}, SEQ), ("Resizing", (4, 4), {}, IMG),
        ("RandomBrightness", (0.1,), {}, IMG), ("RandomContrast", (0.1,), {}, IMG), ("RandomCrop", (4, 4), {}, IMG),
        ("RandomRotation", (0.1,), {}, IMG), ("RandomTranslation", (0.1, 0.1), {}, IMG), ("RandomZoom", (0.1,), {}, IMG),
        ("SpatialDropout1D", (0.1,), {}, SEQ), ("SpatialDropout2D", (0.1,), {}, IMG), ("SpatialDropout3D", (0.1,), {}, VOL)))
    model = [L.Dense(3), L.BatchNormalization(), L.Dense(2)]
    import keras
    yield "TimeDistributed", L.TimeDistributed(keras.Sequential(model)), SEQ
    if v3:
        yield from ((n, getattr(L, n)(*a, **k), s) for n, a, k, s in (
            ("Dense", (4,), {"lora_rank": 2}, VEC), ("Conv2D", (4, 2), {"lora_rank": 2}, IMG),
            ("Embedding", (9, 4), {"lora_rank": 2}, IDS), ("GroupQueryAttention", (3, 4, 2), {}, two),
            ("EinsumDense", ("abc,cd->abd",), {"output_shape": (None, 7), "bias_axes": "d", "lora_rank": 2}, SEQ),
            ("LayerNormalization", (), {"rms_scaling": True}, SEQ), ("AutoContrast", (), {}, IMG), ("Solarization", (), {}, IMG)))
    else:
        yield from ((n, getattr(L, n)(*a, **k), s) for n, a, k, s in (
            ("LocallyConnected1D", (4, 2), {}, SEQ), ("LocallyConnected2D", (4, 2), {}, IMG),
            ("LocallyConnected2D", (4, 2), {"implementation": 2}, IMG), ("LocallyConnected2D", (4, 2), {"implementation": 3}, IMG),
            ("Discretization", (), {"num_bins": 3}, VEC), ("RandomHeight", (0.1,), {}, IMG), ("RandomWidth", (0.1,), {}, IMG),
            ("ThresholdedReLU", (), {}, VEC)))


# Not layers of a model's own, or not to be built without more (vocabularies, other frameworks, code).
NOT_TRIED = {"Layer", "Wrapper", "AbstractRNNCell", "DenseFeatures", "HashedCrossing", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization",
             "InputLayer", "Lambda", "FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper", "Pipeline", "StackedRNNCells", "GRUCell",
             "LSTMCell", "SimpleRNNCell", "MelSpectrogram"}
MERGES = {"Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract"}


def emit(folder):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import inspect
    import keras
    L = keras.layers
    v3 = keras.__version__[0] == "3"
    cases, seen = [], set()

    def add(name, layer, shape):
        many = isinstance(shape, list)
        ins = [keras.Input(s) for s in (shape if many else [shape])]
        out = layer(*ins) if name.endswith("Attention") and "Head" in name or name.startswith("GroupQuery") else layer(ins if many else ins[0])
        model = keras.Model(ins, out)
        seen.add(type(layer).__name__)
        path = os.path.join(folder, "%03d-%s.json" % (len(cases), name))
        with open(path, "w") as f:
            f.write(model.to_json())
        w = [("T", x) for x in layer.trainable_weights] + [("N", x) for x in layer.non_trainable_weights]
        cases.append({"file": path, "class": name, "layer": layer.name,
                      "vars": [[t, (getattr(x, "path", None) or x.name).split(":")[0].split("/")[-1], list(x.shape)] for t, x in w]})

    for name, layer, shape in recipes(L, v3):
        add(name, layer, shape)
    for name in sorted(dir(L)):
        c = getattr(L, name)
        if not inspect.isclass(c) or not issubclass(c, L.Layer) or c.__name__ in seen or name in NOT_TRIED:
            continue
        rank = [s for d, s in (("1D", SEQ), ("2D", IMG), ("3D", VOL)) if d in name]
        shape = [SEQ, SEQ] if name in MERGES else rank[0] if rank else IMG
        add(c.__name__, c(pool_size=2) if c.__name__.startswith(("AveragePooling", "MaxPooling")) else c(), shape)
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump({"version": keras.__version__, "cases": cases}, f)


def foretold(program, files):
    """{file: {layer: (known, [[T|N, names, dims]])}}"""
    out, at, layer = {}, None, None
    text = subprocess.run([program] + files, stdout=subprocess.PIPE, text=True).stdout
    for line in text.splitlines():
        w = line.split(" ")
        if line in files:
            at = out.setdefault(line, {})
        elif w[0] in ("T", "N") and layer is not None:
            layer[1].append([w[0], w[1].split("|"), w[2:]])
        elif w[0] == "error":
            at["error"] = line
        else:
            layer = at.setdefault(w[0], (w[1] == "known", []))
    return out


def differs(case, got):
    if "error" in got:
        return got["error"]
    if case["layer"] not in got:
        return "no such leaf"
    known, vs = got[case["layer"]]
    if not known:
        return "class unknown"
    if len(vs) != len(case["vars"]):
        return "%d variables, Keras has %d" % (len(vs), len(case["vars"]))
    for (t, names, dims), (kt, kname, kdims) in zip(vs, case["vars"]):
        fits = dims == ["any"] or (len([d for d in dims if d]) == len(kdims) and
                                   all(d == "?" or int(d) == k for d, k in zip(dims, kdims) if d))
        if t != kt or kname not in names or not fits:
            return "%s %s %s, Keras has %s %s %s" % (t, "|".join(names), dims, kt, kname, kdims)
    return None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vars")
    ap.add_argument("--emit")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    if a.emit:
        return emit(a.emit)
    bad = judged = 0
    for env in ("PG_KERAS2_PYTHON", "PG_KERAS3_PYTHON"):
        python = os.environ.get(env)
        if not python:
            continue
        with tempfile.TemporaryDirectory() as d:
            subprocess.run([python, os.path.abspath(__file__), "--emit", d], check=True, stderr=None if a.v else subprocess.DEVNULL)
            with open(os.path.join(d, "cases.json")) as f:
                told = json.load(f)
            got = foretold(a.vars, [c["file"] for c in told["cases"]])
            for c in told["cases"]:
                why = differs(c, got.get(c["file"], {"error": "no answer"}))
                judged += 1
                if why:
                    bad += 1
                    print("Keras %s: %s: %s" % (told["version"], os.path.basename(c["file"]), why))
            print("Keras %s: %d layers compared" % (told["version"], len(told["cases"])))
    if not judged:
        print("no Keras: set PG_KERAS2_PYTHON or PG_KERAS3_PYTHON")
        return 77
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
