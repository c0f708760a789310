# What keeps the checks from being made.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
try() { "$@" || echo "exit $?: $*"; }
try pgcheck nowhere.h5
try pgcheck --model nowhere.json single.h5
try pgcheck --model single.h5 single.h5
try pgcheck --input x.npy --expect y.npy single.h5
try pgcheck --format xml single.h5
try pgcheck --format tap single.h5 nowhere.h5
