# Nothing to compare, wrong numbers, damage.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" a.h5
cp "$TESTDATA/files/pytorch/cnn/single.safetensors" b.safetensors
cp "$TESTDATA/files/keras-2.15.0-native/cnn4/template.weights.h5" c.h5
cp "$TESTDATA/golden/mlp_digits/init.weights.h5" d.weights.h5
cp "$TESTDATA/negative/truncated_half.h5" bad.h5
try() { "$@" || echo "exit $?: $*"; }
try pgdiff a.h5 b.safetensors
try pgdiff --json a.h5 b.safetensors
try pgdiff a.h5 nowhere.h5
try pgdiff bad.h5 bad.h5
try pgdiff -d -1 a.h5 a.h5
try pgdiff -p 1x a.h5 a.h5
try pgdiff -n 0 a.h5 a.h5
try pgdiff a.h5
