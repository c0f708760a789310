# Shards of Hugging Face, of Keras 3.10, and .npz; each joined again.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" model.h5
pgsplit --format npz --max-shard-size 2KB --sha256 model.h5 npz
(cd npz && sha256sum --quiet -c SHA256SUMS && for f in *.npz; do python3 -m zipfile -t "$f" >/dev/null; done)
pgjoin npz npz.h5
h5diff model.h5 npz.h5 && echo same
printf x | dd of=npz/model-00002-of-00002.npz bs=1 seek=300 conv=notrunc 2>/dev/null
pgjoin npz bad.h5 || echo "exit $?"
pgsplit -n --format safetensors --max-shard-size 2KB model.h5 st
pgsplit -n --format safetensors --max-shard-size 1KB model.h5 st
pgsplit -q --format safetensors --max-shard-size 2KB model.h5 st
cat st/model.safetensors.index.json
pgjoin st st.h5
h5diff model.h5 st.h5 && echo same
pgjoin st all.safetensors
pgjoin st/model-00002-of-00002.safetensors all2.safetensors
cmp all.safetensors all2.safetensors
pgdiff model.h5 all.safetensors
pgdiff model.h5 st
rm st/model-00001-of-00002.safetensors
pgjoin st gone.safetensors || echo "exit $?"
cp "$TESTDATA/files/keras-2.15.0-native/cnn4/template.weights.h5" a.weights.h5
pgsplit --format keras --max-tensors 5 a.weights.h5 ke
cat ke/model.weights.json; echo
pgjoin ke b.weights.h5
h5diff a.weights.h5 b.weights.h5 && echo same
pgjoin ke/model_00001.weights.h5 c.weights.h5
cmp b.weights.h5 c.weights.h5
pgsplit -q --format keras --max-tensors 5 "$TESTDATA/files/keras-2.15.0-native/cnn4/template.keras" kk
pgjoin kk back.keras
pgjoin kk back.weights.h5
pgdiff back.keras back.weights.h5
pgsplit --format keras model.h5 kx || echo "exit $?"
ls
