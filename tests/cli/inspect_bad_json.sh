# Damaged and unknown files: the object, the line on stderr, exit status 2.
cd "$TESTDATA/negative"
for f in truncated_half.h5 empty.h5 page.h5 table.h5 missing.h5; do
    pginfo --json $f || echo "exit $?"
done
