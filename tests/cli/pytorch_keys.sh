# A key or a length alone makes nothing of a checkpoint an optimizer or a random state: what could be the model is asked about.
cp "$TESTDATA"/extra/parts/*.pt .
for f in log_alpha mask opt_net optimizer_head sac megatron; do
    pgconvert $f.pt refused.safetensors || echo "exit $?"
done
pgconvert random.pt random.safetensors
pgconvert --part model megatron.pt whole.safetensors
pginfo whole.safetensors | sed -n '4,$p'
pginfo megatron.pt
test ! -e refused.safetensors
