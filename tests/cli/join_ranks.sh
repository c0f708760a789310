# what several ranks wrote, into a folder of shards, by several jobs, in another type
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp -r "$TESTDATA/modern/dcp-fsdp2/ckpt" c

run pgjoin c hub/
ls hub
run pgjoin --json -n --max-shard-size 4kB c sharded
run pgjoin --max-shard-size 4kB --jobs 2/3 c sharded
run pgjoin --max-shard-size 4kB --jobs 3/3 c sharded
run pgjoin --max-shard-size 4kB --finish c sharded
run pgjoin --max-shard-size 4kB --jobs 1/3 c sharded
run pgjoin --max-shard-size 4kB --finish c sharded
run pgjoin --max-shard-size 4kB --jobs 1/3 c sharded
run pgdiff hub sharded
run pgjoin --dtype bfloat16 c half.safetensors
run pgjoin --jobs 0/3 c x
run pgjoin --part optimizer c state.safetensors
