cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pginfo --json parallel.h5
pginfo parallel.h5 --json parallel.h5 | head -c 60
