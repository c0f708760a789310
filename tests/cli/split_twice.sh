# Keras 3.0 lists the names of a nested model without the layer, some of them twice; the values behind the second are in no file
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp "$TESTDATA/extra/keras-3.0/nested.aborted.h5" nested.h5
run pginfo nested.h5
for format in npy npz safetensors; do run pgsplit --format $format nested.h5 $format; done
run pgunwrap nested.h5 single.h5
run pginfo npy
