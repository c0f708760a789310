#!/usr/bin/env python3
"""Makes the wheel pgfit-cuda13 out of pg-cuda.so and the checks for a GPU.

usage: cuda.py CHECKS FOLDER PGFIT --tag TAG

CHECKS is what `tests/gpu/run.sh --pack` made, pg-cuda.so included; `python -m pgfit.gpu_check` runs it. PGFIT is the wheel that it belongs to and whose version it has. NVIDIA's wheels have the libraries: they lie beside the folder of
this one in site-packages, where the plug-in finds them, as long as all are said to be "pure", like NVIDIA's (some systems
have two folders). libpg finds the plug-in by the name of its folder (libpg/base/beside.c).

Equal inputs give equal bytes, see finish.py."""
import argparse
import pathlib
import shutil
import subprocess
import tempfile

import finish

# What the plug-in is linked with; NCCL, opened for a second GPU; NVRTC, for kernels that cuDNN compiles. libcudart.so.13,
# libcublasLt.so.13, libcudnn.so.9 and libnccl.so.2 keep their names, thus their interfaces, within these bounds. cuDNN for CUDA 13
# begins with 9.12, NCCL with 2.27.
NEEDS = ('nvidia-cuda-runtime>=13.0,<14', 'nvidia-cublas>=13.0,<14', 'nvidia-cudnn-cu13>=9.12,<10', 'nvidia-nccl-cu13>=2.27,<3',
         'nvidia-cuda-nvrtc>=13.0,<14')
FOLDERS = ('cu13', 'cudnn', 'nccl')
METADATA = '''Metadata-Version: 2.4
Name: pgfit-cuda13
Version: {version}
Summary: Training on NVIDIA GPUs with pgfit: its plug-in for CUDA 13
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
{needs}
Description-Content-Type: text/markdown

`pip install pgfit-cuda13` lets `pgfit --gpus 1` train on NVIDIA GPUs. It needs a driver for CUDA 13 (580 or newer) and brings
nothing but the plug-in: CUDA's libraries, cuDNN and NCCL are NVIDIA's own packages. `python -m pgfit.gpu_check` tries a GPU.
'''


def make(args):
    version = args.pgfit.name.split('-')[1]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        package, info = root / 'pgfit_cuda13', root / f'pgfit_cuda13-{version}.dist-info'
        package.mkdir()
        (info / 'licenses').mkdir(parents=True)
        checks, plugin = package / 'checks', package / 'pg-cuda.so'
        shutil.copytree(args.checks, checks)
        shutil.move(str(checks / 'lib/pg-cuda.so'), str(plugin))
        for program in (checks / 'exe').iterdir(): # so that auditwheel sees whose libraries they are
            subprocess.run(['patchelf', '--set-rpath', '$ORIGIN/../lib', str(program)], check=True)
        subprocess.run(['strip', '--strip-unneeded', str(plugin)], check=True)
        subprocess.run(['patchelf', '--set-rpath', ':'.join(f'$ORIGIN/../nvidia/{f}/lib' for f in FOLDERS), str(plugin)], check=True)
        (package / '__init__.py').write_text('"""pg-cuda.so, which pgfit opens when a GPU is named."""\n')
        shutil.copyfile('/build/clone/LICENSE', info / 'licenses/LICENSE')
        needs = '\n'.join('Requires-Dist: ' + x for x in (f'pgfit=={version}', *NEEDS))
        (info / 'METADATA').write_text(METADATA.format(version=version, needs=needs))
        (info / 'WHEEL').write_text(f'Wheel-Version: 1.0\nGenerator: libpg {version}\nRoot-Is-Purelib: true\nTag: {args.tag}\n')
        out = args.folder / f'pgfit_cuda13-{version}-{args.tag}.whl'
        finish.write(out, root, info)
    print(f'{out}: {out.stat().st_size / 1e6:.1f} MB')


if __name__ == '__main__':
    p = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n')[0])
    p.add_argument('checks', type=pathlib.Path)
    p.add_argument('folder', type=pathlib.Path)
    p.add_argument('pgfit', type=pathlib.Path)
    p.add_argument('--tag', required=True)
    make(p.parse_args())
