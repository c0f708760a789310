# A manifest.json of another program makes no split model of its folder, and nobody overwrites it.
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" model.h5
mkdir -p app lists/tf
echo '{"name": "app", "format": "web", "layers": 2}' >app/manifest.json
cp model.h5 app/
cp "$TESTDATA/extra/modern/manifest.json" lists/
cp "$TESTDATA/extra/modern/tf/"* lists/tf/
run pginfo app
run pginfo lists
run pgsplit model.h5 lists
run pgsplit --force model.h5 lists
run pgsplit --force --format safetensors model.h5 lists
run pgjoin app back.h5
ls lists
cat app/manifest.json
echo '# beside the shards of another index'
pgsplit -q --format safetensors --max-tensors 3 "$TESTDATA/files/pytorch/cnn/single.safetensors" hf
cp app/manifest.json hf/
run pginfo hf | head -3
run pgjoin hf back.safetensors
run pgcheck hf | tail -1
run pgsplit --force --format safetensors model.h5 hf
cmp app/manifest.json hf/manifest.json && ls hf
echo '# ours, written anew by another program; ours, damaged'
pgsplit -q model.h5 ours
tr -d '\n' <ours/manifest.json >m && (printf '\n '; cat m) >ours/manifest.json
run pginfo ours | head -2
head -c 200 m >ours/manifest.json
run pginfo ours
