# A shard alone is not the model: both tools lead to its index, from any folder.
mkdir "my run"
cp "$TESTDATA/files/keras-3.10.0-native/cnn4/sharded_wrapper/"* "my run"
pginfo "my run/wrapper_00000.weights.h5"
pgunwrap "my run/wrapper_00000.weights.h5" x.weights.h5 || echo "exit $?"
pgunwrap "my run/wrapper.weights.json" x.weights.h5
