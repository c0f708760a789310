# There and back through every container, equal to the files that Keras wrote.
here=$TESTDATA/files/keras-2.15.0-native/cnn4
pgconvert "$here/template_legacy.h5" model.safetensors
pgconvert model.safetensors back.h5
pgconvert "$here/template_legacy.h5" model.keras
pgconvert model.keras again.h5
pgconvert --to weights.h5 model.keras weights
pgconvert --dtype float16 "$here/template_legacy.h5" half.safetensors
pgconvert -n --json model.keras x.safetensors
for file in model.safetensors back.h5 model.keras again.h5; do
    pgdiff -q "$here/template_legacy.h5" $file
done
pgdiff -q "$here/template.weights.h5" weights
# An old file for today's load_weights().
old=$TESTDATA/files/keras-2.2.4/cnn4-g2
pgconvert --model "$old/template.json" "$old/template_weights.h5" new.weights.h5
pgconvert --unwrap --model "$old/template.json" "$old/wrapper_weights.h5" single.weights.h5
cmp new.weights.h5 single.weights.h5
# Kernels of Keras 1: what GRU and LSTM kept in 9 and 12 arrays.
old=$TESTDATA/files/keras-1.2.2-py3/make_parallel-rnn
pgconvert --model "$old/template.json" "$old/template_weights.h5" rnn.h5
pginfo --json rnn.h5 | sed -n '/"layer": "\(gru\|lstm\)/p'
