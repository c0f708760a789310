"""Products and attention for train_layers.py: Dot, EinsumDense, Attention."""
from train_sequences import Input


def products(L, add, v3):
    vec, seq = Input("numbers", 5), Input("numbers", 4, 5)
    for axes in (1, -1, (1, 1)):
        add("dot-vectors-%s" % (axes,), lambda a, b, axes=axes: L.Dot(axes)([a, b]), vec, vec)
    for axes in (1, 2, -1, (1, 2), (2, 1), (-1, -2)):
        other = Input("numbers", *((4, 5) if axes in (1, 2, -1) else (5, 4)))
        add("dot-%s" % (axes,), lambda a, b, axes=axes: L.Dot(axes)([a, b]), seq, other)
        add("dot-normalize-%s" % (axes,), lambda a, b, axes=axes: L.Dot(axes, normalize=True)([a, b]), seq, other)
    add("dot-vector-sequence", lambda a, b: L.Dot((1, 2))([a, b]), vec, seq)
    add("dot-sequence-vector", lambda a, b: L.Dot((2, 1))([a, b]), seq, vec)
    add("dot-image", lambda a, b: L.Dot((2, 3))([a, b]), Input("numbers", 3, 4, 2), Input("numbers", 2, 3, 4))
    add("dot-cosine", lambda a, b: L.Dot(1, normalize=True)([a, b]), vec, vec)
    add("dot-itself", lambda a: L.Dot(2)([a, a]), seq)
    add("dot-masked", lambda a, b: L.GlobalAveragePooling1D()(L.Dot((2, 2))([L.Masking()(a), b])), Input("steps", 5, 3), Input("numbers", 4, 3))
    add("open-dot", lambda a, b: L.Dot((2, 2))([a, b]), Input("numbers", 5, 3, known=False), Input("numbers", 4, 3))
    E = L.EinsumDense
    image = Input("numbers", 3, 4, 2)
    add("einsum-dense", E("ab,bc->ac", output_shape=6, bias_axes="c"), vec)
    add("einsum-sequence", E("abc,cd->abd", output_shape=(4, 6), bias_axes="d", activation="relu"), seq)
    add("einsum-heads", E("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de"), seq)
    add("einsum-heads-back", E("abcd,cde->abe", output_shape=(None, 5), bias_axes="e"), image)
    add("einsum-turned", E("abc,dc->adb", output_shape=(6, 4), bias_axes="d"), seq)
    add("einsum-steps", E("abc,bd->adc", output_shape=(6, None)), seq)
    add("einsum-outer", E("abc,de->abdce", output_shape=(4, 2, 5, 3), bias_axes="de"), seq)
    if not v3:  # where oneDNN is on, TensorFlow 2.18 gives wrong numbers here
        add("einsum-left", E("...x,xy->...y", output_shape=6, bias_axes="y"), image)
    add("einsum-left-pair", E("...xy,xyz->...z", output_shape=3, bias_axes="z"), image)
    add("einsum-right", E("abc...,cd->abd...", output_shape=(3, 6), bias_axes="d"), Input("numbers", 3, 4, 2, 2))
    add("einsum-right-two", E("ab...,bcd->adc...", output_shape=(2, 5), bias_axes="dc"), image)
    add("einsum-each-step", E("abc,bcd->abd", output_shape=(4, 6), bias_axes="bd"), seq)
    add("einsum-each-channel", E("abcd,dce->aedb", output_shape=(3, 2, 3), bias_axes="e"), image)
    add("einsum-weights", E("abc,bc->abc", output_shape=(4, 5), bias_axes="c"), seq)
    add("einsum-summed", E("abcd,bf->abf", output_shape=(3, 2)), image)
    add("einsum-masked", lambda x: L.GlobalAveragePooling1D()(E("abc,cd->abd", output_shape=(None, 4))(L.Masking()(x))), Input("steps", 5, 3))
    add("open-einsum", E("abc,cd->abd", output_shape=(None, 4), bias_axes="d"), Input("numbers", 5, 3, known=False))


def attention(L, add, v3):
    q, kv, key, ids = Input("numbers", 4, 6), Input("numbers", 5, 6), Input("numbers", 5, 6), Input("ids", 5)
    other = Input("numbers", 5, 3)

    def embedded(ids):
        return L.Embedding(7, 6, mask_zero=True)(ids)

    ways = [("dot", L.Attention, {}), ("scaled", L.Attention, {"use_scale": True}), ("concat", L.Attention, {"score_mode": "concat"}),
            ("concat-scaled", L.Attention, {"score_mode": "concat", "use_scale": True, "dropout": 0.0}),
            ("additive", L.AdditiveAttention, {}), ("additive-bare", L.AdditiveAttention, {"use_scale": False})]
    for n, layer, k in ways:
        name = "attention-" + n
        add(name, lambda a, b, layer=layer, k=k: layer(**k)([a, b]), q, kv)
        add(name + "-causal", lambda a, layer=layer, k=k: layer(**k)([a, a], use_causal_mask=True), q)
        add(name + "-masked", lambda a, layer=layer, k=k: (lambda e: L.Dense(2)(layer(**k)([e, e])))(embedded(a)), ids)
        add(name + "-scores", lambda a, b, layer=layer, k=k: list(layer(**k)([a, b], return_attention_scores=True)), q, kv)
        if n in ("scaled", "additive"):
            add(name + "-key", lambda a, b, c, layer=layer, k=k: layer(**k)([a, b, c]), q, kv, key)
            add(name + "-masked-query", lambda a, b, layer=layer, k=k: L.Flatten()(layer(**k)([embedded(a), b])), ids, kv)
            if not v3:  # 3.6 takes the masks of rows for those of steps
                add(name + "-masked-value", lambda a, b, layer=layer, k=k: layer(**k)([a, embedded(b)]), q, ids)
            add(name + "-masked-causal", lambda a, b, layer=layer, k=k: layer(**k)([a, embedded(b)], use_causal_mask=True), q, ids)
            add(name + "-given-mask" + "-causal" * v3, lambda a, b, m, layer=layer, k=k: layer(**k)([a, b], mask=[None, m], use_causal_mask=v3), q, kv, Input("flags", 5, dtype="bool"))
            add("open-" + name, lambda a, b, layer=layer, k=k: L.GlobalAveragePooling1D()(layer(**k)([embedded(a), b], use_causal_mask=True)),
                Input("ids", 5, known=False), Input("numbers", 5, 6, known=False))
    add("attention-value-size", lambda a, b, c: L.Attention()([a, b, c]), q, other, key)
    add("attention-shared", lambda a, b, c=L.Attention(use_scale=True): L.Add()([c([a, b]), c([a, a])]), q, kv)


def noise(L, add, v3, keras):
    """Noise is nothing outside of training, and so it is with a rate of 0; noise in training: test_noise.c."""
    seq, masked = Input("numbers", 4, 5), Input("steps", 5, 3)

    def one(x):  # of 3 features
        return L.Dense(3, activity_regularizer=keras.regularizers.L1L2(0.1, 0.2))(x)

    add("identity", lambda x: L.Dense(2)(L.Identity()(x)), seq)
    add("identity-masked", lambda x: L.GlobalAveragePooling1D()(L.Identity()(L.Masking()(x))), masked)
    for n, layer in (("gaussian-noise", L.GaussianNoise(0.0)), ("gaussian-dropout", L.GaussianDropout(0.0)), ("alpha-dropout", L.AlphaDropout(0.0))):
        add(n, lambda x, layer=layer: L.GlobalAveragePooling1D()(layer(L.Dense(3)(L.Masking()(x)))), masked)
    for n, layer in (("noise", L.GaussianNoise(0.3)), ("drop", L.GaussianDropout(0.3)), ("alpha", L.AlphaDropout(0.3))):
        frozen = keras.Sequential([L.Dense(3), layer])
        if not v3:
            add("training-false-" + n, lambda x, frozen=frozen: L.Dense(2)(frozen(x, training=False)), seq)
    add("activity-layer", lambda x: L.Dense(2)(L.ActivityRegularization(l1=0.1, l2=0.3)(L.Dense(3)(x))), seq)
    add("activity-layer-masked", lambda x: L.GlobalAveragePooling1D()(L.ActivityRegularization(l2=0.3)(L.Dense(3)(L.Masking()(x)))), masked)
    add("activity-td", lambda x: L.TimeDistributed(L.Dense(3, activity_regularizer="l2"))(x), seq)
    add("activity-td-layer", lambda x: L.TimeDistributed(L.ActivityRegularization(l1=0.1))(L.Dense(3)(x)), seq)
    add("activity-td-model", lambda x: L.TimeDistributed(keras.Sequential([L.Dense(3, activity_regularizer="l1"), L.Dense(2)]))(x), seq)
    add("activity-td-td", lambda x: L.TimeDistributed(L.TimeDistributed(L.Dense(3, activity_regularizer="l2")))(x), Input("numbers", 2, 3, 4))
    add("activity-rnn", lambda x: L.LSTM(3, return_sequences=True, activity_regularizer="l2")(x), seq)
    add("activity-td-rnn", lambda x: L.TimeDistributed(L.LSTM(3, activity_regularizer="l2"))(x), Input("numbers", 2, 3, 4))


def heads(L, add, v3):
    M, four, other = L.MultiHeadAttention, Input("numbers", 2, 3, 4), Input("numbers", 2, 5, 4)
    for axes in (1, 2, (1,), (2,), (1, 2)):
        add("mha-axes-%s" % (axes,), lambda a, axes=axes: M(2, 3, attention_axes=axes)(a, a), four)
    add("mha-axes-key", lambda a, b: M(2, 3, attention_axes=(2,), value_dim=2, output_shape=(3, 2))(a, b), four, other)
    add("mha-axes-scores", lambda a, b: list(M(2, 3, attention_axes=(2,))(a, b, return_attention_scores=True)), four, other)
    add("mha-4d-scores", lambda a: list(M(2, 3)(a, a, return_attention_scores=True)), four)
    add("mha-axes-mask", lambda a, b, m: M(2, 3, attention_axes=(2,))(a, b, attention_mask=m), four, other, Input("flags", 2, 3, 5))
    add("mha-axes-mask-rows", lambda a, b, m: M(2, 3, attention_axes=(2,))(a, b, attention_mask=m), four, other, Input("flags", 3, 5))
    add("mha-axes-mask-heads", lambda a, b, m: M(2, 3, attention_axes=(2,))(a, b, attention_mask=m), four, other, Input("flags", 2, 2, 3, 5))
    add("mha-4d-mask", lambda a, m: M(2, 3)(a, a, attention_mask=m), four, Input("flags", 2, 3, 2, 3))
    add("mha-first-step-twice", lambda a: (lambda h: [L.Dense(3)(h[:, 0]), L.Dense(2)(h[:, 0] * 2.0)])(L.Dense(4, activation="tanh")(M(2, 3)(a, a))),
        Input("numbers", 5, 6))
    add("mha-axes-5d", lambda a: M(2, 3, attention_axes=(1, 3))(a, a), Input("numbers", 2, 2, 3, 4))
    if not v3:
        return
    G, q, kv, ids = L.GroupQueryAttention, Input("numbers", 4, 6), Input("numbers", 5, 6), Input("ids", 5)
    for n, kv_heads in (("gqa", 2), ("gqa-one", 1), ("gqa-all", 4)):
        add(n, lambda a, b, k=kv_heads: G(3, 4, k)(a, b), q, kv)
    add("gqa-key", lambda a, b, c: G(3, 4, 2, use_bias=False)(a, b, c), q, kv, kv)
    add("gqa-causal", lambda a: G(2, 4, 2)(a, a, use_causal_mask=True), q)
    add("gqa-mask", lambda a, b, m: G(2, 4, 2)(a, b, attention_mask=m), q, kv, Input("flags", 4, 5))
    add("gqa-masked", lambda a: (lambda e: G(2, 4, 2)(e, e))(L.Embedding(7, 6, mask_zero=True)(a)), ids)
    add("gqa-scores", lambda a, b: list(G(2, 4, 2)(a, b, return_attention_scores=True)), q, kv)
    add("open-gqa", lambda a, b: G(2, 4, 2)(a, b), Input("numbers", 4, 6, known=False), kv)


def flat(v):
    return [w for u in v for w in flat(u)] if isinstance(v, (list, tuple)) else [v]


def cells(L, add, v3):
    seq, masked = Input("numbers", 5, 3), Input("steps", 5, 3)
    one = {"lstm": L.LSTMCell, "gru": L.GRUCell, "simple": L.SimpleRNNCell}

    def stack():
        return [L.LSTMCell(4), L.GRUCell(3), L.SimpleRNNCell(2)]

    for name, cell in one.items():
        add("cell-" + name, L.RNN(cell(4)), seq)
        add("cell-%s-sequences" % name, L.RNN(cell(4), return_sequences=True), seq)
        add("cell-%s-states" % name, lambda x, cell=cell: L.RNN(cell(4), return_sequences=True, return_state=True)(x), seq)
        add("cell-%s-masked" % name, lambda x, cell=cell: L.RNN(cell(4), go_backwards=True)(L.Masking()(x)), masked)
    add("cell-gru-before", L.RNN(L.GRUCell(4, reset_after=False, use_bias=False)), seq)
    add("cell-lstm-hard", L.RNN(L.LSTMCell(4, recurrent_activation="hard_sigmoid", activation="relu")), seq)
    for k in ({}, {"return_sequences": True}, {"go_backwards": True}, {"go_backwards": True, "return_sequences": True}):
        name = "stacked" + "".join("-" + n for n in k)
        add(name, L.RNN(stack(), **k), seq)
        add(name + "-states", lambda x, k=k: flat(L.RNN(stack(), return_state=True, **k)(x)), seq)
        add(name + "-masked", lambda x, k=k: L.Dense(2)(L.Flatten()(L.RNN(stack(), **k)(L.Masking()(x)))), masked)
    add("stacked-masked-loss", lambda x: L.RNN([L.LSTMCell(4), L.LSTMCell(2)], return_sequences=True)(L.Masking()(x)), masked)
    add("stacked-zeros", lambda x: L.RNN([L.LSTMCell(4), L.GRUCell(2)], return_sequences=True, zero_output_for_mask=True)(L.Masking()(x)), masked)
    add("stacked-one", L.RNN(L.StackedRNNCells([L.GRUCell(4)])), seq)
    add("stacked-alike", L.RNN([L.LSTMCell(4), L.LSTMCell(4), L.LSTMCell(4)]), seq)
    add("stacked-stateful", L.RNN([L.LSTMCell(4), L.GRUCell(2)], stateful=True), Input("numbers", 5, 3, batch=4))
    add("cell-stateful", L.RNN(L.LSTMCell(4), stateful=True), Input("numbers", 5, 3, batch=4))
    add("cell-initial", lambda x, h, c: L.RNN(L.LSTMCell(4))(x, initial_state=[h, c]), seq, Input("numbers", 4), Input("numbers", 4))
    add("stacked-initial", lambda x, h, g: L.RNN([L.SimpleRNNCell(4), L.GRUCell(2)])(x, initial_state=[h, g]), seq, Input("numbers", 4), Input("numbers", 2))
    add("bi-cell", lambda x: L.Bidirectional(L.RNN(L.GRUCell(4)))(x), seq)
    add("bi-stacked", lambda x: L.Bidirectional(L.RNN(stack(), return_sequences=True))(x), seq)
    add("bi-stacked-states", lambda x: flat(L.Bidirectional(L.RNN([L.LSTMCell(4), L.GRUCell(2)], return_state=True))(x)), seq)
    add("bi-stacked-masked", lambda x: L.Bidirectional(L.RNN([L.LSTMCell(4), L.GRUCell(2)]), merge_mode="sum")(L.Masking()(x)), masked)
    add("bi-stacked-masked-sequences", lambda x: L.Dense(2)(L.Flatten()(L.Bidirectional(L.RNN([L.LSTMCell(4), L.GRUCell(2)], return_sequences=True))(L.Masking()(x)))), masked)
    add("bi-stacked-own", lambda x: L.Bidirectional(L.RNN(L.LSTMCell(4)), backward_layer=L.RNN(stack(), go_backwards=True))(x), seq)
    add("td-stacked", lambda x: L.TimeDistributed(L.RNN([L.LSTMCell(4), L.GRUCell(2)]))(x), Input("numbers", 3, 5, 2))
    add("open-stacked", lambda x: L.RNN([L.LSTMCell(4), L.GRUCell(2)])(L.Masking()(x)), Input("steps", 5, 3, known=False))
    shared = L.RNN([L.GRUCell(3), L.GRUCell(3)])
    add("stacked-shared", lambda a, b: L.Dense(2)(L.Concatenate()([shared(a), shared(b)])), seq, seq)


def nested(L, add, v3, keras):
    """Models of several layers for every step."""
    S, seq = keras.Sequential, Input("numbers", 4, 5)
    image, images = Input("numbers", 3, 7, 8, 2), Input("numbers", 2, 3, 7, 8, 2)

    def net():
        return S([L.Conv2D(3, 3, activation="relu"), L.MaxPooling2D(2), L.Flatten(), L.Dense(2)])

    def functional():
        i = keras.Input((5,))
        a, b = L.Dense(3, activation="tanh")(i), L.Dense(3)(i)
        return keras.Model(i, L.Concatenate()([L.Add()([a, b]), a]))

    add("td-conv-net", lambda x: L.TimeDistributed(net())(x), image)
    add("td-conv-net-lstm", lambda x: L.LSTM(3)(L.TimeDistributed(net())(x)), image)
    add("td-functional", lambda x: L.TimeDistributed(functional())(x), seq)
    add("td-td", lambda x: L.TimeDistributed(L.TimeDistributed(L.Dense(3)))(x), Input("numbers", 2, 3, 4))
    add("td-td-model", lambda x: L.TimeDistributed(L.TimeDistributed(S([L.Dense(3, activation="relu"), L.Dense(2)])))(x), Input("numbers", 2, 3, 4))
    add("td-td-conv-net", lambda x: L.TimeDistributed(L.TimeDistributed(net()))(x), images)
    add("td-model-td", lambda x: L.TimeDistributed(S([L.TimeDistributed(L.Dense(3, activation="tanh")), L.LSTM(2)]))(x), Input("numbers", 2, 3, 4))
    add("td-model-td-model", lambda x: L.TimeDistributed(S([L.TimeDistributed(S([L.Dense(3), L.Dense(2)])), L.Dense(3), L.TimeDistributed(S([L.Dense(2)]))]))(x),
        Input("numbers", 2, 3, 4))
    add("td-model-model", lambda x: L.TimeDistributed(S([S([L.Dense(3), L.Dense(2)]), functional_of(keras, L), L.Dense(2)]))(x), seq)
    add("td-model-bi", lambda x: L.TimeDistributed(S([L.Bidirectional(L.RNN([L.GRUCell(2), L.LSTMCell(3)])), L.Dense(2)]))(x), Input("numbers", 2, 3, 4))
    add("td-model-bn", lambda x: L.TimeDistributed(S([L.Dense(3), L.BatchNormalization(momentum=0.7)]))(x), seq)
    add("td-bn", lambda x: L.TimeDistributed(L.BatchNormalization(momentum=0.7))(x), seq)
    add("td-bn-masked", lambda x: L.GlobalAveragePooling1D()(L.TimeDistributed(S([L.Dense(3), L.BatchNormalization(momentum=0.7)]))(L.Masking()(x))),
        Input("steps", 5, 3))
    add("td-conv-bn", lambda x: L.TimeDistributed(S([L.Conv2D(3, 3), L.BatchNormalization(), L.ReLU(), L.GlobalAveragePooling2D()]))(x), image)
    add("td-td-bn", lambda x: L.TimeDistributed(L.TimeDistributed(S([L.Dense(3), L.BatchNormalization()])))(x), Input("numbers", 2, 3, 4))
    add("td-bn-frozen", lambda x: L.TimeDistributed(S([L.Dense(3), L.BatchNormalization(trainable=False)]))(x), seq)
    add("td-model-masked", lambda x: L.GlobalAveragePooling1D()(L.TimeDistributed(S([L.Dense(3), L.Dense(2)]))(L.Masking()(x))), Input("steps", 5, 3))
    add("td-model-norm", lambda x: L.TimeDistributed(S([L.Conv1D(3, 2), L.LayerNormalization(), L.GlobalMaxPooling1D()]))(x), Input("numbers", 3, 4, 2))
    shared = L.TimeDistributed(net())
    add("td-shared", lambda a, b: L.Add()([shared(a), shared(b)]), image, image)
    frozen = S([L.Dense(3), L.Dense(2, trainable=False)])
    add("td-model-frozen", lambda x: L.TimeDistributed(frozen)(x), seq)
    add("open-td-model", lambda x: L.TimeDistributed(S([L.Dense(3), L.Dense(2)]))(x), Input("numbers", 4, 5, known=False))


def functional_of(keras, L):
    i = keras.Input((2,))
    return keras.Model(i, L.Add()([L.Dense(3)(i), L.Dense(3)(i)]))


def recipes(keras, add):
    v3 = keras.__version__[0] == "3"
    products(keras.layers, add, v3)
    attention(keras.layers, add, v3)
    noise(keras.layers, add, v3, keras)
    heads(keras.layers, add, v3)
    cells(keras.layers, add, v3)
    nested(keras.layers, add, v3, keras)
