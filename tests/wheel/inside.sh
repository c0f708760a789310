#!/bin/sh
# Within a bare root of run.sh: installs the wheel of /try as a person would, and uses what it brought. /tmp is a tmpfs.
# shellcheck disable=SC1091,SC2154,SC2317 # checks.sh lies beside it in the root; functions are called by name
set -eu
. /try/checks.sh
no_compiler() { for c in cc gcc clang tcc; do ! command -v "$c" || return 1; done; }
pip() { /tmp/v/bin/pip --disable-pip-version-check "$@"; }

cd /tmp
. /etc/os-release
check "no compiler" no_compiler
check "a venv" python3 -m venv v
check "pip install" pip install -q /try/*.whl
bin=/tmp/v/bin
check "pginfo FILE" says 'parallel wrapper: 2 replicas' $bin/pginfo /try/parallel.h5
check "import pgfit" $bin/python -c 'import pgfit'
for t in pgcheck pgconvert pgdiff pgfit pginfo pgjoin pgsplit pgunwrap pgwrap; do
    check "$t --version" says '^'$t $bin/$t --version
    check "$t is a program, not a script" sh -c "head -c 4 $bin/$t | grep -q ELF"
    check "$t finds its libraries" sh -c "! ldd $bin/$t | grep 'not found'"
    check "manual of $t" test -s v/share/man/man1/$t.1
    check "completion of $t" test -s v/share/bash-completion/completions/$t -a -s v/share/zsh/site-functions/_$t -a -s \
        v/share/fish/vendor_completions.d/$t.fish
done
for page in pg pg-formats pg-training; do check "manual $page" test -s v/share/man/man7/$page.7; done
check "pgunwrap" says 'checksums equal' $bin/pgunwrap /try/parallel.h5 single.h5
check "pgdiff" $bin/pgdiff single.h5 /try/parallel.h5
for saved in dcp-fsdp2 orbax-ocdbt zero3; do
    check "pgjoin of $saved" says 'checksums equal' $bin/pgjoin /try/modern/$saved/ckpt $saved.safetensors
    check "$saved, as its framework has it" $bin/pgdiff -q $saved.safetensors /try/modern/$saved/expected.safetensors
done
check "pgconvert of TensorFlow's" says 'bit-equal' $bin/pgconvert --model /try/modern/tf-save-weights/model.json /try/modern/tf-save-weights/w tf.h5
check "as TensorFlow has it" $bin/pgdiff -q tf.h5 /try/modern/tf-save-weights/expected_model.h5
check "pgfit --demo" $bin/pgfit --demo digits --devices cpu:0,cpu:1 --epochs 2 -o digits.h5
case $(uname -m) in
x86_64) onednn='oneDNN 3' others='manylinux_2_28_x86_64 manylinux_2_31_aarch64' ms=10 gpu='^try: pip install pgfit-cuda13$' ;;
*) onednn='^pgfit' others='manylinux_2_28_aarch64 manylinux_2_31_x86_64' ms=5000 gpu='built without CUDA' ;; # under qemu
esac
check "pgfit computes with oneDNN" says "$onednn" $bin/pgfit --version
check "a GPU: the package of pg-cuda.so is named" refuses 3 "$gpu" $bin/pgfit --demo digits --devices cuda:0 -o gpu.h5
if [ -e "$(echo /try/cuda/*.whl)" ]; then
    check "pip install pgfit-cuda13 --no-deps" pip install -q --no-deps /try/cuda/*.whl
    check "pgfit knows pg-cuda.so" says 'plug-in pg-cuda.so' $bin/pgfit --version
    check "NVIDIA's libraries are missing: named" refuses 3 'cuda:0: the GPU part of libpg needs libcu[a-zA-Z]*.so.[0-9]*, which is missing: install' \
        $bin/pgfit --demo digits --devices cuda:0 -o gpu.h5
    check "and how to have them" refuses 3 '^try: pip install pgfit-cuda13$' $bin/pgfit --demo digits --devices cuda:0 -o gpu.h5
    check "pip says so, too" refuses 1 'pgfit-cuda13 .* requires nvidia-cudnn-cu13' /tmp/v/bin/pip check
    check "pip uninstall pgfit-cuda13" pip uninstall -q -y pgfit-cuda13
fi
check "licences" test -s "$(echo v/lib/python3*/site-packages/pgfit/licenses)/hdf5.txt"

cat >library.py <<'END'
import ctypes, pgfit._library
lib = ctypes.CDLL(pgfit._library.path())
lib.pg_version.restype = ctypes.c_char_p
print('libpg', lib.pg_version().decode())
for hidden in ('H5open', 'json_loads', 'zip_open', 'inflate', 'png_create_info_struct', 'jpeg_read_header', 'ZSTD_decompress'):
    assert not hasattr(lib, hidden), hidden + ' is visible'
END
check "libpg.so from Python" says '^libpg 0' $bin/python library.py
cat >start.py <<'END'
import subprocess, sys, time
def once():
    begin = time.perf_counter()
    subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin
ms = 1000 * min(once() for _ in range(31)) # others may use the processors meanwhile
print(f'pginfo starts in {ms:.1f} ms')
sys.exit(ms >= int(sys.argv[1]))
END
check "pginfo starts in less than $ms ms" $bin/python start.py $ms $bin/pginfo --version
grep -s '^pginfo starts' said || true

# Where the system is too old, or the processor another, pip says so itself.
for other in $others; do
    check "pip refuses the wheel for $other" sh -c "! $bin/pip install -q --no-deps --only-binary=:all: --platform $other --target other /try/*.whl 2>&1 |
        grep -c 'not a supported wheel' | grep -q '^0'"
done
if command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    check "pgfit by Open MPI" says '2 ranks (Open MPI' mpirun.openmpi -np 2 $bin/pgfit --demo digits --epochs 1 -o openmpi.h5
    check "pgfit by MPICH" says '2 ranks (MPICH' mpirun.mpich -np 2 $bin/pgfit --demo digits --epochs 1 -o mpich.h5
    check "both compute the same" cmp openmpi.h5 mpich.h5
elif [ "$(uname -m)" = x86_64 ]; then # the other wheel has no plug-ins for MPI
    check "no MPI here: said with its library" sh -c "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 $bin/pgfit --demo digits --epochs 1 -o mpi.h5 2>&1 |
        grep 'libmpi.so.40'"
fi
# Elsewhere than in an environment: files of the user, a folder of its own, the wheel only unpacked.
check "pip install --target" pip install -q --no-deps --target away /try/*.whl
check "pginfo of --target" says 'parallel wrapper' away/bin/pginfo /try/parallel.h5
check "pgfit of --target" says "$onednn" away/bin/pgfit --version
check "libpg.so of --target" env PYTHONPATH=/tmp/away python3 -c 'import ctypes, pgfit._library; ctypes.CDLL(pgfit._library.path())'
check "unpacked" $bin/python -m zipfile -e /try/*.whl unpacked
check "pgfit unpacked" sh -c 'cd unpacked/*.data/scripts && chmod +x pgfit && ./pgfit --version'
check "pip uninstall" pip uninstall -q -y pgfit
check "nothing is left" sh -c '! find v -type f -name "*pg*" | grep -E "bin/pg|libpg|pgfit"'
[ "$failed" -eq 0 ] && echo "ok: $PRETTY_NAME, $(python3 --version)"
exit "$failed"
