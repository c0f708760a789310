# DataParallel within a model puts "module" where people have children of that name: a file of the bare model says which it is.
cp "$TESTDATA"/extra/within/*.pt .
cp "$TESTDATA"/extra/within/plain.safetensors PLAIN
pginfo inner.pt
pginfo *.pt
pginfo --json inner.pt | head -1
pgcheck inner.pt
pgunwrap inner.pt refused.safetensors || echo "exit $?"
for f in c*.pt d*.pt inner_c*.pt; do
    pgunwrap $f ${f%.pt}.safetensors
    pgdiff -q ${f%.pt}.safetensors PLAIN || echo "exit $?"
done
for f in *inner*.pt; do
    pgunwrap --like PLAIN $f settled.safetensors
    pgdiff settled.safetensors PLAIN
    rm settled.safetensors
done
pgunwrap --like "$TESTDATA/extra/within/child.safetensors" child.pt settled.safetensors
pgdiff settled.safetensors "$TESTDATA/extra/within/child.safetensors"
pgunwrap --like "$TESTDATA/extra/within/child.safetensors" inner.pt refused.safetensors || echo "exit $?"
pgunwrap --like "$TESTDATA/extra/wrapped/plain.safetensors" inner.pt refused.safetensors || echo "exit $?"
pgunwrap --like "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" inner.pt refused.safetensors || echo "exit $?"
pgunwrap --like PLAIN --strip-prefix module. inner.pt refused.safetensors || echo "exit $?"
test ! -e refused.safetensors
