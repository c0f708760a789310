# A split of a .keras or .weights.h5 is what the file is: wrapper or not, order, names.
for file in keras-2.15.0-native/cnn4/template.keras keras-2.15.0-native/cnn4/wrapper.weights.h5 keras-3.6.0-native/cnn4/wrapper.keras; do
    pgsplit -q "$TESTDATA/files/$file" split
    pginfo split | sed -n 2,3p
    pgcheck split || echo "exit $?"
    pgdiff split "$TESTDATA/files/$file"
    rm -r split
done
pgsplit -q "$TESTDATA/files/keras-3.6.0-native/cnn4/wrapper.keras" split
pgunwrap split single.keras || echo "exit $?"
