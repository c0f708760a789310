cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_model.h5" full.h5
pgunwrap full.h5 single.h5
pgunwrap --weights-only full.h5 weights.h5
pginfo single.h5 weights.h5
