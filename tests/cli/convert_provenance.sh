# Where a safetensors file comes from stands in its metadata: no time and no folder, so that equal sources give equal bytes.
mkdir here there
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" here/model.h5
cp here/model.h5 there/model.h5
cp "$TESTDATA/files/pytorch/cnn/checkpoint.pth.tar" "$TESTDATA/files/pytorch/cnn/single.safetensors" .
cat >meta.py <<'END'
import json, struct, sys, zlib
for name in sys.argv[1:]:
    data = open(name, 'rb').read()
    said = json.loads(data[8:8 + struct.unpack('<Q', data[:8])[0]]).get('__metadata__', {})
    print(name, {k: v for k, v in said.items() if not k.endswith('_config') and k != 'layers'})
END
pgconvert -q here/model.h5 one.safetensors
pgconvert -q "$PWD/there/model.h5" two.safetensors
cmp one.safetensors two.safetensors
pgconvert -q --layout pytorch here/model.h5 torch.safetensors
pgunwrap -q checkpoint.pth.tar clean.safetensors
pgconvert -q checkpoint.pth.tar whole.safetensors
# A safetensors' own metadata stays, but for what we said of its source.
python3 - <<'END'
import json, struct
data = open('single.safetensors', 'rb').read()
n, = struct.unpack('<Q', data[:8])
head = json.loads(data[8:8 + n])
head['__metadata__'].update({'lm_head.weight': 'emb.weight', 'pg.source': 'old.pt', 'pg.mine': 'x'})
head = json.dumps(head).encode()
open('own.safetensors', 'wb').write(struct.pack('<Q', len(head)) + head + data[8 + n:])
END
pgconvert -q own.safetensors again.safetensors
python3 meta.py one.safetensors torch.safetensors clean.safetensors whole.safetensors again.safetensors
python3 -c 'import sys, zlib; [print("%08x" % zlib.crc32(open(f, "rb").read()), f) for f in sys.argv[1:]]' here/model.h5 checkpoint.pth.tar own.safetensors
# Nothing of it reaches other formats, and the way back gives the bytes of the way without it.
pgconvert -q one.safetensors back.h5
pgconvert -q here/model.h5 straight.h5
cmp back.h5 straight.h5
# A dry run reads no source for it.
pgconvert -n one.safetensors never.safetensors
ls
