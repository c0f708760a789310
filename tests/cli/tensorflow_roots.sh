# checkpoints of TensorFlow that hold several models, one without layers, or a wrapper: each is asked about, taken by its part, or unwrapped
exec 2>&1
run() { echo "\$ $*"; "$@" || echo "status $?"; }
cp -r "$TESTDATA/modern/tf-roots/"* . && chmod -R u+w .
run pginfo gan/c
run pgjoin gan/c out.safetensors
run pgjoin --part generator gan/c generator.safetensors
run pgjoin --part generator_optimizer gan-legacy/c slots.safetensors
run pginfo slots.safetensors
run pginfo ema/c
run pginfo guide
run pgdiff guide/ckpt-4 guide/ckpt-5
run pgjoin vae/w vae.safetensors
cd wrapper
run pgunwrap w single.safetensors
run pgunwrap w single.h5
run pgunwrap --like template.json w single.h5
run pgcheck --model template.json w
sed "s/\"units\": [0-9]*/\"units\": 77/" template.json >other.json
run pgcheck --model other.json w
run pgconvert --model template.json w single.h5 && run pgdiff single.h5 template.h5
run pgconvert --model template.json sm sm.h5 && run pgdiff sm.h5 template.h5
run pgconvert --unwrap sm full.h5 && run pgdiff full.h5 template.h5
run pgconvert --unwrap sm full.keras && run pgdiff full.keras template.h5
run pgunwrap sm single.safetensors && run pginfo single.safetensors
run pgunwrap --in-place sm
run pgconvert --model sm w again.h5 && ls
cd ..
run pginfo export
run pgjoin export export.safetensors
run pgcheck --model export/model.json export.safetensors
run pgcheck --model export/model.json export
run pgconvert --model export/model.json export export.h5 && run pgdiff export.h5 export/weights.h5
