cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_model.h5" full.h5
pginfo -v full.h5
