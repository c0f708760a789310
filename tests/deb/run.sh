#!/bin/sh
# Tries the Debian packages of build/dist on a bare Debian 12: installs, uses, removes and purges them.
#
#   tests/deb/run.sh
#
# `sh tools/setup.sh deb` makes the packages. Needs root rights; the root is made once, in ${XDG_CACHE_HOME:-~/.cache}/libpg-deb, keeps
# what it downloaded, and stays bare: what a run installs is gone when it ends.
set -eu
cd "$(dirname "$0")/../.."
. tools/packaging/root.sh
base=${XDG_CACHE_HOME:-$HOME/.cache}/libpg-deb
root=$base/bookworm

set -- build/dist/libpg0_*.deb build/dist/libpg-dev_*.deb build/dist/pg-*.deb build/dist/python3-pgfit_*.deb
for deb; do
    [ -e "$deb" ] || {
        echo "there are no packages in build/dist: sh tools/setup.sh deb" >&2
        exit 2
    }
done
root_make bookworm "$root"
rm -rf "$root/try"
mkdir -p "$root/try/debs"
cp "$@" "$root/try/debs/"
cp tests/deb/inside.sh tests/wheel/checks.sh "$root/try/"
cp testdata/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5 "$root/try/parallel.h5"
cp -r testdata/modern/orbax-ocdbt "$root/try/orbax"
python3 tests/doc_examples.py README.md "$root/try/example.c"
# shellcheck disable=SC2016
fetch='apt-get install -y -q --download-only $(cat /try/helpers) /try/debs/*.deb'
cat >"$root/try/helpers" <<'END'
bash-completion fish gcc libc6-dev man-db mpich openmpi-bin openssh-client pkg-config zsh
END
root_run "$root" sh -c "{ $fetch || { apt-get update && $fetch; }; } >/tmp/log 2>&1 || { tail -5 /tmp/log; exit 1; }"
rc=0
root_try "$root" sh /try/inside.sh || rc=$?
rm -rf "$root/try"
exit "$rc"
