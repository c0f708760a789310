# What does not fit is told before training.
golden=$TESTDATA/golden/mlp_digits
cp "$golden/model.json" mlp.json
cp "$golden/data.npz" digits.npz
cp "$golden/init_weights.h5" mlp.h5
cp "$TESTDATA/golden/siamese/data.npz" pairs.npz
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" cnn.h5
try() { "$@" || echo "exit $?: $*"; }
try pgfit mlp.json
try pgfit mlp.json --data digits.npz
try pgfit mlp.json --data digits.npz --loss typo
try pgfit mlp.json --data digits.npz --loss mse --optimizer typo
try pgfit mlp.json --data digits.npz --loss mse --optimizer adam:typo=1
try pgfit mlp.json --data digits.npz --loss out=mse
try pgfit mlp.json --data digits.npz --loss mse --metrics typo
try pgfit mlp.json --data pairs.npz --loss mse
try pgfit mlp.json --data nowhere.npz --loss mse
try pgfit mlp.json --data mlp.h5 --loss mse
try pgfit mlp.json --data digits.npz --loss mse --weights cnn.h5
try pgfit mlp.json --data digits.npz --loss mse --validation-split 1.5
try pgfit -q mlp.json --data digits.npz --loss sparse_categorical_crossentropy
try pgfit mlp.json --data digits.npz --loss mse --devices gpu:0
try pgfit mlp.json --data digits.npz --loss mse --devices cuda:0
try pgfit mlp.json --data digits.npz --loss mse --gpus 2
try pgfit mlp.json --data digits.npz --loss mse --rules 9
try pgfit mlp.json --data digits.npz --loss mse -o out.txt
touch there.h5
try pgfit mlp.json --data digits.npz --loss mse -o there.h5
# A class that the model does not tell, in row 3 of 4.
python3 - <<'END'
import struct, zipfile
def npy(descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s}" % (descr, shape)
    head += ' ' * (117 - len(head)) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + data
with zipfile.ZipFile('classes.npz', 'w') as z:
    z.writestr('x0.npy', npy('<f4', '(4, 64)', bytes(4 * 64 * 4)))
    z.writestr('y0.npy', npy('<i4', '(4,)', struct.pack('<4i', 0, 9, 10, 3)))
with zipfile.ZipFile('nan.npz', 'w') as z:
    z.writestr('x0.npy', npy('<f4', '(4, 64)', bytes(3 * 64 * 4) + struct.pack('<64f', *[float('nan')] * 64)))
    z.writestr('y0.npy', npy('<i4', '(4,)', struct.pack('<4i', 0, 9, 1, 3)))
END
try pgfit -q mlp.json --data classes.npz --loss sparse_categorical_crossentropy
# What the first batch would not survive is found without training, too.
try pgfit -q mlp.json --data classes.npz --loss sparse_categorical_crossentropy --dry-run
try pgfit -q mlp.json --data nan.npz --loss sparse_categorical_crossentropy --dry-run
# What would be left out silently is refused.
sed 's/"activity_regularizer": null/"activity_regularizer": "OrthogonalRegularizer"/' mlp.json > active.json
try pgfit active.json --data digits.npz --loss mse
cp "$TESTDATA/golden/cnn_bn/model.json" cnn.json
sed 's/"data_format": "channels_last"/"data_format": "x"/' cnn.json > format.json
try pgfit --summary format.json
# A class of that name is Keras' own only in its modules.
sed 's/"module": "keras.layers", "class_name": "Dense"/"module": "os", "class_name": "Dense"/' cnn.json > module.json
try pgfit --summary module.json
for wrong in 's/"class_name": "Conv2D"/"class_name": "Cov2D"/' 's/"activation": "softmax"/"activation": "sofmax"/'; do
    sed "$wrong" cnn.json > typo.json
    try pgfit --summary typo.json
done
try pgfit mlp.json --data digits.npz --loss mse --optimizer lamb
try pgfit mlp.json --data digits.npz --loss dice
try pgfit mlp.json --data digits.npz --loss mse:reduction=none
try pgfit mlp.json --data digits.npz --loss mse --metrics auc:curve=XY
try pgfit mlp.json --data digits.npz --loss mse --validation-split half
try pgfit mlp.json --data digits.npz --loss mse --optimizer adam:momentum=0.5
try pgfit mlp.json --data nowhere.npz --loss mse --metrics probs=typo
try pgfit mlp.json --data digits.npz --loss mse --place fc=cpu:1
try pgfit mlp.json --data digits.npz --loss mse --full-model
try pgfit mlp.json --data digits.npz --compile-from mlp.h5
try pgfit mlp.json --data digits.npz --compile-from mlp.json
try pgfit mlp.json --data digits.npz --loss mse --metrics mae -q --devices cpu:999 --evaluate
# CPUs compute with float32, but for those that have products of bfloat16.
export PG_ISA=base
try pgfit mlp.json --data digits.npz --loss mse --precision bfloat16
unset PG_ISA
try pgfit mlp.json --data digits.npz --loss mse --precision mixed_float16
try pgfit mlp.json --data digits.npz --loss mse --precision half
