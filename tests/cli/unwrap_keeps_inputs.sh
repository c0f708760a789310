# Nothing that is read is replaced, not even with --force; each message names the file it is about.
try() { "$@" || echo "exit $?: $*"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" like.h5
cp "$TESTDATA/files/keras-3.10.0-native/cnn4/sharded_wrapper/"* .
echo '[1]' >list.json
sha256sum * >sums
try pgunwrap -f wrapper.weights.json wrapper_00000.weights.h5
try pgunwrap -f --like like.h5 parallel.h5 like.h5
try pgwrap -f --like parallel.h5 like.h5 parallel.h5
try pgunwrap --like nothing.json parallel.h5 x.h5
try pgunwrap --like list.json parallel.h5 x.h5
try pgwrap --like nothing.h5 like.h5 x.h5
try pgunwrap wrapper.weights.json x.weights.json
try pgunwrap parallel.h5 x.keras
d=$(printf '%0100d' 0)
mkdir -p "$d/$d"
cp like.h5 "$d/$d/x.h5"
try pgunwrap parallel.h5 "$d/$d/x.h5"
sha256sum --quiet -c sums
ls -A | grep -v sums
