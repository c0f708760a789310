# Training on one and on two devices gives the same file; it loads, and training goes on from it.
golden=$TESTDATA/golden/mlp_digits
fit() {
    pgfit "$golden/model.json" --data "$golden/data.npz" --val "$golden/data.npz" --loss categorical_crossentropy \
        --metrics accuracy --optimizer adam:learning_rate=0.01 --seed 7 --deterministic -j 2 "$@" 2>&1 |
        sed '/^note: 2 devices are slower/d; /^try: a larger/d; s/ [0-9.]*s$//; s/ in [0-9.]* s, .*//'
}
fit --epochs 2 -o one.h5
fit --epochs 2 --devices cpu:0,cpu:1 -o two.h5
pgdiff one.h5 two.h5
pgcheck --model "$golden/model.json" two.h5
fit --weights two.h5 --json=batch --batch-size 250 | cut -d, -f1,2
pgfit "$golden/init_model.h5" --data "$golden/data.npz" --loss mse -q -o three.h5 && pgcheck -q --model "$golden/model.json" three.h5
# How gradients are summed is told, and why.
fit --epochs 1 -v | grep '^gradients'
fit --epochs 1 --json | sed -n 's/.*\("gradients": {[^}]*}\).*/\1/p'
