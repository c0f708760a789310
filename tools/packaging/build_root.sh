# shellcheck shell=sh
# The Debian 11 root in which everything is built that is to run on other systems: what is built against its glibc runs wherever
# that one is not older. Sourced at the top of the repository, after root.sh; needs root and, the first time, the network.
#
#   build_root                     makes it, once, in ${XDG_CACHE_HOME:-~/.cache}/libpg-wheel; $root is its folder
#   build_in_root SCRIPT [ARG]...  runs a script of what is committed there, with the time of the commit as first argument: /build/clone
#                                  is the tree, the results go to /build/dist
#
# The root holds the compiler, the libraries that programs carry as archives (wheel/libraries), Python's build tools, and a cache
# of the compiler. One build at a time.

# The tree may be another user's than root's.
repository() { git -c safe.directory="$PWD" "$@"; }

build_root() {
    packaging=tools/packaging
    base=${XDG_CACHE_HOME:-$HOME/.cache}/libpg-wheel
    root=$base/build-$(cat $packaging/build_root.sh $packaging/wheel/libraries $packaging/wheel/requirements.txt | sha256sum | cut -c1-12)
    mkdir -p "$base"
    exec 9>"$base/lock"
    flock 9
    [ ! -e "$root/.complete" ] || return 0
    for old in "$base"/build-*; do # one that was begun goes on
        case $old in "$root"*) ;; *) rm -rf --one-file-system "$old" ;; esac
    done
    root_make bullseye "$root" gcc libc6-dev make cmake nasm ccache pkg-config git dpkg-dev patch lowdown python3-venv \
        libopenmpi-dev libmpich-dev
    printf 'deb-src %s bookworm main\n' "$(root_mirror)" >"$root/etc/apt/sources.list.d/sources.list"
    root_run "$root" apt-get update -q
    cp $packaging/wheel/libraries $packaging/wheel/requirements.txt "$root/opt/"
    root_run "$root" sh /opt/libraries /opt/libpg
    root_run "$root" sh -c 'python3 -m venv /opt/python && /opt/python/bin/pip install -q --upgrade pip==26.0.1 &&
        /opt/python/bin/pip install -q -r /opt/requirements.txt'
    : >"$root/.complete"
}

build_in_root() {
    script=$1
    shift
    repository diff --quiet HEAD -- || echo "${script##*packaging/}: what is not committed stays out of it" >&2
    rm -rf "$root/build"
    mkdir -p "$root/build/dist"
    repository bundle create -q "$root/build/bundle" HEAD
    root_run "$root" git clone -q /build/bundle /build/clone
    root_run "$root" sh "/build/clone/$script" "$(repository log -1 --format=%ct)" "$@"
}
