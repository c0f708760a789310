#!/bin/sh
# Tries the wheel of build/dist on bare Debian roots, which have Python's venv and no compiler.
#
#   tests/wheel/run.sh [SUITE]...      bullseye, bookworm and trixie if none is named
#
# `sh tools/setup.sh wheel` makes the wheel. Needs root rights; the roots are made once, in ${XDG_CACHE_HOME:-~/.cache}/libpg-wheel,
# and stay as they are: what a run installs is in a tmpfs. NumPy comes from where pip of this machine has its packages. A root
# whose name ends in -mpi (bookworm-mpi) has Open MPI and MPICH, and trains on both. One in -cuda (bullseye-cuda) keeps NVIDIA's
# libraries, 3 GB, and tries pgfit-cuda13 on them (cuda.sh); that needs no GPU. One in -arm64 is for the other wheel: programs run
# by qemu, if the packages qemu-user-static and binfmt-support are there.
set -eu
cd "$(dirname "$0")/../.."
. tools/packaging/root.sh
base=${XDG_CACHE_HOME:-$HOME/.cache}/libpg-wheel
[ $# -gt 0 ] || set -- bullseye bookworm trixie

passed=0 failed=0
for suite; do
    root=$base/$suite
    more='' script=inside.sh debian=${suite%-*} machine=x86_64
    case $suite in
    *-mpi) more="openmpi-bin mpich openssh-client" ;;
    *-cuda) script=cuda.sh ;;
    *-arm64) debian=$debian/arm64 machine=aarch64 ;;
    esac
    wheel=$(echo build/dist/pgfit-*-py3-none-manylinux_*_$machine.whl)
    [ -e "$wheel" ] || {
        echo "there is no wheel in build/dist: sh tools/setup.sh wheel" >&2
        exit 2
    }
    # shellcheck disable=SC2086
    root_make "$debian" "$root" python3-venv $more
    rm -rf "$root/try"
    mkdir -p "$root/try/cuda" "$root/try/driver"
    cp "$wheel" tests/wheel/checks.sh "tests/wheel/$script" "$root/try/"
    cp build/dist/pgfit_cuda13-*_$machine.whl "$root/try/cuda/" 2>/dev/null || true # where nvcc was not to be had there is none
    [ $script != cuda.sh ] || cc -shared -fPIC -o "$root/try/driver/libcuda.so.1" tests/backend/cuda/old_driver.c
    cp testdata/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5 "$root/try/parallel.h5"
    cp -r testdata/files/keras-2.2.4/cnn4-g2 "$root/try/cnn4"
    mkdir "$root/try/modern"
    cp -r testdata/modern/dcp-fsdp2 testdata/modern/orbax-ocdbt testdata/modern/tf-save-weights testdata/modern/zero3 "$root/try/modern/"
    echo "--- $suite"
    if root_run "$root" sh /try/$script; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    rm -rf "$root/try"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
