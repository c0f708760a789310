cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pgunwrap parallel.h5 single.h5
pginfo --json single.h5
pginfo --stats single.h5 | sed 1d >ours
pginfo --stats "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" | sed 1d | cmp - ours
