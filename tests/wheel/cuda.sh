#!/bin/sh
# Within a root of run.sh whose name ends in -cuda: installs the wheels of pgfit and pgfit-cuda13 with all that they need, and asks
# for a GPU where there is none. NVIDIA's packages stay in /opt/venv, ours go.
# shellcheck disable=SC1091,SC2154,SC2317 # checks.sh lies beside it in the root; functions are called by name
set -eu
. /try/checks.sh
v=/opt/venv
pip() { "$v/bin/pip" --disable-pip-version-check "$@"; }

cd /tmp
. /etc/os-release
[ -e "$(echo /try/cuda/*.whl)" ] || {
    echo "there is no wheel pgfit-cuda13 in build/dist" >&2
    exit 1
}
[ -x $v/bin/pip ] || python3 -m venv $v
check "pip install" pip install -q --no-cache-dir /try/*.whl /try/cuda/*.whl
check "pip check" says 'No broken requirements' pip check
site=$(echo $v/lib/python3*/site-packages)
check "all libraries are found" sh -c "! ldd $site/pgfit_cuda13/pg-cuda.so | grep 'not found'"
for library in cu13/lib/libcudart.so.13 cu13/lib/libcublasLt.so.13 cudnn/lib/libcudnn.so.9; do
    check "$library is NVIDIA's wheel's" sh -c "ldd $site/pgfit_cuda13/pg-cuda.so | grep '=> .*/nvidia/$library '"
done
check "NCCL, opened later" test -e "$site/nvidia/nccl/lib/libnccl.so.2"
check "NVRTC, opened later" test -e "$site/nvidia/cu13/lib/libnvrtc.so.13"
check "pgfit knows pg-cuda.so" says 'plug-in pg-cuda.so' $v/bin/pgfit --version
check "no driver" refuses 3 'cuda:0: no NVIDIA driver: libcuda.so.1 is missing' $v/bin/pgfit --demo digits --devices cuda:0 -o gpu.h5
check "a driver that is too old" refuses 3 'cuda:0: the NVIDIA driver is too old: it is for CUDA 11.4 and this build for 13.0' \
    env LD_LIBRARY_PATH=/try/driver $v/bin/pgfit --demo digits --devices cuda:0 -o gpu.h5
check "the device that --devices auto takes" says 'note: training on the CPU: .*libcuda.so.1' \
    $v/bin/pgfit --demo digits --devices auto --epochs 1 -o auto.h5
cat >gpu.py <<'END'
import numpy as np, pgfit
try:
    pgfit.fit('/try/cnn4/template.json', np.load('/try/cnn4/x0.npy'), np.load('/try/cnn4/y0.npy'), loss='mse', devices='cuda:0')
except pgfit.Error as e:
    print(e)
END
check "the checks for a GPU" refuses 77 'run.sh: no GPU' $v/bin/python -m pgfit.gpu_check
check "their programs start" says '^lstm$' "$site/pgfit_cuda13/checks/bin/gpu_ops" list
check "the same from Python" says 'no NVIDIA driver: libcuda.so.1 is missing' $v/bin/python gpu.py
check "pip uninstall" pip uninstall -q -y pgfit pgfit-cuda13
check "nothing is left" sh -c "! find $v -type f | grep pgfit"
[ "$failed" -eq 0 ] && echo "ok: pgfit-cuda13 on $PRETTY_NAME, $(python3 --version)"
exit "$failed"
