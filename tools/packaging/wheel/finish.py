#!/usr/bin/env python3
"""Makes a wheel that runs on any machine out of one that meson-python built here.

usage: finish.py WHEEL FOLDER --tag TAG [--library FILE]... [--licences FOLDER] [--licence NAME=FILE]...
       finish.py --same-libraries WHEEL WHEEL

auditwheel would put shims of Python before programs that need a library of the wheel, since it does not know how to reach
site-packages from bin/. Here the libraries go below the prefix instead, to libexec/libpg, where programs of every environment
find them: $ORIGIN/../libexec/libpg. (In a wheel that was only unpacked it is $ORIGIN/../data/libexec/libpg, which is also how auditwheel
sees that they are there.) The plug-ins for MPI name no library: whoever has an MPI has its own (libpg/comm/comm_plugin.c).

Equal inputs give equal bytes: names are sorted, times are $SOURCE_DATE_EPOCH.

--same-libraries: the second wheel, which auditwheel repaired, has the files of the first, so there was nothing to repair."""
import argparse
import base64
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

MPI = ('libmpi.so.', 'libmpich.so.')


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def is_elf(path):
    with open(path, 'rb') as f:
        return f.read(4) == b'\x7fELF'


def needed(path):
    return run('patchelf', '--print-needed', str(path)).split()


def place_libraries(data, libraries):
    """Strips everything, and lets it find what the wheel brings."""
    folder = data / 'data/libexec/libpg'
    for library in libraries:
        shutil.copyfile(library, folder / os.path.basename(library))
        (folder / os.path.basename(library)).chmod(0o755)
    brought = {os.path.basename(x) for x in libraries}
    for path in sorted(p for p in data.rglob('*') if p.is_file() and is_elf(p)):
        run(os.environ.get('STRIP', 'strip'), '--strip-unneeded', str(path)) # before patchelf, whose sections it does not understand
        run('patchelf', '--remove-rpath', str(path))
        for name in needed(path):
            if name.startswith(MPI):
                run('patchelf', '--remove-needed', name, str(path))
        if brought & set(needed(path)):
            run('patchelf', '--set-rpath', '$ORIGIN' if path.parent == folder else '$ORIGIN/../libexec/libpg:$ORIGIN/../data/libexec/libpg', str(path))


def write(out, root, info):
    """RECORD and the wheel, with the metadata last, as the format recommends."""
    def place(path):
        return (info in path.parents, path.name == 'RECORD', path.relative_to(root).as_posix())

    record = info / 'RECORD'
    record.touch()
    files = sorted((p for p in root.rglob('*') if p.is_file()), key=place)
    lines = []
    for p in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(p.read_bytes()).digest()).rstrip(b'=').decode()
        name = p.relative_to(root).as_posix()
        lines.append(f'{name},,' if p == record else f'{name},sha256={digest},{p.stat().st_size}')
    record.write_text('\n'.join(lines) + '\n')
    when = time.gmtime(max(int(os.environ.get('SOURCE_DATE_EPOCH', time.time())), 315532800))[:6]
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED, compresslevel=7) as z:
        for p in files:
            entry = zipfile.ZipInfo(p.relative_to(root).as_posix(), when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if p.stat().st_mode & 0o100 else 0o100644) << 16
            z.writestr(entry, p.read_bytes())


def unpack(wheel, root):
    with zipfile.ZipFile(wheel) as z:
        for entry in z.infolist():
            path = pathlib.Path(z.extract(entry, root))
            if entry.external_attr >> 16 & 0o100:
                path.chmod(0o755)


def finish(args):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        unpack(args.wheel, root)
        (data,), (info,) = root.glob('*.data'), root.glob('*.dist-info')
        place_libraries(data, args.library)
        # Modules go to the top, where Python finds them without an installation, too.
        for package in sorted((data / 'purelib').iterdir()):
            shutil.move(str(package), str(root / package.name))
        (data / 'purelib').rmdir()
        licences = root / 'pgfit/licenses'
        licences.mkdir()
        for source in sorted(args.licences.iterdir()) if args.licences else []:
            shutil.copyfile(source, licences / source.name)
        for name, source in (x.split('=', 1) for x in args.licence):
            shutil.copyfile(source, licences / name)
        wheel = info / 'WHEEL'
        lines = [x for x in wheel.read_text().splitlines() if x and not x.startswith('Tag:')]
        wheel.write_text('\n'.join(lines + [f'Tag: {args.tag}']) + '\n')
        out = args.folder / f"{info.name[:-len('.dist-info')]}-{args.tag}.whl"
        write(out, root, info)
    print(f'{out}: {out.stat().st_size / 1e6:.1f} MB')


def same_libraries(first, second):
    names = [{e.filename: e.CRC for e in zipfile.ZipFile(w).infolist() if not e.filename.endswith(('/WHEEL', '/RECORD'))} for w in (first, second)]
    different = sorted({x for x, _ in set(names[0].items()) ^ set(names[1].items()) if not x.endswith('/')})
    for name in different:
        print(f'auditwheel changed {name}', file=sys.stderr)
    return 1 if different else 0


if __name__ == '__main__':
    if sys.argv[1:2] == ['--same-libraries']:
        sys.exit(same_libraries(*sys.argv[2:4]))
    p = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n')[0])
    p.add_argument('wheel')
    p.add_argument('folder', type=pathlib.Path)
    p.add_argument('--tag', required=True)
    p.add_argument('--library', action='append', default=[])
    p.add_argument('--licences', type=pathlib.Path)
    p.add_argument('--licence', action='append', default=[])
    finish(p.parse_args())
