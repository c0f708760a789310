# Callbacks: what they do is told between the epochs, in words and as JSON; mistakes are told before training.
golden=$TESTDATA/golden/mlp_digits
cp "$golden/model.json" mlp.json
cp "$golden/init_weights.h5" mlp.h5
cp "$golden/data.npz" digits.npz
fit() {
    pgfit mlp.json --weights mlp.h5 --data digits.npz --val digits.npz --loss categorical_crossentropy \
        --metrics accuracy --deterministic -j 2 "$@" 2>&1 |
        sed 's/ [0-9.]*s$//; s/ in [0-9.]* s, .*//; s/"seconds".*}/...}/'
}
echo '$ rates and an early stop'
# how far the loss falls is asked for, so that no processor's rounding decides
fit --optimizer sgd:lr=0.1 --epochs 30 --reduce-lr patience=1,factor=0.5,min_delta=0.1 \
    --early-stop patience=3,min_delta=0.1,restore_best --csv log.csv
wc -l <log.csv
head -2 log.csv | tr -d '\r' | cut -d, -f1,4- | sed 's/\(\.[0-9]\{4\}\)[0-9]*/\1/g'
fit --optimizer sgd:lr=0.1 --epochs 30 --early-stop monitor=loss,patience=1,min_delta=0.5 --json |
    grep -v -e start -e epoch\",
echo '$ checkpoints' # told when they are whole, which may be in the next epoch
fit() {
    pgfit mlp.json --weights mlp.h5 --data digits.npz --val digits.npz --loss categorical_crossentropy \
        --metrics accuracy --deterministic -j 2 "$@" 2>&1 | grep -v '^epoch' | sed 's/ in [0-9.]* s, .*//'
}
fit --epochs 3 --checkpoint 'c/{epoch:02d}-{val_accuracy:.2f}.weights.h5' --keep 2 --monitor val_accuracy
ls c
readlink c/best c/last
pgcheck -q --model mlp.json c/best && pgcheck -q --model mlp.json c/last
fit --epochs 3 --checkpoint 'd/{epoch}.keras' --json | grep -e checkpoint
fit --epochs 2 --checkpoint 'e/x.h5' --save-best-only --save-weights-only --tensorboard logs --csv x.csv
echo '$ interrupted, and on'
fit --epochs 2 --checkpoint 'r/{epoch}.weights.h5'
pgfit --resume=r/resume.pg --epochs 3 | sed 's/ [0-9.]*s$//; s/ in [0-9.]* s, .*//'
fit --epochs 3 -q -o straight.h5
pgfit -q --resume=r/resume.pg --epochs 3 -o resumed.h5
pgdiff straight.h5 resumed.h5
pgfit -q --resume=r/resume.pg --epochs 4 --keep 1 -o four.h5
ls r
pgfit --resume=r/resume.pg --epochs 5 --monitor loss -o five.h5 || echo "exit $?"
echo '$ mistakes'
try() { pgfit mlp.json --data digits.npz --val digits.npz --loss mse --metrics accuracy "$@" 2>&1 || echo "exit $?"; }
try --checkpoint 'c/{epoch}-{val_acc:.3f}.h5'
try --checkpoint 'c/{epoch}.h5' --monitor val_acc
try --checkpoint 'c/{epoch}.h5' --mode least
try --checkpoint 'c/{epoch}.txt'
try --monitor val_loss
try --csv a --append --report a
try --early-stop patience=3,monitr=loss
try --early-stop monitor=val_accurracy
try --reduce-lr factor=2
try --histogram-freq 1
try --report /proc/nowhere/run.html
echo mine >mine.html
try --report mine.html
try --resume
try --resume-every soon
echo '{"callbacks": [{"class_name": "EarlyStopping", "config": {"patienc": 3}}]}' >stop.json
try --config stop.json
try --swap-ema --optimizer adam:learning_rate=0.01
try --swap-on-epoch
echo '{"swap_ema": true, "swap_on_epoch": true, "csv": "x.csv", "checkpoint": "s/{epoch}.h5", "early_stop": {"patience": 3}}' >swap.json
pgfit --config swap.json --print-config | sed -n '/callbacks/,$p'
fit -q --swap-ema --swap-on-epoch --optimizer adam:learning_rate=0.01,use_ema --epochs 3 --checkpoint 's/{epoch}.h5' -o s.h5
pgdiff s/3.h5 s.h5 # both hold the averages
