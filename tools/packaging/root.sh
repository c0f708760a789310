# shellcheck shell=sh
# Bare Debian roots, for packages that are built on an older Debian and tried on several. Sourced; needs root.
#
#   root_make SUITE FOLDER PACKAGE...   makes FOLDER a root of that release (bullseye, bookworm, trixie) unless it is one;
#                                       SUITE/arm64 is one for another machine, whose programs the kernel must know how to run
#   root_run FOLDER COMMAND...          runs a command in it; what is mounted for it is gone when it ends
#   root_try FOLDER COMMAND...          the same, and FOLDER stays as it was: what the command writes is gone, too
#
# A command sees the folders of this machine that root_shows names, such as /usr/local/cuda.
# Packages come from $DEBIAN_MIRROR, or from where this machine has its own. Settings of pip and of certificates are this machine's.

root_mirror() {
    if [ -n "${DEBIAN_MIRROR:-}" ]; then
        echo "$DEBIAN_MIRROR"
    else # of either kind of file
        cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
            sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' | grep -v security | head -1
    fi
}

root_run() { root_within '' "$@"; }
root_try() { root_within try "$@"; }
root_within() {
    (
        kind=$1 root=$2
        shift 2
        # shellcheck disable=SC2046
        set -- env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive \
            $(env | grep -iE '^(https?_proxy|no_proxy|pip_(cert|index_url|default_timeout)|ssl_cert_[a-z]*|requests_ca_bundle)=[^ ]*$') \
            chroot "$root" "$@"
        # shellcheck disable=SC2016
        exec unshare --mount --propagation private sh -c '
            set -e
            root=$1 kind=$2 shows=$3
            shift 3
            if [ "$kind" = try ]; then
                mount -t tmpfs tmpfs "$root/mnt"
                mkdir "$root/mnt/written" "$root/mnt/work"
                mount -t overlay -o "lowerdir=$root,upperdir=$root/mnt/written,workdir=$root/mnt/work" overlay "$root"
            fi
            for m in proc sys dev $shows; do
                mkdir -p "$root/$m"
                mount --rbind "/$m" "$root/$m"
            done
            mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
            exec "$@"' root "$root" "$kind" "${root_shows:-}" "$@"
    )
}

root_make() ( # a shell of its own, so its names stay its own
    suite=${1%/*} root=$2 arch=
    case $1 in */*) arch=${1#*/} ;; esac
    shift 2
    [ ! -e "$root/.ready" ] || exit 0
    command -v debootstrap >/dev/null || {
        apt-get update -q
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap
    }
    echo "making a root of $suite: $root"
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    mirror=$(root_mirror)
    debootstrap ${arch:+--arch="$arch"} --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
        tail -5 "$root.log" >&2
        exit 1
    }
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
    cp /etc/apt/apt.conf.d/99* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
    printf 'deb %s %s main\n' "$mirror" "$suite" >"$root/etc/apt/sources.list"
    root_run "$root" apt-get update -q >>"$root.log" 2>&1
    root_run "$root" apt-get install -y -q --no-install-recommends "$@" >>"$root.log" 2>&1 || {
        tail -5 "$root.log" >&2
        exit 1
    }
    # last: the packages bring their own
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
    : >"$root/.ready"
)
