#!/bin/sh
# Builds the wheel and the Debian packages of the commit again, elsewhere, at another time, with another umask, and without what the
# compiler had cached: their bytes must be those of build/dist.
#
#   tests/packages/reproducible.sh [wheel|debian]...      both if none is named
#
# `sh tools/setup.sh wheel` and `sh tools/setup.sh deb` made these of the same commit. Needs root rights.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- wheel debian
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
umask 027
for kind; do
    echo "--- $kind, again"
    sh "tools/packaging/$kind/make" --into "$again/$kind" --at /srv/elsewhere
done
rc=0 n=0
for file in "$again"/*/*; do
    n=$((n + 1))
    cmp "build/dist/${file##*/}" "$file" || rc=1
done
[ "$rc" -ne 0 ] || echo "$n files are equal, byte for byte"
exit "$rc"
