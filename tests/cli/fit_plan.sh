# Steps on devices that are not here. Times differ from run to run: numbers are blanked out, and which verdict they lead to; a
# note that other programs disturbed the steps may be there.
D="$TESTDATA/golden/mlp_digits"
cp "$D/model.json" mlp.json
fit() { pgfit --data "$D/data.npz" --loss categorical_crossentropy --optimizer adam "$@"; }
try() { "$@" || echo "exit $?: $*" | sed "s|$D|D|"; }
blank() { sed -e '/^note: efficiency above/d' -e 's/[0-9][0-9.,]*/N/g' -e 's/  */ /g' -e 's/[kMG]B/B/g' -e 's/^from .*\|^all of them .*\|^more than .*/verdict/' -e 's/^\(predictions:\).*/\1/'; }
try fit -j 1 mlp.json --plan cpus=2,hosts=2,link=10Gbit,latency=20us,cores=2 | blank
try fit -j 1 --batch-size 6 --plan model=mlp.json,gpus=8,hosts=16,link=100Gbit,speedup=20 | blank
try fit -j 1 mlp.json --plan cpus=1 --json | sed 's/"checked": ".*"/"checked": ""/' | tr ',' '\n' | sed -e 's/ *\(.*\): [0-9.e+-]*\(.*\)/\1: \2/'
fit -q -j 1 mlp.json --plan cpus=1
ls
for plan in gpu=8 gpus=0 gpus=8 hosts=2,cpus=1 hosts=2,link=10Gb latency=5 speedup=2,flops=1T scale=up cpus=1,cores=9999 model=mlp.json; do
    try fit -j 1 mlp.json --plan "$plan"
done
try fit --plan cpus=2
try fit mlp.json --plan cpus=2 -o mlp.h5
try fit mlp.json --plan cpus=2 --compress bfloat16
try fit mlp.json --plan cpus=2 --accumulate 2
try pgfit mlp.json --loss mse --plan cpus=2
try fit mlp.json --plan cpus=2 --place 'probs=cpu:1'
