#!/bin/sh
# Tries the image of build/dist (`sh tools/setup.sh container`) without a container engine: its layers become a folder, in which
# bubblewrap runs the programs as an unknown user, read-only but for /data, without capabilities and without a network.
#
#   tests/container/run.sh      needs root rights, bubblewrap and Python
#
# shellcheck disable=SC2317 # functions are called by name
set -eu
cd "$(dirname "$0")/../.."
image=build/dist/pgtools.tar
most=$((12 * 1000 * 1000)) # bytes over Debian
user=54321
[ -e $image ] || {
    echo "there is no $image: sh tools/setup.sh container" >&2
    exit 2
}
top=$(mktemp -d)
trap 'rm -rf --one-file-system "$top"' EXIT
chmod 755 "$top"
mkdir "$top/root" "$top/data"
# What an engine does with the archive; prints the settings that count, a line each: variables, the folder, the command.
python3 - $image "$top" $most <<'END'
import json, os, sys, tarfile
image, top, most = sys.argv[1:]
with tarfile.open(image) as archive:
    read = lambda name: archive.extractfile(archive.getmember(name))
    manifest = json.load(read('manifest.json'))[0]
    config = json.load(read(manifest['Config']))['config']
    sizes = []
    for name in manifest['Layers']:
        with tarfile.open(fileobj=read(name)) as layer:
            members = layer.getmembers()
            assert not any(os.path.basename(m.name).startswith('.wh.') for m in members), 'a layer removes files'
            layer.extractall(top + '/root', numeric_owner=True)
            sizes.append(sum(m.size for m in members))
with open(top + '/config', 'w') as f:
    json.dump(config, f)
print(f'{len(sizes)} layers: {sizes[0] / 1e6:.0f} MB of Debian, {sum(sizes[1:]) / 1e6:.1f} MB over it')
assert sum(sizes[1:]) <= int(most), f'more than {most} bytes over Debian'
assert config['WorkingDir'] == '/data' and config['Cmd'] == ['pginfo', '--help'] and not config.get('Entrypoint'), config
assert not config.get('User'), config
END
cp testdata/files/keras-2.2.4/cnn4-g2/wrapper_weights.h5 "$top/data/parallel.h5"
cp testdata/files/keras-2.2.4/cnn4-g2/template.json "$top/data/model.json"
cp -r testdata/modern/orbax-ocdbt "$top/data/orbax"
chown -R $user:$user "$top/data"

inside() { # command: as `docker run --user --read-only --network none --cap-drop all -v data:/data` runs it
    setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
        bwrap --unshare-all --die-with-parent --clearenv --setenv PATH "$(of PATH)" --setenv LANG "$(of LANG)" --setenv TMPDIR "$(of TMPDIR)" \
        --ro-bind "$top/root" / --dev /dev --proc /proc --bind "$top/data" /data --chdir /data "$@"
}
of() { python3 -c 'import json, sys; print(dict(x.split("=", 1) for x in json.load(open(sys.argv[1]))["Env"])[sys.argv[2]])' "$top/config" "$1"; }
failed=0
check() { # what, command: says so if it fails
    what=$1
    shift
    "$@" >"$top/said" 2>&1 || {
        failed=1
        echo "not ok: $what"
        sed 's/^/    /' "$top/said" | tail -20
    }
}
says() { # pattern, command
    pattern=$1
    shift
    "$@" >"$top/answer" 2>&1 || {
        cat "$top/answer"
        return 1
    }
    grep -q "$pattern" "$top/answer" || {
        cat "$top/answer"
        return 1
    }
}
not() { ! "$@"; }

check "a user whom the image does not know" says "^$user$" inside id -u
check "no network" says '^lo$' inside sh -c 'ls /sys/class/net 2>/dev/null || sed -n "s/^ *\([^ ]*\):.*/\1/p" /proc/net/dev'
check "read-only" not inside sh -c ': >/usr/share/x || : >/tmp/x || : >/x'
for t in pgcheck pgconvert pgdiff pgfit pginfo pgjoin pgsplit pgunwrap pgwrap; do
    check "$t --version" says "^$t" inside $t --version
    check "$t finds its libraries" says libpg.so inside ldd /usr/bin/$t
    check "$t has them all" not grep 'not found' "$top/answer"
done
check "pginfo" says 'parallel wrapper: 2 replicas' inside pginfo parallel.h5
check "pgunwrap" says 'checksums equal' inside pgunwrap parallel.h5 single.h5
check "the user's file" says "^$user$" stat -c %u "$top/data/single.h5"
check "pgdiff" inside pgdiff single.h5 parallel.h5
check "pgcheck" inside pgcheck --model model.json single.h5
check "pgconvert" says 'bit-equal' inside pgconvert single.h5 single.safetensors
check "pgsplit" inside pgsplit single.h5 shards/
check "pgjoin" inside pgjoin shards/ joined.h5
check "pgjoin of Orbax" says 'checksums equal' inside pgjoin orbax/ckpt orbax.safetensors
check "as Orbax has it" inside pgdiff -q orbax.safetensors orbax/expected.safetensors
check "pgwrap" inside pgwrap --like parallel.h5 joined.h5 again.h5
check "pgfit" says '2 devices' inside pgfit --demo digits --devices cpu:0,cpu:1 --epochs 1 -o digits.h5
check "a folder that is read-only: said" not inside pgunwrap parallel.h5 /usr/out.h5
check "licences" test -s "$top/root/usr/share/doc/libpg/LICENSE" -a -s "$top/root/usr/share/doc/libpg/licenses/hdf5.txt"
check "nothing of this machine's" sh -c "[ ! -s '$top/root/etc/resolv.conf' ] && grep -qx localhost '$top/root/etc/hostname' &&
    ! grep -rv 'deb.debian.org' '$top/root/etc/apt/sources.list'"
[ "$failed" -eq 0 ] && echo "ok: the image"
exit "$failed"
