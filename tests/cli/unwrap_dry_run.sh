cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pgunwrap -n parallel.h5
pgunwrap --dry-run parallel.h5 single.h5
ls
