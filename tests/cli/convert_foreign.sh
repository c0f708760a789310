# formats of other programs are not written, nor is another one under their name, but --to decides
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" model.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" weights.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" model.json
for suffix in pt pth bin ckpt gguf pb tflite pkl msgpack; do run pgconvert model.h5 "s.$suffix"; done
run pgconvert weights.h5 s.pt
run pgconvert --model model.json weights.h5 s.PT
ls
run pgconvert -q --to h5 model.h5 s.onnx
run pginfo -q s.onnx
