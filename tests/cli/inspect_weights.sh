# The main question: what is this file, and why does it not load?
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pginfo parallel.h5
