# checkpoints of several processes, each named in every way that people try; what is not read says what its framework makes of it
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp -r "$TESTDATA/extra/modern/"* . && touch zero/zero_to_fp32.py && mkdir many && mv orbax many/5
cat dcp/__0_0.distcp >renamed.bin
for f in dcp dcp/ dcp/__0_0.distcp dcp/.metadata savedmodel savedmodel/saved_model.pb savedmodel/variables/variables \
    tf tf/ckpt-1 tf/ckpt-1.index tf/ckpt-1.data-00000-of-00001 tf/checkpoint flax_model.msgpack \
    hf/shard-00004-model-00001-of-00001.safetensors \
    zero zero/global_step2 zero/global_step2/zero_pp_rank_0_mp_rank_00_model_states.pt many/5 many/5/manifest.ocdbt; do
  run pgconvert --force "$f" out.safetensors
done
cd dcp && run pgconvert __0_0.distcp out.safetensors && cd ..
rm many/5/_METADATA && run pgconvert many/5 out.safetensors
cd zero/global_step2 && run pgconvert . out.safetensors && cd ../..
for f in dcp-ddp zero3-tied tf-mirrored flax-msgpack-replicated; do cp -r "$TESTDATA/modern/$f" .; done
for f in dcp-ddp/ckpt zero3-tied/ckpt tf-mirrored/ckpt-1 flax-msgpack-replicated/flax_model.msgpack; do
  run pgjoin "$f" "${f%%/*}.safetensors" && pgdiff "${f%%/*}.safetensors" "$f" || true
done
pgdiff dcp-ddp.safetensors dcp-ddp/expected.safetensors
pgdiff zero3-tied.safetensors zero3-tied/expected.safetensors
run pgconvert --model tf-mirrored/model.json tf-mirrored/ckpt-1 single.h5
pgdiff single.h5 tf-mirrored/expected_model.h5
run pgconvert --model tf-mirrored/model.json tf/ckpt-1 other.h5
run pgjoin --part optimizer tf-mirrored/ckpt-1 optimizer.safetensors
run pgjoin --part nothing tf-mirrored/ckpt-1 nothing.safetensors
run pgunwrap tf out.h5
run pgunwrap --in-place tf/ckpt-1
run pgsplit dcp out
run pgjoin dcp joined.h5
run pgcheck zero
run pgdiff savedmodel flax_model.msgpack
run pginfo dcp
run pginfo zero3-tied/ckpt
run pginfo tf/ckpt-2
ls

echo "== how it is cut"
for c in dcp-tp-fsdp2/ckpt tf-sharded-variable/ps; do
    pginfo "$TESTDATA/modern/$c" | sed -n '2,3p'
done
pginfo --json "$TESTDATA/modern/tf-sharded-variable/ps" | grep -o '"pieces".*\]'
pgjoin -q zero3-tied/ckpt tied.safetensors && grep -ao '"tied":"[^"]*"' tied.safetensors
