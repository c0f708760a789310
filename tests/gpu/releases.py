#!/usr/bin/env python3
"""Compiles pg-cuda.so's calls with the oldest and the newest CUDA, cuDNN and NCCL, and looks for each name in their libraries.

usage: releases.py [--cache DIR]

NVIDIA's packages for Python have both, 5 GB; what is needed of them, headers and names, stays in DIR. No GPU. Exit status: 0,
1 where something is missing, 77 where packages cannot be had."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / 'libpg/backend/cuda'
# What README and messages promise to work with: from the first of these to the last. A package has headers, a library, or both.
RELEASES = {
    'CUDA 12.0, cuDNN 9.0, NCCL 2.19': ('nvidia-cuda-runtime-cu12==12.0.*', 'nvidia-cublas-cu12==12.0.*', 'nvidia-cuda-nvcc-cu12==12.0.*',
                                        'nvidia-cudnn-cu12==9.0.*', 'nvidia-nccl-cu12==2.19.*'),
    'CUDA 12.9, cuDNN 9.28, NCCL 2.32': ('nvidia-cuda-runtime-cu12==12.9.*', 'nvidia-cublas-cu12==12.9.*', 'nvidia-cuda-nvcc-cu12==12.9.*',
                                         'nvidia-cudnn-cu12==9.28.*', 'nvidia-nccl-cu12==2.32.*'),
    'CUDA 13.5, cuDNN 9.28, NCCL 2.32': ('nvidia-cuda-runtime==13.5.*', 'nvidia-cublas==13.10.*', 'nvidia-cuda-crt==13.5.*',
                                         'nvidia-cudnn-cu13==9.28.*', 'nvidia-nccl-cu13==2.32.*'),
}
LIBRARIES = re.compile(r'/(libcudart\.so\.\d+|libcublasLt\.so\.\d+|libcudnn\.so\.9|libnccl\.so\.2)$')
PLATFORMS = ('manylinux_2_28_x86_64', 'manylinux_2_27_x86_64', 'manylinux_2_18_x86_64', 'manylinux2014_x86_64', 'manylinux1_x86_64')
STRICT = ('-std=c11', '-Wall', '-Wextra', '-Werror', '-D_GNU_SOURCE', '-fPIC')


def names(path, which):
    """The names of a file, without versions."""
    out = subprocess.run(['nm', *which, str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line.split()[-1].split('@')[0] for line in out.splitlines() if line and not line.endswith(':')}


def keep(wheel, folder):
    """Of a package: its headers, and for each library a list of its names."""
    with zipfile.ZipFile(wheel) as z:
        for entry in z.namelist():
            _, there, below = entry.partition('/include/')
            if there and not entry.endswith('/'):
                to = folder / 'include' / below
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(z.read(entry))
            elif LIBRARIES.search(entry):
                library = folder / entry.rsplit('/', 1)[1]
                library.write_bytes(z.read(entry))
                (folder / (library.name + '.names')).write_text('\n'.join(sorted(names(library, ['-D', '--defined-only']))))
                library.unlink()


def fetch(folder, packages):
    """Whether it is there, or could be had."""
    if (folder / '.complete').exists():
        return True
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for package in packages:
        with tempfile.TemporaryDirectory(dir=folder) as d:
            command = [sys.executable, '-m', 'pip', 'download', '-q', '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:', '-d', d, package]
            for platform in PLATFORMS:
                command += ['--platform', platform]
            if subprocess.run(command).returncode:
                return False
            keep(next(pathlib.Path(d).glob('*.whl')), folder)
    (folder / '.complete').touch()
    return True


def missing(folder):
    """How many names are used, and what is wrong, line by line."""
    wrong, used = [], set()
    there = {p.name[:-6]: set(p.read_text().split()) for p in folder.glob('*.names')}
    if len(there) != 4:
        return 0, ['libraries: %s, and no others' % ', '.join(sorted(there))]
    files = [f for f in sorted(SOURCES.glob('*.c')) if re.search(r'#include <(cuda|cublas|cudnn|nccl)', f.read_text())]
    with tempfile.TemporaryDirectory() as d:
        for source in files:
            o = pathlib.Path(d) / (source.stem + '.o')
            r = subprocess.run(['cc', '-c', *STRICT, '-I', ROOT / 'libpg', '-I', ROOT / 'libpg/include', '-isystem', folder / 'include', '-o', o, source],
                               stderr=subprocess.PIPE, text=True)
            if r.returncode:
                wrong += ['%s: %s' % (source.name, x) for x in r.stderr.splitlines() if 'error' in x][:5]
            else:
                used |= {n for n in names(o, ['--undefined-only']) if re.match(r'(cuda|cublasLt|cudnn)[A-Z]', n)}
    opened = re.search(r'#define FUNCTIONS\(X\)(.*?[^\\])\n', (SOURCES / 'coll_nccl.c').read_text(), re.S) # by name, at run time
    used |= {'nccl' + n for n in re.findall(r'X\((\w+)\)', opened.group(1))}
    all_names = set().union(*there.values())
    return len(used), wrong + ['no library has ' + n for n in sorted(used - all_names)]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--cache', default=pathlib.Path.home() / '.cache/libpg-ci/cuda-releases', type=pathlib.Path)
    a = ap.parse_args()
    status = 0
    for release, packages in RELEASES.items():
        folder = a.cache / re.sub(r'[ ,]+', '-', release)
        if not fetch(folder, packages):
            print(release + ': its packages cannot be had')
            return 77
        n, wrong = missing(folder)
        print('%s: %s' % (release, '%d names are there' % n if not wrong else '; '.join(wrong)))
        status |= bool(wrong)
    return status


if __name__ == '__main__':
    sys.exit(main())
