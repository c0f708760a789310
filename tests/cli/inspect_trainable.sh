# What can be trained, where the file says it: not for the weights of a class that only its author knows, unless they are frozen.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" model.h5
LC_ALL=C sed 's/"class_name": "Dense"/"class_name": "Danse"/g' model.h5 >own.h5
LC_ALL=C sed 's/"trainable": true/"trainable":false/g' own.h5 >frozen.h5
for f in model own frozen; do
    pginfo $f.h5 | sed -n 2,3p
    pginfo --json $f.h5 | grep -o '"[a-z_]*trainable[a-z_]*": [^,}]*'
done
