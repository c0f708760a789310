# What Keras left of a save that failed: whole layers are rescued, the rest is told on stderr.
cp "$TESTDATA/negative/dataset_missing.h5" half.h5
pgsplit half.h5 out
pgjoin out rescued.h5
pginfo rescued.h5
