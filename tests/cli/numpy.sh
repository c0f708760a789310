# One array, archives of arrays: from this project's tests, and of objects, which are pickles.
cp "$TESTDATA/files/pytorch/cnn/y0.npy" "$TESTDATA/golden/mlp_digits/first_batch.npz" .
pginfo y0.npy
pginfo first_batch.npz
pgdiff first_batch.npz first_batch.npz
pgconvert first_batch.npz first.safetensors
pgdiff first_batch.npz first.safetensors
pgunwrap first_batch.npz x.npz || echo "exit $?"
pginfo "$TESTDATA/files/keras-2.0.9/bignames/rescue_weights.npy" || echo "exit $?"
