cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" parallel.h5
pgunwrap parallel.h5 --no-sync a.h5 -q
pgunwrap -qo b.h5 parallel.h5
pgunwrap --output=c.h5 -- parallel.h5
pgunwrap parallel.h5 --json d.h5 --skip-verify
cmp a.h5 b.h5
cmp a.h5 c.h5
cmp a.h5 d.h5
