# Layers of classes that nobody knows: noted, or with --strict a failure.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
sed 's/"class_name": "Dense"/"class_name": "MyDense"/' "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" >own.json
pgcheck --model own.json single.h5
pgcheck --strict --model own.json single.h5 || echo "exit $?"
pgcheck --json --model own.json single.h5 | grep -o '"notes".*'
