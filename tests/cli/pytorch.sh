# PyTorch's checkpoints: looked at, stripped of their prefix into a safetensors, compared.
cp "$TESTDATA/files/pytorch/cnn/checkpoint.pth.tar" "$TESTDATA/files/pytorch/cnn/dataparallel_oldzip.pt" .
cp "$TESTDATA/files/pytorch/trap/compiled.pt" "$TESTDATA/files/pytorch/trap/single.pt" .
pginfo checkpoint.pth.tar
pginfo -q single.pt
pginfo dataparallel_oldzip.pt | head -3
pgunwrap checkpoint.pth.tar clean.safetensors
pgdiff clean.safetensors "$TESTDATA/files/pytorch/cnn/single.safetensors"
pgdiff checkpoint.pth.tar dataparallel_oldzip.pt
pgunwrap compiled.pt clean.pt || echo "exit $?"
pgunwrap compiled.pt pytorch_model.bin || echo "exit $?"
pgunwrap -n compiled.pt clean2.safetensors
pgunwrap single.pt x.safetensors || echo "exit $?"
pgcheck single.pt
pgcheck compiled.pt || echo "exit $?"
pgconvert --unwrap checkpoint.pth.tar converted.safetensors
pgsplit checkpoint.pth.tar out
pgdiff out checkpoint.pth.tar
ls
mkdir hub && cp "$TESTDATA/extra/pytorch/types.pt" hub/pytorch_model-00001-of-00002.bin
cp "$TESTDATA/extra/pytorch/views.pt" hub/pytorch_model-00002-of-00002.bin
python3 - <<'END'
import json
shards = {"pytorch_model-00001-of-00002.bin": "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool",
          "pytorch_model-00002-of-00002.bin": "plain transposed slice steps column scalar expanded empty permuted channels_last unfolded bytes"}
names = {t: s for s, ts in shards.items() for t in ts.split()}
json.dump({"metadata": {"total_size": 0}, "weight_map": names}, open("hub/pytorch_model.bin.index.json", "w"))
END
pgconvert hub/pytorch_model.bin.index.json hub.safetensors
pgdiff hub/pytorch_model.bin.index.json hub.safetensors
pgdiff hub.safetensors "$TESTDATA/extra/pytorch/views.safetensors" | tail -1
rm hub/pytorch_model-00002-of-00002.bin
pginfo hub/pytorch_model.bin.index.json || echo "exit $?"
python3 - <<'END'
import io, pickle, zipfile

class Net:
    pass

def write(name, *members):
    with zipfile.ZipFile(name, "w") as z:
        for member, data in members:
            z.writestr(member, data)

write("model.pt", ("m/data.pkl", pickle.dumps({"epoch": 1, "net": Net()}, 2)))
write("evil.pt", ("m/data.pkl", b"cposix\nsystem\n(S'touch pwned'\ntR."))
write("script.pt", ("m/data.pkl", b"N."), ("m/code/__torch__.py", b""))
END
for f in model.pt evil.pt script.pt; do pginfo $f || echo "exit $?"; done
test ! -e pwned
