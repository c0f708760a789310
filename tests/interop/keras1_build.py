"""The models of testdata/files/keras-1.2.2-py3, whose JSON no later Keras reads, for oracle_load.py: build() makes the one named CASE,
which convert.py sets before this text."""
import keras
from keras import Input, Model, Sequential, layers as L


@keras.saving.register_keras_serializable(package="keras1")
def hard_sigmoid_1(x):
    """What Keras 1 and 2 call so; Keras 3 calls another function so."""
    ops = keras.ops if hasattr(keras, "ops") else keras.backend
    return ops.clip(0.2 * x + 0.5, 0.0, 1.0)


def cnn4():
    i = Input((12, 12, 1))
    x = L.Conv2D(6, 3, activation="relu")(L.MaxPooling2D()(L.Conv2D(4, 3, activation="relu")(i)))
    return Model(i, L.Dense(5, activation="softmax")(L.Dense(12, activation="relu")(L.Flatten()(x))))


def rnn():
    i = Input((7, 4))
    x = L.Bidirectional(L.LSTM(5, return_sequences=True, recurrent_activation=hard_sigmoid_1))(i)
    x = L.TimeDistributed(L.Dense(4, activation="tanh"))(x)
    return Model(i, L.Dense(3, activation="softmax")(L.GRU(6, recurrent_activation=hard_sigmoid_1, reset_after=False)(x)))


def cnnbn():
    return Sequential([Input((10, 10, 3)), L.Conv2D(5, 3, padding="same"), L.BatchNormalization(), L.Activation("relu"),
                       L.Conv2D(6, 3, strides=2), L.BatchNormalization(), L.GlobalAveragePooling2D(), L.Dense(4, activation="softmax")])


def frozen():
    return Sequential([Input((8, 8, 3)), L.Conv2D(4, 3, padding="same", activation="relu"), L.Conv2D(4, 3, padding="same", activation="relu"),
                       L.MaxPooling2D(), L.Conv2D(5, 3, padding="same", activation="relu"), L.Flatten(), L.Dense(6, activation="relu"),
                       L.Dense(3, activation="softmax")])


def build():
    return globals()[CASE]()  # noqa: F821
