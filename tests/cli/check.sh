# Will it load, strictly, on one device?
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" model.json
cp "$TESTDATA/files/keras-2.2.4/rnn-g2/template_weights.h5" rnn.h5
cp "$TESTDATA/files/pytorch/cnn/dataparallel.safetensors" ddp.safetensors
cp "$TESTDATA/negative/truncated_half.h5" bad.h5
try() { "$@" || echo "exit $?: $*"; }
try pgcheck --model model.json single.h5
try pgcheck --model model.json parallel.h5
try pgcheck --model model.json rnn.h5
try pgcheck --finite parallel.h5
try pgcheck --no-wrapper ddp.safetensors
try pgcheck bad.h5
try pgcheck --model model.json single.h5 parallel.h5 bad.h5
try pgcheck -q single.h5 rnn.h5
sha256sum single.h5 >SHA256SUMS
try pgcheck --sha256 SHA256SUMS single.h5
sed -i 's/^[0-9a-f]/0/; s/^0[0-9a-f]/00/; s/^00[0-9a-f]/000/' SHA256SUMS
try pgcheck --sha256 SHA256SUMS single.h5 | sed '/^ .*file/d'
