# A PyTorch checkpoint of several models as initial weights: pgfit asks which one, --part takes it.
cp "$TESTDATA"/extra/checkpoints/torchvision_ema.pth "$TESTDATA"/extra/checkpoints/*.safetensors .
cat > model.json <<'END'
{"class_name": "Sequential", "keras_version": "2.15.0", "backend": "tensorflow", "config": {"name": "s", "layers": [
 {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 3], "dtype": "float32", "name": "in"}},
 {"class_name": "Sequential", "config": {"name": "body", "layers": [
  {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 3], "dtype": "float32", "name": "into"}},
  {"class_name": "Dense", "config": {"name": "0", "units": 4}},
  {"class_name": "BatchNormalization", "config": {"name": "1", "axis": -1, "epsilon": 1e-05}}]}},
 {"class_name": "Dense", "config": {"name": "head", "units": 2}}]}}
END
run() { echo "\$ $*"; { timeout 60 "$@" || echo "exit $?"; } 2>&1 ; }
python3 -c "import struct; open('rows.npy', 'wb').write(b'\x93NUMPY\x01\x00v\x00' + b\"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\".ljust(117) + b'\n' + struct.pack('<6f', 1, 20, 3, 2, 40, 5))"
predict() { run pgfit -q model.json --predict rows.npy "$@"; }
predict --weights torchvision_ema.pth --out asked.npy
predict --weights torchvision_ema.pth --part model --out model.npy
predict --weights torchvision_ema.pth --part model_ema --out ema.npy
predict --weights plain.safetensors --out plain.npy
predict --weights ema.safetensors --out averaged.npy
cmp model.npy plain.npy
cmp ema.npy averaged.npy
cmp -s model.npy ema.npy && echo "the parts are equal"
predict --weights torchvision_ema.pth --part nothing --out asked.npy
predict --weights plain.safetensors --part model --out asked.npy
predict --part model --out asked.npy
run pgfit torchvision_ema.pth --predict rows.npy --out asked.npy
echo '{"weights": "torchvision_ema.pth", "part": "model_ema"}' > config.json
run pgfit -q model.json --config config.json --predict rows.npy --out again.npy
cmp again.npy ema.npy
