# HDF5 that other programs wrote, or wrote into a Keras file; flags that HDF5 before 1.8 left behind
run() { echo "\$ $*"; "$@" || echo "status $?"; }
exec 2>&1
for f in pandas_fixed.h5 old_hdf5.hdf; do
  cp "$TESTDATA/extra/foreign/$f" . && run pginfo "$f"
done
cp "$TESTDATA/files/keras-2.0.9/longnames/template_weights.aborted.h5" nothing.h5
run pginfo nothing.h5
cp "$TESTDATA/extra/foreign/history_legacy.h5" "$TESTDATA/extra/foreign/history.weights.h5" .
run pginfo history_legacy.h5 history.weights.h5
pginfo history_legacy.h5 | sed -n 4p
run pgunwrap history_legacy.h5 single.h5
run pgdiff -q single.h5 "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5"
run pgunwrap --in-place history_legacy.h5
run pgconvert history.weights.h5 single.weights.h5
pginfo history.weights.h5 | sed -n 2,4p
run pgconvert history.weights.h5 single.safetensors
run pgdiff -q single.weights.h5 "$TESTDATA/files/keras-3.6.0-native/nested/template.weights.h5"
run pgsplit history_legacy.h5 split
run pgjoin split back.h5
run pgdiff -q back.h5 history_legacy.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" marked.h5
printf '\003' | dd of=marked.h5 bs=1 seek=20 conv=notrunc status=none
run pgunwrap marked.h5 unmarked.h5
run pgdiff -q unmarked.h5 single.h5
cp "$TESTDATA/extra/foreign/extra_legacy.h5" .
pginfo extra_legacy.h5 | sed -n 2,3p
run pgconvert extra_legacy.h5 extra.safetensors
cp "$TESTDATA/extra/parts/exported.pt2" .
run pginfo exported.pt2
