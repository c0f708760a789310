# A model's JSON from standard input, wherever one is taken.
D="$TESTDATA/files/keras-2.2.4"
cp "$D/cnn4-g2/template.json" model.json
cp "$D/cnn4-g2/wrapper_weights.h5" parallel.h5
cp "$D/cnn4-g2/template_weights.h5" single.h5
cp "$TESTDATA/golden/mlp_digits/model.json" mlp.json
cp "$TESTDATA/golden/mlp_digits/data.npz" digits.npz
try() { "$@" || echo "exit $?: $*"; }
cat model.json | pgunwrap --like - parallel.h5 by_pipe.h5
pgunwrap --like - parallel.h5 by_file.h5 <model.json
pgunwrap -q --like model.json parallel.h5 by_name.h5
cmp by_pipe.h5 by_name.h5 && cmp by_file.h5 by_name.h5
pgcheck --model - by_pipe.h5 single.h5 <model.json
try pgcheck --model - parallel.h5 <model.json
pgcheck --model - --device cpu:0 single.h5 <model.json | grep predicted
cat model.json | pgconvert --model - single.h5 single.weights.h5
pgconvert --unwrap --model - parallel.h5 template.weights.h5 <model.json
pgfit --summary - <mlp.json | tail -5
pgfit -q - --data digits.npz --loss categorical_crossentropy --epochs 1 --seed 1 -o by_pipe.weights.h5 <mlp.json
pgfit -q mlp.json --data digits.npz --loss categorical_crossentropy --epochs 1 --seed 1 -o by_name.weights.h5
pgdiff by_pipe.weights.h5 by_name.weights.h5
# What cannot be: weights, nothing, another model, what is no JSON, too much of it, a name twice.
try pgunwrap --like - parallel.h5 never.h5 <single.h5
try pgunwrap --like - parallel.h5 never.h5 </dev/null
try pgunwrap --like - parallel.h5 never.h5 <mlp.json
try pgunwrap --like - parallel.h5 never.h5 <&-
printf '{"class_name": "Sequential"' | try pgcheck --model - single.h5
printf '{"a": "\000"}' | try pgcheck --model - single.h5
{ printf '['; head -c 70000000 /dev/zero | tr '\000' ' '; } | try pgconvert --model - single.h5 never.weights.h5
python3 -c 'import sys; sys.stdout.buffer.write(open("model.json").read().encode("utf-16"))' | try pgcheck --model - single.h5
try pgunwrap --like - - never.h5 <model.json
try pgcheck --model - - <model.json
try pgwrap --like - single.h5 never.h5 <parallel.h5
try pgfit - --weights - --data digits.npz <mlp.json
try pgfit - --hosts a:2 --data digits.npz <mlp.json
try pgfit - --data digits.npz --loss mse </dev/null
ls
