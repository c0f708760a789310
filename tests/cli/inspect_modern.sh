# checkpoints of several files that are not read: each is named, whole or in part, with what its framework makes of it
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp -r "$TESTDATA/extra/modern/"* . && touch zero/zero_to_fp32.py && mkdir many && mv orbax many/5
cat dcp/__0_0.distcp >renamed.bin
for f in dcp dcp/ dcp/__0_0.distcp dcp/.metadata hf/shard-00004-model-00001-of-00001.safetensors \
    savedmodel savedmodel/saved_model.pb savedmodel/variables/variables \
    tf tf/ckpt-1 tf/ckpt-1.index tf/ckpt-1.data-00000-of-00001 tf/checkpoint \
    zero zero/global_step2 zero/global_step2/zero_pp_rank_0_mp_rank_00_model_states.pt \
    many/5 many/5/manifest.ocdbt flax_model.msgpack; do
  run pgconvert "$f" out.safetensors
done
cd dcp && run pgconvert __0_0.distcp out.safetensors && cd ..
rm many/5/_METADATA && run pgconvert many/5 out.safetensors
cd zero/global_step2 && run pgconvert . out.safetensors && cd ../..
run pgunwrap tf out.h5
run pgunwrap tf/ckpt-1 out.h5
run pgunwrap --in-place tf/ckpt-1
run pgsplit dcp out
run pgjoin dcp out.h5
run pgcheck zero
run pgdiff savedmodel flax_model.msgpack
run pginfo dcp
run pginfo tf/ckpt-2
ls
