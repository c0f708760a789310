"""python -m pgfit.gpu_check [--pack DIR] [--quick] [--out DIR]: tries this machine's GPU with libpg's own tests.

It runs every operation, training runs of real Keras, replicas, faults and a benchmark on the GPU, prints one table, and leaves
DIR.tar.gz (--out; gpu-check here) to send back: less than eight minutes. The checks are in the wheel pgfit-cuda13, or in the
folder that `tests/gpu/run.sh --pack` made (--pack). --quick leaves the benchmark out. Exit status: 0, 1 where something failed,
2 where nothing could be run, 77 without a GPU."""
from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import sys
from typing import List, Optional, Tuple

_PLUGIN = "pgfit-cuda13"
# NVIDIA's wheels, and a library of each, in the folder `nvidia` beside the plug-in's package.
_WHEELS = (("nvidia-cuda-runtime", "cu13/lib/libcudart.so.13"), ("nvidia-cublas", "cu13/lib/libcublasLt.so.13"),
           ("nvidia-cudnn-cu13", "cudnn/lib/libcudnn.so.9"), ("nvidia-nccl-cu13", "nccl/lib/libnccl.so.2"),
           ("nvidia-cuda-nvrtc", "cu13/lib/libnvrtc.so.13"))


def _of_wheel() -> Tuple[Optional[pathlib.Path], str]:
    """The folder with the checks; or None, and what is missing in one line."""
    found = importlib.util.find_spec("pgfit_cuda13")
    if found is None or not found.submodule_search_locations:
        return None, "the wheel %s is not installed: pip install %s, or give --pack DIR" % (_PLUGIN, _PLUGIN)
    package = pathlib.Path(found.submodule_search_locations[0])
    missing = [wheel for wheel, library in _WHEELS if not (package.parent / "nvidia" / library).exists()]
    if missing:
        return None, "%s needs what is not installed: pip install %s" % (_PLUGIN, " ".join(missing))
    if not (package / "checks" / "run.sh").exists():
        return None, "this wheel %s has no checks in it: give --pack DIR, a folder that tests/gpu/run.sh --pack made" % _PLUGIN
    return package / "checks", ""


def _of_pack(folder: str) -> Tuple[Optional[pathlib.Path], str]:
    pack = pathlib.Path(folder).resolve()
    if not (pack / "run.sh").exists() or not (pack / "exe").is_dir():
        return None, "%s: not a folder that tests/gpu/run.sh --pack made" % folder
    return pack, ""


def main(argv: Optional[List[str]] = None) -> int:
    """Replaces this process by the checks, or says what is missing."""
    options = argparse.ArgumentParser(prog="python -m pgfit.gpu_check", description=__doc__.split("\n\n", 1)[1],
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pack", metavar="DIR", help="the folder with the checks (default: that of the wheel %s)" % _PLUGIN)
    options.add_argument("--quick", action="store_true", help="without the benchmark")
    options.add_argument("--out", metavar="DIR", default="gpu-check", help="for the logs (default gpu-check)")
    given = options.parse_args(argv)
    checks, why = _of_pack(given.pack) if given.pack else _of_wheel()
    if checks is None:
        print("pgfit.gpu_check: " + why, file=sys.stderr)
        return 2
    # They call python3: this one, with its packages, whatever else is installed.
    path = os.pathsep.join([os.path.dirname(os.path.abspath(sys.executable)), os.environ.get("PATH", os.defpath)])
    command = ["bash", str(checks / "run.sh"), "--out", os.path.abspath(given.out)] + ["--quick"] * given.quick
    os.environ["PATH"] = path
    os.execvp("bash", command)


if __name__ == "__main__":
    sys.exit(main())
