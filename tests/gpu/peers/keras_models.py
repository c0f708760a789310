"""What is trained, for any Keras: the sizes that GPUs are compared with. VGG16 and ResNet-50 of keras.applications, a U-Net on
256 x 256, BERT-base on 128 words, one LSTM for two inputs. tiny: small ones, to see that a program runs."""


def unet(keras, size, base):
    L = keras.layers

    def twice(x, n):
        for _ in range(2):
            x = L.Conv2D(n, 3, padding='same', activation='relu')(x)
        return x
    image = x = keras.Input((size, size, 1))
    skips = []
    for i in range(4):
        skips.append(twice(x, base << i))
        x = L.MaxPooling2D(2)(skips[-1])
    x = twice(x, base << 4)
    for i in reversed(range(4)):
        x = L.Conv2DTranspose(base << i, 2, strides=2, padding='same')(x)
        x = twice(L.Concatenate()([x, skips[i]]), base << i)
    return keras.Model(image, L.Conv2D(1, 1, activation='sigmoid')(x))


def bert(keras, seq, width, heads, layers, vocab):
    L = keras.layers
    ids, positions = keras.Input((seq,), dtype='int32'), keras.Input((seq,), dtype='int32')
    x = L.Add()([L.Embedding(vocab, width)(ids), L.Embedding(512, width)(positions)])
    x = L.LayerNormalization(epsilon=1e-12)(x)
    for _ in range(layers):
        h = L.MultiHeadAttention(heads, width // heads)(x, x)
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, h]))
        h = L.Dense(width)(L.Dense(4 * width, activation='gelu')(x))
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, h]))
    x = L.Dense(width, activation='tanh')(L.Flatten()(L.Cropping1D((0, seq - 1))(x)))
    return keras.Model([ids, positions], L.Dense(2, activation='softmax')(x))


def lstm2(keras, seq):
    L = keras.layers
    shared = L.LSTM(64)
    a, b = keras.Input((seq, 256)), keras.Input((seq, 256))
    return keras.Model([a, b], L.Dense(50, activation='softmax')(L.Concatenate()([shared(a), shared(b)])))


def build(keras, name, tiny=False):
    applications = keras.applications
    return {
        'bert': lambda: bert(keras, 16, 64, 4, 2, 100) if tiny else bert(keras, 128, 768, 12, 12, 30522),
        'lstm2': lambda: lstm2(keras, 14 if tiny else 140),
        'resnet50': lambda: applications.ResNet50(weights=None, input_shape=(64, 64, 3) if tiny else None),
        'unet': lambda: unet(keras, 32, 8) if tiny else unet(keras, 256, 64),
        'vgg16': lambda: applications.VGG16(weights=None, input_shape=(32, 32, 3) if tiny else None),
    }[name]()
