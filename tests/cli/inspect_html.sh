# A page for browsers: whole or not at all, no script, nothing from elsewhere, names escaped.
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/wrapper_model.h5" parallel.h5
pginfo --html report.html parallel.h5
grep -c '<svg' report.html
grep -o '<code>.*</code>' report.html
grep -o '<summary>[a-z0-9_]*' report.html
grep -i -c '<script\|http:\|https:\|url(' report.html || true
pginfo --html report.html parallel.h5 || echo "exit $?"
pginfo -f --html parallel.h5 parallel.h5 || echo "exit $?"
pginfo -q -f --html report.html parallel.h5
pginfo --html two.html parallel.h5 report.html || echo "exit $?"
pginfo --html bad.html report.html || echo "exit $?"
pginfo --html none.html --layers x parallel.h5 || echo "exit $?"
# A layer whose weights stand apart in the file (the moving averages after all trainable ones) is one entry.
cp "$TESTDATA/files/keras-2.3.1/cnnbn-g2/wrapper_model.h5" apart.h5
pginfo --html apart.html apart.h5
grep -o '<summary>[a-z0-9_]*\|<tr><td>[a-z_]*' apart.html
python3 - <<'END'
import json, struct
names = ['<script>alert(1)</script>.w', '"><img src=x onerror=alert(1)>.w', "a\nb\u202e'&amp;.w", '', '../../x.w']
head = {n: {'dtype': 'F32', 'shape': [2], 'data_offsets': [8 * i, 8 * i + 8]} for i, n in enumerate(names)}
head = json.dumps(head).encode()
data = struct.pack('<10f', 0, 0, 0, 0, 0, 0, 1, float('nan'), float('inf'), 2)
open('evil.safetensors', 'wb').write(struct.pack('<Q', len(head)) + head + data)
END
pginfo --html evil.html evil.safetensors
sed -n '/class=w>/{s/<svg.*svg>//;p;}; /<summary>/p' evil.html
ls
