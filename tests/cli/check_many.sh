# several files: a line for each that passes, what is wrong with the others, the worst status; --summary
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" 'odd |`<b>*.h5'
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" a.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" model.json
cp "$TESTDATA/negative/truncated_half.h5" c.h5
run pgcheck -j 8 a.h5 c.h5 none.h5 a.h5
run pgcheck -j 2 -q a.h5 'odd |`<b>*.h5'
run pgcheck --json -j 2 a.h5 none.h5
run pgcheck --format tap -j 2 a.h5 none.h5
run pgcheck -j 2 --model none.json a.h5 c.h5
run pgcheck -j 0 a.h5
echo kept >summary.md
run pgcheck -j 2 --format github --summary summary.md --model model.json a.h5 'odd |`<b>*.h5' c.h5 none.h5
cat summary.md
run pgcheck -q --summary no/such/folder a.h5
