# Training what somebody else trained: layers that stay, another number of classes, weights as far as they fit.
files=$TESTDATA/files/keras-2.15.0-native/cnn4
cp "$files/wrapper_legacy.h5" parallel.h5
cp "$files/template.keras" single.keras
cp "$files/template.weights.h5" single.weights.h5
cp "$files/template.json" model.json
cp "$TESTDATA/files/keras-2.2.4/cnn4-g2/template.json" renamed.json
python3 - "$files" <<'END'
import struct, sys, zipfile
with zipfile.ZipFile('rows.npz', 'w') as z:
    z.write(sys.argv[1] + '/x0.npy', 'x0.npy')
    head = ("{'descr': '<i4', 'fortran_order': False, 'shape': (12,), }").ljust(117) + '\n'
    z.writestr('y0.npy', b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + struct.pack('<12i', *range(3), *range(3), *range(3), *range(3)))
END
fit() { pgfit "$@" --data rows.npz --loss sparse_categorical_crossentropy -f | sed '/^epoch/d;/^pgfit 0/d;/^rows.npz: 12 train/d;/^1 epoch in/d'; }
try() { "$@" || echo "exit $?"; }
echo '$ another number of classes: all but the last layer stay'
fit single.keras --replace-head 3 --freeze '*,!dense_1' -o a.keras
try pgdiff single.keras a.keras
echo '$ the same, of a wrapper, in another format'
fit parallel.h5 --replace-head 3:softmax --freeze 'conv*' --full-model -o b.h5
pginfo b.h5 | sed 1d
echo '$ weights as far as they fit'
fit model.json --replace-head 3 --init-from parallel.h5 -o c.h5
fit renamed.json --init-from single.keras -o d.h5
echo '$ what cannot be'
for head in 0 3: x 1:none OTHER=3 dense_1=3,dense_1=4; do try pgfit single.keras --replace-head "$head" --data rows.npz; done
for glob in '' dence '!' 'conv*,dens_1'; do try pgfit single.keras --freeze "$glob" --data rows.npz; done
try pgfit renamed.json --init-from single.weights.h5 --data rows.npz --loss mse
try pgfit renamed.json --init-from no.h5 --data rows.npz --loss mse
try pgfit renamed.json --init-from single.keras --weights a.keras --data rows.npz --loss mse
