pginfo "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5"
