# Several files or a folder: one line each, complaints on stderr, the worst exit status.
cp -r "$TESTDATA/files/keras-2.15.0-native/cnn4" folder
pginfo folder
cp "$TESTDATA/negative/truncated_half.h5" "$TESTDATA/negative/transfer_weights.h5" .
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/expected_model.h5" .
pginfo expected_model.h5 transfer_weights.h5 truncated_half.h5
