# PyTorch's layout and back, other names, the other Keras, folders of arrays.
here=$TESTDATA/files/keras-2.15.0-native/cnn4
pgconvert --layout pytorch "$here/template.keras" torch.safetensors
pginfo --json torch.safetensors | sed -n 's/.*"name": "\([^"]*\)".*"shape": \(\[[^]]*\]\).*/\1 \2/p'
pgconvert torch.safetensors back.keras
pgdiff back.keras "$here/template.keras"
echo '{"conv2d.weight": "conv2d_1.weight", "conv2d_1.weight": "conv2d.weight"}' > swap.json
pgconvert --layout pytorch --rename swap.json "$here/template.keras" swapped.safetensors
pginfo --json swapped.safetensors | sed -n 's/.*"name": "\([^"]*weight\)".*"shape": \(\[[^]]*\]\).*/\1 \2/p'
pgconvert --keras 3 "$here/template.keras" three.keras
pgconvert --keras 2 --to h5 three.keras two.h5
pgdiff -q two.h5 "$here/template.keras"
pgconvert --to npy "$here/template.keras" folder
pgconvert folder from_folder.h5
pgdiff -q from_folder.h5 "$here/template.keras"
pgconvert --json --dtype float16 "$here/template.keras" half.keras
# Normalisation: what is no tensor is told.
pgconvert --layout pytorch "$TESTDATA/files/keras-2.2.4/cnnbn-g2/template_model.h5" bn.safetensors
