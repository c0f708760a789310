# folders as frameworks leave them, in which the checkpoint lies one folder below, or is one of several
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
M=$TESTDATA/modern

# flax.training.checkpoints: the newest file counts, and a folder of that name is none
mkdir flax && cp $M/flax-checkpoints-legacy/ckpt/checkpoint_* flax && mkdir flax/checkpoint_900
printf 'not the newest' >flax/checkpoint_1
run pgjoin flax flax.safetensors
run pgdiff flax.safetensors $M/flax-checkpoints-legacy/expected.safetensors

# Keras' BackupAndRestore; save_weights("folder/"), whose prefix is empty
mkdir -p backup/chief && cp $M/tf-save-weights/w.* $M/tf-save-weights/checkpoint backup/chief
run pgjoin backup tf.safetensors
run pgdiff tf.safetensors $M/tf-save-weights/w
mkdir bare
for f in "$M"/tf-save-weights/w.*; do cp "$f" "bare/.${f##*.}"; done
echo 'model_checkpoint_path: "."' >bare/checkpoint
run pgjoin --force bare tf.safetensors
run pgdiff tf.safetensors $M/tf-save-weights/w

# DeepSpeed's without the file that names the newest step
cp -r $M/zero3/ckpt zero && chmod -R u+w zero && rm zero/latest
run pgjoin zero zero.safetensors
run pgdiff zero.safetensors $M/zero3/expected.safetensors
cp -r zero/global_step2 zero/global_step4
run pgjoin --force zero zero.safetensors
# an unfinished one is not passed over
mkdir -p steps/one steps/two && cp $M/dcp-fsdp2/ckpt/.metadata steps/one && cp -r $M/dcp-fsdp2/ckpt/. steps/two
run pgjoin steps steps.safetensors

# a list that names what is not there hides nothing
mkdir list && cp $M/tf-save-weights/w.* list && echo 'model_checkpoint_path: "ckpt-9"' >list/checkpoint
run pginfo list
run pgjoin list list.safetensors
