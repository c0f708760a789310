"""Images and volumes for train_layers.py: resizing, convolutional LSTMs, layers with a kernel for every place, normalisation of
groups, layers that sort numbers into categories."""
import json

from train_sequences import Input

IMG, SEQ, VEC = (7, 8, 3), (6, 5), (5,)
FILM = {1: (3, 5, 2), 2: (3, 4, 5, 2), 3: (2, 3, 4, 2, 2)}  # steps, cells, channels


def norms(L, add, v3, keras):
    for axis, shape in ((-1, (4, 5, 6)), (-1, (6,)), (1, (6, 5)), (2, (3, 6, 2))):
        add("group-norm-%d-%d" % (axis, len(shape)), L.GroupNormalization(3, axis=axis), shape)
    add("group-norm-each", L.GroupNormalization(-1), (4, 5, 6))
    add("group-norm-one", L.GroupNormalization(1, epsilon=1e-2), (4, 6))
    add("group-norm-bare", L.GroupNormalization(2, center=False, scale=False), (4, 6))
    add("group-norm-scale", L.GroupNormalization(2, center=False), (4, 6))
    for axis in (-1, 1, (1, 2)):
        add("unit-norm-%s" % (axis,), lambda x, a=axis: L.UnitNormalization(axis=a)(L.Dense(4)(x)), SEQ)
    add("unit-norm-zero", L.UnitNormalization(), Input("steps", 5, 3))
    if v3:
        add("masked-group-norm", lambda x: L.GroupNormalization(3)(L.Masking()(x)), Input("steps", 5, 3))
        add("rms-scaling-unordered", L.LayerNormalization(axis=[2, 1], rms_scaling=True), SEQ)
        for axis in (-1, [1, 2]):
            add("rms-scaling-%s" % axis, L.LayerNormalization(axis=axis, rms_scaling=True), SEQ)
            add("rms-norm-%s" % axis, rms_norm(keras)(axis=axis), SEQ)
        add("rms-norm-epsilon", rms_norm(keras)(epsilon=0.1), IMG)


def rms_norm(keras):
    """The layer of Keras 3.9 and later, by the formula of its documentation."""
    class RMSNormalization(keras.layers.Layer):
        def __init__(self, axis=-1, epsilon=1e-6, **kwargs):
            super().__init__(**kwargs)
            self.axes, self.epsilon = [axis] if isinstance(axis, int) else list(axis), epsilon

        def build(self, shape):
            self.scale = self.add_weight(name="scale", shape=[shape[a] for a in self.axes], initializer="ones")

        def call(self, x):
            wide = [n if i in [a % len(x.shape) for a in self.axes] else 1 for i, n in enumerate(x.shape)]
            mean = keras.ops.mean(keras.ops.square(x), axis=tuple(self.axes), keepdims=True)
            return x / keras.ops.sqrt(mean + self.epsilon) * keras.ops.reshape(self.scale, wide)

        def get_config(self):
            return {**super().get_config(), "axis": self.axes, "epsilon": self.epsilon}
    return RMSNormalization


def as_keras(folder):
    """Takes the layers that this file had to make itself for Keras' own."""
    with open(folder + "/model.json") as f:
        model = json.load(f)
    for layer in model["config"]["layers"]:
        if layer["class_name"] == "RMSNormalization":
            layer.update(module="keras.layers", registered_name=None)
    with open(folder + "/model.json", "w") as f:
        json.dump(model, f)


def sizes(L, add, v3):
    ways = ["nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"] + ([] if v3 else ["gaussian", "mitchellcubic"])
    for way in ways:
        for to in ((11, 5), (4, 17)):
            add("resizing-%s-%d" % (way, to[0]), L.Resizing(*to, interpolation=way), IMG)
        add("upsampling-" + way, lambda x, w=way: L.UpSampling2D((3, 2), interpolation=w)(L.Conv2D(2, 1)(x)), IMG)
    if not v3:
        for to in ((11, 5), (7, 16), (14, 3)):
            add("resizing-area-%d" % to[0], L.Resizing(*to, interpolation="area"), IMG)
        add("upsampling-area", L.UpSampling2D((3, 2), interpolation="area"), IMG)
    for to in ((4, 8), (9, 3), (5, 5), (20, 21)):
        add("resizing-crop-%d" % to[0], L.Resizing(*to, crop_to_aspect_ratio=True), IMG)
        add("center-crop-%d" % to[0], L.CenterCrop(*to), IMG)
        if v3:
            add("resizing-pad-%d" % to[0], L.Resizing(*to, pad_to_aspect_ratio=True, fill_value=0.5), IMG)
    add("center-crop-middle", L.CenterCrop(4, 5), IMG)
    if v3:
        add("cf-resizing", L.Resizing(4, 11, data_format="channels_first"), (3, 7, 8))
        add("cf-center-crop", L.CenterCrop(4, 5, data_format="channels_first"), (3, 7, 8))


def conv_lstms(L, add, v3):
    for n, film in FILM.items():
        C = getattr(L, "ConvLSTM%dD" % n)
        add("conv-lstm-%d" % n, C(2, 3 if n < 3 else 2, padding="same"), film)
        add("conv-lstm-%d-sequences" % n, C(2, 2, return_sequences=True, go_backwards=True, recurrent_activation="sigmoid"), film)
    C, film = L.ConvLSTM2D, FILM[2]
    add("conv-lstm-hard", C(2, 2, recurrent_activation="hard_sigmoid", activation="relu", use_bias=False), film)
    add("conv-lstm-strides", C(2, (2, 3), strides=(1, 2), padding="same", return_sequences=True), film)
    add("conv-lstm-dilated", C(2, 2, dilation_rate=2), film)
    add("conv-lstm-states", lambda x: C(2, 2, return_state=True, return_sequences=True)(x), film)
    add("conv-lstm-stack", lambda x: C(1, 2)(C(2, 2, padding="same", return_sequences=True)(x)), film)
    add("conv-lstm-stateful", C(2, 2, stateful=True, padding="same"), Input("numbers", *film, batch=4))
    add("conv-lstm-initial", lambda x, h, c: C(2, 2, padding="same")(x, initial_state=[h, c]), film, (4, 5, 2), (4, 5, 2))
    add("conv-lstm-one-step", C(2, 2), (1, 4, 5, 2))
    for k in ({}, {"return_sequences": True}, {"return_sequences": True, "go_backwards": True}):
        add("given-mask-conv-lstm-%d" % len(k), lambda x, m, k=k: L.Dense(2)(L.Flatten()(C(2, 2, **k)(x, mask=m))), film, Input("flags", 3, dtype="bool"))
    add("td-conv-lstm", lambda x: L.TimeDistributed(C(2, 2))(x), (2, 2, 3, 3, 1))
    if v3:
        add("cf-conv-lstm", lambda x: C(2, 2, return_state=True, return_sequences=True, data_format="channels_first")(x), (3, 2, 4, 5))


def local(L, add):
    for i in (1, 2, 3):
        for n, shape in ((1, (7, 3)), (2, (5, 6, 2))):
            C = getattr(L, "LocallyConnected%dD" % n)
            for pad in ("valid",) + ("same",) * (i > 1):
                for k, s in ((3, 1), (2, 2)):
                    add("local%d-%d-%s-%d-%d" % (n, i, pad, k, s), C(2, k, strides=s, padding=pad, implementation=i, activation="tanh"), shape)
            add("local%d-%d-cf" % (n, i), C(2, 2, implementation=i, data_format="channels_first"), shape)
        add("local2-%d-cf-same" % i, L.LocallyConnected2D(3, (2, 3), padding="same" if i > 1 else "valid", use_bias=False, implementation=i,
                                                          data_format="channels_first"), (2, 4, 5))


def categories(L, add, v3):
    def dense(layer, kind=None):  # something must have weights
        return lambda *x: L.Dense(2)(layer(*x) if kind is None else kind(layer(*x)))

    ids, one = Input("ids", 5), Input("ids", 1)
    for mode in ("multi_hot", "count"):
        add("category-" + mode, dense(L.CategoryEncoding(7, output_mode=mode)), ids)
    add("category-one-hot", dense(L.CategoryEncoding(8, output_mode="one_hot")), one)
    add("category-weights", dense(lambda x, w: L.CategoryEncoding(7, output_mode="count")(x, count_weights=w)), ids, Input("numbers", 5))
    bins = [-0.7, -0.1, 0.3, 1.1]
    for mode in ("multi_hot", "count", "one_hot"):
        shape = (1,) if mode == "one_hot" else (6,)
        add("bins-" + mode, dense(L.Discretization(bin_boundaries=bins, output_mode=mode)), shape)
        kw = {"vocabulary": [2, 5, 3], "output_mode": mode}
        add("lookup-" + mode, dense(L.IntegerLookup(**kw)), Input("ids", *shape, dtype="int64"))
    add("bins-int", lambda x: L.Embedding(5, 2)(L.Discretization(bin_boundaries=bins)(x)), (6,))
    look = Input("ids", 5, dtype="int64")
    for name, kw in (("", {}), ("-mask", {"mask_token": 0}), ("-special", {"mask_token": 0, "vocabulary": [0, -1, 4, 2, 6]})):
        add("lookup-int" + name, lambda x, kw=kw: L.Embedding(7, 2)(L.IntegerLookup(**{"vocabulary": [4, 2, 6], **kw})(x)), look)
    add("lookup-padded", dense(L.IntegerLookup(vocabulary=[4, 2], output_mode="count", max_tokens=6, pad_to_max_tokens=True)), look)
    for big in (7, 20000, 2**31 - 1):
        add("hash-%d" % big, dense(L.Hashing(9, output_mode="count")), Input("ids", 5, dtype="int64", limit=big))
    add("hash-mask", lambda x: L.Embedding(11, 2)(L.Hashing(11, mask_value=0)(x)), look)
    add("hash-minus", dense(lambda x: L.Hashing(5, output_mode="multi_hot")(x)), Input("ids", 5, dtype="int32", least=-4000))
    if v3:
        add("category-one-hot-3d", dense(L.CategoryEncoding(8, output_mode="one_hot")), ids)


def convolutions(L, add, v3):
    """What train_layers.py does not have of convolutions in one and three dimensions, and of transposed ones."""
    seq, vol, cells = (7, 4), (4, 5, 4, 2), {1: SEQ, 2: (5, 4, 3), 3: (3, 4, 3, 2)}
    add("conv1d-groups", L.Conv1D(6, 3, groups=2, padding="same"), seq)
    add("conv1d-causal-strides", L.Conv1D(3, 3, padding="causal", strides=2), seq)
    add("conv1d-dilated", L.Conv1D(3, 3, dilation_rate=2, padding="same"), seq)
    add("conv3d-dilated", L.Conv3D(2, 2, dilation_rate=(1, 2, 1), use_bias=False), vol)
    add("conv3d-groups", L.Conv3D(4, 2, groups=2), vol)
    for n, shape in cells.items():
        C = getattr(L, "Conv%dDTranspose" % n)
        for pad in ("valid", "same"):
            add("transpose%d-dilated-%s" % (n, pad), C(2, 2, dilation_rate=2, padding=pad, activation="tanh"), shape)
            if not v3:  # Keras 3.6 leaves it out of the config
                add("transpose%d-output-%s" % (n, pad), C(2, 3, strides=2, output_padding=1, padding=pad), shape)
        add("transpose%d-wide" % n, C(2, 2, strides=3, use_bias=False), shape)
        add("td-transpose%d" % n, lambda x, C=C: L.TimeDistributed(C(2, 2, strides=2))(x), (2,) + shape)
        add("td-conv%d" % n, lambda x, n=n: L.TimeDistributed(getattr(L, "Conv%dD" % n)(2, 2, padding="same", strides=2))(x), (2,) + shape)
        if v3:
            cf = dict(data_format="channels_first")
            turned = shape[-1:] + shape[:-1]
            add("cf-conv%d" % n, getattr(L, "Conv%dD" % n)(2, 2, strides=2, **cf), turned)
            add("cf-transpose%d" % n, C(2, 3, strides=2, padding="same", **cf), turned)
            add("cf-pool%d" % n, getattr(L, "AveragePooling%dD" % n)(2, padding="same", **cf), turned)
            if n < 3:
                add("cf-depthwise%d" % n, getattr(L, "DepthwiseConv%dD" % n)(2, depth_multiplier=2, **cf), turned)
                add("cf-separable%d" % n, getattr(L, "SeparableConv%dD" % n)(4, 2, depth_multiplier=2, **cf), turned)
    for name, kw in (("strides", {"strides": 2}), ("dilated", {"dilation_rate": 2, "padding": "same"})):
        add("depthwise1-" + name, L.DepthwiseConv1D(3, depth_multiplier=2, use_bias=False, **kw), seq)
        add("separable1-" + name, L.SeparableConv1D(5, 3, depth_multiplier=2, activation="relu", **kw), seq)
    if not v3:
        add("separable1-causal", L.SeparableConv1D(5, 3, padding="causal", dilation_rate=2), seq)
    add("td-depthwise1", lambda x: L.TimeDistributed(L.DepthwiseConv1D(2))(x), (3,) + SEQ)
    add("td-separable1", lambda x: L.TimeDistributed(L.SeparableConv1D(2, 2))(x), (3,) + SEQ)
    add("td-group-norm", lambda x: L.TimeDistributed(L.GroupNormalization(2))(x), (3, 4, 6))


def open_sizes(L, add, v3):
    """Models for images of any size."""
    TD = L.TimeDistributed

    def image(*shape, opens=2):
        return Input("numbers", *shape, known=False, opens=opens)

    def net(x):  # sizes have to be even
        y = L.Conv2D(3, 3, strides=2, padding="same", activation="relu")(x)
        return L.Conv2D(2, 3, padding="same")(L.Concatenate()([x, L.UpSampling2D(2)(y)]))

    add("open-net", net, image(6, 8, 3))
    for n, shape in ((1, (9, 3)), (2, (7, 8, 3))):
        C, D, pad = getattr(L, "Conv%dD" % n), getattr(L, "DepthwiseConv%dD" % n), {"padding": "same"}
        add("open-conv%d-dilated" % n, C(2, 3, dilation_rate=2, **pad), image(*shape, opens=n))
        add("open-conv%d-dilated-even" % n, C(2, 2, dilation_rate=3, **pad), image(*shape, opens=n))
        add("open-depthwise%d-dilated" % n, D(3, dilation_rate=2, **pad), image(*shape, opens=n))
        add("open-conv%d-strides" % n, C(2, 4, strides=2, **pad), image(*shape, opens=n))
        add("open-conv%d-even" % n, C(2, 4, **pad), image(*shape, opens=n))
        for kind in ("Max", "Average"):
            add("open-%s%d" % (kind, n), getattr(L, "%sPooling%dD" % (kind, n))(3, strides=2, **pad), image(*shape, opens=n))
            add("open-%s%d-even" % (kind, n), getattr(L, "%sPooling%dD" % (kind, n))(2, strides=1, **pad), image(*shape, opens=n))
    for k, stride in ((1, 4), (2, 3), (1, 2)):  # ONNX' auto_pad would cut cells off
        add("open-narrow-conv-%d-%d" % (k, stride), L.Conv2D(2, k, strides=stride, padding="same"), image(8, 9, 3))
        add("open-narrow-max-%d-%d" % (k, stride), L.MaxPooling2D(k, strides=stride, padding="same"), image(8, 9, 3))
        add("open-narrow-average-%d-%d" % (k, stride), L.AveragePooling2D(k, strides=stride, padding="same"), image(8, 9, 3))
    add("open-conv2-strides-one", L.Conv2D(2, (3, 4), strides=(1, 2), padding="same"), image(7, 8, 3))
    for pad in ("valid", "same"):
        for k, s in ((3, 2), (4, 1), (2, 3), (1, 2)):
            add("open-transpose-%s-%d-%d" % (pad, k, s), L.Conv2DTranspose(2, k, strides=s, padding=pad), image(5, 4, 3))
        for out in () if v3 else (0, 1):  # Keras 3.6 leaves it out of the config
            add("open-transpose-out-%s-%d" % (pad, out), L.Conv2DTranspose(2, 3, strides=2, padding=pad, output_padding=out), image(5, 4, 3))
    if not v3:
        add("open-transpose-out-wide", L.Conv2DTranspose(2, 2, strides=3, output_padding=0), image(5, 4, 3))
    add("open-transpose1", L.Conv1DTranspose(2, 2, strides=3, padding="same"), image(6, 3, opens=1))
    add("open-transpose3", L.Conv3DTranspose(2, 3, strides=2, padding="same"), image(3, 4, 2, 2, opens=3))
    add("open-td-conv", lambda x: TD(L.Conv2D(2, 3, padding="same"))(x), image(3, 5, 4, 3, opens=3))
    add("open-td-conv-valid", lambda x: TD(L.Conv2D(2, (2, 3), strides=2))(x), image(3, 5, 4, 3, opens=3))
    add("open-td-conv-known", lambda x: TD(L.Conv2D(2, 3))(x), image(3, 5, 4, 3, opens=1))
    add("open-td-mean", lambda x: L.GRU(3)(TD(L.GlobalAveragePooling2D())(TD(L.Conv2D(2, 3))(x))), image(3, 5, 4, 3, opens=3))
    add("open-td-td-conv", lambda x: TD(TD(L.Conv2D(2, 3)))(x), image(2, 3, 5, 4, 3, opens=4))
    add("open-flatten", lambda x: L.Flatten()(L.Dense(2)(x)), image(5, 3, opens=1))
    add("open-reshape", lambda x: L.Reshape((-1, 4))(L.Conv2D(24, 3, padding="same")(x)), image(5, 4, 3))
    add("open-reshape-steps", lambda x: L.Conv1D(2, 2)(L.Reshape((-1, 3))(L.Dense(6)(x))), image(5, 4, 3))
    add("open-reshape-cut", lambda x: L.Dense(2)(L.Reshape((-1, 5))(x)), image(5, 3, opens=1))


def augmentation(L, add, v3):
    """Where bounds are equal nothing is random: what is done to an image is Keras'. test_augment.c looks at the numbers."""
    def moved(layer):
        return lambda x: L.Dense(2)(layer(x))

    for fill in ("constant", "nearest", "reflect", "wrap"):
        for how in ("nearest", "bilinear"):
            kw, name = {"fill_mode": fill, "interpolation": how, "fill_value": 0.7}, "-%s-%s" % (fill, how)
            add("random-shift" + name, moved(L.RandomTranslation((0.31, 0.31), (-0.62, -0.62), **kw)), IMG)
            if how == "bilinear":
                add("random-turn" + name, moved(L.RandomRotation((0.13, 0.13), **kw)), IMG)
                add("random-zoom" + name, moved(L.RandomZoom((0.41, 0.41), (-0.33, -0.33), **kw)), IMG)
    add("random-shift-far", moved(L.RandomTranslation((1, 1), (-0.93, -0.93))), IMG)
    add("random-zoom-far", moved(L.RandomZoom((0.97, 0.97), fill_mode="wrap")), IMG)
    add("random-zoom-one", moved(L.RandomZoom((-0.2, -0.2))), IMG)
    add("random-turn-back", moved(L.RandomRotation((-0.4, -0.4))), (5, 5, 2))
    add("random-brightness", moved(L.RandomBrightness((0.2, 0.2), value_range=(-1, 1))), IMG)
    for to in ((7, 8), (9, 3), (20, 21)):
        add("random-crop-%d" % to[0], moved(L.RandomCrop(*to)), IMG)
    for layer in (L.RandomFlip(), L.RandomTranslation(0.5, 0.5), L.RandomContrast(0.5), L.RandomCrop(4, 5)):
        add("predict-%s" % layer.name, moved(layer), IMG)
    if v3:
        add("random-contrast", moved(L.RandomContrast((-0.3, 0.3))), IMG)
        add("cf-random-shift", lambda x: L.Flatten()(L.RandomTranslation((0.31, 0.31), (0.2, 0.2), data_format="channels_first")(x)), (3, 7, 8))
    else:
        add("random-not", lambda x: L.Dense(2)(L.RandomFlip()(x, training=False)), IMG)


def recipes(keras, add):
    v3 = keras.__version__[0] == "3"
    norms(keras.layers, add, v3, keras)
    sizes(keras.layers, add, v3)
    conv_lstms(keras.layers, add, v3)
    convolutions(keras.layers, add, v3)
    open_sizes(keras.layers, add, v3)
    augmentation(keras.layers, add, v3)
    categories(keras.layers, add, v3)
    if not v3:
        local(keras.layers, add)
