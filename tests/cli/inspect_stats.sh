cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" single.h5
pginfo --stats --layers 'conv*' single.h5
pginfo --sort size --markdown single.h5
pginfo --layers nothing single.h5
