# What pgfit reads and writes: every format, full models that training goes on from, wrappers' files.
k224=$TESTDATA/files/keras-2.2.4/cnn4-g2 k36=$TESTDATA/files/keras-3.6.0-native/cnn4 k215=$TESTDATA/files/keras-2.15.0-native/cnn4
cp "$k224/wrapper_model.h5" parallel.h5
cp "$k224/expected_model.h5" single.h5
cp "$k36/wrapper.keras" parallel3.keras
cp "$k36/template.json" model3.json
cp "$k215/wrapper_legacy.h5" parallel15.h5
python3 - "$k224" <<'END'
import sys, zipfile
with zipfile.ZipFile('rows.npz', 'w') as z:
    for name in ('x0.npy', 'y0.npy'):
        z.write(sys.argv[1] + '/' + name, name)
END
fit() { pgfit "$@" --data rows.npz --loss mse | sed '/^epoch/d;/^pgfit 0/d;/^rows.npz: 8 train/d;/^1 epoch in/d'; }
echo '$ the wrapper and its template give the same weights'
fit parallel.h5 -o a.h5
fit single.h5 -o b.h5
pgdiff a.h5 b.h5
echo '$ full models: training goes on from them'
fit parallel15.h5 -o c.keras
fit c.keras -o c.h5 --full-model
fit c.h5 --optimizer sgd -o c.weights.h5
pginfo c.h5 c.keras c.weights.h5 | grep -e '^c' -e optimizer
fit parallel3.keras -o d.keras
pgcheck d.keras
echo '$ initial weights of any format'
fit model3.json --weights d.keras -o d.weights.h5
fit model3.json --weights d.weights.h5 -o d.safetensors
fit model3.json --weights d.safetensors -o d.h5
pgsplit -q d.h5 shards
fit model3.json --weights shards -o e.h5
for f in d.keras d.weights.h5 d.safetensors; do pgdiff $f $f; done
echo '$ what cannot be'
try() { "$@" || echo "exit $?: $*"; }
cp "$TESTDATA/files/keras-1.2.2-py3/make_parallel-cnn4/template.json" model1.json
try pgfit model1.json --data rows.npz --loss mse -o f.keras
try pgfit single.h5 --data rows.npz -o f.pt
fit single.h5 -o f.keras
echo '$ a name that no header of HDF5 holds'
python3 - "$TESTDATA/golden/mlp_digits/model.json" <<'END'
import sys
open('long.json', 'w').write(open(sys.argv[1]).read().replace('"fc1"', '"%s"' % ('x' * 65000)))
END
digits=$TESTDATA/golden/mlp_digits/data.npz
long() { pgfit --data "$digits" --loss mse "$@" | grep -e note -e 'load it'; }
long long.json -o long.h5
ls -d long.h5*
long long.json --weights long.h5.shards --optimizer sgd:learning_rate=0 -o long.weights.h5
pgconvert -q long.h5.shards --model long.json again.weights.h5
pgdiff long.weights.h5 again.weights.h5
echo '$ compiled as another file says'
cp "$TESTDATA/golden/mlp_digits/model.json" mlp.json
pgfit -q mlp.json --data "$digits" --optimizer sgd:momentum=0.9,lr=0.02 --loss mae --metrics accuracy -o compiled.h5 --full-model
how() { pgfit mlp.json --data "$digits" --compile-from "$@" | sed -n 's/.*, \([A-Za-z]* lr=[0-9.]*\)$/\1/p; s/=[0-9.]*//g; s/ [0-9.]*s$//; /^epoch/p'; }
how compiled.h5
how compiled.h5 --optimizer adam
how compiled.h5 --loss mse --metrics mae
echo '$ drawn weights are said to be that'
pgfit mlp.json --predict "$digits" --out drawn.npy
pgfit compiled.h5 --predict "$digits" --out trained.npy
echo '$ fewer rows than devices'
cp "$TESTDATA/golden/mlp_digits/model.json" few.json
few() { pgfit few.json --data "$TESTDATA/golden/mlp_digits/data.npz" --loss mse --steps-per-epoch 1 --devices cpu:0,cpu:1,cpu:2 --batch-size "$@" 2>&1 | grep 'too small' || echo 'all have rows'; }
few 2
few 3
few 2 --accumulate 2
few 2 --deterministic --devices cpu:0,cpu:1,cpu:2,cpu:3
echo '$ what is to be predicted is opened before training'
pgfit mlp.json --data "$digits" --loss mse --predict nowhere.npz --out y.npy -o early.h5 || echo "exit $?"
pgfit mlp.json --data "$digits" --loss mse --predict "$digits" --out y.txt -o early.h5 || echo "exit $?"
pgfit mlp.json --data "$digits" --loss mse --predict "$digits" --out drawn.npy -o early.h5 || echo "exit $?"
ls early.h5 y.npy 2>/dev/null || echo 'nothing was trained'
