cp "$TESTDATA/files/pytorch/cnn/dataparallel.safetensors" ddp.safetensors
pgunwrap ddp.safetensors clean.safetensors
pginfo clean.safetensors
