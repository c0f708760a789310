# A result that cannot be told is an error, but never a half-written file.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pginfo parallel.h5 >/dev/full || echo "exit $?"
pginfo --json parallel.h5 >&- || echo "exit $?"
pgunwrap parallel.h5 closed.h5 >&- || echo "exit $?"
test ! -e closed.h5
pgunwrap -q parallel.h5 quiet.h5 >&- 2>&-
pgunwrap parallel.h5 full.h5 >/dev/full || echo "exit $?"
cmp quiet.h5 full.h5
cp parallel.h5 same.h5
pgunwrap --in-place parallel.h5 >/dev/full || echo "exit $?"
pgunwrap --in-place --json same.h5 >/dev/full || echo "exit $?"
cmp parallel.h5 same.h5
pgdiff full.h5 same.h5
pgsplit --json full.h5 parts >/dev/full || echo "exit $?"
pgjoin parts joined.h5 >/dev/full || echo "exit $?"
pgconvert -n full.h5 dry.safetensors >/dev/full || echo "exit $?"
pginfo "$TESTDATA/files/keras-2.0.9/longnames/wrapper_weights.h5" | head -1 | wc -l
