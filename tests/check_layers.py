#!/usr/bin/env python3
"""usage: check_layers.py LIBPG [OBJECTS]

Fails if a room of libpg uses one that its row in libpg/README.md does not name, in two ways: by its includes, and by the functions
that its object files call (OBJECTS: an archive of all of them), so that a public header hides no call. Fails too if an include
passes by a room's own header, if rooms are not in order, if a folder with sources has no row, or if a third-party header stands
outside the one place that wraps it. Prints every offending line."""
import collections
import pathlib
import re
import subprocess
import sys

THIRD_PARTY = {  # header: files that may include it
    'hdf5.h': r'format/h5/.*\.c',
    'H5': r'format/h5/.*\.c',
    'zlib.h': r'base/.*',
    'jansson.h': r'base/.*',
    'openssl/': r'base/.*',
    'zip.h': r'io/zip\.c',
    'zstd.h': r'io/zstd\.c',
    'png.h': r'io/image_png\.c',
    'jpeglib.h': r'io/image_jpeg\.c',
    'dnnl.h': r'backend/cpu/.*',
    'oneapi/': r'backend/cpu/.*',
    'omp.h': r'backend/cpu/.*',
    'cuda': r'backend/cuda/.*',
    'cudnn': r'backend/cuda/.*',
    'cublas': r'backend/cuda/.*',
    'nccl.h': r'backend/cuda/.*',
    'mpi.h': r'comm/mpi\.c',
}
PARTS = {'backend': {'backend/cpu', 'backend/cuda'}, 'model': {'model/graph', 'model/lower'}}  # what shares a header or a list

root = pathlib.Path(sys.argv[1])
bad = []


def tables(page):
    """Rooms in order; what each may use, and what it may call beside that."""
    use, call = {}, collections.defaultdict(set)
    for line in page.read_text().splitlines():
        cells = [c.strip() for c in line.strip('|').split('|')] if line.startswith('| `') else []
        names = lambda text: set(re.findall(r'`([\w/]+)`', text))
        if len(cells) == 3:
            use[cells[0].strip('`')] = names(cells[2])
        elif len(cells) == 2:
            call[cells[0].strip('`')] = names(cells[1])
    return use, call


def includes(path):
    for n, line in enumerate(path.read_text().splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+[<"]([^>"]+)', line)
        if m:
            yield n, m.group(1)


def own_header(room):
    return f'{room}/{room.rpartition("/")[2]}.h'


def has_own_header(room):
    """Rooms of train, wrap and format/h5 show the others one header."""
    return re.match('(train|wrap|format)/', room) and (root / own_header(room)).exists()


def check_includes(use):
    for path in sources:
        rel = path.relative_to(root).as_posix()
        room = rel.rpartition('/')[0]
        for n, target in includes(path):
            other = target.rpartition('/')[0]
            if other == room or (other not in use and other not in PARTS):
                pass
            elif room in PARTS.get(other, ()) or room not in use:
                pass
            elif other not in use[room]:
                bad.append(f'{rel}:{n}: {room} may not use {other}')
            elif has_own_header(other) and target.endswith('.h') and target != own_header(other):
                bad.append(f'{rel}:{n}: {target} is of {other}, whose header is {own_header(other)}')
            for header, allowed in THIRD_PARTY.items():
                if target.startswith(header) and not re.fullmatch(allowed, rel):
                    bad.append(f'{rel}:{n}: {header} belongs to {allowed}')


def symbols(archive, option):
    """(source, name) of each symbol: meson names an object by its source with "/" as "_"."""
    flat = {p.relative_to(root).as_posix().replace('/', '_'): p.relative_to(root).as_posix() for p in sources}
    nm = subprocess.run(['nm', '-A', option, archive], capture_output=True, text=True, check=True)
    for line in nm.stdout.splitlines():
        m = re.search(r'([^/:]+)\.o(?:bj)?:.*?\s([A-Za-z]) (pg_\w+)$', line)
        if m and m.group(1) in flat and m.group(2) in 'TDBRUVW':
            yield flat[m.group(1)], m.group(3)


def check_calls(use, call, archive):
    room_of = lambda source: source.rpartition('/')[0]
    home = {name: source for source, name in symbols(archive, '--defined-only')}
    n = 0
    for source, name in symbols(archive, '--undefined-only'):
        room, other = room_of(source), room_of(home.get(name, source))
        n += name in home
        if other != room and other not in use[room] | call[room]:
            bad.append(f'{source}: {room} may not call {other}: {name}() of {home[name]}')
    if n < 1000:
        bad.append(f'{archive}: only {n} calls found; are these the objects of libpg?')


def check_order(use, call):
    above = set()
    for room in use:
        for other in sorted((use[room] | call[room]) - above):
            bad.append(f'README.md: {room} uses {other}, which is not above it in the table')
        above.add(room)


sources = sorted(p for p in root.rglob('*') if p.suffix in ('.c', '.h', '.cu') and 'include' not in p.relative_to(root).parts)
may_use, may_call = tables(root / 'README.md')
for folder in sorted({p.parent.relative_to(root).as_posix() for p in sources} - set(may_use)):
    bad.append(f'{folder}: a folder without a row in README.md')
check_order(may_use, may_call)
check_includes(may_use)
if len(sys.argv) > 2:
    check_calls(may_use, may_call, sys.argv[2])
print('\n'.join(bad) or f'{len(may_use)} rooms')
sys.exit(bool(bad))
