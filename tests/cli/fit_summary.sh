# The model as Keras prints it; the layers that can be trained. Neither needs data.
cp "$TESTDATA/golden/siamese/model.json" siamese.json
cp "$TESTDATA/files/keras-3.6.0-native/cnn4/template.json" keras3.json
cp "$TESTDATA/files/keras-2.2.4/lambdatpl-g2/template.json" lambda.json
try() { "$@" || echo "exit $?: $*"; }
try pgfit --summary siamese.json
try pgfit --summary keras3.json
try pgfit --summary lambda.json
try pgfit --summary nowhere.json
try pgfit --summary
pgfit --list-layers | grep -wo -e Conv2D -e Lambda
pgfit --list-layers --json | cut -c 1-55
