# Learning rates by steps and by epochs, on plateaus; training that ends early; the same as a CSV table.
golden=$TESTDATA/golden/callbacks_mlp_digits
cp "$golden/model.json" mlp.json
cp "$golden/data.npz" digits.npz
fit() { pgfit mlp.json --data digits.npz --loss categorical_crossentropy --no-shuffle --seed 1 "$@"; }
rates() { fit -q --epochs 5 --schedule "$1" --csv rates.csv && cut -d, -f3 rates.csv | tr -d '\r' | tr '\n' ' '; echo; }
rates exponential_decay:decay_steps=16,decay_rate=0.5,staircase=true
rates piecewise_constant_decay:boundaries=16/40,values=0.1/0.01/0.001
rates epoch:rate=0.5
rates cosine:warmup_epochs=2,min_lr=0.0001
printf '0.1\n0.05 # then\n' > rates.txt
rates table:rates.txt
fit --schedule table:rates.txt --print-config | grep -A1 -e '"schedule"' -e '"callbacks"'
fit --schedule cosine_decay:decay_steps=9 --print-config | grep -A1 -e '"schedule"' -e '"callbacks"'
for bad in cosine_decay cosine_decay:decay_steps=9,rate=1 warmup:steps=3 step:rate=0.1 table:nowhere.txt; do
    fit --schedule "$bad" 2>&1 || echo "exit $?"
done
fit --schedule cosine_decay:decay_steps=9 --reduce-lr patience=2,monitor=loss 2>&1 || echo "exit $?"
fit --early-stop monitor=val_loss 2>&1 || echo "exit $?"
pgfit mlp.json --weights "$golden/init_weights.h5" --data digits.npz --val digits.npz --loss categorical_crossentropy \
    --optimizer sgd:learning_rate=0.05,momentum=0.9 --optimizer-rules legacy --epochs 40 --no-shuffle \
    --reduce-lr factor=0.5,patience=2,min_delta=0.001,cooldown=1,min_lr=0.0001 \
    --early-stop patience=5,min_delta=0.001,restore_best 2>&1 | grep -v -e '^epoch ' -e '^note' -e ' in [0-9.]* s, ' -e '^pgfit'
# A run by a schedule goes on by it: five epochs and five more are ten.
fit -q --epochs 10 --schedule cosine_decay:decay_steps=200 --deterministic --optimizer adam -o ten.h5
fit -q --epochs 5 --schedule cosine_decay:decay_steps=200 --deterministic --optimizer adam --full-model -o five.h5
pgfit -q five.h5 --data digits.npz --epochs 10 --initial-epoch 5 --no-shuffle --deterministic -o again.h5
pgdiff -q ten.h5 again.h5 && echo equal
