cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" model.h5
run() { "$@" || echo "exit $?"; }
pgsplit -q model.h5 out
run pgsplit model.h5 out
pgsplit --force -q model.h5 out && ls
mkdir other && touch other/mine && run pgsplit model.h5 other
run pgsplit --force model.h5 other
touch out/mine && run pgsplit --force model.h5 out
rm out/mine
run pgsplit --max-shard-size 100 model.h5 o
run pgsplit --max-shard-size 1parsec model.h5 o
run pgsplit --unwrap model.h5 o
run pgsplit "$TESTDATA/files/keras-2.1.6/cnn4-g2/wrapper_model.aborted.h5" o
ls o 2>/dev/null || true
# an interrupted split goes on
rm out/manifest.json out/dense_1/kernel.npy
pgsplit model.h5 out
# all that is missing or damaged is named, nothing is written
cp -r out broken
rm broken/conv2d_1/kernel.npy broken/dense_2/bias.npy
cp broken/conv2d_2/bias.npy broken/conv2d_1/bias.npy 2>/dev/null || true
printf x >>broken/dense_1/bias.npy
run pgjoin broken back.h5
cp -r out flipped
printf '\377' | dd of=flipped/dense_1/kernel.npy bs=1 seek=200 conv=notrunc 2>/dev/null
printf '\377' | dd of=flipped/dense_2/kernel.npy bs=1 seek=200 conv=notrunc 2>/dev/null
run pgjoin flipped back.h5
ls *.h5
mkdir empty && run pgjoin empty back.h5
run pgjoin out/manifest.json model.h5
sed 's|"dense_1/kernel.npy"|"../dense_1/kernel.npy"|' out/manifest.json >m && mv m out/manifest.json
run pgjoin out back.h5
sed 's|"../dense_1/kernel.npy"|"/dense_1/kernel.npy"|' out/manifest.json >m && mv m out/manifest.json
run pgjoin out back.h5
sed 's|"/dense_1/kernel.npy"|"dense_1/kernel.npy"|' out/manifest.json >m && mv m out/manifest.json
mv out/dense_1 elsewhere && ln -s ../elsewhere out/dense_1
run pgjoin out back.h5
