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
try pgfit mlp.json --data digits.npz --loss sparse_categorical_crossentropy
try pgfit mlp.json --data digits.npz --loss mse --devices gpu:0
try pgfit mlp.json --data digits.npz --loss mse --devices cuda:0
try pgfit mlp.json --data digits.npz --loss mse --gpus 2
try pgfit mlp.json --data digits.npz --loss mse --rules 9
try pgfit mlp.json --data digits.npz --loss mse -o out.txt
touch there.h5
try pgfit mlp.json --data digits.npz --loss mse -o there.h5
