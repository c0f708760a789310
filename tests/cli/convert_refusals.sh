try() {
    status=0
    "$@" || status=$?
    echo "exit $status" >&2
}
weights=$TESTDATA/golden/mlp_digits/init_weights.h5
try pgconvert "$weights" model.keras
try pgconvert "$weights" model.weights.h5
try pgconvert --model "$TESTDATA/golden/cnn_bn/model.json" "$weights" model.weights.h5
try pgconvert "$weights" model.bin
try pgconvert "$weights" model.npz
try pgconvert "$weights" model.npy
try pgconvert "$weights" "$weights"
try pgconvert "$TESTDATA/files/keras-1.2.2-py3/make_parallel-rnn/template_weights.h5" x.safetensors
ls
