#!/bin/sh
# Installs what libpg needs on Debian 12 or Ubuntu 24.04, builds it in build/ and then
#
#   sh tools/setup.sh demo    shows the main job on the test files that come with it
#   sh tools/setup.sh test    runs the tests
#
# What stands behind goes to meson setup: -Dcuda=disabled leaves NVIDIA's compiler out, where there is one.
#
# As root, or as a user who may sudo. Packages that are there are not asked for again, so a second run
# needs no network. No GPU, no Python but the interpreter that meson brings.
set -eu
cd "$(dirname "$0")/.."

build_packages="gcc libc6-dev meson pkg-config libhdf5-dev zlib1g-dev libjansson-dev libzip-dev libdnnl-dev libpng-dev libjpeg-dev lowdown"
test_packages="libcmocka-dev hdf5-tools libopenmpi-dev openmpi-bin libmpich-dev mpich"

what=${1:-}
case "$what" in
demo) packages=$build_packages ;;
test) packages="$build_packages $test_packages" ;;
*)
    sed -n '4,5s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
shift

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

missing() {
    for p in $packages; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || echo "$p"
    done
}

if ! command -v dpkg-query >/dev/null; then
    echo "setup.sh: this is no Debian or Ubuntu; install what stands for: $packages" >&2
elif [ -n "$(missing)" ]; then
    echo "installing: $(missing | tr '\n' ' ')"
    as_root apt-get update -q
    # shellcheck disable=SC2046
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $(missing) || {
        echo "setup.sh: packages could not be installed; on Ubuntu they are in \"universe\"" >&2
        exit 1
    }
fi

# A build folder that an older run made without the tests is told about them.
tests=$([ "$what" = test ] && echo true || echo false)
if [ ! -e build/build.ninja ]; then
    rm -rf build
    meson setup build --buildtype=release -Dtests="$tests" "$@"
elif [ "$what" = test ]; then
    meson configure build -Dtests=true
fi

if [ "$what" = demo ]; then
    meson compile -C build
    meson compile -C build demo
else
    meson compile -C build
    meson test -C build --print-errorlogs
fi
