#!/usr/bin/env python3
"""Fails if a file of libpg includes a folder that is not below its own, or a third-party header
outside the one place that wraps it. Prints every offending line."""
import pathlib
import re
import sys

BELOW = {  # folder: folders it may include; public headers (pg/) are allowed everywhere
    'base': set(),
    'io': {'base'},
    'store': {'base', 'io'},
    'format': {'base', 'io', 'store'},
    'ops': {'base'},
    'model': {'base', 'store', 'ops'},
    'wrap': {'base', 'io', 'store', 'format', 'model'},
    'comm': {'base'},
    'backend': {'base', 'ops', 'comm'},
    'train': {'base', 'io', 'store', 'format', 'ops', 'model', 'comm', 'backend'},
}
THIRD_PARTY = {  # header: files that may include it
    'hdf5.h': r'format/h5_.*\.c',
    'H5': r'format/h5_.*\.c',
    'zlib.h': r'base/.*',
    'jansson.h': r'base/.*',
    'openssl/': r'base/.*',
    'zip.h': r'io/zip\.c',
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

root = pathlib.Path(sys.argv[1])
bad = 0
for path in sorted(p for p in root.rglob('*') if p.suffix in ('.c', '.h', '.cu')):
    rel = path.relative_to(root).as_posix()
    folder = rel.split('/')[0]
    if folder == 'include':
        continue
    for n, line in enumerate(path.read_text().splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)', line)
        if not m:
            continue
        target = m.group(2)
        other = target.split('/')[0]
        why = None
        if other in BELOW and other != folder and other not in BELOW[folder]:
            why = f'{folder}/ may not use {other}/'
        for header, allowed in THIRD_PARTY.items():
            if target.startswith(header) and not re.fullmatch(allowed, rel):
                why = f'{header} belongs to {allowed}'
        if why:
            print(f'{rel}:{n}: {why}')
            bad += 1
sys.exit(bad != 0)
