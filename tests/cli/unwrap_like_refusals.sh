# What --like, --template and --partial say when they do not fit.
try() { "$@" || echo "exit $?: $*"; }
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_model.h5" parallel.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5" weights.h5
cp "$TESTDATA/files/keras-2.15.0-native/nested/wrapper.keras" .
cp "$TESTDATA/files/keras-2.15.0-native/nested/wrapper.weights.h5" .
cp "$TESTDATA/files/keras-2.2.4/rnn-g2/template.json" rnn.json
echo '{"a": 1}' >none.json
mkfifo pipe
try pgunwrap --like none.json parallel.h5 x.h5
try pgunwrap --like "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" parallel.h5 x.h5
try pgunwrap --like pipe parallel.h5 x.h5
try pgunwrap pipe x.h5
try pgunwrap --template nope wrapper.keras x.keras
try pgunwrap --template nope wrapper.weights.h5 x.weights.h5
try pgunwrap --partial --like rnn.json weights.h5 x.h5
# the same layers in another order: the description in the file and the given one contradict
python3 - "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" <<'END'
import json, sys
j = json.load(open(sys.argv[1]))
layers = j['config']['layers']
a, b = [i for i, l in enumerate(layers) if l['name'].startswith('dense')]
layers[a], layers[b] = layers[b], layers[a]
json.dump(j, open('order.json', 'w'))
END
try pgunwrap --like order.json parallel.h5 x.h5
printf '\211HDF\r\n\032\n' >eight.h5
printf 'PK\3\4abcd' >eight.keras
try pginfo eight.h5
try pginfo eight.keras
try pginfo /dev/null
ls
