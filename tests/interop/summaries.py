"""Text of model.summary() by real Keras 2.15, for tests/train/model/test_summary.c.

    python summaries.py TESTDATA     writes TESTDATA/summary/NAME.txt, and NAME.json of models made here

The first line of a text is the model's file, from TESTDATA; the rest is what Keras printed."""
import os
import pathlib
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import keras  # noqa: E402
from keras import layers as L  # noqa: E402

assert keras.__version__.startswith('2.15'), keras.__version__

FOUND = '''
golden/mlp_digits/model.json golden/cnn_bn/model.json golden/unet_seg/model.json golden/siamese/model.json
golden/multiout/model.json golden/lstm_stateful/model.json golden/lstm_stateless/model.json
golden/bert_mini/model.json golden/mlp_digits/init_model.h5
files/keras-2.2.4/sepconv-g2/template.json files/keras-2.2.4/rnn-g2/template.json
files/keras-2.2.4/vggfrozen-g2/template.json files/keras-2.2.4/nested-g2/template.json
files/keras-2.2.4/seq-g2/template.json files/keras-2.2.4/unet-g4/template.json
files/keras-2.3.1/cnnbn-g2/template.json files/tf.keras-1.15/multiout-g2/template.json files/tf.keras-1.15/cnnbn-g2/template.json
files/tf.keras-2.15/bert-g2/template.json files/keras-2.15.0-native/nested/template.json
files/keras-2.2.4/stateful-plain/template.json files/keras-2.0.9/multiout-g2/template.json
files/keras-2.1.6/siamese-g2/template.json extra/keras-2.15/slashes/template.json
'''.split()


def long_names():
    x = L.Input((5, 7), name='an_input_with_quite_a_long_name_indeed')
    y = L.Conv1D(4, 3, name='a_convolution_with_a_name_that_is_longer_than_its_column', padding='same')(x)
    z = L.Conv1D(4, 3, name='another_of_these_convolutions', padding='same')(x)
    return keras.Model(x, L.Add(name='sum')([y, z]), name='long_names')


def states():
    x = L.Input((None, 3), name='steps')
    y, h, c = L.LSTM(4, return_sequences=True, return_state=True, name='encoder')(x)
    z = L.LSTM(4, name='decoder')(x, initial_state=[h, c])
    return keras.Model(x, [z, y], name='states')


def shared():
    a, b = L.Input((6,), name='a'), L.Input((6,), name='b')
    dense = L.Dense(4, name='dense')
    out = L.Dense(1, name='out')(L.Concatenate(name='both')([dense(a), dense(dense_in(b))]))
    return keras.Model([a, b], out, name='shared')


def dense_in(x):
    return L.Dense(6, name='first')(x)


def frozen_parts():
    base = keras.Sequential([L.Input((8, 8, 3)), L.Conv2D(4, 3), L.BatchNormalization(), L.Flatten()], name='base')
    base.trainable = False
    return keras.Sequential([L.Input((8, 8, 3)), base, L.Dense(10, activation='softmax')], name='frozen_parts')


def two_shapes():
    pool = L.GlobalAveragePooling1D(name='pool')
    norm = L.ReLU(name='relu')
    x, y = L.Input((4, 3), name='x'), L.Input((5, 3), name='y')
    return keras.Model([x, y], L.Add()([pool(norm(x)), pool(norm(y))]), name='two_shapes')


def middle_output():
    x = L.Input((4,), name='x')
    y = L.Dense(3, name='y')(x)
    return keras.Model(x, [y, L.Dense(2, name='z')(y)], name='middle_output')


def branch_order():
    x = L.Input((8,), name='x')
    deep = L.Dense(4, name='d3')(L.Dense(4, name='d2')(L.Dense(4, name='d1')(x)))
    flat = L.Dense(4, name='s1')(x)
    return keras.Model(x, L.Multiply(name='m')([flat, deep]), name='branch_order')


def many_inputs():
    xs = [L.Input((2,), name=f'in_{i}') for i in range(6)]
    return keras.Model(xs, L.Dense(1, name='out')(L.Concatenate(name='all')(xs)), name='many_inputs')


def twice_nested():
    inner = keras.Sequential([L.Dense(3, input_shape=(4,), name='deep')], name='inner')
    i = L.Input((4,), name='i')
    middle = keras.Model(i, [inner(i), L.Dense(2, name='side')(i)], name='middle')
    x = L.Input((4,), name='x')
    a, b = middle(x)
    return keras.Model(x, L.Concatenate(name='c')([a, b, middle(L.Dense(4, name='again')(x))[0]]), name='twice_nested')


def large():
    return keras.Sequential([L.Embedding(300000, 64, input_length=20, name='words'), L.Flatten(),
                             L.Dense(4096, name='wide'), L.Dense(1000)], name='large')


def attention():
    q, v = L.Input((5, 8), name='q'), L.Input((7, 8), name='v')
    y = L.MultiHeadAttention(2, 4, name='heads')(q, v)
    return keras.Model([q, v], L.LayerNormalization(name='norm')(L.Add(name='add')([q, y])), name='attention')


MADE = [long_names, states, shared, frozen_parts, two_shapes, middle_output, branch_order, many_inputs, twice_nested,
        large, attention]


def text_of(model):
    lines = []
    model.summary(print_fn=lines.append)
    return '\n'.join(lines) + '\n'


def main(testdata):
    out = testdata / 'summary'
    out.mkdir(exist_ok=True)
    for path in FOUND:
        keras.backend.clear_session()
        full = testdata / path
        model = keras.models.load_model(full) if path.endswith('.h5') else \
            keras.models.model_from_json(full.read_text())
        name = path.replace('/model.json', '').replace('/template.json', '').replace('.h5', '').split('/', 1)[1]
        (out / f'{name.replace("/", ".")}.txt').write_text(f'{path}\n{text_of(model)}')
    for make in MADE:
        keras.backend.clear_session()
        made = make()
        (out / f'{made.name}.json').write_text(made.to_json() + '\n')
        model = keras.models.model_from_json(made.to_json())
        (out / f'{made.name}.txt').write_text(f'summary/{made.name}.json\n{text_of(model)}')


main(pathlib.Path(sys.argv[1]))
