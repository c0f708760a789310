# a model as ONNX: what is written, what the other tools see of it, what is refused and how
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" model.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" weights.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" model.json
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_model.h5" parallel.h5
run pgconvert --dry-run model.h5 model.onnx
run pgconvert model.h5 model.onnx
run pginfo model.onnx
run pgconvert parallel.h5 same.onnx
run pgdiff model.onnx same.onnx
run pgconvert model.onnx back.safetensors
run pgsplit model.onnx pieces
run pgconvert --json --dtype float16 --opset 20 --batch 2 model.h5 half.onnx
run pgconvert weights.h5 s.onnx
run pgconvert --model model.json weights.h5 s.ONNX
run pgconvert --opset 12 model.h5 t.onnx
run pgconvert --opset x model.h5 t.onnx
run pgconvert --batch none model.h5 t.onnx
run pgconvert --sizes 4 model.h5 t.onnx
run pgconvert model.h5 model.onnx
# options of the one kind of output with the other
for more in '--layout pytorch' '--keras 3' '--rename model.json'; do
    run pgconvert $more model.h5 u.onnx
done
for more in '--quantize int8' --fold-bn '--opset 17' --external-data '--sizes 4' '--batch 2' '--check model.h5' '--layout nchw-input'; do
    run pgconvert $more model.h5 u.safetensors
done
run pgconvert --to onnx --layout keras --opset 17 -q model.h5 u
# a class in Python lists no layers
python3 - "$TESTDATA/files/keras-3.6.0-native/cnn4/template.keras" class.keras <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as a, zipfile.ZipFile(sys.argv[2], "w") as b:
    for n in a.namelist():
        b.writestr(n, b'{"class_name": "MyNet", "config": {}}' if n == "config.json" else a.read(n))
END
run pgconvert class.keras v.onnx
run pgconvert --dtype bfloat16 model.h5 bf.onnx
run pgconvert model.h5 v.xyz
ls
