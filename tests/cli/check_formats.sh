# For continuous integration; a name of a file may hold anything.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" 'a <&"#%:,b.h5'
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" model.json
for format in tap junit github text; do
    pgcheck --format $format --model model.json 'a <&"#%:,b.h5' single.h5 || echo "exit $?"
done
pgcheck --format tap single.h5 | head -2
pgcheck --json --model model.json 'a <&"#%:,b.h5' single.h5 || echo "exit $?"

# the objects of a checkpoint are the model's, whatever their names
for f in "$TESTDATA"/modern/tf-save-weights "$TESTDATA"/modern/tf-mirrored; do
    pgcheck --model "$f/model.json" "$f" || echo "exit $?"
done
