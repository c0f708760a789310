#!/usr/bin/env python3
"""A model trained under tf.distribute.MirroredStrategy on two devices, saved: its variables are mirrored in memory, files hold each once.

usage: gen.py OUT        with Keras 2.15 (tensorflow-cpu==2.15.1)
"""
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(4,)), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
model.fit(np.random.rand(8, 4), np.random.rand(8, 2), batch_size=4, verbose=0)
for name in ("model.h5", "model.keras"):
    model.save(os.path.join(sys.argv[1], name))
model.save_weights(os.path.join(sys.argv[1], "weights.h5"))
