# what lies beside a model as ONNX: its tensors, rows to try a runtime with; and kernels as int8
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" model.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/x0.npy" x0.npy
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" model.json
run pgconvert --dry-run --external-data --check x0.npy model.h5 m.onnx
run pgconvert --external-data --check x0.npy model.h5 m.onnx
ls m.onnx*
run pgconvert model.h5 plain.onnx
run pgdiff plain.onnx m.onnx
run pginfo m.onnx
# a model that is replaced keeps its data until the new one is complete
run pgconvert --external-data model.h5 m.onnx
run pgconvert --external-data --check x0.npy --force model.h5 m.onnx
ls m.onnx*
run pgconvert --external-data --force model.h5 m.onnx
touch m.onnx.data-2 # as a killed run may leave it
run pgconvert --external-data --force model.h5 m.onnx
ls m.onnx*
# test data
run pgconvert --check x0.npy model.h5 other.onnx
run pgconvert --check x0.npy model.h5 other.onnx
rm other.onnx
run pgconvert --check x0.npy model.h5 other.onnx
run pgconvert model.h5 other.onnx
touch other.onnx.test/mine
run pgconvert --force --check x0.npy model.h5 other.onnx
run pgconvert --check model.h5 model.h5 n.onnx
run pgconvert --batch 9 --check x0.npy model.h5 n.onnx
run pgconvert --check none.npy model.h5 n.onnx
run pgconvert --check x0.npy --model - model.h5 n.onnx <model.json
# int8
run pgconvert --quantize int8 model.h5 q.onnx
# Processors differ in the last digits.
run pgconvert --json --quantize int8 --check x0.npy model.h5 r.onnx | sed -E 's/("max_[a-z]+": [0-9]\.[0-9]{3})[0-9]+/\1/g'
run pgconvert --quantize int8 --dtype float16 model.h5 s.onnx
run pgconvert --quantize int4 model.h5 s.onnx
ls -A
