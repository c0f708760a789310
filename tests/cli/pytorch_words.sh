# Words of PyTorch's wrappers go from names wherever they stand: FSDP, activation checkpointing, torch.compile, mixed and nested.
cp "$TESTDATA"/extra/wrapped/*.pt .
rm module_twice.pt
pginfo fsdp.pt
pginfo -v mixed.pt | sed -n 2,6p
for f in [a-q]*.pt; do
    pgunwrap $f ${f%.pt}.safetensors
    pgdiff ${f%.pt}.safetensors "$TESTDATA/extra/wrapped/plain.safetensors"
    pgdiff $f "$TESTDATA/extra/wrapped/plain.safetensors"
done
pgunwrap --json -n compiled_inside.pt
pgcheck mixed.pt || echo "exit $?"
for f in refused_*.pt; do
    pgunwrap $f out.safetensors || echo "exit $?"
done
pgconvert refused_flat.pt flat.safetensors
pginfo -q refused_flat.pt
pginfo refused_flat.pt refused_unknown.pt
pgcheck --no-wrapper refused_unknown.pt || echo "exit $?"
test ! -e out.safetensors
pgunwrap "$TESTDATA/extra/wrapped/module_twice.pt" once.safetensors
pgunwrap --strip-prefix module.module. "$TESTDATA/extra/wrapped/module_twice.pt" twice.safetensors
pgdiff twice.safetensors "$TESTDATA/extra/wrapped/plain.safetensors"
pgwrap --like mixed.pt "$TESTDATA/extra/wrapped/plain.safetensors" again.safetensors
pgdiff again.safetensors mixed.pt
pgwrap --like copies.pt "$TESTDATA/extra/wrapped/plain.safetensors" copied.safetensors
pgdiff copied.safetensors copies.pt
pgwrap --like averaged.pt "$TESTDATA/extra/wrapped/plain.safetensors" refused.safetensors || echo "exit $?"
test ! -e refused.safetensors
pginfo averaged.pt | sed -n 2p
pgcheck averaged.pt | grep wrapper
pginfo user_replicas.pt | sed -n 2p
pgunwrap user_replicas.pt refused.safetensors || echo "exit $?"
pgunwrap within.pt within.safetensors
