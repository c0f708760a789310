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
cp "$TESTDATA/extra/keras-2.15/slashes/template_model.h5" slashes.h5
try pgconvert --keras 3 slashes.h5 x.keras
# Metadata that list a tensor twice, biases of two types, a function that has no name.
python3 - <<'END'
import json
import struct

SIZES = {"F32": 4, "F16": 2}

def write(name, metadata, tensors):
    head, at = {"__metadata__": metadata}, 0
    for key, (dtype, shape) in tensors.items():
        n = SIZES[dtype]
        for d in shape:
            n *= d
        head[key] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    with open(name, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(at))

def model(name, **config):
    layer = {"class_name": "LSTM", "config": {"name": "l", "units": 2, "recurrent_activation": "sigmoid", "batch_input_shape": [None, 3, 5], **config}}
    with open(name, "w") as f:
        json.dump({"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}}, f)

write("twice.safetensors", {"layers": json.dumps([["a", ["a/b/k"]], ["a/b", ["k"]]])}, {"a/b/k": ("F32", [2]), "other": ("F32", [2])})
lstm = {"l.weight_ih_l0": ("F32", [8, 5]), "l.weight_hh_l0": ("F32", [8, 2]), "l.bias_ih_l0": ("F32", [8])}
write("types.safetensors", {}, {**lstm, "l.bias_hh_l0": ("F16", [8])})
write("function.safetensors", {}, {**lstm, "l.bias_hh_l0": ("F32", [8])})
model("lstm.json")
model("function.json", activation={"module": "builtins", "class_name": "function", "config": "mine", "registered_name": "function"})
END
try pgconvert twice.safetensors x.h5
try pgconvert --model lstm.json types.safetensors x.h5
try pgconvert --model function.json function.safetensors x.h5
pgconvert --model lstm.json function.safetensors lstm.weights.h5
ls
