# Predictions in int8: what that changes is told, the numbers do not depend on the batch or on the instruction set, and only predictions have it. (A note
# tells of processors without VNNI.)
data=$(dirname "$(command -v pgfit)")/digits/digits.npz
pgfit -q --demo digits --epochs 3 --deterministic --resume=never -o digits.keras
predict() { out=$1; shift; pgfit digits.keras --predict "$data" --out "$out" "$@"; }
few() { sed "/VNNI/d; s/by [0-9.e-]* %/by N %/; s/by [0-9.e-]* or less, of [0-9.]*/by N or less, of N/; s/[0-9][0-9]* of 16$/most/"; }
predict long.npy -q
predict short.npy --quantize int8 | few
predict again.npy --quantize int8 --batch-size 7 -q
PG_ISA=base predict base.npy --quantize int8 --devices cpu:0,cpu:1 -q
pgdiff --by-order -q -d 0.02 short.npy again.npy && echo near
pgdiff --by-order -q -d 0.02 short.npy base.npy && echo near
pgdiff --by-order -q -p 1e-4 short.npy long.npy || echo not those of float32
pgfit digits.keras --data "$data" --evaluate --quantize int8 | sed '/VNNI/d; s/[0-9.][0-9.]*/N/g'
pgfit -q digits.keras --data "$data" --evaluate --quantize int8 | wc -l
predict json.npy --quantize int8 --json | sed '/VNNI/d; s/: [0-9.e-]*\([,}]\)/: N\1/g'
pgfit digits.keras --data "$data" --quantize int8 || echo "exit $?"
predict none.npy --quantize int4 || echo "exit $?"
pgfit "$TESTDATA/golden/lstm_stateless/model.json" --predict "$TESTDATA/golden/lstm_stateless/data.npz" --out none.npy --quantize int8 | sed '/VNNI/d'
