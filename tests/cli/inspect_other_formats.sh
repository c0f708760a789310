cd "$TESTDATA/files"
pginfo keras-2.15.0-native/cnn4/wrapper.keras
pginfo keras-3.6.0-native/cnn4/wrapper.weights.h5
pginfo pytorch/cnn/dataparallel.safetensors
