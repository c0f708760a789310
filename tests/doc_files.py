"""The files that documents and docstrings speak of, from testdata/."""
import pathlib
import shutil

FILES = {  # name in the documents: test file
    'parallel.h5': 'files/keras-2.2.4/cnn4-g2/wrapper_weights.h5',
    'large.h5': 'files/keras-2.2.4/cnn4-g2/wrapper_weights.h5',
    'parallel_full.h5': 'files/keras-2.2.4/cnn4-g2/wrapper_model.h5',
    'model.h5': 'files/keras-2.2.4/cnn4-g2/template_model.h5',
    'model.json': 'files/keras-2.2.4/cnn4-g2/template.json',
    'checkpoint.pth.tar': 'files/pytorch/cnn/checkpoint.pth.tar',
    'before.h5': 'golden/mlp_digits/init_weights.h5',
    'mlp.json': 'golden/mlp_digits/model.json',
    'digits.npz': 'golden/mlp_digits/data.npz',
    'after.h5': 'golden/mlp_digits/final_weights.h5',
    'a.h5': 'files/keras-3.6.0-native/cnn4/template_legacy.h5',
    'b.keras': 'files/keras-3.6.0-native/cnn4/template.keras',
    'ranks': 'modern/dcp-tp-fsdp2/ckpt',
    'broken.h5': 'negative/truncated_half.h5',
}


def lay_out(testdata, folder):
    """Copies them into a folder; what ranks saved is a folder itself."""
    for name, path in FILES.items():
        source, target = pathlib.Path(testdata) / path, pathlib.Path(folder) / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
