"""Checkpoints of real TensorFlow 2.15 that hold more than one model, objects that are no tensors, or a wrapper.  usage: gen_tf_roots.py OUT"""
import os, sys, json, glob
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"; os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np, tensorflow as tf
os.makedirs(sys.argv[1], exist_ok=True); os.chdir(sys.argv[1])
K, L = tf.keras, tf.keras.layers
K.utils.set_random_seed(10132)

def seq(name, n_in, n):
    m = K.Sequential([K.Input((n_in,)), L.Dense(3, name=name + "_a"), L.BatchNormalization(name=name + "_bn"), L.Dense(n, name=name + "_b")], name=name)
    m.set_weights([np.random.standard_normal(w.shape).astype("f") for w in m.get_weights()])
    return m

def train(m, opt):
    with tf.GradientTape() as t: y = tf.reduce_sum(m(tf.ones((2,) + tuple(m.input_shape[1:])), training=True) ** 2)
    opt.apply_gradients(zip(t.gradient(y, m.trainable_variables), m.trainable_variables))
    return opt

# 1 The tutorial of DCGAN: two models and two optimizers, of both kinds
for name, mod in (("gan", K.optimizers), ("gan-legacy", K.optimizers.legacy)):
    G, D = seq("gen", 2, 3), seq("disc", 3, 1)
    tf.train.Checkpoint(generator_optimizer=train(G, mod.Adam()), discriminator_optimizer=train(D, mod.Adam()), generator=G, discriminator=D).write(name + "/c")
    if mod is K.optimizers: G.save_weights(name + "/generator.h5")
# 2 Keras' example of a VAE: a subclassed model with metrics of its own
class VAE(K.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = seq("enc", 3, 2), seq("dec", 2, 3)
        self.total_loss_tracker, self.kl = K.metrics.Mean(name="total_loss"), K.metrics.Mean(name="kl_loss")
    def call(self, x): return self.decoder(self.encoder(x))
    def train_step(self, data):
        with tf.GradientTape() as t: l = tf.reduce_mean((self(data) - data) ** 2)
        self.optimizer.apply_gradients(zip(t.gradient(l, self.trainable_weights), self.trainable_weights))
        self.total_loss_tracker.update_state(l); self.kl.update_state(l)
        return {"loss": l}
v = VAE(); v.compile("adam"); v.fit(np.ones((4, 3), "f"), verbose=0); v.save_weights("vae/w")
# 3 TensorFlow's guide: a counter, a model, an iterator over data; three of five steps are kept
class Net(K.Model):
    def __init__(self): super().__init__(); self.l1 = L.Dense(5)
    def call(self, x): return self.l1(x)
net, opt = Net(), K.optimizers.legacy.Adam(.1)
it = iter(tf.data.Dataset.from_tensor_slices((tf.range(10.)[:, None], tf.ones((10, 5)))).repeat().batch(2))
ck = tf.train.Checkpoint(step=tf.Variable(1), optimizer=opt, net=net, iterator=it)
mgr = tf.train.CheckpointManager(ck, "guide", max_to_keep=3)
for i in range(5):
    x, y = next(it)
    with tf.GradientTape() as t: l = tf.reduce_mean((net(x) - y) ** 2)
    opt.apply_gradients(zip(t.gradient(l, net.trainable_variables), net.trainable_variables)); ck.step.assign_add(1); mgr.save()
# 4 A copy with averaged weights
m = seq("m", 2, 2); e = K.models.clone_model(m); e.set_weights(m.get_weights())
tf.train.Checkpoint(model=m, ema_model=e, rng=tf.random.Generator.from_seed(3), optimizer=train(m, K.optimizers.AdamW(use_ema=True))).write("ema/c")
# 5 A wrapper as tf.keras.utils.multi_gpu_model made it until TensorFlow 2.3
def multi_gpu_model(model, gpus):
    def get_slice(data, i, parts):
        shape = tf.shape(data); batch, rest = shape[:1], shape[1:]; step = batch // parts
        size = tf.concat([batch - step * i if i == parts - 1 else step, rest], 0)
        return tf.slice(data, tf.concat([step, rest * 0], 0) * i, size)
    out = [model([L.Lambda(get_slice, output_shape=tuple(x.shape[1:]), arguments={"i": i, "parts": gpus})(x) for x in model.inputs]) for i in range(gpus)]
    return K.Model(model.inputs, L.concatenate(out, axis=0, name=model.output_names[0]))
i = K.Input((4,), name="x_in")
inner = K.Sequential([K.Input((4,)), L.Dense(3, name="same"), L.BatchNormalization(name="bn")], name="tower")
m = K.Model(i, L.Dense(2, name="out")(L.Dense(3, name="same")(inner(i))), name="template")
m.set_weights([np.random.standard_normal(w.shape).astype("f") for w in m.get_weights()])
w = multi_gpu_model(m, 2); w.compile("adam", "mse"); w.fit(np.ones((4, 4), "f"), np.zeros((4, 2), "f"), verbose=0)
w.save_weights("wrapper/w"); w.save("wrapper/sm", save_format="tf"); m.save_weights("wrapper/template.h5")
open("wrapper/template.json", "w").write(m.to_json())
for f in glob.glob("wrapper/sm/fingerprint.pb") + glob.glob("wrapper/sm/saved_model.pb"): open(f, "w").close()  # large, and nothing reads what is in them
# 6 What model.export() writes: the variables in a list, and once more
K.utils.set_random_seed(7)
i = K.Input((3, 4)); m = K.Model(i, L.Dense(2, name="out")(L.Bidirectional(L.LSTM(2), name="both")(i)))
train(m, "adam"); m.export("export"); m.save_weights("export/weights.h5"); open("export/model.json", "w").write(m.to_json())
for f in ("fingerprint.pb", "saved_model.pb"): os.remove("export/" + f)
