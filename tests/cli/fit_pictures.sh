# Folders of pictures: the classes are said, and must fit; the last column of a table is said too.
cp -r "$TESTDATA/extra/pictures/classes/Ant" .
cp "$TESTDATA/extra/datasets/model.json" small.json
sed 's/\[null, 6, 6\]/[null, 6, 6, 3]/' small.json > model.json
out() { sed 's/ [0-9.]*s$//; /^pgfit 0/d; /epochs* in/d; /nothing saves the trained model/d; s/loss=.*/.../; /^pics.*train/d; /^[a-z]*.csv.*train/d'; }
try() { echo "\$ $*"; { timeout 60 "$@" || echo "exit $?"; } 2>&1 | out; }
fit() { try pgfit model.json --loss sparse_categorical_crossentropy --seed 3 "$@"; }
for k in a b c d; do mkdir -p "pics/$k" && cp Ant/* "pics/$k"; done
rm pics/b/z.jpg
fit --data pics
fit --data pics --dry-run | grep note
echo '# fewer classes, more, empty ones, deep ones'
cp -r pics few && rm -r few/d
fit --data few
try pgfit model.json --loss categorical_crossentropy --data few
fit --data few --any-classes
fit --data few --evaluate
cp -r pics more && mkdir more/e && cp Ant/* more/e
fit --data more
fit --data more --any-classes
cp -r pics empty && rm empty/c/*
fit --data empty
fit --data empty --any-classes
cp -r pics deep && mkdir deep/c/old && cp Ant/* deep/c/old
fit --data deep
fit --data deep --any-classes
mkdir home && cp -r pics home/pictures
fit --data home
echo '# other classes to validate with'
cp -r pics val
fit --data pics --val val
mv val/d val/e
fit --data pics --val val
fit --data pics --val few
fit --data few --val pics --any-classes
echo '# pictures beside the folders of classes, or without any'
cp -r pics loose && cp Ant/*.jpg loose/one.jpg && cp Ant/*.jpg loose/two.jpg
fit --data loose
rm loose/two.jpg
try pgfit model.json --predict loose --out loose.npy
fit --data Ant
fit --data pics --val Ant
echo '# predictions look at no classes'
try pgfit model.json --predict deep --out p.npy
echo '# tables'
cat > mlp.json <<'END'
{"class_name": "Sequential", "keras_version": "2.15.0", "backend": "tensorflow", "config": {"name": "s", "layers": [
 {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 2], "dtype": "float32", "name": "in"}},
 {"class_name": "Dense", "config": {"name": "out", "units": 1}}]}}
END
printf 'rooms,area,price\n1,20,3\n2,40,5\n' > homes.csv
printf '1,20,3\n2,40,5\n' > bare.csv
printf 'price,rooms,area\n3,1,20\n5,2,40\n' > front.csv
table() { try pgfit mlp.json --loss mse "$@"; }
table --data homes.csv
table --data bare.csv
table --data front.csv
table --data front.csv --y price
table --data front.csv --y cost
table --data front.csv --x rooms,area --y price --val homes.csv
table --data bare.csv --y price
try pgfit mlp.json --predict homes.csv --out p2.npy
