# Where it cannot be, the message names the reason and the other way; not a byte changes.
try() { "$@" || echo "exit $?: $*"; }
k="$TESTDATA/files"
cp "$k/keras-2.2.4/cnn4-g2/wrapper_weights.h5" weights.h5
cp "$k/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
cp "$k/keras-3.6.0-native/nested/wrapper.keras" .
cp "$k/pytorch/cnn/dataparallel.safetensors" .
cp weights.h5 linked.h5
ln linked.h5 link.h5
sha256sum * >sums
try pgunwrap --in-place single.h5
try pgwrap --like weights.h5 --in-place weights.h5
try pgunwrap --in-place wrapper.keras
try pgunwrap --in-place dataparallel.safetensors
cp "$k/pytorch/cnn/single.safetensors" .
cp "$TESTDATA/extra/pictures/grey.npy" .
cp "$k/keras-3.10.0-native/cnn4/sharded_wrapper/wrapper_00000.weights.h5" .
try pgunwrap --in-place single.safetensors
try pgunwrap --in-place grey.npy
try pgwrap --gpus 2 --in-place grey.npy
try pgwrap --like wrapper.keras --in-place single.safetensors
try pgunwrap --in-place wrapper_00000.weights.h5
try pgunwrap --in-place linked.h5
try pgunwrap --in-place nothing.h5
try pgunwrap --in-place weights.h5 x.h5
try pgunwrap --in-place -o x.h5 weights.h5
try pgunwrap --in-place -o x.h5
try pgunwrap --in-place weights.h5 weights.h5
try pgunwrap --in-place weights.h5 single.h5 linked.h5
try pgunwrap --in-place
echo '$ OUT is IN: the hint works, or there is none'
try pgunwrap weights.h5 weights.h5
try pgunwrap -n --like "$k/keras-2.2.4/cnn4-g2/template.json" weights.h5 ./weights.h5
try pgwrap --gpus 3 --name net single.h5 single.h5
try pgunwrap linked.h5 link.h5
try pgunwrap wrapper.keras wrapper.keras
flock -s weights.h5 pgunwrap --in-place weights.h5 || echo "exit $?: in use"
sha256sum --quiet -c sums
ls
echo '$ nothing to change, and what would be lost'
cp "$TESTDATA/files/keras-2.2.4/cnnbn-g2/template_weights.h5" fits.h5
pgunwrap --in-place --like "$TESTDATA/files/keras-2.2.4/cnnbn-g2/template.json" fits.h5
cmp fits.h5 "$TESTDATA/files/keras-2.2.4/cnnbn-g2/template_weights.h5"
cp "$TESTDATA/files/keras-2.2.4/cnnbn-g2/template_model.h5" full.h5
pgwrap --in-place --gpus 2 full.h5 || echo "exit $?"
cmp full.h5 "$TESTDATA/files/keras-2.2.4/cnnbn-g2/template_model.h5"
