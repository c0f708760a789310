# A save that lost a list of names: the tensors are there, in the order in which they were written.
cp "$TESTDATA/negative/weight_names_missing.h5" half.h5
pginfo half.h5 || echo "exit $?"
pgsplit half.h5 out
pgjoin out rescued.h5
pgunwrap -q rescued.h5 single.h5
pginfo single.h5
cp "$TESTDATA/files/keras-2.0.9/bignames/wrapper_weights.aborted.h5" nothing.h5
pgsplit nothing.h5 none || echo "exit $?"
ls
