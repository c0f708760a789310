"""Sequences for train_layers.py: recurrent layers, masks, embeddings, attention; what their inputs look like."""
import json


class Input:
    """An input of the model. kind: numbers; whole (numbers); steps (some of their ends are zeros); ids (ends are 0, as padding is); flags
    (0 or 1, never a row without a 1)."""

    def __init__(self, kind, *shape, limit=7, dtype=None, batch=None, known=True, opens=1, least=1):
        self.kind, self.shape, self.limit, self.dtype, self.batch, self.least = kind, shape, limit, dtype, batch, least
        self.opens = 0 if known else opens

    def make(self, keras):  # known=False: the model does not say how many steps there are, and what the other first axes have
        return keras.Input((None,) * self.opens + self.shape[self.opens:], dtype=self.dtype, batch_size=self.batch)

    def draw(self, rng):
        full = (4,) + self.shape
        if self.kind == "ids":
            v = rng.integers(self.least, self.limit, full)
        elif self.kind == "flags":
            v = (rng.uniform(0, 1, full) < 0.6).astype("float32")
            v[..., 0] = 1
        elif self.kind == "whole":
            v = rng.integers(-3, 4, full)
        else:
            v = rng.normal(0, 1, full)
        if self.kind in ("ids", "steps"):
            for row in range(1, 4):  # the first has its full length, the second lacks its first step too
                v[row, self.shape[0] - row:] = 0
            v[1, 0] = 0
        return v.astype("float32" if self.dtype in (None, "bool") else self.dtype)


def reset_states(model):
    for layer in model.layers:
        if getattr(layer, "stateful", False) and hasattr(layer, "reset_states" if hasattr(layer, "reset_states") else "reset_state"):
            (layer.reset_states if hasattr(layer, "reset_states") else layer.reset_state)()


def as_cudnn(folder, rate):
    """Turns a case with LSTM or GRU layers into one of CuDNNLSTM or CuDNNGRU, by the conversion with which Keras 2.15 loads
    such files: it permutes kernels, so it does that to gradients too."""
    import h5py
    import numpy as np
    from keras.src.saving.legacy import hdf5_format
    with open(folder + "/model.json") as f:
        model = json.load(f)
    want = dict(np.load(folder + "/want.npz"))
    first = 0
    with h5py.File(folder + "/weights.h5", "r+") as h5:
        for layer in model["config"]["layers"]:
            group = h5[layer["config"]["name"]]
            names = group.attrs["weight_names"]
            if layer["class_name"] in ("LSTM", "GRU"):
                layer["class_name"] = "CuDNN" + layer["class_name"]
                target = type(layer["class_name"], (), {"units": layer["config"]["units"], "name": ""})()
                layer["config"] = {k: v for k, v in layer["config"].items() if "activation" not in k and k != "reset_after"}

                def convert(arrays):
                    return hdf5_format._convert_rnn_weights(target, arrays)

                old = [group[n][()] for n in names]
                for n, w in zip(names, convert(old)):
                    del group[n]
                    group[n] = w
                keys = ["gradient%d" % (first + k) for k in range(3)]
                grads = [want[k] for k in keys]
                if "LSTM" in layer["class_name"]:  # the bias is split into halves; each has the whole gradient
                    grads[2] = 2 * grads[2]
                want.update(zip(keys, convert(grads)))
                for k in range(3):
                    want["weight%d" % (first + k)] = group[names[k]][()] - rate * want["gradient%d" % (first + k)]
            first += len(names)
    with open(folder + "/model.json", "w") as f:
        json.dump(model, f)
    np.savez(folder + "/want.npz", **want)


def recurrent(L, add, v3):
    seq, masked, ids = Input("numbers", 5, 3), Input("steps", 5, 3), Input("ids", 5)
    cells = {"lstm": L.LSTM, "gru": L.GRU, "rnn": L.SimpleRNN}
    for name, cell in cells.items():
        add(name, cell(4), seq)
        add(name + "-sequences", cell(4, return_sequences=True), seq)
        add(name + "-backwards", cell(4, return_sequences=True, go_backwards=True), seq)
        add(name + "-no-bias", cell(4, use_bias=False), seq)
        add(name + "-states", lambda x, c=cell: c(4, return_sequences=True, return_state=True)(x), seq)
        add(name + "-relu", cell(4, activation="relu"), seq)
        add(name + "-linear", cell(4, activation=None), seq)
        add(name + "-two", lambda x, c=cell: c(3)(c(4, return_sequences=True)(x)), seq)
        add(name + "-masked", lambda x, c=cell: c(4)(L.Masking()(x)), masked)
        add(name + "-masked-sequences", lambda x, c=cell: c(4, return_sequences=True)(L.Masking()(x)), masked)
        add(name + "-masked-backwards", lambda x, c=cell: c(4, go_backwards=True)(L.Masking()(x)), masked)
        add(name + "-masked-states", lambda x, c=cell: c(4, return_state=True)(L.Masking()(x)), masked)
        add(name + "-masked-zeros", lambda x, c=cell: c(4, return_sequences=True, zero_output_for_mask=True)(L.Masking()(x)), masked)
        add(name + "-embedded", lambda x, c=cell: c(4)(L.Embedding(7, 3, mask_zero=True)(x)), ids)
        add(name + "-initial", lambda x, *s, c=cell: c(4)(x, initial_state=list(s)), seq,
            *[Input("numbers", 4)] * (2 if name == "lstm" else 1))
        add(name + "-stateful", cell(4, stateful=True), Input("numbers", 5, 3, batch=4))
        add(name + "-unit", cell(1), Input("numbers", 1, 1))
        add(name + "-long", cell(18, return_sequences=True), Input("numbers", 20, 3))
        both = lambda mode, **k: lambda x, c=cell: L.Bidirectional(c(4, **k), merge_mode=mode)(x)
        for mode in ("concat", "sum", "mul", "ave"):
            add("bi-%s-%s" % (name, mode), both(mode), seq)
            add("bi-%s-%s-sequences" % (name, mode), both(mode, return_sequences=True), seq)
        add("bi-%s-none" % name, lambda x, c=cell: L.Bidirectional(c(4), merge_mode=None)(x), seq)
        add("bi-%s-states" % name, both("concat", return_state=True), seq)
        add("bi-%s-masked" % name, lambda x, c=cell: L.Bidirectional(c(4))(L.Masking()(x)), masked)
        add("bi-%s-masked-sequences" % name, lambda x, c=cell: L.Bidirectional(c(4, return_sequences=True))(L.Masking()(x)), masked)
        add("bi-%s-own" % name, lambda x, c=cell: L.Bidirectional(
            c(4, return_sequences=True), backward_layer=c(2, return_sequences=True, go_backwards=True))(x), seq)
        add("bi-%s-initial" % name, lambda x, *s, c=cell: L.Bidirectional(c(4))(x, initial_state=list(s)), seq,
            *[Input("numbers", 4)] * (4 if name == "lstm" else 2))
        add("td-" + name, lambda x, c=cell: L.TimeDistributed(c(4))(x), Input("numbers", 3, 5, 2))
        add("given-mask-" + name, lambda x, m, c=cell: c(4, return_sequences=True)(x, mask=m),
            seq, Input("flags", 5, dtype="bool"))
    for name in ("lstm", "gru"):
        add(name + "-hard", cells[name](4, recurrent_activation="hard_sigmoid"), seq)
        add(name + "-softsign", cells[name](4, activation="softsign", recurrent_activation="softplus"), seq)
        add(name + "-elu", cells[name](4, activation="elu", recurrent_activation="selu"), seq)
    for name, cell in cells.items():  # activations that no recurrent operator of ONNX has
        odd = {"activation": "selu"}
        add(name + "-odd", lambda x, c=cell, k=odd: c(4, return_sequences=True, return_state=True, **k)(x), seq)
        add(name + "-odd-backwards", cell(4, return_sequences=True, go_backwards=True, **odd), seq)
        add(name + "-odd-masked", lambda x, c=cell, k=odd: c(4, return_state=True, **k)(L.Masking()(x)), masked)
        add(name + "-odd-masked-zeros", lambda x, c=cell, k=odd: c(4, return_sequences=True, zero_output_for_mask=True, **k)(L.Masking()(x)), masked)
        add(name + "-odd-initial", lambda x, *s, c=cell, k=odd: c(4, return_sequences=True, **k)(L.Masking()(x), initial_state=list(s)), masked,
            *[Input("numbers", 4)] * (2 if name == "lstm" else 1))
        add(name + "-odd-stateful", cell(4, stateful=True, **odd), Input("numbers", 5, 3, batch=4))
        add("bi-%s-odd" % name, lambda x, c=cell, k=odd: L.Bidirectional(c(4, return_sequences=True, **k))(L.Masking()(x)), masked)
    for after in (False, True):
        add("gru-odd-after-%d" % after, L.GRU(4, reset_after=after, activation="selu"), seq)
        for bias in (False, True):
            add("gru-after-%d-bias-%d" % (after, bias), L.GRU(4, reset_after=after, use_bias=bias), seq)
    shared = L.LSTM(3)
    add("lstm-shared", lambda a, b: L.Dense(2)(L.Concatenate()([shared(a), shared(b)])), seq, seq)
    add("seq2seq", lambda a, b: L.LSTM(3, return_sequences=True)(b, initial_state=L.LSTM(3, return_state=True)(a)[1:]), seq, seq)
    if not v3:
        for name, k in (("lstm", {}), ("gru", {"reset_after": True})):
            add("cudnn-" + name, cells[name](4, **k), seq)
            add("cudnn-%s-two" % name, lambda x, c=cells[name], k=k: c(3, **k)(c(5, return_sequences=True, **k)(x)), seq)
        add("lstm-time-major", L.LSTM(4, time_major=True, return_sequences=True), seq)
        add("gru-implementation-1", L.GRU(4, implementation=1), seq)


def masks(L, add, v3):
    masked, ids = Input("steps", 5, 3), Input("ids", 5)
    add("masked-loss", lambda x: L.Dense(2)(L.Masking()(x)), masked)
    add("masked-loss-weighted", lambda x: L.Dense(2)(L.Masking()(x)), masked)
    add("sequence-weighted", L.Dense(2), Input("numbers", 5, 3))
    add("masked-value", lambda x: L.Dense(2)(L.Masking(mask_value=1.0)(x)), masked)
    add("masked-embedding", lambda x: L.Embedding(7, 3, mask_zero=True)(x), ids)
    add("masked-activation", lambda x: L.Activation("relu")(L.Dropout(0.0)(L.Masking()(x))), masked)
    add("masked-norm", lambda x: L.LayerNormalization()(L.Embedding(7, 3, mask_zero=True)(x)), ids)
    add("masked-td", lambda x: L.TimeDistributed(L.Dense(2))(L.Masking()(x)), masked)
    add("masked-flatten", lambda x: L.Dense(2)(L.Flatten()(L.Masking()(x))), masked)
    add("masked-average", lambda x: L.GlobalAveragePooling1D()(L.Masking()(x)), masked)
    add("masked-bn", lambda x: L.BatchNormalization()(L.Masking()(x)), masked)
    add("masked-two-outputs", lambda x: (lambda h: [L.Dense(2)(h), L.Dense(3)(L.Flatten()(h))])(L.Masking()(x)), masked)
    for n in ("Add", "Multiply", "Average", "Maximum", "Concatenate"):
        add("masked-" + n, lambda a, b, n=n: getattr(L, n)()([L.Masking()(a), L.Masking(mask_value=1.0)(b)]), masked, masked)
        add("half-masked-" + n, lambda a, b, n=n: getattr(L, n)()([L.Masking()(a), b]), masked, Input("numbers", 5, 3))
    add("masked-Concatenate-time", lambda a, b: L.Concatenate(axis=1)([L.Masking()(a), L.Masking()(b)]), masked, Input("steps", 4, 3))
    add("embedding", L.Embedding(7, 3), ids)
    add("embedding-int", L.Embedding(7, 3), Input("ids", 5, dtype="int32"))
    add("embedding-2d", L.Embedding(7, 3), Input("ids", 2, 3))
    add("td-embedding", L.TimeDistributed(L.Embedding(7, 3)), Input("ids", 3, 2))
    add("embedding-shared", lambda a, b, e=L.Embedding(7, 3): L.Add()([e(a), e(b)]), ids, ids)


def attention(L, add, v3, keras):
    q, kv, ids = Input("numbers", 4, 6), Input("numbers", 5, 6), Input("ids", 5)
    M = L.MultiHeadAttention
    add("mha", lambda a, b: M(2, 3)(a, b), q, kv)
    add("mha-self", lambda a: M(3, 2)(a, a), q)
    add("mha-key", lambda a, b, c: M(2, 3)(a, b, key=c), q, kv, kv)
    add("mha-keywords", lambda a, b, c: M(2, 3)(query=a, key=c, value=b), q, kv, kv)
    add("mha-value-dim", lambda a, b: M(2, 3, value_dim=4)(a, b), q, kv)
    add("mha-output", lambda a, b: M(2, 3, output_shape=5)(a, b), q, kv)
    add("mha-output-2d", lambda a, b: M(2, 3, output_shape=(2, 3))(a, b), q, kv)
    add("mha-no-bias", lambda a, b: M(2, 3, use_bias=False)(a, b), q, kv)
    add("mha-causal", lambda a: M(2, 3)(a, a, use_causal_mask=True), q)
    add("mha-mask", lambda a, b, m: M(2, 3)(a, b, attention_mask=m), q, kv, Input("flags", 4, 5))
    add("mha-mask-heads", lambda a, b, m: M(2, 3)(a, b, attention_mask=m), q, kv, Input("flags", 2, 4, 5))
    add("mha-mask-causal", lambda a, m: M(2, 3)(a, a, attention_mask=m, use_causal_mask=True), q, Input("flags", 4, 4))
    add("mha-masked", lambda a: (lambda e: M(2, 3)(e, e))(L.Embedding(7, 6, mask_zero=True)(a)), ids)
    add("mha-masked-value", lambda a, b: M(2, 3)(a, L.Embedding(7, 6, mask_zero=True)(b)), q, ids)
    add("mha-masked-query", lambda a, b: M(2, 3)(L.Embedding(7, 6, mask_zero=True)(a), b), ids, kv)
    add("mha-scores", lambda a, b: list(M(2, 3)(a, b, return_attention_scores=True)), q, kv)
    add("mha-scores-self", lambda a: list(M(2, 3)(a, a, return_attention_scores=True)), q)
    add("mha-4d", lambda a: M(2, 3)(a, a), Input("numbers", 2, 3, 4))
    add("mha-axes", lambda a: M(2, 3, attention_axes=(1, 2))(a, a), Input("numbers", 2, 3, 4))
    add("td-mha-model", lambda x: L.TimeDistributed(keras.Sequential([L.Dense(3, activation="gelu"), L.Dense(2)]))(x), Input("numbers", 3, 4))
    for axis in (-1, 1, [1, 2], [2]):
        add("layer-norm-%s" % axis, L.LayerNormalization(axis=axis), Input("numbers", 5, 3))
    add("layer-norm-bare", L.LayerNormalization(center=False, scale=False, epsilon=1e-5), Input("numbers", 5, 3))
    add("layer-norm-image", L.LayerNormalization(axis=[1, 3]), Input("numbers", 4, 2, 3))
    open_ids, open_steps = Input("ids", 5, known=False), Input("steps", 5, 3, known=False)
    add("open-lstm", lambda x: L.LSTM(4)(L.Embedding(7, 3, mask_zero=True)(x)), open_ids)
    add("open-bi-gru", lambda x: L.Bidirectional(L.GRU(4, return_sequences=True))(L.Masking()(x)), open_steps)
    add("open-td", lambda x: L.TimeDistributed(L.Dense(4))(x), open_steps)
    add("open-mha", lambda a, b: M(2, 3)(L.Embedding(7, 6, mask_zero=True)(a), b, attention_mask=None), open_ids, kv)
    add("open-mha-mask", lambda a, b, m: M(2, 3)(a, b, attention_mask=m), Input("numbers", 4, 6, known=False), kv, Input("flags", 4, 5))
    TD, steps = L.TimeDistributed, Input("numbers", 3, 5, 4, known=False, opens=2)
    add("open-td-lstm", lambda x: TD(L.LSTM(3))(x), steps)
    add("open-td-lstm-sequences", lambda x: TD(L.LSTM(3, return_sequences=True))(x), steps)
    add("open-td-bi", lambda x: TD(L.Bidirectional(L.GRU(3, return_sequences=True)))(x), steps)
    add("open-td-td", lambda x: L.GRU(3)(TD(L.GRU(3))(TD(L.Embedding(7, 4))(x))), Input("ids", 3, 5, known=False, opens=2, least=0))
    add("open-mha-axes", lambda x: M(2, 3, attention_axes=(2,))(x, x), steps)
    add("open-mha-two", lambda a, b: M(2, 3)(a, b), Input("numbers", 4, 6, known=False), Input("numbers", 5, 6, known=False))
    add("open-sum", lambda a, b: L.Conv1D(2, 2)(L.Add()([a, b])), Input("numbers", 4, 3, known=False), Input("numbers", 4, 3, known=False))
    for name, k in (("", {}), ("-slope", {"negative_slope": 0.1}), ("-most", {"max_value": 2.5}), ("-both", {"max_value": 0.5, "negative_slope": 0.1})):
        add("relu-threshold" + name, lambda x, k=k: L.Dense(2)(L.ReLU(threshold=1, **k)(x)), Input("whole", 12))
    add("gelu", L.Dense(4, activation="gelu"), Input("numbers", 6))
    if not v3:
        inner = keras.Sequential([L.Dense(3), L.Dropout(0.5), L.BatchNormalization()])
        add("training-false", lambda x: L.Dense(2)(inner(x, training=False)), Input("numbers", 6))


def recipes(keras, add):
    v3 = keras.__version__[0] == "3"
    recurrent(keras.layers, add, v3)
    masks(keras.layers, add, v3)
    attention(keras.layers, add, v3, keras)
