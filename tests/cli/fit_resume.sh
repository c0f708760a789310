# --resume: which file is meant, whose the outputs are, and from where a run goes on.
cp "$TESTDATA/golden/mlp_digits/model.json" mlp.json
cp "$TESTDATA/golden/mlp_digits/data.npz" digits.npz
pg() { pgfit "$@" 2>&1 | sed "s#$PWD#HERE#g" | grep -e resum -e "^saved" -e note -e state -e try -e pgfit: || true; }
model='mlp.json --data digits.npz --val digits.npz --loss categorical_crossentropy'
echo '$ a job that is started again'
job() { pg $model --checkpoint 'bj/{epoch}.keras' --resume=auto -o bj.keras "$@"; }
job --epochs 2
job --epochs 2
job --epochs 3
pg --resume=bj/resume.pg --epochs 4
cp bj.keras other.keras
pg --resume=bj/resume.pg -o other.keras
cp bj.keras before.keras
pgfit --resume=bj/resume.pg >finished.txt
echo "exit $?"
pgdiff -q before.keras bj.keras
pg --resume=bj/resume.pg --evaluate
echo '$ named with a space, by its folder, as a model'
pg --resume bj/resume.pg
pg --resume bj
pg --resume=bj/
pg mlp.json --resume bj/resume.pg
pg --resume bj/resume.pg mlp.json other.json
pg --resume=bj/resume.pg bj/resume.pg
pg bj/resume.pg
pg --resume mlp.json
echo '$ from another folder, from a copy, from a folder that was renamed'
mkdir there
cd there
pgfit --resume=../bj 2>&1 | sed "s#$(dirname "$PWD")#HERE#g"
cd ..
mkdir run
cp -r bj mlp.json digits.npz run
cd run
pg --resume=bj --epochs 5
cd ..
mv run moved
cd moved
pg --resume=bj --epochs 6
cd ..
pgfit --resume=bj --print-config | grep -e folder -e '"file"' || echo 'no folder among the options'
echo '$ folders with placeholders'
pg $model --epochs 2 --checkpoint 'n/{epoch:02d}/m.keras' --keep 1
ls n
pg --resume=n --epochs 3
echo '$ blanks behind commas'
pgfit -q $model --epochs 1 --early-stop 'patience=3, restore_best' --optimizer 'sgd:lr=0.1, momentum=0.9' --metrics 'accuracy, mae'
echo '$ neither a checkpoint nor the model could be written'
awk 'BEGIN {
    for (i = 0; i < 64; i++) printf "p%d,", i
    print "y"
    for (r = 0; r < 64; r++) { for (i = 0; i < 64; i++) printf "%d,", i * r % 7; print r % 10 }
}' >table.csv
(
    ulimit -f 8
    pgfit -q mlp.json --data table.csv --loss sparse_categorical_crossentropy --checkpoint 'u/{epoch}.h5' -o u.h5 2>&1 || echo "exit $?"
)
echo '$ another run has the file'
: >bj/resume.pg.lock
flock -n bj/resume.pg.lock pgfit --resume=bj --epochs 4 2>&1 || echo "exit $?"
pg --resume=bj --epochs 4
ls bj
: >resume.pg.lock
flock -n resume.pg.lock pgfit -q $model --epochs 1 && echo 'runs that keep no checkpoints share a folder'
rm resume.pg.lock
echo '$ the output is what the run wrote last, or it stays'
pg $model --checkpoint 'so/{epoch}.keras' --epochs 1 -o so.keras
pg --resume=so --epochs 2
echo theirs >so.keras
pg --resume=so --epochs 3
cat so.keras
ls so*.keras
pg --resume=so --epochs 4 --force
pg --resume=so --epochs 5
cp so-1.keras so.keras
pgfit --resume=so >finished.txt 2>&1 || echo "exit $?"
cmp so-1.keras so.keras && ls so*.keras
