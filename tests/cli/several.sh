# --out-dir: several inputs, each under its own name; what fails does not stop the others.
run() { echo "\$ $*"; "$@" || echo "status $?"; }
exec 2>&1
files="$TESTDATA/files/keras-2.2.4"
cp "$files/cnn4-g2/wrapper_weights.h5" a.h5
cp "$files/cnnbn-g2/wrapper_weights.h5" b.weights.h5
cp "$files/cnn4-g2/template_weights.h5" c.h5
cp "$TESTDATA/files/pytorch/cnn/dataparallel.pt" d.pt
echo text > e.h5
run pgunwrap *.h5 d.pt --out-dir fixed
run ls fixed
run pgdiff -q fixed/a.h5 "$files/cnn4-g2/template_weights.h5"
run pgunwrap -j 8 --out-dir fixed/ a.h5 d.pt
run pgunwrap -j 2 -f --json --out-dir fixed a.h5 c.h5
run pgunwrap -q --out-dir fixed -f a.h5
run pgunwrap -n --out-dir none a.h5 c.h5
run ls none
run pgunwrap --out-dir none e.h5
run ls none
mkdir other
cp a.h5 other
run pgunwrap --out-dir none a.h5 other/a.h5
cp d.pt other/d.safetensors
run pgunwrap --out-dir none d.pt other/d.safetensors
run pgunwrap -f --out-dir . a.h5
run pgunwrap --out-dir none other/
run pgunwrap --out-dir a.h5 b.weights.h5
run pgunwrap a.h5 b.weights.h5 d.pt
run pgunwrap --out-dir '' a.h5
run pgunwrap --out-dir none -o x.h5 a.h5
run pgunwrap --out-dir none --in-place a.h5
run pgunwrap --out-dir none
run pgunwrap --out-dir no/such/folder a.h5
run pgunwrap -j 2 a.h5 x.h5
run pgconvert --to safetensors --out-dir st a.h5 b.weights.h5 e.h5
run pgconvert --to npy --out-dir npy c.h5
run ls st npy/c
