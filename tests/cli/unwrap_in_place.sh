# Weights, a full model, and back again; what a killed run left behind the end is cut off.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" weights.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_model.h5" full.h5
cp weights.h5 again.h5
pgunwrap weights.h5 fresh.h5
pgunwrap -n --in-place weights.h5
cmp weights.h5 "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5"
printf 'left by a killed run' >>weights.h5
pgunwrap --in-place weights.h5
pginfo --stats weights.h5 | sed 1d >ours
pginfo --stats fresh.h5 | sed 1d | cmp - ours
pgdiff fresh.h5 weights.h5
pgwrap --like again.h5 --in-place weights.h5
pgdiff again.h5 weights.h5
pgunwrap --in-place --json --no-sync --skip-verify again.h5
pgunwrap --in-place full.h5
pginfo full.h5
pgunwrap --in-place --no-optimizer "$(cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_model.h5" small.h5 && echo small.h5)"
ls
echo '$ again and again: what is out of reach, and the way to lose it'
pgunwrap -q --in-place weights.h5
pgwrap -q --gpus 2 --in-place weights.h5
pgunwrap --in-place weights.h5
pgunwrap --in-place weights.h5 || echo "exit $?"
pgunwrap --in-place --like "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" weights.h5
pgunwrap --in-place --json --like "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" weights.h5
pgconvert weights.h5 new.h5
pgdiff weights.h5 new.h5
test $(stat -c %s new.h5) -lt $(($(stat -c %s weights.h5) / 3))
pgunwrap --in-place new.h5 2>&1 | cat
