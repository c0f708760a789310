# A pipe without a writer is refused wherever a file is meant, and so are devices; nothing waits.
cp "$TESTDATA/golden/mlp_digits/model.json" mlp.json
cp "$TESTDATA/golden/mlp_digits/data.npz" digits.npz
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" w.h5
mkfifo pipe pipe.h5 pipe.npy
mkdir -p pictures/a
mkfifo pictures/a/1.png
try() { timeout -k 1 20 "$@" >/dev/null || echo "exit $?: $*"; }
fit() { try pgfit mlp.json --data digits.npz --loss mse "$@"; }
for what in pipe /dev/zero; do
    try pgfit --summary $what
    try pgfit $what --data digits.npz --loss mse
    try pgfit --resume $what mlp.json
    try pgfit mlp.json --config $what
    try pgfit mlp.json --loss mse --data $what
    for option in weights init-from compile-from val resume csv report; do fit --$option=$what; done
    fit --predict $what --out predictions.npy
    fit --schedule table:$what
    try pgcheck --model $what w.h5
done
cp "$TESTDATA/golden/cnn_bn/model.json" cnn.json
try pgfit cnn.json --loss mse --data pictures --any-classes
fit -o pipe.h5 -f
fit --checkpoint pipe.h5
try pgfit mlp.json --predict digits.npz --out pipe.npy -f
