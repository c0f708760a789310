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
printf x | dd of=sharded/model-00001-of-00002.safetensors bs=1 seek=900 conv=notrunc status=none
run pgjoin --max-shard-size 4kB --finish c sharded
run pgjoin --max-shard-size 4kB --jobs 1/3 c sharded
# a job of an earlier try: with the same plan its shards are as good
cp sharded/.pg-job-00003-of-00003 sharded/.pg-job-00004-of-00004
run pgjoin --max-shard-size 5kB --finish c sharded
run pgjoin --max-shard-size 4kB --dtype bfloat16 --finish c sharded
run pgjoin --max-shard-size 4kB --finish c sharded
run pgjoin --max-shard-size 4kB --jobs 1/3 c sharded
run pgjoin --max-shard-size 4kB c sharded.safetensors
run pgdiff hub sharded
run pgjoin --dtype bfloat16 c half.safetensors
run pgjoin --jobs 0/3 c x
run pgjoin --part optimizer c state.safetensors
