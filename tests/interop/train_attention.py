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


def recipes(keras, add):
    v3 = keras.__version__[0] == "3"
    products(keras.layers, add, v3)
    attention(keras.layers, add, v3)
