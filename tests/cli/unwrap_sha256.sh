# The SHA-256 of what was written, as sha256sum and pgcheck read it.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pgunwrap --sha256 parallel.h5 single.h5 | tail -1 >SHA256SUMS
sha256sum -c SHA256SUMS
pgcheck --sha256 SHA256SUMS single.h5 | grep SHA
pgwrap --sha256 --json --gpus 2 single.h5 two.h5 >report
grep -c "\"sha256\": \"$(sha256sum two.h5 | cut -c 1-64)\"" report
pgunwrap -n --sha256 parallel.h5
pgunwrap --json -n parallel.h5 | grep -o '"sha256": [^,]*'
pgunwrap --in-place --sha256 parallel.h5 || echo "exit $?"
cmp parallel.h5 "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5"
