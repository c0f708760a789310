# Whatever people take for a weight file gets its own answer.
cd "$TESTDATA/negative"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 246000000\n' 0 >"$TMPDIR/lfs.h5"
for f in truncated_half.h5 truncated_head.h5 truncated_minus1.h5 empty.h5 page.h5 gzipped.h5 table.h5 \
    userblock.h5 dataset_missing.h5 weight_names_missing.h5 "$TMPDIR/lfs.h5" \
    "$TESTDATA/files/keras-2.0.9/bignames/wrapper_weights.aborted.h5" \
    "$TESTDATA/files/keras-2.0.9/cnn4-g2/wrapper_model.aborted.h5" \
    "$TESTDATA/files/keras-2.0.9/bignames/rescue_weights.npy" no_such_file.h5; do
    pginfo "$f" 2>&1 | sed "s#$TMPDIR/##" || true
    pginfo -q "$f" 2>/dev/null || echo "exit $?"
done
