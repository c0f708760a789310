"""Makes digits.npz out of scikit-learn's copy of the data:  python make.py  (needs scikit-learn).

Every fifth picture is for validation (xval0, yval0): 1,437 and 360 of 1,797. The archive has no times in it, so
that it comes out the same every time."""
import io
import zipfile

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
x = digits.images.astype(np.uint8)[..., None]
y = digits.target.astype(np.uint8)
held_out = np.arange(len(x)) % 5 == 0
with zipfile.ZipFile('digits.npz', 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as z:
    for name, a in (('x0', x[~held_out]), ('y0', y[~held_out]), ('xval0', x[held_out]), ('yval0', y[held_out])):
        buffer = io.BytesIO()
        np.save(buffer, a)
        z.writestr(zipfile.ZipInfo(f'{name}.npy', (1980, 1, 1, 0, 0, 0)), buffer.getvalue(), zipfile.ZIP_DEFLATED, 9)
