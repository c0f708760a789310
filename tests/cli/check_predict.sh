# What a file predicts on one device, against what Keras predicted.
k224=$TESTDATA/files/keras-2.2.4 k36=$TESTDATA/files/keras-3.6.0-native/cnn4
for f in "$k224/cnn4-g2/template_model.h5" "$k36/template.keras"; do cp "$f" .; done
cp "$k224/cnn4-g2/x0.npy" x.npy
cp "$k224/cnn4-g2/y0.npy" y.npy
cp "$k224/cnn4-g2/wrapper_model.h5" parallel.h5
cp "$k224/cnn4-g2/template_weights.h5" weights.h5
cp "$k224/cnn4-g2/template.json" model.json
try() { "$@" || echo "exit $?: $*"; }
check() { try pgcheck --no-wrapper --input "$@" 2>&1 | sed -E 's/difference [0-9.e-]+/difference D/; /container/d'; }
check x.npy --expect y.npy template_model.h5
check x.npy --expect y.npy --model model.json weights.h5
check "$k36/x0.npy" --expect "$k36/y0.npy" --device cpu:0 template.keras
echo '$ several inputs and outputs'
python3 - "$k224/multiout-g2" <<'END'
import sys, zipfile
for out, names in ('in.npz', ('x0.npy', 'x1.npy')), ('out.npz', ('y0.npy', 'y1.npy')):
    with zipfile.ZipFile(out, 'w') as z:
        for name in names:
            z.write(sys.argv[1] + '/' + name, name)
END
check in.npz --expect out.npz "$k224/multiout-g2/template_model.h5" | sed 's#^/.*/##'
echo '$ what is not as it should be'
check x.npy --expect y.npy --tolerance 1e-12 template_model.h5 | sed -E 's/[0-9]+ of 40/N of 40/; s/at \[.*/at .../'
check x.npy --expect y.npy parallel.h5
check x.npy --expect y.npy --model "$k36/template.json" weights.h5
check y.npy --expect y.npy template_model.h5
check x.npy --expect x.npy template_model.h5
check x.npy template_model.h5
check x.npy --expect y.npy --tolerance 0 template_model.h5
check x.npy --expect nowhere.npy template_model.h5
check x.npy --expect y.npy --device cuda:0 template_model.h5
echo '$ a device, and nothing to compare with: made-up rows'
alone() { pgcheck --no-wrapper --device cpu:0 "$@" | grep predicted || true; }
alone template_model.h5
alone --model "$k36/template.json" "$k36/template.keras"
alone parallel.h5
alone weights.h5
pgfit -q template_model.h5 --data x.npy,y.npy --loss mse --optimizer sgd:learning_rate=1e30 --epochs 4 -o diverged.h5 --full-model
alone diverged.h5
