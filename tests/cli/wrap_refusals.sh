# What cannot be wrapped as asked: one line, nothing written.
try() { "$@" || echo "exit $?: $*"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
for n in 0 1 1025 100000 abc -1; do try pgwrap --gpus "$n" single.h5 x.h5; done
try pgwrap --gpus 2 --name lambda_1 single.h5 x.h5
try pgwrap --gpus 2 --name dense_2 single.h5 x.h5
try pgwrap --gpus 2 --name '' single.h5 x.h5
try pgwrap --gpus 2 --name net single.h5 net.h5
try pgwrap --gpus 2 net.h5 x.h5
ls -A
