# Where the time went: all operations of the model, by kind and by layer; the times themselves are blanked out.
fit() { pgfit "$TESTDATA/golden/mlp_digits/model.json" --data "$TESTDATA/golden/mlp_digits/data.npz" --loss categorical_crossentropy \
    --batch-size 32 --epochs 1 --steps-per-epoch 5 -j 1 --optimizer sgd "$@"; }
rows() { sed -n '/^time/,$p' | awk -v keep="$1" 'NR > 2 { NF = keep } { $1 = $1; print }' | sort; }
fit --profile | grep -v all-reduce | rows 2
fit --profile=layers | grep -v -e ' all-reduce ' -e ' input ' -e ' optimizer ' | rows 3
fit --profile --json | grep '"op": "dense"' | sed 's/"seconds": [0-9.e-]*/"seconds": T/'
fit -q --profile
