# locale: C
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
pginfo single.h5
pginfo --stats --layers 'conv*' single.h5
pginfo --color=always --layers 'dense_2' single.h5
