# Options from a file: under Keras' words, those of the command line first; what is printed is read again as it is.
golden=$TESTDATA/golden/mlp_digits
cp "$golden/model.json" mlp.json
cp "$golden/data.npz" digits.npz
cat > run.json <<'END'
{
  "model": "mlp.json", "data": "digits.npz", "validation_data": ["digits.npz"],
  "optimizer": {"class_name": "SGD", "config": {"learning_rate": 0.05, "momentum": 0.9}},
  "loss": {"probs": "categorical_crossentropy"}, "metrics": ["accuracy", "mae"], "class_weight": {"0": 1, "1": 1, "2": 1, "3": 2.5, "4": 1, "5": 1, "6": 1, "7": 1, "8": 1, "9": 1},
  "epochs": 2, "batch_size": 100, "shuffle": false, "seed": null, "deterministic": true, "verbose": 2,
  "callbacks": [{"class_name": "TerminateOnNaN", "config": {}}]
}
END
pgfit --print-config > plain.json
cat plain.json
pgfit --config plain.json --print-config | cmp - plain.json
pgfit --config run.json --epochs 3 --print-config | tee all.json | grep -v -e null -e false
pgfit --config all.json --print-config | cmp - all.json
pgfit --config run.json | sed 's/ [0-9.]*s$//; s/ in [0-9.]* s, .*//'
cat > order.json <<'END'
{"callbacks": [{"class_name": "CSVLogger", "config": {"filename": "a.csv"}},
               {"class_name": "EarlyStopping", "config": {"patience": 2}},
               {"class_name": "CSVLogger", "config": {"filename": "b.csv", "separator": ";"}}]}
END
pgfit --config order.json --early-stop patience=9 --reduce-lr factor=0.5 --csv c.csv --append --print-config | sed -n '/callbacks/,$p'
pgfit --config run.json --shuffle --no-shuffle 2>&1 || echo "exit $?"
echo '{"checkpoint": "c/{epoch}.h5", "keep": 2, "save_best_only": true, "reduce_lr": {"factor": 0.5}, "epochs": 3}' >short.json
pgfit --config short.json --print-config | sed -n '/callbacks/,$p'
try() { printf '%s\n' "$1" > bad.json; shift; pgfit --config bad.json "$@" 2>&1 || echo "exit $?"; }
try '{"epoch": 3}'
try '{"learning": 3}'
try '{"epochs": "three"}'
try '{"epochs": 1.5}'
try '{"loss": true}'
try '{"deterministic": 1}'
try '{"verbose": 3}'
try '{"bn": "none"}'
try '{"callbacks": "EarlyStopping"}'
try '{"callbacks": [{"class_name": "TerminateOnNan"}]}'
try '{"callbacks": [{"class": "TerminateOnNaN"}]}'
try '{"epochs": 1, "epochs": 2}'
try '{"epochs": 1'
try '{"monitor": "loss"}'
try '{}' --keep 3
try '{"full_model": true}'
pgfit --config nowhere.json 2>&1 || echo "exit $?"
