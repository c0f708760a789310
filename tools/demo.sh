#!/bin/sh
# Shows the main job on files that Keras itself wrote; `meson compile -C build demo` runs it.
# usage: demo.sh TOOLS TESTDATA OUT; every step is checked, and the first failure ends the demo.
set -eu
PATH=$1:$PATH
files=$2/files
out=$3
rm -rf "$out"
mkdir -p "$out"
export LC_ALL=C.UTF-8

now() { date +%s%N; }
start=$(now)
# step NUMBER WHAT: prints one line with the time since the last step; tell: prints its output
step() {
    ms=$((($(now) - start) / 1000000))
    printf '%-5s%-60s%6d.%02d s\n' "$1" "$2" $((ms / 1000)) $((ms % 1000 / 10))
    start=$(now)
}
tell() { sed 's/^ */       /'; }
values() { pginfo --stats "$1" | sed -n 's/ *[·▁▂▃▄▅▆▇█]*$//; /^  [^ ].*\/.* [0-9a-f]\{8\}$/p'; }

# Asks ONNX Runtime for the test data beside a model, if Python has it; else they must be what pgfit predicts.
runtime() {
    if python3 -c 'import onnx, onnxruntime' 2>/dev/null; then
        python3 - "$1" <<'EOF'
import sys, numpy, onnx, onnxruntime
path = sys.argv[1]
x, want = (onnx.numpy_helper.to_array(onnx.load_tensor("%s.test/test_data_set_0/%s_0.pb" % (path, k))) for k in ("input", "output"))
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
off = abs(session.run(None, {session.get_inputs()[0].name: x})[0] - want).max()
print("ONNX Runtime %s gives the same for the test data: largest difference %.0e" % (onnxruntime.__version__, off))
sys.exit(not off < 1e-5)
EOF
        return
    fi
    pgfit "$out/single_model.h5" --predict "$2" -f --out "$out/y.npy" >"$out/predicted.txt" 2>&1
    tail -c +129 "$out/y.npy" >"$out/y.raw"
    tail -c "$(wc -c <"$out/y.raw")" "$1.test/test_data_set_0/output_0.pb" | cmp - "$out/y.raw"
    echo "test data: what pgfit predicts; Python has no ONNX Runtime to ask"
}

case=keras-2.2.4/cnn4-g2
said=$(pginfo "$files/$case/wrapper_weights.h5")
step 1/9 "a weight file that Keras refuses"
echo "$said" | sed -n '1p; 2p; s/^  \(You are trying\)/Keras: \1/p' | sed "s#^$files/##" | tell

said=$(pgunwrap "$files/$case/wrapper_weights.h5" "$out/single.h5")
step 2/9 "pgunwrap"
echo "$said" | sed 's#^[^:]*/##' | tell

values "$out/single.h5" >"$out/ours.txt"
values "$files/$case/template_weights.h5" >"$out/keras.txt"
test -s "$out/ours.txt"
cmp "$out/ours.txt" "$out/keras.txt"
step 3/9 "compared with the one-device file that Keras itself wrote"
echo "$(wc -l <"$out/ours.txt") tensors: same names, order, shapes and checksums" | tell

said=$(pgunwrap "$files/$case/wrapper_model.h5" "$out/single_model.h5")
step 4/9 "a full model: architecture, training, optimizer"
echo "$said" | sed 's#^[^:]*/##' | tell

said=$(pgwrap --like "$files/$case/wrapper_weights.h5" "$out/single.h5" "$out/parallel.h5")
pgunwrap -q "$out/parallel.h5" "$out/again.h5"
values "$out/again.h5" | cmp - "$out/ours.txt"
step 5/9 "pgwrap, and out again: the same tensors"
echo "$said" | sed 's#^[^:]*/##' | tell

said=$(pgsplit "$out/single_model.h5" "$out/shards")
pgjoin "$out/shards" "$out/joined.h5" >"$out/joined.txt"
pgdiff -q "$out/single_model.h5" "$out/joined.h5"
step 6/9 "pgsplit into shards, and pgjoin: the same model"
{ echo "$said"; cat "$out/joined.txt"; } | sed "s#^$out/##" | tell

modern=$2/modern/dcp-fsdp2
said=$(pgjoin "$modern/ckpt" "$out/model.safetensors")
pgdiff -q "$out/model.safetensors" "$modern/expected.safetensors"
step 7/9 "pgjoin puts together what four ranks of PyTorch's FSDP saved"
echo "$said" | sed "1s#^$out/##" | tell

said=$(pgfit --demo digits --devices cpu:0,cpu:1 -o "$out/digits.h5" 2>&1)
pgcheck -q --model "${0%/*}/digits/digits.json" "$out/digits.h5"
step 8/9 "pgfit trains on two CPU devices: 20 epochs of digits"
{ echo "$said" | sed -n '/^epoch 20/p; /^val_loss/p; /^20 epochs/p; /^note/p'; echo "pgcheck: digits.h5 loads strictly on one device"; } | tell

said=$(pgconvert --check "$files/$case/x0.npy" "$files/$case/wrapper_model.h5" "$out/model.onnx")
agrees=$(runtime "$out/model.onnx" "$files/$case/x0.npy")
step 9/9 "pgconvert: ONNX for any runtime, straight from the wrapper"
{ echo "$said" | sed "s#$out/##"; echo "$agrees"; } | tell

echo "No tool needs Python, a GPU or a network; the outputs are in $out."
echo "Next: pginfo YOUR_FILE.h5        (build: $1/pginfo; install: meson install -C build)"
