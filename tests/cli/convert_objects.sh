# Losses and metrics that are objects of Keras 2.15 become those of Keras 3; what it does not have is named.
for f in categorical squared huber binary word unknown_metric; do
    pgconvert --keras 3 "$TESTDATA/extra/objects/$f.h5" $f.keras
    python3 -c "import json, sys, zipfile; c = json.loads(zipfile.ZipFile(sys.argv[1]).read('config.json'))['compile_config']; print(c['optimizer']['class_name'], json.dumps(c['loss'])); print(json.dumps(c['metrics']))" $f.keras
done
pgconvert --keras 3 "$TESTDATA/extra/objects/huber.h5" huber.h5
# a metric that is not Keras' own is dropped by name, the rest stays; nothing stands in for an optimizer
show() { python3 -c "import json, sys, zipfile; c = json.loads(zipfile.ZipFile(sys.argv[1]).read('config.json')).get('compile_config'); print(json.dumps(c))" "$1"; }
sed 's/SensitivityAtSpecificity/SensitivityAtMyOwnThings/' "$TESTDATA/extra/objects/unknown_metric.h5" > metric.h5
sed 's/CategoricalCrossentropy/CategoricalMyOwnEntropy/' "$TESTDATA/extra/objects/categorical.h5" > loss.h5
sed 's/Custom>Adam/Custom>Mine/' "$TESTDATA/extra/objects/categorical.h5" > optimizer.h5
for f in metric loss optimizer; do
    pgconvert --keras 3 $f.h5 $f.keras
    show $f.keras
done
