#!/usr/bin/env python3
"""resources.py: what ptxas gives each kernel of kernels.cu on three GPUs, beside resources.tsv: registers of a thread, bytes
of shared memory of a block, bytes that spill, how many of the warps that a multiprocessor can hold it holds. A kernel that
spills more, or falls below a quarter of the warps, than the table says is a failure; other changes are told. The table is
of one release of nvcc; with another one there is nothing to compare (exit status 77).

  --nvcc PROGRAM    and further options of the compiler behind --
  --kernels FILE    kernels.cu
  --table FILE      resources.tsv
  --update          writes the table"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Of a multiprocessor: warps, kB of shared memory ("Technical Specifications per Compute Capability" of the CUDA C++
# Programming Guide). All have 65536 registers, given out by 256 to a warp, and take 32 blocks.
GPUS = {'80': (64, 164), '90': (64, 228), '100': (64, 228)}
WARPS = 8  # of a block: PGK_T threads
LEAST = 25  # per cent

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--nvcc', required=True)
parser.add_argument('--kernels', required=True)
parser.add_argument('--table', type=pathlib.Path, required=True)
parser.add_argument('--update', action='store_true')
parser.add_argument('compiler', nargs='*')
options = parser.parse_args()


def release():
    return re.search(r'release ([\d.]+)', subprocess.run([options.nvcc, '--version'], capture_output=True, text=True).stdout)[1]


def occupancy(gpu, registers, shared):
    warps, kilobytes = GPUS[gpu]
    by_registers = 65536 // ((registers * 32 + 255) // 256 * 256) // WARPS
    by_shared = kilobytes * 1024 // (shared + 1024)
    return 100 * min(by_registers, by_shared, 32, warps // WARPS) * WARPS // warps


def short(name):
    m = re.match(r'_ZL?(\d+)', name)
    return name[m.end():m.end() + int(m[1])].removesuffix('_kernel') if m else name


def measured(gpu):
    with tempfile.NamedTemporaryFile(suffix='.cubin') as out:
        r = subprocess.run([options.nvcc, '-cubin', f'-arch=sm_{gpu}', '-O3', '-std=c++17', '-Xptxas', '-v', *options.compiler,
                            '-o', out.name, options.kernels], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stderr)
    rows = {}
    for m in re.finditer(r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers([^\n]*)",
                         r.stderr, re.S):
        shared = re.search(r'(\d+) bytes smem', m[5])
        n = int(shared[1]) if shared else 0
        rows[short(m[1])] = (int(m[4]), n, int(m[2]) + int(m[3]), occupancy(gpu, int(m[4]), n))
    return rows


def told(name, gpu, was, now):
    """Whether it is worse than the table says; prints what is."""
    if not was:
        print(f'{name} is not in {options.table.name}: run with --update')
        return True
    if now[2] > was[2]:
        print(f'sm_{gpu}: {name} spills {now[2]} bytes, and spilled {was[2]}')
    if now[3] < LEAST <= was[3]:
        print(f'sm_{gpu}: {name} fills {now[3]} % of a multiprocessor, and filled {was[3]} %')
    if now[:2] != was[:2]:
        print(f'sm_{gpu}: {name} has {now[0]} registers and {now[1]} bytes of shared memory, and had {was[0]} and {was[1]}')
    return now[2] > was[2] or now[3] < LEAST <= was[3]


def write(now):
    lines = [f'nvcc {release()}', 'kernel\t' + '\t'.join(f'sm_{g}: registers\tshared\tspills\t%' for g in GPUS)]
    lines += [name + ''.join(f'\t{r}\t{s}\t{b}\t{o}' for r, s, b, o in (now[g][name] for g in GPUS)) for name in sorted(now['80'])]
    options.table.write_text('\n'.join(lines) + '\n')


def main():
    of, *rows = options.table.read_text().splitlines() if not options.update else ['']
    if not options.update and of != f'nvcc {release()}':
        print(f'{options.table.name} is of {of}, and this is nvcc {release()}')
        return 77
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count())) as pool:
        now = dict(zip(GPUS, pool.map(measured, GPUS)))
    if options.update:
        write(now)
        return 0
    was = {}
    for line in rows[1:]:
        name, *numbers = line.split('\t')
        was[name] = [tuple(map(int, numbers[4 * k:4 * k + 4])) for k in range(len(GPUS))]
    worse = [told(name, gpu, was[name][k] if name in was else None, now[gpu][name]) for k, gpu in enumerate(GPUS) for name in sorted(now[gpu])]
    gone = sorted(set(was) - set(now['80']))
    if gone:
        print('no longer there:', ', '.join(gone))
    print(f'{len(now["80"])} kernels on {len(GPUS)} GPUs; least: ' +
          ', '.join(f'{min(o for _, _, _, o in now[g].values())} % on sm_{g}' for g in GPUS))
    return any(worse) or bool(gone)


sys.exit(main())
