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
