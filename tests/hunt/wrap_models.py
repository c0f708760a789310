"""Random model descriptions, and the Keras models that they describe.

A description is plain JSON, so that a find can be reduced and kept:

    {"name", "seq", "frozen", "inputs": [{"shape", "dtype", "name"}], "layers": [LAYER], "create": [layer, ...],
     "nodes": [[layer, [TENSOR]]], "outputs": [TENSOR]}
    LAYER   {"class", "config", "frozen", "rename"}, with "model": a description, or "inner": the LAYER inside a TimeDistributed
            or Bidirectional
    TENSOR  [node, output]; node -1 - k is input k

Layers are created in the order of "create" and called in that of "nodes". "rename" is set once everything is built, as users do it:
TensorFlow itself allows only some ASCII in a layer's name.
"""
import copy

NAMES = ["a", "b", "enc", "Head", "block_1", "block_10", "block_2", "conv/1x1", "a/b", "enc/dense", "x.y", "w-1", "kernel", "bias",
         "lambda", "lambda_1", "lambda_2", "model", "model_1", "model_2", "functional_1", "sequential", "sequential_1", "concatenate",
         "concatenate_1", "dense", "dense_1", "dense_2", "lstm_cell", "layers", "vars", "cell", "layer", "0", "top_level_model_weights",
         "model_weights", "moving_mean", "gamma", "input_1", "out", "batch_normalization", "a/", "9"]
ODD = ["größe", "模型", "слой/1", "a b", "é:0", "dense 1", "x%s", "\u202eabc", "naïve_1", "_a"]
MERGES = ["Add", "Multiply", "Average", "Concatenate", "Subtract", "Maximum"]
VECTOR = ["Dense"] * 6 + ["BatchNormalization"] * 2 + ["LayerNormalization", "Dropout", "Activation", "PReLU", "RepeatVector", "ReLU",
                                                      "Softmax", "LeakyReLU"]
SEQUENCE = ["LSTM", "GRU", "SimpleRNN", "Bidirectional", "Bidirectional", "TimeDistributed", "Conv1D", "Dense", "BatchNormalization",
            "GlobalAveragePooling1D", "Flatten", "LayerNormalization", "MultiHeadAttention", "LSTM", "GRU", "RNN"]
IMAGE = ["Conv2D", "Conv2D", "DepthwiseConv2D", "SeparableConv2D", "Conv2DTranspose", "BatchNormalization", "MaxPooling2D", "Flatten",
         "GlobalAveragePooling2D", "ReLU", "Dropout", "LayerNormalization"]


class Generator:
    def __init__(self, rng):
        self.r = rng

    def name(self, much=0.22):
        return self.r.choice(NAMES) if self.r.random() < much else None

    def width(self):
        return self.r.choice([3, 3, 3, 4])

    def config(self, cls, shape):
        """The layer's arguments and the shape it gives to `shape`."""
        r, w = self.r, self.width()
        bias = {"use_bias": False} if r.random() < 0.15 else {}
        if cls == "Dense":
            return dict(units=w, activation=r.choice([None, "relu", "tanh", "sigmoid"]), **bias), shape[:-1] + [w]
        if cls in ("BatchNormalization", "LayerNormalization"):
            return r.choice([{}, {}, {"scale": False}, {"center": False}, {"epsilon": 0.01}]), shape
        if cls == "Dropout":
            return {"rate": 0.5}, shape
        if cls == "Activation":
            return {"activation": r.choice(["relu", "elu", "softmax", "tanh"])}, shape
        if cls == "RepeatVector":
            return {"n": 3}, [3] + shape
        if cls in ("LSTM", "GRU", "SimpleRNN"):
            seq = r.random() < 0.5
            more = {"reset_after": False} if cls == "GRU" and r.random() < 0.2 else {}
            more.update({"go_backwards": True} if r.random() < 0.1 else {})
            return dict(units=w, return_sequences=seq, **bias, **more), [shape[0], w] if seq else [w]
        if cls == "Conv1D":
            return dict(filters=w, kernel_size=2, padding="same", **bias), [shape[0], w]
        if cls == "Conv2D":
            pad = r.choice(["same", "valid"])
            return dict(filters=w, kernel_size=2, padding=pad, **bias), ([x - (pad == "valid") for x in shape[:2]]) + [w]
        if cls == "Conv2DTranspose":
            return dict(filters=w, kernel_size=2, **bias), [x + 1 for x in shape[:2]] + [w]
        if cls == "DepthwiseConv2D":
            m = r.choice([1, 1, 2])
            return dict(kernel_size=2, padding="same", depth_multiplier=m, **bias), shape[:2] + [shape[2] * m]
        if cls == "SeparableConv2D":
            return dict(filters=w, kernel_size=2, padding="same", **bias), shape[:2] + [w]
        if cls == "MultiHeadAttention":
            return dict(num_heads=1, key_dim=shape[1]), shape
        if cls == "MaxPooling2D":
            return dict(pool_size=2, padding="same", strides=1), shape
        if cls == "Flatten":
            n = 1
            for x in shape:
                n *= x
            return {}, [n]
        if cls.startswith("Global"):
            return {}, shape[-1:]
        return {}, shape  # ReLU, Softmax, PReLU, LeakyReLU

    def layer(self, shape):
        r = self.r
        if len(shape) == 3 and min(shape[:2]) < 2:
            cls = "Flatten"
        else:
            cls = r.choice({1: VECTOR, 2: SEQUENCE, 3: IMAGE}[len(shape)])
        out = {"class": cls, "frozen": r.random() < 0.15}
        if cls == "Bidirectional":
            inner = {"class": r.choice(["LSTM", "GRU", "SimpleRNN"])}
            inner["config"], to = self.config(inner["class"], shape)
            inner["config"].pop("go_backwards", None)
            merge = r.choice(["concat", "concat", "sum"])
            out.update(config={"merge_mode": merge}, inner=inner)
            to = to[:-1] + [to[-1] * (2 if merge == "concat" else 1)]
        elif cls == "TimeDistributed":
            if r.random() < 0.3:
                model, to = self.model(1, [shape[1:]], stack=True)
                inner = {"class": "Model", "config": {}, "model": model}
            else:
                inner = {"class": "Dense"}
                inner["config"], to = self.config("Dense", shape[1:])
            inner["config"]["name"] = self.name()
            out.update(config={}, inner=inner)
            to = shape[:1] + to
        elif cls == "RNN":
            seq, w = r.random() < 0.5, self.width()
            cells = [{"class": r.choice(["LSTMCell", "GRUCell", "SimpleRNNCell"]), "config": {"units": w}} for _ in range(r.choice([1, 2]))]
            out.update(config={"return_sequences": seq}, cells=cells)
            to = [shape[0], w] if seq else [w]
        else:
            out["config"], to = self.config(cls, shape)
        out["config"]["name"] = self.name()
        if r.random() < 0.02:
            out["rename"] = r.choice(ODD)
        return out, to

    def model(self, depth, shapes, stack=False):
        """A description for inputs of these shapes; returns it and the shape of its first output."""
        r = self.r
        d = {"name": self.name(0.4), "seq": stack or (len(shapes) == 1 and r.random() < 0.2), "frozen": r.random() < 0.1,
             "inputs": [{"shape": s, "dtype": "float32", "name": self.name(0.1)} for s in shapes], "layers": [], "nodes": []}
        tensors = [([-1 - k, 0], s) for k, s in enumerate(shapes)]
        calls = []  # (layer, shapes of its inputs, shapes of its outputs)

        def call(layer, ins, shape_in, outs):
            d["nodes"].append([layer, [t for t, _ in ins]])
            node = len(d["nodes"]) - 1
            tensors.extend(([node, j], s) for j, s in enumerate(outs))
            calls.append((layer, shape_in, outs))

        for _ in range(r.choice([1, 1, 2] if stack else [1, 2, 2, 3, 3, 4, 5])):
            t = tensors[-1] if d["seq"] or r.random() < 0.6 else r.choice(tensors)
            again = [c for c in calls if len(c[1]) == 1 and c[1][0] == t[1]]
            if again and not d["seq"] and r.random() < 0.2:
                layer, ins, outs = r.choice(again)
                call(layer, [t], ins, outs)
                continue
            if not d["seq"] and r.random() < 0.25:
                like = [x for x in tensors if x[1] == t[1]]
                if len(like) > 1:
                    two = r.sample(like, 2)
                    cls = r.choice(MERGES)
                    d["layers"].append({"class": cls, "config": {"name": self.name(0.15)}, "frozen": False})
                    to = t[1][:-1] + [2 * t[1][-1]] if cls == "Concatenate" else t[1]
                    call(len(d["layers"]) - 1, two, [t[1], t[1]], [to])
                    continue
            if depth > 0 and not stack and r.random() < 0.3:
                more = [] if d["seq"] or r.random() < 0.6 else [r.choice(tensors)]
                if not more and len(calls) and r.random() < 0.3:  # an equal twin of a nested model
                    twins = [i for i, c in enumerate(calls) if d["layers"][c[0]]["class"] == "Model" and c[1] == [t[1]]]
                    if twins:
                        layer, ins, outs = calls[r.choice(twins)]
                        twin = copy.deepcopy(d["layers"][layer])
                        twin["model"]["name"] = self.name(0.5)
                        d["layers"].append(twin)
                        call(len(d["layers"]) - 1, [t], ins, outs)
                        continue
                ins = [t] + more
                model, _ = self.model(depth - 1, [x[1] for x in ins])
                d["layers"].append({"class": "Model", "config": {}, "model": model, "frozen": r.random() < 0.15})
                call(len(d["layers"]) - 1, ins, [x[1] for x in ins], model.pop("shapes"))
                continue
            layer, to = self.layer(t[1])
            d["layers"].append(layer)
            call(len(d["layers"]) - 1, [t], [t[1]], [to])
        self.outputs(d, tensors, calls)
        d["create"] = list(range(len(d["layers"])))
        if r.random() < 0.4 and not d["seq"]:
            r.shuffle(d["create"])
        shapes = [dict((tuple(t), s) for t, s in tensors)[tuple(o)] for o in d["outputs"]]
        if not stack:
            d["shapes"] = shapes
        return d, shapes[0]

    def outputs(self, d, tensors, calls):
        """All that nobody uses, so that no layer is lost; at least the last; a sequential model has one."""
        used = {tuple(t) for _, ins in d["nodes"] for t in ins}
        loose = [t for t, _ in tensors if tuple(t) not in used and t[0] >= 0]
        if d["seq"]:
            loose = [tensors[-1][0]]
        if len(loose) > 3:  # fewer outputs: those of one shape are added up
            shape = {tuple(t): s for t, s in tensors}
            group = [t for t in loose if shape[tuple(t)] == shape[tuple(loose[-1])]]
            if len(group) > 1:
                d["layers"].append({"class": "Add", "config": {"name": None}, "frozen": False})
                d["nodes"].append([len(d["layers"]) - 1, group])
                node = [len(d["nodes"]) - 1, 0]
                tensors.append((node, shape[tuple(group[0])]))
                loose = [t for t in loose if t not in group] + [node]
        self.r.shuffle(loose)
        d["outputs"] = loose

    def case(self):
        r = self.r
        shapes = [r.choice([[3], [4], [3], [3, 3], [3, 4], [4, 4, 2]]) for _ in range(r.choice([1, 1, 1, 2, 3]))]
        d, _ = self.model(r.choice([0, 1, 1, 2]), shapes)
        if r.random() < 0.12 and not d["seq"]:
            self.embed(d)
        d.pop("shapes", None)
        unique(d)
        return {"model": d, "gpus": r.choice([2, 2, 2, 2, 3, 4]), "shift": r.choice([0, 0, 0, 1, 7, 98]), "values": r.randrange(1 << 30)}

    def embed(self, d):
        """An input of whole numbers through an Embedding, beside the rest."""
        d["inputs"].append({"shape": [3], "dtype": "int32", "name": None})
        first, n = len(d["layers"]), len(d["nodes"])
        d["layers"] += [{"class": "Embedding", "config": {"input_dim": 5, "output_dim": 3, "name": self.name()}, "frozen": False},
                        {"class": "GRU", "config": {"units": 3, "name": self.name()}, "frozen": False}]
        d["nodes"] += [[first, [[-len(d["inputs"]), 0]]], [first + 1, [[n, 0]]]]
        d["outputs"].append([n + 1, 0])
        d["create"] += [first + 1, first] if self.r.random() < 0.5 else [first, first + 1]


def unique(d):
    """No name twice in one model, which Keras refuses: the second one goes."""
    seen = set()
    for s in d["inputs"] + [s.get("model", s["config"]) for s in d["layers"]]:
        if s.get("name") in seen:
            s["name"] = None
        seen.add(s.get("name"))
    for s in d["layers"]:
        for inner in (s, s.get("inner", {})):
            if "model" in inner:
                unique(inner["model"])


# ---- Keras ----


def get_slice(data, i, parts):
    """As in keras/utils/multi_gpu_utils.py: replica i's share of the batch, the rest goes to the last."""
    import tensorflow as tf

    shape = tf.shape(data)
    step = shape[:1] // parts
    size = shape[:1] - step * i if i == parts - 1 else step
    return tf.slice(data, tf.concat([step * i, shape[1:] * 0], 0), tf.concat([size, shape[1:]], 0))


def make_layer(k, spec):
    config = {a: b for a, b in spec["config"].items() if b is not None or a != "name"}
    if "model" in spec:
        layer = build(k, spec["model"])
    elif "cells" in spec:
        cells = [getattr(k.layers, c["class"])(**c["config"]) for c in spec["cells"]]
        layer = k.layers.RNN(cells if len(cells) > 1 else cells[0], **config)
    elif "inner" in spec:
        layer = getattr(k.layers, spec["class"])(make_layer(k, spec["inner"]), **config)
    else:
        layer = getattr(k.layers, spec["class"])(**config)
    if spec.get("frozen"):
        layer.trainable = False
    return layer


def build(k, d):
    named = {"name": d["name"]} if d.get("name") else {}
    if d["seq"]:
        made = [make_layer(k, spec) for spec in d["layers"]]  # automatic names stay with the layer, wherever it stands
        m = k.Sequential([k.Input(i["shape"], dtype=i["dtype"], name=i.get("name")) for i in d["inputs"]] +
                         [made[n[0]] for n in d["nodes"]], **named)
        d["_built"] = m.layers
    else:
        layers = {i: make_layer(k, d["layers"][i]) for i in d["create"]}
        values = {(-1 - n, 0): k.Input(i["shape"], dtype=i["dtype"], name=i.get("name")) for n, i in enumerate(d["inputs"])}
        ins = list(values.values())
        for n, (layer, tensors) in enumerate(d["nodes"]):
            x = [values[tuple(t)] for t in tensors]
            x = x * 2 if d["layers"][layer]["class"] == "MultiHeadAttention" else x
            out = layers[layer](*x) if d["layers"][layer]["class"] == "MultiHeadAttention" else layers[layer](x if len(x) > 1 else x[0])
            for j, t in enumerate(out if isinstance(out, (list, tuple)) else [out]):
                values[n, j] = t
        outs = [values[tuple(t)] for t in d["outputs"]]
        m = k.Model(ins if len(ins) > 1 else ins[0], outs if len(outs) > 1 else outs[0], **named)
        d["_built"] = layers
    if d.get("frozen"):
        m.trainable = False
    return m


def rename(d, m):
    """What "rename" asks for, as after Model(m.inputs, m.outputs), which would call no layer again."""
    built = d["_built"]
    at = [n[0] for n in d["nodes"]] if d["seq"] else None
    for i, spec in enumerate(d["layers"]):
        if spec.get("rename"):
            built[at.index(i) if at else i]._name = spec["rename"]
        if "model" in spec:
            rename(spec["model"], built[at.index(i) if at else i])
    if not d["seq"] and any(spec.get("rename") for spec in d["layers"]):
        from keras.src.engine.functional import _map_graph_network

        m._network_nodes = _map_graph_network(m.inputs, m.outputs)[0]


def wrap(k, template, n):
    """multi_gpu_model() of Keras 2: slices of each input, the template called on each, one Concatenate for each output."""
    outs = [[] for _ in template.outputs]
    for i in range(n):
        ins = [k.layers.Lambda(get_slice, output_shape=tuple(x.shape[1:]), arguments={"i": i, "parts": n})(x) for x in template.inputs]
        got = template(ins if len(ins) > 1 else ins[0])
        for j, t in enumerate(got if isinstance(got, (list, tuple)) else [got]):
            outs[j].append(t)
    seen, merged = {}, []
    for name, parts in zip(template.output_names, outs):
        if template.output_names.count(name) > 1:
            seen[name] = seen.get(name, 0) + 1
            name += "_%d" % seen[name]
        merged.append(k.layers.Concatenate(axis=0, name=name)(parts))
    return k.Model(template.inputs, merged)


def has_odd_names(d):
    return any(s.get("rename") or any("model" in x and has_odd_names(x["model"]) for x in (s, s.get("inner", {}))) for s in d["layers"])


def swaps(d):
    """All pairs of layers that stand for each other after an exchange of their places: (path of the model, a, b)."""
    out = []

    def walk(m, path):
        for a in range(len(m["layers"])):
            for b in range(a):
                if m["layers"][a]["class"] == m["layers"][b]["class"]:
                    out.append((path, a, b))
            for key in ("model",):
                if key in m["layers"][a]:
                    walk(m["layers"][a][key], path + [a])

    walk(d, [])
    return out


def swapped(d, path, a, b):
    d = copy.deepcopy(d)
    m = d
    for i in path:
        m = m["layers"][i]["model"]
    for node in m["nodes"]:
        node[0] = {a: b, b: a}.get(node[0], node[0])
    return d
