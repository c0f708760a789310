#!/usr/bin/env python3
"""JAX: a model of Keras 3, whose training step (forward, loss, gradients, optimizer) is one compiled function. One
measurement, one line of JSON. Data lie on the device. Needs jax (of CUDA 13: jax[cuda13]) and keras 3.

usage: jax_peer.py MODEL [--batch N] [--precision bf16|tf32|f32] [--tiny]"""
import os
import sys
import time

sys.dont_write_bytecode = True
BEGUN = time.time()
os.environ['KERAS_BACKEND'] = 'jax'
os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')
from keras_models import build  # noqa: E402
from specs import LEARNING_RATE, MODELS, MOMENTUM, arguments, data, measure, report  # noqa: E402

a = arguments(__doc__, ('jax',))
import jax  # noqa: E402
import keras  # noqa: E402

jax.config.update('jax_default_matmul_precision', 'highest' if a.precision == 'f32' else 'tensorfloat32')
if a.precision == 'bf16':
    keras.config.set_dtype_policy('mixed_bfloat16')
keras.utils.set_random_seed(0)
_, optimizer, loss = MODELS[a.model]
model = build(keras, a.model, a.tiny)
optimizer = getattr(keras.optimizers, optimizer)(LEARNING_RATE[optimizer], **({'momentum': MOMENTUM} if optimizer == 'SGD' else {}))
optimizer.build(model.trainable_variables)
objective = keras.losses.get(loss)
x, y = data(a.model, a.batch, a.tiny)
x, y = [jax.device_put(v) for v in x], jax.device_put(y)


def error(trainable, others):
    out, others = model.stateless_call(trainable, others, x if len(x) > 1 else x[0], training=True)
    return objective(y, out.astype('float32')).mean(), others


@jax.jit
def train(state):
    trainable, others, slots = state
    (value, others), gradients = jax.value_and_grad(error, has_aux=True)(trainable, others)
    trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
    return value, (trainable, others, slots)


state = tuple([v.value for v in variables] for variables in (model.trainable_variables, model.non_trainable_variables, optimizer.variables))


def step():
    global state
    value, state = train(state)
    return value


figures = measure(a, BEGUN, step, float)
device = jax.local_devices()[0]
memory = device.memory_stats() or {}
report(a, **figures, peak_mem_bytes=memory.get('peak_bytes_in_use'), device=device.device_kind, version=jax.__version__,
       parameters=model.count_params())
