# Data under the names that people give their arrays: taken with a note, or asked for.
here=$TESTDATA/extra/datasets
cp "$here"/*.npz "$here"/*.h5 "$here"/*.json .
out() { sed 's/ [0-9.]*s$//; /^pgfit 0/d; /epochs* in/d; /nothing saves the trained model/d; s/loss=.*/.../'; }
try() { echo "\$ $*"; { timeout 60 "$@" || echo "exit $?"; } 2>&1 | out; }
fit() { try pgfit model.json --loss sparse_categorical_crossentropy --seed 3 "$@"; }
for data in mnist.npz medmnist.npz capital.npz sklearn.npz positional.npz course.h5; do fit --data $data; done
fit --data mnist.npz --dry-run | grep note
try pgfit scaled.json --loss sparse_categorical_crossentropy --data mnist.npz
echo '# two readings, or none'
for data in positional4.npz two.npz odd.npz texts.npz; do fit --data $data; done
echo '# named'
fit --data two.npz --x images --y labels
fit --data two.npz --x images
fit --data odd.npz --x pictures --y digits
fit --data positional4.npz --x arr_0 --y arr_1
fit --data mnist.npz --x x_test
fit --data mnist.npz --x x_train --y x_test
fit --data mnist.npz --x X --y y_train
fit --data mnist.npz --x x_train,x_test --y y_train
fit --data mnist.npz --x ,
fit --data mnist.npz,mnist.npz --x x_train
echo '# the set to validate with'
fit --data mnist.npz --val test
fit --data mnist.npz --val val
fit --data medmnist.npz --val val
fit --data medmnist.npz --val test
fit --data capital.npz --val test
fit --data mnist.npz --val mnist.npz
fit --data mnist.npz --x x_train --y y_train --val mnist.npz
fit --data capital.npz --val medmnist.npz
mkdir test
fit --data mnist.npz --val test
fit --data mnist.npz --val ./test
rmdir test
cp mnist.npz test
fit --data mnist.npz --val test
cp positional.npz test
fit --data capital.npz --val test
rm test
echo '# used, not trained'
fit --data mnist.npz --evaluate
fit --data mnist.npz --evaluate --x x_test
try pgfit model.json --weights init.h5 --predict mnist.npz --out p.npy
try pgfit model.json --weights init.h5 --predict mnist.npz --x x_test --out p.npy
try pgfit model.json --weights init.h5 --predict odd.npz --out q.npy
fit --data mnist.npz --predict capital.npz --out q.npy --x x_train --y y_train
fit --data mnist.npz --json | sed -n 's/.*"event": "note".*/&/p'
