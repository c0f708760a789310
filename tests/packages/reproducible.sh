#!/bin/sh
# Builds the wheels and the Debian packages of the commit a second time, later and with another umask. Their bytes must be those of
# the first build, which is what build/dist has.
#
# The Debian packages come from another folder, with a cache of the compiler of its own: each of their objects was compiled twice, at
# two times, in two folders. The wheels never see another folder than /build of their root, and their objects come from the cache of
# the compiler: they are the same sources, for the same kind of compiler. What only wheels have is done again: the source
# distribution, links, patchelf, the archives' order, times and permissions.
#
#   tests/packages/reproducible.sh [wheel|debian]...      both if none is named
#
# `sh tools/setup.sh wheel` and `sh tools/setup.sh deb` made build/dist of the same commit. Needs root rights.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- wheel debian
first=$(mktemp -d)
trap 'rm -rf "$first"' EXIT
umask 027
rc=0 n=0
for kind; do
    echo "--- $kind, again"
    mkdir "$first/$kind"
    case $kind in
    wheel)
        mv build/dist/pgfit[-_]* "$first/wheel/"
        sh tools/packaging/wheel/make
        ;;
    debian)
        mv build/dist/libpg[0_-]* build/dist/pg-*.deb build/dist/python3-pgfit_* "$first/debian/"
        sh tools/packaging/debian/make --at /srv/elsewhere
        ;;
    *) exit 2 ;;
    esac
    for file in "$first/$kind"/*; do
        n=$((n + 1))
        cmp "$file" "build/dist/${file##*/}" || rc=1
    done
done
[ "$rc" -ne 0 ] || echo "$n files are equal, byte for byte"
exit "$rc"
