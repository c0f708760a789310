# What pgcheck proposes for files of other layers than the model's works as it stands, or is not proposed.
files="$TESTDATA/files/keras-2.2.4/cnn4-g2"
cp "$files/template_weights.h5" weights.h5
cp "$files/wrapper_weights.h5" parallel.h5
# a head of another name and size, none of the file's layers, other shapes
sed 's/"dense_2"/"other_head"/g; s/"units": 5/"units": 7/' "$files/template.json" > head.json
sed 's/"\(conv2d\|dense\)_\([12]\)"/"other_\1_\2"/g; s/"units": /"units": 1/g; s/"filters": /"filters": 1/g' "$files/template.json" > other.json
sed 's/"filters": 4/"filters": 3/' "$files/template.json" > shapes.json
for model in head other shapes; do
    for f in weights parallel; do
        echo "\$ pgcheck --model $model.json $f.h5"
        pgcheck --model $model.json $f.h5 | grep 'structure\|missing\|extra\|try'
    done
done
