try() {
    status=0
    "$@" || status=$?
    echo "exit $status" >&2
}
rnn=$TESTDATA/files/keras-2.2.4/rnn-g2/template_model.h5
cnn=$TESTDATA/files/keras-2.15.0-native/cnn4/template.keras
try pgconvert --keras 3 "$rnn" rnn.keras
try pgconvert --layout pytorch "$rnn" rnn.safetensors
try pgconvert --layout pytorch "$cnn" cnn.h5
try pgconvert --layout pytorch --to npy "$cnn" folder
try pgconvert --layout pytorch "$TESTDATA/golden/mlp_digits/init_weights.h5" x.safetensors
try pgconvert --rename "$cnn" "$cnn" x.h5
echo '{"conv2d/kernel": "a", "no/such": "b"}' > map.json
try pgconvert --rename map.json "$cnn" x.safetensors
echo '{"conv2d/kernel": "a", "conv2d/bias": "a"}' > map.json
try pgconvert --rename map.json "$cnn" x.safetensors
echo '["conv2d/kernel"]' > map.json
try pgconvert --rename map.json "$cnn" x.safetensors
echo '{"conv2d/kernel": 7}' > map.json
try pgconvert --rename map.json "$cnn" x.safetensors
pgconvert -q --layout pytorch "$cnn" cnn.safetensors
try pgconvert --model "$TESTDATA/golden/mlp_digits/model.json" cnn.safetensors x.h5
try pgconvert --dtype float8 "$cnn" x.safetensors
try pgconvert --keras 4 "$cnn" x.keras
ls
