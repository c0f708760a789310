# a split that fails leaves whole shards, from which it goes on, but no empty folders
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp "$TESTDATA/extra/keras-2.15/gzip/template_weights.h5" bad.h5
printf '\377\377\377\377' | dd of=bad.h5 bs=1 seek=10175 conv=notrunc status=none # a chunk of the first tensor
for format in npy npz safetensors; do run pgsplit --format $format bad.h5 a/b/out; done
find . | sort
mkdir mine && run pgsplit bad.h5 mine/
find . | sort
cp "$TESTDATA/extra/keras-2.15/gzip/template_weights.h5" bad.h5
printf '\377\377\377\377' | dd of=bad.h5 bs=1 seek=11112 conv=notrunc status=none # one behind it
run pgsplit bad.h5 mine
find mine -empty
cp "$TESTDATA/extra/keras-2.15/gzip/template_weights.h5" bad.h5
run pgsplit bad.h5 mine
