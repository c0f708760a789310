# MirroredStrategy keeps its copies in memory: what it saves is a file of one device
run() { echo "\$ $*"; "$@" 2>&1 || echo "status $?"; }
for f in model.h5 model.keras weights.h5; do
  cp "$TESTDATA/extra/mirrored/$f" . && run pginfo "$f" | head -4
  run pgunwrap "$f" out
done
