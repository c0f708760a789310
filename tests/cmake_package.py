#!/usr/bin/env python3
"""usage: cmake_package.py --build DIR --meson MESON --testdata DIR --readme FILE

Installs libpg below a folder that it was not configured for, and builds the README's C program there, twice: with CMake by
find_package(libpg), and as the README says, with the compiler and pkg-config. Both must print what they should. Skipped (exit
77) where CMake is missing."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = '''cmake_minimum_required(VERSION 3.13)
project(example C)
find_package(libpg %s REQUIRED)
find_package(libpg REQUIRED) # a second time, as by a dependency
add_executable(example example.c)
target_link_libraries(example libpg::pg)
message(STATUS "version ${libpg_VERSION}")
'''
SAYS = '8 of 8 tensors verified\n'
bad = 0
os.environ.pop('LD_LIBRARY_PATH', None)  # Meson's leads to the library that is not installed


def run(*command, **more):
    return subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def must(ok, what, *said):
    global bad
    bad += not ok
    print('ok  ' if ok else 'FAIL', what, *([] if ok else said))
    return ok


def runs(program, testdata, what, **env):
    single = program.parent / 'single.h5'
    single.unlink(missing_ok=True)
    shutil.copy(testdata / 'files/keras-2.2.4/cnn4-g2/wrapper_weights.h5', program.parent / 'parallel.h5')
    got = run(program, cwd=program.parent, env=dict(os.environ, **env))
    must(got.returncode == 0 and got.stdout == SAYS and single.exists(), what, got.returncode, got.stdout)


def with_cmake(prefix, d, version):
    d.mkdir()
    shutil.copy(prefix.parent / 'example.c', d)
    (d / 'CMakeLists.txt').write_text(PROJECT % version)
    return run('cmake', '-S', d, '-B', d / 'build', f'-DCMAKE_PREFIX_PATH={prefix}')


def main(args, top):
    stage = top / 'stage'
    got = run(args.meson, 'install', '-C', args.build, '--no-rebuild', '--tags', 'devel,runtime', '--destdir', stage)
    if not must(got.returncode == 0, 'meson install', got.stdout):
        return
    config = next(stage.rglob('libpgConfig.cmake'))
    prefix = top / 'prefix'
    libdir = config.parents[2]
    installed = next(p for p in libdir.parents if (p / 'include/pg/pg.h').exists())
    shutil.move(installed, prefix)
    libdir = prefix / libdir.relative_to(installed)
    run(sys.executable, HERE / 'doc_examples.py', args.readme, top / 'example.c', check=True)

    major, minor = map(int, args.version.split('.')[:2])
    series, other, later = f'{major}.{minor}', f'{major}.{minor - 1}', f'{major}.{minor + 1}'
    got = with_cmake(prefix, top / 'project', series)
    if must(got.returncode == 0 and f'version {args.version}' in got.stdout, f'find_package(libpg {series})', got.stdout):
        got = run('cmake', '--build', top / 'project/build')
        must(got.returncode == 0, 'cmake --build', got.stdout)
        runs(top / 'project/build/example', args.testdata, 'the program that CMake built')
    for version, ok in ('0', True), (args.version + ' EXACT', True), (f'{series}...<2', True), (f'{other}.9', False), ('99', False), (f'{later}...3', False):
        got = with_cmake(prefix, top / ('version-' + version.replace(' ', '-')), version)
        must((got.returncode == 0) == ok and (ok or 'libpgConfigVersion' in got.stdout or 'compatible' in got.stdout),
             f'find_package(libpg {version}) is {"met" if ok else "refused"}', got.stdout)
    (prefix / 'include/pg/pg.h').rename(top / 'pg.h')
    got = with_cmake(prefix, top / 'half', series)
    must(got.returncode != 0 and 'a part of libpg is not installed' in ' '.join(got.stdout.split()), 'a missing header is named', got.stdout)
    (top / 'pg.h').rename(prefix / 'include/pg/pg.h')

    if shutil.which('pkg-config') and shutil.which('cc'):
        env = dict(os.environ, PKG_CONFIG_PATH=str(libdir / 'pkgconfig'))
        flags = run('pkg-config', f'--define-variable=prefix={prefix}', '--cflags', '--libs', 'libpg', env=env).stdout.split()
        (top / 'by-hand').mkdir()
        got = run('cc', top / 'example.c', *flags, '-o', top / 'by-hand/example')
        if must(got.returncode == 0, 'cc example.c $(pkg-config --cflags --libs libpg)', got.stdout):
            runs(top / 'by-hand/example', args.testdata, 'the program that cc built', LD_LIBRARY_PATH=str(libdir))


parser = argparse.ArgumentParser()
for name in 'build', 'testdata', 'readme':
    parser.add_argument('--' + name, required=True, type=pathlib.Path)
parser.add_argument('--meson', required=True)
parser.add_argument('--version', required=True)
if not shutil.which('cmake'):
    print('skipped: CMake is not there')
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    main(parser.parse_args(), pathlib.Path(folder).resolve())
sys.exit(bad != 0)
