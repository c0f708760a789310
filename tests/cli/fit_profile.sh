# Where the time went: all operations of the model, by kind and by layer; the times themselves are blanked out.
fit() { pgfit "$TESTDATA/golden/mlp_digits/model.json" --data "$TESTDATA/golden/mlp_digits/data.npz" --loss categorical_crossentropy \
    --batch-size 32 --epochs 1 --steps-per-epoch 5 -j 1 --optimizer sgd "$@"; }
rows() { sed -n '/^time/,$p' | awk -v keep="$1" 'NR > 2 { NF = keep } { $1 = $1; print }' | sort; }
fit --profile | grep -v all-reduce | rows 2
fit --profile=layers | grep -v -e ' all-reduce ' -e ' input ' -e ' optimizer ' | rows 3
fit --profile --json | grep '"op": "dense"' | sed 's/"seconds": [0-9.e-]*/"seconds": T/'
fit -q --profile
cp "$TESTDATA"/golden/cnn_bn/* .
pgfit model.json --predict data.npz --out y.npy --batch-size 100 -j 1 --profile=layers | rows 3
pgfit model.json --predict data.npz --out y.npy -f --batch-size 100 -j 1 --profile --json | grep '"op": "conv_norm"' | sed 's/"seconds": [0-9.e-]*/"seconds": T/'
pgfit model.json --data data.npz --loss categorical_crossentropy --batch-size 100 -j 1 --evaluate --profile | rows 2
pgfit model.json --data data.npz --loss categorical_crossentropy --batch-size 100 -j 1 --epochs 1 --predict data.npz --out y.npy -f --profile | grep -c '^time'
# One step is the first one.
fit --steps-per-epoch 1 --profile | grep -e 'only step' -e '^time'
# One batch runs twice, and gives what it gives without a profile.
one() { pgfit model.json --data data.npz --loss categorical_crossentropy --metrics accuracy --batch-size 1000 -j 1 --evaluate "$@"; }
one --profile | rows 2
one >bare.txt && one --profile | sed '/^time/,$d' | diff bare.txt - && echo the same
