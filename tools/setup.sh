#!/bin/sh
# Installs what libpg needs on Debian 12 or Ubuntu 24.04, builds it in build/ and then
#
#   sh tools/setup.sh demo    shows the main job on test files from the tree
#   sh tools/setup.sh test    runs the tests
#   sh tools/setup.sh wheel   builds nothing there, but Python wheels and their sources in build/dist/: see tools/packaging/wheel/make
#   sh tools/setup.sh deb     the same for Debian packages: see tools/packaging/debian/make
#   sh tools/setup.sh container    the same for a container image: see tools/packaging/container/make
#   sh tools/setup.sh web     makes the page that repairs files in a browser, in build/web/: see tools/web/make
#
# Further arguments go to meson setup: -Dcuda=disabled does not use an installed CUDA compiler.
#
# Run it as root, or as a user who may sudo. It does not install packages again, so a second run needs
# no network. It needs no GPU, and no Python except for the interpreter that meson installs.
set -eu
cd "$(dirname "$0")/.."

build_packages="gcc libc6-dev meson pkg-config libhdf5-dev zlib1g-dev libjansson-dev libzip-dev libdnnl-dev libpng-dev libjpeg-dev libzstd-dev lowdown"
test_packages="libcmocka-dev hdf5-tools libopenmpi-dev openmpi-bin libmpich-dev mpich"

what=${1:-}
case "$what" in
demo) packages=$build_packages ;;
test) packages="$build_packages $test_packages" ;;
wheel | deb) packages="git debootstrap" ;;
container) packages="git debootstrap buildah" ;;
web) packages="meson pkg-config emscripten nodejs cmake dpkg-dev" ;;
*)
    sed -n '4,9s/^# *//p' "$0" >&2
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
    echo "setup.sh: this is neither Debian nor Ubuntu; install the equivalents of: $packages" >&2
elif [ -n "$(missing)" ]; then
    echo "installing: $(missing | tr '\n' ' ')"
    as_root apt-get update -q
    # shellcheck disable=SC2046
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $(missing) || {
        echo "setup.sh: could not install packages; on Ubuntu they are in \"universe\"" >&2
        exit 1
    }
fi

case $what in
wheel | container)
    as_root env "XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}" sh "tools/packaging/$what/make"
    exit
    ;;
web)
    mkdir -p build
    sh tools/web/make "$PWD/build"
    exit
    ;;
deb)
    as_root env "XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}" sh tools/packaging/debian/make "$@"
    exit
    ;;
esac

# An earlier run may have configured the build folder without tests.
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
