#!/usr/bin/env python3
"""make.py OUT            builds every case under OUT/<id>/ and OUT/manifest.json
make.py --pack FOLDER  writes FOLDER/corpus.tar.xz and FOLDER/manifest.json: the cases whose generators need h5py and numpy,
                       so that the suite runs without them (testdata/hostile). Done by hand after a generator changed."""
import io
import json
import lzma
import os
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402
import gen_h5  # noqa: E402,F401
import gen_zip  # noqa: E402,F401
import gen_wrapper  # noqa: E402,F401
import gen_shards  # noqa: E402,F401


def pack(folder):
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as d:
        man = common.build(d)
        buf = io.BytesIO()
        with tarfile.open(fileobj=buf, mode="w", format=tarfile.GNU_FORMAT) as t:
            for root, dirs, files in os.walk(d):
                dirs.sort()
                for n in sorted(files + dirs):
                    p = os.path.join(root, n)
                    if not (os.path.islink(p) or os.path.isfile(p) or os.path.isdir(p)) or p == os.path.join(d, "manifest.json"):
                        continue  # a FIFO is made by the runner
                    i = t.gettarinfo(p, os.path.relpath(p, d))
                    i.mtime, i.uid, i.gid, i.uname, i.gname, i.mode = 0, 0, 0, "", "", 0o755 if i.isdir() else 0o644
                    t.addfile(i, open(p, "rb") if i.isreg() else None)
        with open(os.path.join(folder, "corpus.tar.xz"), "wb") as f:
            f.write(lzma.compress(buf.getvalue(), preset=9 | lzma.PRESET_EXTREME))
        with open(os.path.join(folder, "manifest.json"), "w") as f:
            json.dump(man, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--pack":
        pack(sys.argv[2])
    elif len(sys.argv) == 2:
        import gen_dcp  # noqa: F401
        import gen_jax  # noqa: F401
        import gen_names  # noqa: F401
        import gen_npy  # noqa: F401
        import gen_npz  # noqa: F401
        import gen_onnx  # noqa: F401
        import gen_pickle  # noqa: F401
        import gen_safetensors  # noqa: F401
        import gen_tf  # noqa: F401
        import gen_zero  # noqa: F401

        common.build(sys.argv[1])
    else:
        sys.exit(__doc__)
