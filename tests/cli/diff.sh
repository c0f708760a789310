# The same model, another one, and what training changed.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
cp "$TESTDATA/files/keras-2.2.4/rnn-g2/template_weights.h5" rnn.h5
cp "$TESTDATA/files/pytorch/cnn/single.safetensors" .
cp "$TESTDATA/golden/mlp_digits/init_weights.h5" before.h5
cp "$TESTDATA/golden/mlp_digits/final_weights.h5" after.h5
try() { "$@" || echo "exit $?: $*"; }
try pgdiff parallel.h5 single.h5
try pgdiff -q single.h5 parallel.h5
try pgdiff single.h5 rnn.h5
try pgdiff before.h5 after.h5
try pgdiff -d 1 before.h5 after.h5
try pgdiff -q before.h5 after.h5
try pgdiff -n 2 before.h5 after.h5
try pgdiff --top 1 before.h5 after.h5
try pgdiff --ignore 'fc*' before.h5 after.h5
try pgdiff --by-order before.h5 after.h5 -q -p 10 --ignore '*/bias'
try pgdiff --json parallel.h5 rnn.h5 | sed 's/[0-9.e-]*, "cosine.*/.../'
try pgdiff -v -p 3 before.h5 after.h5
