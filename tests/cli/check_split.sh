# A split model: the CRC-32 of its shards, and all of SHA256SUMS. pgjoin names what is missing and
# what is damaged in one go.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" model.h5
pgsplit -q --sha256 model.h5 npy
pgcheck --sha256 npy/SHA256SUMS npy
for format in npz safetensors; do
    pgsplit -q --max-tensors 3 --sha256 --format $format model.h5 $format
    pgcheck --sha256 $format/SHA256SUMS $format | grep checksums
done
pgsplit -q --format keras "$TESTDATA/files/keras-2.15.0-native/cnn4/template.weights.h5" keras
pgcheck --model "$TESTDATA/files/keras-2.15.0-native/cnn4/template.json" keras
for file in npy/dense_1/bias.npy npz/model-00001-of-00003.npz safetensors/model-00003-of-00003.safetensors; do
    printf x | dd of=$file bs=1 seek=$(($(stat -c %s $file) * 8 / 10)) conv=notrunc 2>/dev/null
done
file=keras/model_00000.weights.h5 # ends with a tensor
printf x | dd of=$file bs=1 seek=$(($(stat -c %s $file) - 9)) conv=notrunc 2>/dev/null
sed -i '/dense_2/d' npy/SHA256SUMS
for folder in npy npz safetensors keras; do
    pgcheck $folder | grep -A1 checksums || true
done
pgcheck --finite --sha256 npy/SHA256SUMS npy || echo "exit $?"
rm npy/dense_2/kernel.npy
pgcheck npy || echo "exit $?"
pgcheck --json npy/manifest.json || echo "exit $?"
pgjoin npy back.h5 2>&1 || echo "exit $?"
# the wrapper of a path layout is seen in its shards, too
for file in keras-3.6.0-native/nested/wrapper.keras keras-2.15.0-native/nested/wrapper.weights.h5; do
    rm -rf wrapped && pgsplit -q "$TESTDATA/files/$file" wrapped
    pgdiff wrapped "$TESTDATA/files/$file"
    pgcheck wrapped | grep -v ^ok || true
done
