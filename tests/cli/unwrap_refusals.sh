# Nothing to do, not settled, in the way: one block each, nothing written, nothing changed.
try() { "$@" || echo "exit $?: $*"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
cp "$TESTDATA/negative/transfer_weights.h5" "$TESTDATA/negative/tta_weights.h5" "$TESTDATA/negative/truncated_half.h5" .
sha256sum *.h5 >sums
try pgunwrap single.h5 x.h5
try pgunwrap transfer_weights.h5 x.h5
try pgunwrap tta_weights.h5 x.h5
try pgunwrap truncated_half.h5 x.h5
try pgunwrap parallel.h5 parallel.h5
try pgunwrap -f parallel.h5 ./parallel.h5
try pgunwrap parallel.h5 single.h5
try pgunwrap parallel.h5 no_such_folder/x.h5
try pgunwrap no_such_file.h5 x.h5
try pgunwrap parallel.h5 x.safetensors
try pgunwrap "$TESTDATA/files/pytorch/cnn/dataparallel.pt" x.pt
try pgunwrap --like "$TESTDATA/files/keras-2.2.4/rnn-g2/template.json" parallel.h5 x.h5
sha256sum --quiet -c sums
ls -A
