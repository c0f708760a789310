#!/usr/bin/env python3
"""Writes HDF5 files of other programs, and weights of Keras into which somebody has put such things.

usage: gen.py OUT TESTDATA        with pandas 2.3 or later, tables 3.10 or later, h5py

old_hdf5.hdf is not made here: it is smpl_f64le.h5 of PyTables' own tests (BSD licence), which HDF5 1.4 wrote on another machine. That release left "open for writing"
(3) in the consistency flags of files that it had closed; libhdf5 looks at them from superblock version 2 on only.
"""
import pathlib
import shutil
import sys

import h5py
import numpy as np
import pandas as pd

out, data = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
history = pd.DataFrame({"loss": [0.5, 0.25]})
history.to_hdf(out / "pandas_fixed.h5", key="history", mode="w")

# What people keep beside their weights: a table of pandas, and what h5py makes of numpy's other types.
for name, of in (("history_legacy.h5", "files/keras-2.2.4/cnn4-g2/wrapper_weights.h5"),
                 ("history.weights.h5", "files/keras-3.6.0-native/nested/template.weights.h5")):
    shutil.copyfile(data / of, out / name)
    (out / name).chmod(0o644)
    history.to_hdf(out / name, key="history", mode="a")
    with h5py.File(out / name, "a") as f:
        g = f.create_group("notes")
        g["rows"] = np.array([(1, 2.5)], dtype=[("step", "<i4"), ("loss", "<f4")])
        g["who"] = np.array([b"me"])
        g["phase"] = np.array([1], dtype=h5py.enum_dtype({"WARM": 0, "COLD": 1}))
        g["link"] = np.array([g["rows"].ref], dtype=h5py.ref_dtype)
        g.create_dataset("ragged", (1,), h5py.vlen_dtype("i4"))[0] = np.arange(3)

# Readable numbers beside the weights.
shutil.copyfile(data / "files/keras-2.2.4/cnn4-g2/template_weights.h5", out / "extra_legacy.h5")
(out / "extra_legacy.h5").chmod(0o644)
with h5py.File(out / "extra_legacy.h5", "a") as f:
    f["extra"] = np.zeros((5, 5), "f4")
    f["notes/epochs"] = np.arange(3)
