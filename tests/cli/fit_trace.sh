# A trace of some steps, in Chrome's trace event format: what is in it, where it goes, what cannot be traced.
cp "$TESTDATA"/golden/mlp_digits/model.json "$TESTDATA"/golden/mlp_digits/data.npz .
fit() { pgfit model.json --data data.npz --loss categorical_crossentropy --batch-size 32 --epochs 1 -j 2 --optimizer sgd "$@"; }
judge() { python3 "$TESTDATA/../tests/ranks/traces.py" "$@"; }
fit --profile=trace | grep -e '^note' -e '^time'
judge trace.json 3..7
fit --json --devices cpu:0,cpu:1 --deterministic --profile=trace,steps=2..900 | grep trace # it replaces a trace
judge trace.json 2..16
mkdir out
fit -q --epochs 3 --val data.npz --checkpoint out/c.h5 -o out/trained.h5 --profile=trace,steps=14..40 && judge out/trace.json 14..40 # beside -o
fit -q --profile=trace:mine,steps=1..1 && judge mine 1..1 | cut -d: -f1 # nothing may be read meanwhile
# The trained weights are the same, and a short run is traced from its beginning.
fit -q --deterministic -o a.h5 && fit -q --deterministic -o b.h5 --profile=trace:t.json && cmp a.h5 b.h5
fit -q --steps-per-epoch 2 --profile=trace:t.json && judge t.json 1..2 | cut -d: -f1
# Refused before training: status 2, and nothing is written.
rm trace.json
for how in tracks trace: trace,steps=3 trace,steps=0..2 trace,steps=5..4 trace,steps=17..18 trace:data.npz trace:nowhere/t.json trace:trained.h5; do
    fit -o trained.h5 --profile=$how 2>&1 || echo "status $?"
done
fit --evaluate --profile=trace 2>&1 || echo "status $?"
pgfit model.json --predict data.npz --out y.npy --profile=trace 2>&1 || echo "status $?"
fit --profile=trace,steps=5..4 --dry-run 2>&1 || echo "status $?"
ls
