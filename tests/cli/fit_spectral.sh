# SpectralNormalization: its kernels are normalised once a step, on every number of devices alike; where that cannot be.
dense() { echo "{\"module\": \"keras.layers\", \"class_name\": \"Dense\", \"config\": {\"name\": \"$1\", \"units\": $2}}"; }
spectral() { echo "{\"class_name\": \"SpectralNormalization\", \"config\": {\"name\": \"$1\", \"power_iterations\": 2, \"layer\": $2}"; }
input='{"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [null, 64]}'
cat >model.json <<END
{"class_name": "Sequential", "keras_version": "2.15.0", "backend": "tensorflow", "config": {"name": "s", "layers": [$input},
 $(spectral sn "$(dense fc 16)")}, {"class_name": "Activation", "config": {"name": "a", "activation": "relu"}}, $(dense out 10)]}}
END
cp "$TESTDATA/golden/mlp_digits/data.npz" digits.npz
fit() { pgfit -q "$@" --data digits.npz --loss mse --deterministic --seed 3 --epochs 2 2>&1 || echo "exit $?"; }
for devices in cpu:0 cpu:0,cpu:1 cpu:0,cpu:1,cpu:2,cpu:3; do
    fit model.json --devices $devices -o "$devices.h5"
    cmp cpu:0.h5 "$devices.h5"
done
pginfo --stats cpu:0.h5 | awk '/vector_u/ { printf "|u| = %.2f\n", sqrt(16 * ($5 * $5 + $6 * $6)) }' # of its mean and deviation
echo '$ two calls, no kernel'
call() { echo ", \"name\": \"$1\", \"inbound_nodes\": [$2]}"; }
cat >twice.json <<END
{"class_name": "Functional", "keras_version": "2.15.0", "backend": "tensorflow", "config": {"name": "t", "layers": [
 $input$(call in ''), $(spectral sn "$(dense fc 64)")$(call sn '[["in", 0, 0, {}]], [["sn", 0, 0, {}]]')],
 "input_layers": [["in", 0, 0]], "output_layers": [["sn", 1, 0]]}}
END
fit twice.json
pgfit -q twice.json --predict digits.npz --out y.npy && echo "predicts: $?"
sed 's/"units": 16/"rate": 0.5/; s/"class_name": "Dense", "config": {"name": "fc"/"class_name": "Dropout", "config": {"name": "fc"/' model.json >none.json
fit none.json
echo '$ steps of sequences'
steps() {
    cat <<END
{"class_name": "Sequential", "keras_version": "2.15.0", "backend": "tensorflow", "config": {"name": "s", "layers": [
 {"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [null, 8, 8]}},
 {"class_name": "TimeDistributed", "config": {"name": "td", "layer": $1}}, {"class_name": "Flatten", "config": {"name": "f"}}, $(dense out 10)]}}
END
}
steps "$(spectral sn "$(dense fc 4)")}" >td.json
steps "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"m\", \"layers\": [{\"class_name\": \"InputLayer\",
    \"config\": {\"name\": \"i\", \"batch_input_shape\": [null, 8]}}, $(spectral sn "$(dense fc 4)")}]}}" >model_td.json
for m in td model_td; do pgfit -q $m.json --data digits.npz --reshape 8,8 --loss mse 2>&1 || echo "exit $?"; done
