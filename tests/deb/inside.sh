#!/bin/sh
# Within the bare root of run.sh: installs the packages of /try/debs as a person would, uses what they brought, and removes them
# again. /tmp is a tmpfs. Their judges are apt, dpkg, ldd, man, the shells, pkg-config and the compiler.
# shellcheck disable=SC2317 # functions are called by name
set -eu
# shellcheck source=tests/wheel/checks.sh
. /try/checks.sh
# apt's cache and logs aside, all that a removal must leave as it was
files() { find / -xdev \( -path /root -o -path /tmp -o -path /try -o -path /var/cache -o -path /var/log -o -path /var/lib/apt \) -prune -o -printf '%p %y %m %u\n' | sort; }
get() { apt-get install -y -q "$@"; }
no_compiler() { for c in cc gcc clang tcc; do ! command -v "$c" || return 1; done; }
same() { # files, command: prints what differs
    "$2" >/tmp/now
    diff "$1" /tmp/now
}
silent() { # command: has nothing to say
    "$@" >/tmp/answer 2>&1 || true
    ! grep . /tmp/answer
}
complete() { # of each deb, its files are as they were packed
    # shellcheck disable=SC2086
    for p in $own; do silent dpkg --verify "$p" || return 1; done
}
loads() { # files: the loader finds all that they need
    for f; do ldd "$f" || return 1; done >/tmp/answer 2>&1
    ! grep 'not found' /tmp/answer
}
own=$(for deb in /try/debs/*.deb; do dpkg-deb -f "$deb" Package; done)

cd /tmp
. /etc/os-release
# Whoever wants the programs only
check "no compiler" no_compiler
check "apt-get install pg-tools" get --no-install-recommends /try/debs/pg-tools_*.deb
check "pginfo FILE" says 'parallel wrapper: 2 replicas' pginfo /try/parallel.h5
check "the library is not needed for it" sh -c '! dpkg -s libpg0'
check "no MPI: said with the package that has it" sh -c "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 pgfit --demo digits --epochs 1 -o mpi.h5 2>&1 |
    grep pg-mpi"
check "apt-get purge pg-tools" apt-get purge -y -q pg-tools

# What they depend on comes first: then the packages' own files are those that a removal must take away.
needed=$(apt-get -s install /try/debs/*.deb | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -vxF "$own")
# shellcheck disable=SC2046,SC2086
check "what they depend on" get $needed $(cat /try/helpers)
files >before
check "apt-get install" get /try/debs/*.deb
check "dpkg --audit" silent dpkg --audit
check "dpkg --verify" complete

for t in pgcheck pgconvert pgdiff pgfit pginfo pgjoin pgsplit pgunwrap pgwrap; do
    check "$t --version" says "^$t" $t --version
    check "manual of $t" says "^/usr/share/man/man1/$t" man -w $t
    check "bash completes $t" says "_$t" bash -c ". /usr/share/bash-completion/bash_completion; _completion_loader $t; complete -p $t"
    check "zsh completes $t" says "^_$t$" zsh -fc "autoload -Uz compinit; compinit -D -u; echo \$_comps[$t]"
    check "fish completes $t" says '^--help' fish -c "complete -C '$t --'"
done
for page in pg pg-ci pg-cluster pg-formats pg-gpu pg-layers pg-performance pg-python pg-training pg-web; do
    check "manual $page" says "^/usr/share/man/man7/$page" man -w $page
done
check "the loader finds all libraries" loads /usr/bin/pg* /usr/lib/*/libpg.so.0 /usr/lib/*/libpg/pg-mpi-*.so

check "pgunwrap" says 'checksums equal' pgunwrap /try/parallel.h5 single.h5
check "pgdiff" pgdiff single.h5 /try/parallel.h5
check "pgjoin of Orbax" says 'checksums equal' pgjoin /try/orbax/ckpt orbax.safetensors
check "as Orbax has it" pgdiff -q orbax.safetensors /try/orbax/expected.safetensors
check "pgfit --demo" pgfit --demo digits --devices cpu:0,cpu:1 --epochs 1 -o digits.h5
check "pgfit computes with oneDNN" says oneDNN pgfit --version
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
check "pgfit by Open MPI" says '2 ranks (Open MPI' mpirun.openmpi -np 2 pgfit --demo digits --epochs 1 -o openmpi.h5
check "pgfit by MPICH" says '2 ranks (MPICH' mpirun.mpich -np 2 pgfit --demo digits --epochs 1 -o mpich.h5
check "both compute the same" cmp openmpi.h5 mpich.h5

check "pgfit.join of Orbax" says '^11$' python3 -c '
import pgfit
print(pgfit.join("/try/orbax/ckpt", "joined.safetensors").n_verified)'
check "import pgfit" says '/libpg.so.0$' python3 -c 'import pgfit._library; print(pgfit._library.path())'
check "pgfit.unwrap" says '8 of 8' python3 -c '
import pgfit
report = pgfit.unwrap("/try/parallel.h5", "python.h5")
print(report.n_verified, "of", report.n_written)'
check "Python's own tools know its version" python3 -c '
import importlib.metadata, pgfit
assert importlib.metadata.version("pgfit") == pgfit.__version__'
cp /try/parallel.h5 .
rm -f single.h5
# shellcheck disable=SC2046
check "a C program, by pkg-config" gcc -Wall -Werror /try/example.c $(pkg-config --cflags --libs libpg) -o example
check "it runs" says '8 of 8 tensors verified' ./example
check "it needs the library by its version" says 'libpg.so.0 ' ldd example

check "the same over itself" dpkg -i /try/debs/*.deb
check "dpkg --audit then" silent dpkg --audit
check "dpkg --verify then" complete
check "pginfo then" says 'parallel wrapper: 2 replicas' pginfo /try/parallel.h5
# shellcheck disable=SC2086
check "apt-get remove" apt-get remove -y -q $own
check "the programs are gone" sh -c '! command -v pginfo'
check "nothing is left by remove" same before files
check "apt-get install once more" get /try/debs/*.deb
# shellcheck disable=SC2086
check "apt-get purge" apt-get purge -y -q $own
check "nothing is left by purge" same before files
[ "$failed" -eq 0 ] && echo "ok: $PRETTY_NAME, $(echo "$own" | wc -l) packages"
exit "$failed"
