# With --json every error is an object on stdout too, of the same form for all tools; the line on
# stderr and the exit status stay what they are.
cp "$TESTDATA/negative/truncated_half.h5" half.h5
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template_weights.h5" cnn.h5
cp "$TESTDATA/golden/mlp_digits/init_weights.h5" mlp.h5
cp "$TESTDATA/golden/mlp_digits/model.json" mlp.json
cat > told.py <<'END'
import json, subprocess, sys
r = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print('$', *sys.argv[1:])
found = json.loads(r.stdout)
for o in found if isinstance(found, list) else [found]:
    assert o['status'] == r.returncode, (o, r.returncode)
    first = r.stderr.splitlines()[0].split(': ', 1)[1]
    assert o['error'] == first, (o, first)
    assert (o['hint'] or '') in r.stderr
    assert all('  ' + line + '\n' in r.stderr for line in o['details'])
    print({k: v for k, v in o.items() if k in
           ('event', 'error', 'code', 'status', 'details', 'hint', 'missing', 'extra', 'damaged')})
END
told() { python3 told.py "$@"; }
told pginfo --json half.h5
told pginfo --json half.h5 half.h5
told pgunwrap --json half.h5 out.h5
told pgunwrap --json --like mlp.json cnn.h5 out.h5
told pgwrap --json --like half.h5 cnn.h5 out.h5
told pgdiff --json half.h5 cnn.h5
told pgcheck --json --model half.h5 cnn.h5
told pgconvert --json half.h5 out.safetensors
told pgconvert --json cnn.h5 out.xyz
told pgsplit --json half.h5 out
pgsplit -q cnn.h5 shards
rm "$(find shards -name "*.npy" | sort | head -1)"
told pgjoin --json shards out.h5
told pgfit --json mlp.json --data nowhere.npz --loss mse
told pgfit --json mlp.json --data mlp.h5 --loss mse
told pgfit --json=batch mlp.json --data mlp.h5 --loss typo
echo '# usage'
for tool in pginfo pgunwrap pgwrap pgdiff pgcheck pgconvert pgsplit pgjoin pgfit; do
    told $tool --bogus --json
done
told pgunwrap --json
told pgwrap --json cnn.h5 out.h5
told pgfit --json
told pgfit --epochs=x --json=batch
echo '# an answer is no error'
pgdiff --json cnn.h5 cnn.h5 | python3 -c 'import json, sys; print("error" in json.load(sys.stdin))'
echo '# without --json nothing is said on stdout'
pgunwrap half.h5 out.h5 2> why || cat why
