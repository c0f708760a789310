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

# files whose names do not say "rank", and what each rank had of its own
mkdir ranks
for i in 0 1 2 3; do cp "$TESTDATA/modern/rank-pt-dtensor/ckpt/model_world_size_4_rank_$i.pt" ranks/ckpt-0$i-of-04.pt; done
cp "$TESTDATA/modern/rank-pt-dtensor/expected.safetensors" ranks # beside, not of them
run pgjoin ranks joined.safetensors
run pgdiff joined.safetensors ranks/expected.safetensors
python3 - ranks/ckpt-02-of-04.pt <<'E'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    members = {i.filename: z.read(i) for i in z.infolist()}
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    for n, b in members.items():
        whole = n.endswith('/data/3')  # a mask, of which each rank has all
        z.writestr(n, bytes([b[0] ^ 1]) + b[1:] if whole else b)
E
run pgjoin --force ranks joined.safetensors
run pgjoin --force --rules 'blocks.?.mask=first' ranks joined.safetensors
run pgdiff joined.safetensors ranks/expected.safetensors
run pgjoin --force --rules 'blocks.?.mask=0' ranks joined.safetensors
run pgjoin --force --rules 'blocks.?.mask=first,buffers.*=first' ranks joined.safetensors
