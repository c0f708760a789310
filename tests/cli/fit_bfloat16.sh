# bfloat16 emulated: the same bits from one device as from two, which are not those of float32, in a file of float32.
golden=$TESTDATA/golden/mlp_digits
fit() { out=$1; shift; pgfit -q "$golden/model.json" --weights "$golden/init_weights.h5" --data "$golden/data.npz" --loss categorical_crossentropy --deterministic -o "$out" "$@"; }
fit one.weights.h5 --precision bfloat16=emulate --devices cpu:0
fit two.weights.h5 --precision bfloat16=emulate --devices cpu:0,cpu:1
fit long.weights.h5 --devices cpu:0
pgdiff one.weights.h5 two.weights.h5 && echo the same
pgdiff -q one.weights.h5 long.weights.h5 || echo others
pginfo one.weights.h5 | grep -o -e float32 -e bfloat16 | sort -u
PG_ISA=base fit base.weights.h5 --precision bfloat16 || echo "exit $?"
