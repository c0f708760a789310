#!/usr/bin/env bash
# What only a GPU can show: builds pg-cuda.so, runs the operations, golden runs, replicas, faults and the
# benchmark on a real device, prints a table and leaves logs; what steps should take is said beside what they
# do (predictions.md, by predict.py). What fails does not keep the rest from running, and all that is to be
# sent back lies in DIR.tar.gz in the end. Less than 8 minutes. Exit status: 0, 1 where something failed, 2 where
# nothing could be run, 77 without a GPU.
#
#   tests/gpu/run.sh [--quick] [--out DIR]
#       builds here, in build-gpu/. Wants what libpg is built with (README), nvcc, cuDNN and NCCL: in
#       $CUDA_HOME or /usr/local/cuda, or as Python packages (nvidia-*) beside python3. --quick leaves the
#       benchmark out. It measures PyTorch and JAX too where python3 has them, and what it had no time for
#       when it is run again with the same DIR.
#   tests/gpu/run.sh --pack DIR [--libraries] [--meson FOLDER]
#       builds here, without a GPU, and puts into DIR all that another machine needs but CUDA, cuDNN and
#       NCCL: where meson, libhdf5 or cmocka are not there. --libraries: those too, which NVIDIA lets be
#       passed on with a program: the other machine then needs nothing but the driver. --meson: builds in
#       a folder that meson has set up already. Then, there:
#   DIR/run.sh [--quick] [--out DIR]
#   --try FILE: with FILE for pg-cuda.so and without a GPU, to see that this script runs
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out= quick= pack= try= libraries= meson=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --libraries) libraries=1 ;;
    --out | --pack | --try | --meson) [ $# -gt 1 ] || { echo "run.sh: $1 wants a name" >&2; exit 2; }
        declare "${1#--}=$2"; shift ;;
    *) sed -n '2,21s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
die() { echo "run.sh: $*" >&2; exit 2; }

# ---- CUDA, cuDNN, NCCL ----

python_parts() { # folders of nvidia-* packages: one for each library, or one for all of a CUDA version
    command -v python3 >/dev/null && python3 -c 'import glob, sys
print("\n".join(d for p in sys.path if p for d in sorted(glob.glob(p + "/nvidia/*/"))))'
}
toolkits() { printf '%s\n' "$here/cuda" "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-* /usr | grep . ; }
has_library() { compgen -G "$1/$2.so*" >/dev/null; }

# The folders with libraries that programs are to find, most wanted first.
library_path() {
    local d lib found=
    for lib in libcudart libcublasLt libcudnn libnccl libnvrtc; do # the last for kernels that cuDNN compiles
        for d in $(toolkits | sed 's#$#/lib64#') $(python_parts | sed 's#$#lib#') /usr/lib/x86_64-linux-gnu; do
            has_library "$d" $lib || continue
            case $found: in *":$d:"*) ;; *) found=$found:$d ;; esac
            break
        done
    done
    echo "${found#:}"
}

# One folder as a toolkit is: links to the headers and libraries of all parts, and names to link by.
make_root() {
    local root=$1 part f name
    mkdir -p "$root/include" "$root/lib64"
    for part in $(toolkits) $(python_parts); do
        [ "$part" = /usr ] && continue
        for f in "$part"/include/* ; do [ -e "$f" ] && [ ! -e "$root/include/${f##*/}" ] && ln -s "$f" "$root/include/"; done
        for f in "$part"/lib64/*.so* "$part"/lib/*.so*; do
            [ -e "$f" ] || continue
            [ -e "$root/lib64/${f##*/}" ] || ln -s "$f" "$root/lib64/"
            name=${f##*/}
            [ -e "$root/lib64/${name%%.so*}.so" ] || ln -s "$f" "$root/lib64/${name%%.so*}.so"
        done
    done
    [ -e "$root/include/cudnn.h" ] || [ -e /usr/include/cudnn.h ] || die "cuDNN's headers are not there: install libcudnn9-dev-cuda-13, or nvidia-cudnn-cu13 for Python"
    [ -e "$root/include/nccl.h" ] || [ -e /usr/include/nccl.h ] || die "NCCL's headers are not there: install libnccl-dev, or nvidia-nccl-cu13 for Python"
}
nvcc_on_path() {
    local d
    for d in $(toolkits) $(python_parts); do
        [ -x "$d/bin/nvcc" ] && PATH=$d/bin:$PATH && return
    done
    command -v nvcc >/dev/null || die "nvcc is not there: install the CUDA Toolkit, or set CUDA_HOME"
}

# ---- building ----

programs=(tools/pgfit tools/pgcheck tests/gpu/gpu_ops tests/gpu/gpu_profile tests/backend/cuda/backend_cuda_test_cuda_golden
    tests/backend/cuda/backend_cuda_test_cuda_mixed)
set_up() { # folder, more options
    local dir=$1 source
    shift
    source=$(cd "$here/../.." && pwd)
    command -v meson >/dev/null && command -v ninja >/dev/null ||
        die "meson and ninja are not there: install them, or build elsewhere with --pack"
    nvcc_on_path
    rm -rf "$dir/cuda" && make_root "$dir/cuda"
    if [ ! -e "$dir/build/build.ninja" ]; then
        meson setup "$dir/build" "$source" --buildtype=release -Dcuda=enabled -Dgpu_root="$dir/cuda" -Donednn=disabled \
            -Dpng=disabled -Djpeg=disabled "$@" >"$dir/setup.log" 2>&1 || { tail -3 "$dir/setup.log" >&2; die "meson setup failed: $dir/setup.log"; }
    fi
}
build() { # folder of meson
    ninja -C "$1" "${programs[@]}" libpg/backend/cuda/pg-cuda.so >"$1/ninja.log" 2>&1 || { grep -m5 -E 'error|FAILED' "$1/ninja.log" >&2; die "ninja failed: $1/ninja.log"; }
}
gather() { # build folder, folder: programs, and the libraries that they want beside the C library's and CUDA's
    local b=$1 to=$2 f
    mkdir -p "$to/bin" "$to/exe" "$to/lib" "$to/testdata"
    for f in "${programs[@]}"; do cp "$b/$f" "$to/exe/"; done
    strip "$to"/exe/* 2>/dev/null
    cp "$b"/libpg/backend/cuda/pg-cuda.so "$to/lib/"
    for f in "$to"/exe/*; do ldd "$f"; done | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
        grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' | while read -r f; do cp -L "$f" "$to/lib/"; done
    for f in "$to"/exe/*; do # what is carried along is for these alone, not for python3
        cat >"$to/bin/${f##*/}" <<'END'
#!/bin/sh
d=$(dirname "$0")/..
exec env LD_LIBRARY_PATH="$d/lib${GPU_LIBRARIES:+:$GPU_LIBRARIES}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$d/exe/${0##*/}" "$@"
END
        chmod +x "$to/bin/${f##*/}"
    done
}
# What the plug-in links to, and what those open by name: the whole of cuDNN, NVRTC with its parts.
bring_libraries() { # folder
    local f
    mkdir -p "$1/cuda/lib64"
    for f in $(library_path | tr : '\n' | sed 's#$#/lib*.so.[0-9]*#'); do
        case ${f##*/} in
        libcudart.so.* | libcublas.so.* | libcublasLt.so.* | libcudnn*.so.* | libnccl.so.* | libnvrtc*.so.* | libnvJitLink.so.*)
            cp -L "$f" "$1/cuda/lib64/" || die "$f was not copied" ;;
        esac
    done
}
if [ -n "$pack" ]; then
    mkdir -p "$pack" || exit 2
    if [ -z "$meson" ]; then
        mkdir -p "$here/../../build-gpu" && dir=$(cd "$here/../../build-gpu" && pwd) || exit 2
        set_up "$dir"
        meson=$dir/build
    fi
    build "$meson"
    gather "$meson" "$pack"
    cp -r "$here/run.sh" "$here/bench.py" "$here/predict.py" "$here/predictions.md" "$here/scaling.py" "$here/models" "$here/peers" "$pack/"
    cp -r "$here/../../testdata/golden" "$pack/testdata/"
    [ -z "$libraries" ] || bring_libraries "$pack"
    echo "$pack: $(du -sh "$pack" | cut -f1); on a machine with a GPU: $pack/run.sh"
    exit 0
fi

[ -n "$try" ] || nvidia-smi -L >/dev/null 2>&1 || compgen -G '/dev/nvidia[0-9]*' >/dev/null || { echo "run.sh: no GPU" >&2; exit 77; }
[ -d "$here/bin" ] && out=${out:-$here/out}
out=${out:-$here/../../build-gpu/out}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
rm -f "$out"/*.log "$out/table"
GPU_LIBRARIES=$(library_path)
export GPU_LIBRARIES
begun=$SECONDS
if [ -d "$here/bin" ]; then
    bin=$here/bin data=$here/testdata/golden
    export PG_CUDA_PLUGIN=$here/lib/pg-cuda.so # beside them, or in the package that they are in
    [ -e "$PG_CUDA_PLUGIN" ] || export PG_CUDA_PLUGIN=$here/../pg-cuda.so
    pgfit=$bin/pgfit golden=$bin/backend_cuda_test_cuda_golden mixed=$bin/backend_cuda_test_cuda_mixed ops=$bin/gpu_ops profile=$bin/gpu_profile
else
    mkdir -p "$here/../../build-gpu" && dir=$(cd "$here/../../build-gpu" && pwd)
    sm=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
    set_up "$dir" ${sm:+-Dgpu_arch="$sm"}
    build "$dir/build"
    data=$here/../../testdata/golden
    pgfit=$dir/build/tools/pgfit ops=$dir/build/tests/gpu/gpu_ops profile=$dir/build/tests/gpu/gpu_profile
    golden=$dir/build/tests/backend/cuda/backend_cuda_test_cuda_golden
    mixed=$dir/build/tests/backend/cuda/backend_cuda_test_cuda_mixed
    export PG_CUDA_PLUGIN=$dir/build/libpg/backend/cuda/pg-cuda.so
fi
data=$(cd "$data" && pwd)
[ -n "$try" ] && export PG_CUDA_PLUGIN=$try FAKE_CUDA_NAME="GPU of plain C"

# ---- the table ----

bad=0
row() { # name, result, seconds, what there is to say
    printf '%-28s %-7s %4ds  %s\n' "$1" "$2" "$3" "$4" | tee -a "$out/table"
    [ "$2" = ok ] || [ "$2" = left ] || bad=1
}
why() { # log: the line that says most
    local words
    for words in '^alone, ' '^pgfit: ' 'error|cuda:'; do
        grep -m1 -iE -- "$words" "$1" | cut -c1-400 | grep . && return
    done
}
try() { # name, seconds at most, command...: is right where it ends with 0
    local name=$1 most=$2 log=$out/${1//[ :,]/-}.log t=$SECONDS rc=0
    shift 2
    timeout -k 5 "$most" "$@" >"$log" 2>&1 || rc=$?
    case $rc in
    0) row "$name" ok $((SECONDS - t)) "$(grep -v '^\[' "$log" | tail -1 | cut -c1-90)" ;;
    124) row "$name" LATE $((SECONDS - t)) "stopped after $most s: $log" ;;
    *) row "$name" FAILED $((SECONDS - t)) "exit $rc: $(why "$log") ($log)" ;;
    esac
}
refuses() { # name, exit status, words of the message, command...
    local name=$1 status=$2 words=$3 log=$out/${1//[ :,]/-}.log t=$SECONDS rc=0
    shift 3
    timeout -k 5 60 "$@" >"$log" 2>&1 || rc=$?
    if [ $rc -eq "$status" ] && grep -qF -- "$words" "$log"; then
        row "$name" ok $((SECONDS - t)) "$(tail -1 "$log" | cut -c1-90)"
    else
        row "$name" FAILED $((SECONDS - t)) "exit $rc, not $status with \"$words\": $(tail -1 "$log" | cut -c1-60)"
    fi
}

{
    nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader
    uname -srm
    echo "libraries: $GPU_LIBRARIES"
} 2>/dev/null | tee "$out/device.log"

# A GPU does nothing more for a process in which one kernel failed. Where all together fail, each goes by
# itself: the last line names those that fail then, too.
apart() { # variable that names one, command that lists all, command...
    local variable=$1 list=$2 one failed= n=0
    shift 2
    timeout -k 5 90 "$@" && return
    for one in $(eval "$list"); do
        n=$((n + 1))
        env "$variable=$one" timeout -k 5 20 "$@" >"$out/one" 2>&1 || { failed="$failed $one" && cat "$out/one"; }
    done
    echo "alone, $(wc -w <<<"$failed") of $n fail:$failed"
    return 1
}
operations() { apart PG_ONLY_OP '"$ops" list' "$ops" "$1"; }
# shellcheck disable=SC2016 # read when they run
tests_of() { apart PG_ONLY_TEST "env PG_LIST_TESTS=1 '$1'" "$1" "$data/.."; }
export -f apart operations tests_of
export ops data out
for precision in float32 tf32 bfloat16 float16; do
    try "operations $precision" 200 bash -c "operations $precision"
done
try 'golden runs' 200 bash -c "tests_of '$golden'"
try 'mixed precision' 200 bash -c "tests_of '$mixed'"
# The same with what only saves time (pgfit --gpu-tune).
export PG_TUNE=1
try 'tuned: bfloat16' 200 bash -c 'operations bfloat16'
try 'tuned: float16' 200 bash -c 'operations float16'
try 'tuned: golden runs' 200 bash -c "tests_of '$golden'"
try 'tuned: mixed precision' 200 bash -c "tests_of '$mixed'"
unset PG_TUNE

# One set of weights, whatever the number of replicas.
fit() { # devices, file, how
    "$pgfit" "$data/cnn_bn/model.json" --data "$data/cnn_bn/data.npz" --weights "$data/cnn_bn/init_weights.h5" \
        --loss categorical_crossentropy --optimizer sgd:learning_rate=0.05 --batch-size 24 --epochs 2 ${3---deterministic} \
        --devices "$1" -o "$2" --force
}
replicas() {
    local n devices=
    for n in 1 2 3 4; do
        devices=$devices${devices:+,}cuda:0
        fit "$devices" "$out/replicas$n.safetensors" || return 1
        cmp "$out/replicas1.safetensors" "$out/replicas$n.safetensors" || return 1
    done
    echo "1, 2, 3 and 4 on cuda:0 give the same bits"
}
export -f fit replicas
export pgfit data out
try 'replicas' 90 bash -c replicas
try 'equal runs' 60 bash -c 'fit cuda:0 "$out/again.safetensors" && cmp "$out/replicas1.safetensors" "$out/again.safetensors" && echo "equal bits"'
try 'tuned: equal runs' 60 bash -c 'fit cuda:0 "$out/again.safetensors" "--deterministic --gpu-tune" && cmp "$out/replicas1.safetensors" "$out/again.safetensors" && echo "equal bits"'
if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -gt 1 ]; then
    try 'two GPUs' 60 bash -c 'fit cuda:0,cuda:1 "$out/two.safetensors" && cmp "$out/replicas1.safetensors" "$out/two.safetensors" && echo "equal bits"'
else
    row 'two GPUs' left 0 "there is one"
fi

# Two processes, started as torchrun does: each has the GPU of its local rank, or both the same one.
two_ranks() { # devices, file, how
    local r pids=() rc=0
    for r in 0 1; do
        RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 TORCHELASTIC_RUN_ID=$$ \
            fit "$1" "$2" "$3" & pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || rc=$?; done
    return $rc
}
export -f two_ranks
if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -gt 1 ] || [ -n "$try" ]; then
    try 'two ranks, by the hosts' 60 bash -c 'two_ranks auto "$out/ranks.safetensors" --deterministic && cmp "$out/replicas1.safetensors" "$out/ranks.safetensors" && echo "equal bits"'
    try 'two ranks, NCCL' 60 bash -c 'two_ranks auto "$out/nccl.safetensors" "" && echo "both ended well"'
    try 'tuned: two ranks, NCCL' 60 bash -c 'two_ranks auto "$out/nccl.safetensors" --gpu-tune && echo "both ended well"'
else
    row 'two ranks' left 0 "there is one GPU"
fi
refuses 'two ranks of one GPU' 3 'have the same GPU' bash -c 'two_ranks cuda:0 "$out/same.safetensors" ""'

# Two towers of one LSTM, and layers one behind the other, where they are placed.
place() { # model, file, placement
    "$pgfit" "$data/$1/model.json" --data "$data/$1/data.npz" --weights "$data/$1/init_weights.h5" \
        --loss categorical_crossentropy --optimizer adam --batch-size 32 --epochs 1 --deterministic --devices cuda:0 \
        ${3:+--place "$3"} -o "$2" --force
}
placed() { # two devices
    local run other=$1
    for run in 'siamese shared_lstm#1' 'mlp_digits fc2'; do
        place "${run% *}" "$out/one.safetensors" || return 1
        place "${run% *}" "$out/placed.safetensors" "${run#* }=$other" || return 1
        cmp "$out/one.safetensors" "$out/placed.safetensors" || return 1
    done
    echo "layers on cuda:0 and $other give the bits of cuda:0"
}
export -f place placed
try 'placed layers, one GPU' 60 bash -c 'placed cuda:0.1'
if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -gt 1 ] || [ -n "$try" ]; then
    try 'placed layers, two GPUs' 60 bash -c 'placed cuda:1'
else
    row 'placed layers, two GPUs' left 0 "there is one"
fi

small=("$pgfit" "$data/mlp_digits/model.json" --data "$data/mlp_digits/data.npz" --loss categorical_crossentropy)
refuses 'no such device' 2 'cuda:99 does not exist' "${small[@]}" --devices cuda:99
refuses 'no plug-in' 3 'does not exist' env PG_CUDA_PLUGIN=/nowhere/pg-cuda.so "${small[@]}" --devices cuda:0
finish() {
    rm -f "$out/one"
    row 'all' "$([ $bad -eq 0 ] && echo ok || echo FAILED)" $((SECONDS - begun)) "$out"
    tar -czf "$out.tar.gz" -C "$(dirname "$out")" --exclude='*.npz' --exclude='*.safetensors' "$(basename "$out")" && echo "send back: $out.tar.gz"
    exit $bad
}
[ -z "$try" ] || finish
refuses 'no device to be seen' 3 'CUDA_VISIBLE_DEVICES' env CUDA_VISIBLE_DEVICES= "${small[@]}" --devices cuda:0
refuses 'no device to be seen, -1' 3 'CUDA_VISIBLE_DEVICES' env CUDA_VISIBLE_DEVICES=-1 "${small[@]}" --devices cuda:0
# 32 rows of 1024 x 1024 cells and 4096 filters: 512 GiB.
command -v python3 >/dev/null && python3 - "$out" <<'END'
import io, json, struct, sys, zipfile
conv = {'class_name': 'Conv2D', 'config': {'name': 'conv', 'filters': 4096, 'kernel_size': [1, 1],
        'batch_input_shape': [None, 1024, 1024, 1]}}
pool = {'class_name': 'GlobalAveragePooling2D', 'config': {'name': 'pool'}}
model = {'class_name': 'Sequential', 'keras_version': '2.15.0', 'backend': 'tensorflow',
         'config': {'name': 'm', 'layers': [conv, pool]}}
open(sys.argv[1] + '/large.json', 'w').write(json.dumps(model))
with zipfile.ZipFile(sys.argv[1] + '/large.npz', 'w', zipfile.ZIP_DEFLATED) as z:
    for name, shape in (('x0', '(32, 1024, 1024, 1)'), ('y0', '(32, 4096)')):
        head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
        head += ' ' * (63 - (10 + len(head)) % 64) + '\n'
        n = 1
        for d in shape.strip('()').split(','):
            n *= int(d)
        z.writestr(name + '.npy', b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + bytes(n))
END
if [ -e "$out/large.npz" ]; then
    refuses 'out of memory' 2 '(layer conv: ' "$pgfit" "$out/large.json" --data "$out/large.npz" --loss mse --devices cuda:0
else
    row 'out of memory' left 0 'there is no python3'
fi

# What eight GPUs would do, from the times of this one's calls; sums' times are assumed (scaling.py).
scaling() {
    "$profile" "$here/models/resnet50.json" "$1" 64 cuda:0 >"$out/profile.json" && python3 "$here/scaling.py" "$out/profile.json"
}
export -f scaling
export profile here
if command -v python3 >/dev/null; then
    try 'scaling of ResNet-50' 60 bash -c 'scaling sparse_categorical_crossentropy'
else
    row 'scaling of ResNet-50' left 0 'there is no python3'
fi

if [ -n "$quick" ]; then
    row benchmark left 0 '--quick'
elif ! python3 -c 'import numpy' 2>/dev/null; then
    row benchmark left 0 'python3 has no numpy'
else
    left=$((450 - (SECONDS - begun)))
    t=$SECONDS rc=0
    python3 "$here/bench.py" --pgfit "$pgfit" --seconds $((left - 20)) --out "$out/bench.jsonl" >"$out/bench.log" 2>&1 || rc=$?
    row benchmark "$([ $rc -eq 0 ] && echo ok || echo FAILED)" $((SECONDS - t)) "$out/bench.jsonl"
    cat "$out/bench.log"
fi
if command -v compute-sanitizer >/dev/null && [ -z "$quick" ] && [ $((SECONDS - begun)) -lt 420 ]; then
    try 'compute-sanitizer' 55 compute-sanitizer --error-exitcode 9 "${small[@]}" --devices cuda:0 --epochs 1
fi
finish
