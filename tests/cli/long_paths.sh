# A path that is long is cut in a message, never in a command.
a=$(printf 'a%.0s' $(seq 90))
mkdir -p "$a/$a" "$a/$a/$a/$a/$a/$a"
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" "$a/$a/w.h5"
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" "$a/$a/$a/$a/$a/$a/w.h5"
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" "$a/$a/t.h5"
gzip -c "$a/$a/t.h5" >"$a/$a/z.h5"
gzip -c "$a/$a/t.h5" >"$a/$a/$a/$a/$a/$a/z.h5"
pginfo "$a/$a/w.h5" | grep try | tr -s a
pginfo "$a/$a/w.h5" | grep try | wc -c
pginfo "$a/$a/z.h5" 2>&1 | tr -s a || true
pginfo "$a/$a/$a/$a/$a/$a/z.h5" 2>&1 | tr -s a || true
pgcheck "$a/$a/w.h5" | grep try | wc -c
