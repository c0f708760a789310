# checkpoints of many ranks that are damaged: one line names file and tensor, and nothing is written
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
fresh() { rm -rf c && cp -r "$TESTDATA/modern/$1" c && chmod -R u+w c; }
flip() { # file, offset: another byte there
  printf '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

fresh dcp-fsdp2/ckpt && rm c/__2_0.distcp
run pgjoin c out.safetensors
run pginfo c
fresh dcp-fsdp2/ckpt && truncate -s 20000 c/__1_0.distcp
run pgjoin c out.safetensors
fresh dcp-fsdp2/ckpt && flip c/__0_0.distcp 900
run pgjoin c out.safetensors
fresh dcp-fsdp2/ckpt && truncate -s 40000 c/.metadata
run pgjoin c out.safetensors
fresh dcp-fsdp2/ckpt && cp "$TESTDATA/modern/dcp-fsdp2-flatroot/ckpt/__3_0.distcp" c
run pgjoin c out.safetensors
run pgjoin --part nets "$TESTDATA/modern/dcp-fsdp2/ckpt" out.safetensors

fresh zero3/ckpt && rm c/global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt
run pgjoin c out.safetensors
fresh zero3/ckpt && echo global_step9 >c/latest
run pgjoin c out.safetensors
fresh zero3/ckpt && cp c/global_step2/zero_pp_rank_0_mp_rank_00_optim_states.pt c/global_step2/mp_rank_01_model_states.pt
run pgjoin c out.safetensors
fresh zero3/ckpt && cp "$TESTDATA/modern/zero3-tied/ckpt/global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt" c/global_step2
run pgjoin c out.safetensors

fresh tf1-saver-sharded && rm c/m.data-00001-of-00002
run pgjoin c/m out.safetensors
fresh tf-save-weights && flip c/w.data-00000-of-00001 700
run pgjoin c/w out.safetensors
fresh tf-save-weights && cp c/w.index c/v.index && rm c/checkpoint
run pgjoin c out.safetensors
fresh tf-save-weights && rm c/w.index
run pgjoin c out.safetensors

fresh flax-msgpack-replicated && flip c/flax_model.msgpack 4900
run pgjoin c/flax_model.msgpack out.safetensors
fresh flax-msgpack && truncate -s 1000 c/flax_model.msgpack
run pgjoin c/flax_model.msgpack out.safetensors

fresh orbax-zarr-per-array/ckpt && rm c/params.stem.kernel/0.0.0.1
run pgjoin c out.safetensors
fresh orbax-zarr-per-array/ckpt && truncate -s 100 c/params.stem.kernel/0.0.0.1
run pgjoin c out.safetensors
fresh orbax-ocdbt/ckpt && rm -r c/d
run pgjoin c out.safetensors
fresh orbax-ocdbt/ckpt && flip c/manifest.ocdbt 30
run pgjoin c out.safetensors
mv c step.orbax-checkpoint-tmp-7
run pgjoin step.orbax-checkpoint-tmp-7 out.safetensors
fresh rank-pt-dtensor/ckpt && rm c/model_world_size_4_rank_2.pt
run pgjoin c out.safetensors
run pginfo c
mv c/model_world_size_4_rank_3.pt c/model_world_size_4_rank_2.pt
run pgjoin c/model_world_size_4_rank_0.pt out.safetensors
fresh rank-pt-dtensor/ckpt && flip c/model_world_size_4_rank_2.pt 8074
run pgjoin c out.safetensors
cat >other.py <<'P'
import sys, zipfile
old = zipfile.ZipFile(sys.argv[1])
with zipfile.ZipFile(sys.argv[2], "w") as new:
    for i in old.infolist():
        new.writestr(i.filename, bytes(i.file_size) if i.filename.endswith("/data/3") else old.read(i))
P
fresh rank-pt-dtensor/ckpt && python3 other.py c/model_world_size_4_rank_2.pt new.pt && mv new.pt c/model_world_size_4_rank_2.pt && rm other.py
run pgjoin c out.safetensors
fresh rank-pt-dtensor/ckpt && for r in 0 1 2 3; do mv c/model_world_size_4_rank_$r.pt c/part$r.pt; done
run pgjoin -q c/part0.pt joined.safetensors && run pgdiff joined.safetensors "$TESTDATA/modern/rank-pt-dtensor/expected.safetensors"
mv c/part2.pt c/saved-2-of-2.pt
run pgjoin c/saved-2-of-2.pt out.safetensors
run pgjoin c out.safetensors
fresh rank-pt-dtensor/ckpt && cp c/model_world_size_4_rank_0.pt c/critic_rank_0.pt && cp c/model_world_size_4_rank_1.pt c/optim_rank_1.pt
run pgjoin c out.safetensors
run pgjoin -q --force c/model_world_size_4_rank_3.pt joined.safetensors
fresh rank-pt-dtensor/ckpt && truncate -s 9000 c/model_world_size_4_rank_1.pt
run pgjoin c out.safetensors
fresh rank-pt-fsdp1-sharded/ckpt && rm c/*_3.pt
run pgjoin c out.safetensors
fresh rank-pt-fsdp1-local/ckpt
run pgjoin c out.safetensors

fresh dcp-hf-safetensors/ckpt
run pginfo c | head -3
run pgjoin --force c joined.safetensors && run pgdiff joined.safetensors "$TESTDATA/modern/dcp-hf-safetensors/expected.safetensors"
rm c/shard-00004-model-00001-of-00001.safetensors
run pginfo c
run pgjoin c out.safetensors
run pgjoin --rules ranks=4 c out.safetensors
run pgjoin --rules ranks=3 --dry-run c out.safetensors
rm c/shard-00002-model-00001-of-00001.safetensors
run pgjoin c out.safetensors
mv c/shard-00001-model-00001-of-00001.safetensors c/model.safetensors
run pgjoin c/model.safetensors out.safetensors
fresh dcp-hf-safetensors/ckpt
for f in c/*.safetensors; do mv "$f" "${f%1.safetensors}2.safetensors"; done # the second of two files is gone
run pgjoin c out.safetensors
fresh dcp-hf-safetensors/ckpt && mv c/shard-00001-model-00001-of-00001.safetensors c/shard--1-model-1-of-1.safetensors
run pgjoin c/shard--1-model-1-of-1.safetensors out.safetensors
fresh dcp-hf-safetensors/ckpt && cp c/shard-00001-model-00001-of-00001.safetensors c/shard-00001-model-00001-of-00002.safetensors
run pgjoin c out.safetensors

rm -rf c && mkdir -p c/step-10 c/optimizer_0 && cp "$TESTDATA/modern/dcp-fsdp2/ckpt/".m* "$TESTDATA/modern/dcp-fsdp2/ckpt/"* c/step-10 && cp c/step-10/.metadata c/optimizer_0
run pgjoin -q --force c joined.safetensors && run pgdiff joined.safetensors "$TESTDATA/modern/dcp-fsdp2/expected.safetensors"
cp -r c/step-10 c/step-20
run pgjoin c out.safetensors
rm -f joined.safetensors
rm -rf c step*
ls
