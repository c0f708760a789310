# Predictions in int8: what that changes is told, the numbers do not depend on the batch or on the instruction set, and only predictions have it.
golden=$TESTDATA/golden/mlp_digits
fit() { pgfit "$golden/model.json" "$@"; }
predict() { out=$1; shift; fit --weights "$golden/final_weights.h5" --predict "$golden/data.npz" --out "$out" "$@"; }
predict long.npy -q
predict short.npy --quantize int8
predict again.npy --quantize int8 --batch-size 7 -q
PG_ISA=base predict base.npy --quantize int8 --devices cpu:0,cpu:1 -q
pgdiff --by-order -p 1e-4 short.npy again.npy
pgdiff --by-order -p 1e-4 short.npy base.npy
pgdiff --by-order -q -p 1e-4 short.npy long.npy || echo not those of float32
fit --weights "$golden/final_weights.h5" --data "$golden/data.npz" --loss categorical_crossentropy --metrics accuracy --evaluate --quantize int8
predict json.npy --quantize int8 --json | sed 's|\(0\.[0-9]\{4\}\)[0-9]*|\1|g'
echo
fit --data "$golden/data.npz" --loss categorical_crossentropy --quantize int8 || echo "exit $?"
predict none.npy --quantize int4 || echo "exit $?"
predict none.npy --quantize int8 --devices ref:0 || echo "exit $?"
pgfit "$TESTDATA/golden/lstm_stateless/model.json" --predict "$TESTDATA/golden/lstm_stateless/data.npz" --out none.npy --quantize int8
