cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
cp "$TESTDATA/files/keras-2.2.4/rnn-g2/template_weights.h5" other.h5
pgwrap --like parallel.h5 single.h5 again.h5
pgunwrap -q again.h5 back.h5
pgwrap --gpus 3 single.h5 three.h5
pginfo parallel.h5 again.h5 back.h5 three.h5
pgwrap --like parallel.h5 other.h5 x.h5 || echo "exit $?"
test ! -e x.h5
