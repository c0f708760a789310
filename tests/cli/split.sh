# Shards, what is in them, and back: every attribute and every byte.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_model.h5" model.h5
pgsplit model.h5 out/
find out -type f | LC_ALL=C sort
pgjoin out/ back.h5
h5diff model.h5 back.h5 && echo same
pginfo --stats model.h5 | sed 1,2d >a
pginfo --stats out | sed 1,2d | diff a - && echo same values
# cut along axis 0; a shard stands for its folder
pgsplit -q --max-shard-size 1KB --sha256 model.h5 cut
find cut -name '*-of-*' | LC_ALL=C sort
(cd cut && sha256sum --quiet -c SHA256SUMS) && echo sums are right
pgjoin cut/dense_1/kernel*-00001-of-* back2.h5
cmp back.h5 back2.h5
# the template of a wrapper
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pgsplit --unwrap parallel.h5 single
pgunwrap -q parallel.h5 single.h5
pgjoin -q single joined.h5
h5diff single.h5 joined.h5 && echo same
pgjoin --only 'conv2d*' out part.h5
pginfo part.h5
pgjoin -n out x.h5
pgsplit -n --max-shard-size 2KB model.h5 elsewhere | tail -3
pgsplit --json model.h5 j | tr '{' '\n' | head -3
pgjoin --json j j.h5
