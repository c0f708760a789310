cd "$TESTDATA/negative"
for f in transfer_weights.h5 tta_weights.h5 weightless_weights.h5 gan_model.h5; do
    pginfo $f
done
