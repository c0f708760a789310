# nn.ParameterDict and nn.ParameterList: their states and dict() are a model, whatever their keys are called; the object itself is named.
cp "$TESTDATA"/extra/pytorch/*parameter_* .
pginfo parameter_names.pt
for f in parameter_names parameter_dict_state parameter_dict parameter_list parameter_dict_within; do
    pgunwrap $f.pt refused.safetensors || echo "exit $?"
    pgconvert $f.pt out_$f.safetensors
    pgdiff out_$f.safetensors $f.safetensors
done
for f in refused_parameter_dict refused_parameter_dict_within; do
    pginfo $f.pt || echo "exit $?"
    pgunwrap $f.pt refused.safetensors || echo "exit $?"
    pgconvert $f.pt refused.safetensors || echo "exit $?"
done
test ! -e refused.safetensors
