# the optimizer by its common name, whatever its framework calls it; names of parts where there is no such
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
M=$TESTDATA/modern
run pgjoin --part optimizer $M/flax-msgpack-trainstate/checkpoint_2 flax.safetensors
run pgjoin --part opt_state $M/flax-msgpack-trainstate/checkpoint_2 same.safetensors
run pgdiff flax.safetensors same.safetensors
run pgjoin --part state $M/flax-msgpack-trainstate/checkpoint_2 no.safetensors
run pgjoin --part optimizer $M/orbax-manager-standard/ckpt orbax.safetensors
run pgjoin --part model_ema $M/orbax-manager-standard/ckpt no.safetensors
run pgjoin --part optimizer $M/tf-roots/gan/c no.safetensors
run pgjoin --part optim $M/dcp-fsdp2/ckpt no.safetensors
