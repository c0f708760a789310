# A name that was mistyped: the one that was meant.
cp "$TESTDATA/golden/mlp_digits/model.json" mlp.json
cp "$TESTDATA/golden/mlp_digits/data.npz" digits.npz
try() { timeout 20 pgfit mlp.json --data digits.npz "$@" 2>why || echo "exit $?: $*"; head -1 why; }
for loss in mean_square_error MeanSquaredErorr sparse_categorical_crosentropy catgorical_crossentropy hubr nothing_like_it; do try --loss $loss; done
for metric in acuracy AUCC precison Recal mean_absolute_eror nothing_like_it; do try --loss mse --metrics $metric; done
try --loss mse --weighted-metrics acuracy
try --loss mse --metrics accuracy,presision
for optimizer in adm Adma SDG rmsprp adam:lerning_rate=1 sgd:momentun=0.9 nothing_like_it; do try --loss mse --optimizer $optimizer; done
try --loss mse --schedule cosine_deca:decay_steps=9
try --loss huber:delat=1
try --loss mse --early-stop patiense=3,monitor=loss
sed 's/"GlorotUniform"/"GlorotUnifrom"/' mlp.json > typo.json
timeout 20 pgfit typo.json --data digits.npz --loss mse 2>&1 | head -1
