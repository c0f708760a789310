# Names that start with a dash or hold a newline are files like others; no control byte comes out.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" ./-q.h5
cp ./-q.h5 "$(printf 'two\nlines \033[31m.h5')"
pginfo -- -q.h5 | head -2
pginfo ./two* | tail -1
pginfo -- -q.h5 | tail -1
pginfo "$(printf 'no\nsuch')" || echo "exit $?"
pgunwrap -- -q.h5 -out.h5
pgunwrap two* "$(printf 'out\t.h5')"
ls -A | wc -l
pginfo ./-* ./two* ./out* | LC_ALL=C tr -d '[:print:]\n' | od -An -c | grep '033\|\\t' || true
