#!/usr/bin/env python3
"""usage: table.py --tools FOLDER [--work FOLDER] [--minutes N] [--readme FILE] [option...]

The whole benchmark of the file tools: makes the inputs (once), runs our tools beside their peers with run.py, verifies the
outputs, and prints the table. On XFS and btrfs too, which root gets as files mounted
in a mount namespace of their own; others get the rest. Samples are kept in WORK/samples.jsonl, a line for each suite: of
several runs the one with most rounds counts, for our tools of the build that was measured last; --report-only makes the
tables anew. Status 1: an output was wrong."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

import report
from rows import ROWS, wanted

HERE = pathlib.Path(__file__).resolve().parent
MKFS = {'xfs': ['mkfs.xfs', '-q', '-f', '-m', 'reflink=1'], 'btrfs': ['mkfs.btrfs', '-q', '-f']}
WEIGHT = {'bert': 4, 'tiny': 1.5, 'full': 1.5, 'resnet': 0.5}  # share of the time; 1 for the others
GB_OF_MODELS = {'vgg': 4, 'bert': 9}  # file and outputs, on a file system of their own


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--tools', required=True, help='folder of pgunwrap and the others')
    ap.add_argument('--work', type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir(), 'pg-bench-files'),
                    help='inputs, outputs and samples: 25 GB on the file system to be measured (%(default)s)')
    ap.add_argument('--data', type=pathlib.Path, help='inputs, if they are elsewhere (WORK/data)')
    ap.add_argument('--minutes', type=float, default=60, help='for all; each suite runs one round at least (%(default)s)')
    ap.add_argument('--rounds', type=int, default=9, help='at most (%(default)s)')
    ap.add_argument('--scale', type=float, default=1, help='of the inputs, for trials')
    ap.add_argument('--no-peers', action='store_true', help='our tools and their bases only, unverified: more rounds of what was run')
    ap.add_argument('--only', help='suites, separated by commas')
    ap.add_argument('--systems', default=',xfs,btrfs', help='file systems beside that of WORK ("" for none)')
    ap.add_argument('--py', default=os.environ.get('PG_JUDGE_PYTHON', sys.executable), help='Python with h5py, numpy, safetensors')
    ap.add_argument('--keras2', default=os.environ.get('PG_KERAS2_PYTHON', ''), help='Python with Keras 2.15')
    ap.add_argument('--readme', type=pathlib.Path, help='put the table between the marks of this file')
    ap.add_argument('--report', type=pathlib.Path, help='write all figures into this file')
    ap.add_argument('--report-only', action='store_true')
    a = ap.parse_args()
    a.data, a.samples = a.data or a.work / 'data', a.work / 'samples.jsonl'
    a.work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(a.work / 'tmp', ignore_errors=True)  # what a run left that was cut off
    return a


def generate(a):
    names = [n for n in ('resnet', 'vgg', 'bert', 'tiny', 'vgg_full', 'vgg_gz') if not (a.data / f'{n}.layers.json').exists()]
    if names:
        subprocess.run([a.py, HERE / 'gen.py', '--scale', str(a.scale), a.data, *names], check=True)


def plan(a):
    """[(file system, suite, ids)] that are to run, those of a file system together."""
    systems = a.systems.split(',')
    todo = [(system, suite, ids) for (system, suite), ids in wanted(ROWS, not a.no_peers).items()
            if system in systems and (not a.only or suite in a.only.split(','))]
    return sorted(todo, key=lambda x: systems.index(x[0]))


def build_of(a):
    """Tells one build of the tools from another."""
    sums = [zlib.crc32(p.read_bytes()) for p in sorted(pathlib.Path(a.tools).glob('pg*')) if p.is_file() and os.access(p, os.X_OK)]
    return f'{zlib.crc32(repr(sums).encode()):08x}'


def versions(a):
    def first(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True).stdout.split('\n')[0]
        except OSError:
            return ''
    python = 'import h5py, numpy; print("h5py", h5py.__version__ + ", numpy", numpy.__version__)'
    return [v for v in (first(os.path.join(a.tools, 'pginfo'), '--version'), first('h5ls', '--version'), first(a.py, '-c', python),
                        first('cp', '--version')) if v]


def run(a, system, todo, data, tmp, minutes):
    """Runs suites on one file system and adds their samples; 1 if something failed."""
    failed = 0
    total = sum(WEIGHT.get(suite.split('-')[1], 1) for _, suite, _ in todo)
    for _, suite, ids in todo:
        share = minutes * WEIGHT.get(suite.split('-')[1], 1) / total
        with tempfile.TemporaryDirectory() as d:
            out = pathlib.Path(d, 'samples.json')
            failed |= subprocess.run([
                sys.executable, HERE / 'run.py', suite, '--only', ','.join(ids), '--data', data, '--tmp', tmp, '--tools', a.tools,
                '--py', a.py, '--keras2', a.keras2, '-r', str(a.rounds), '--slow-rounds', '1', '--minutes', f'{share:.2f}',
                '-o', out, *(['--no-check'] if a.no_peers else [])]).returncode
            if out.exists():
                sample = dict(json.loads(out.read_text())[0], system=system, scale=a.scale, versions=versions(a),
                              kind=report.kind_of(tmp), machine=report.machine(), tools=build_of(a))
                with open(a.samples, 'a') as f:
                    f.write(json.dumps(sample) + '\n')
    return failed


def inside(a, system, todo, minutes):
    """Runs suites on a new file system in a file. This process has a mount namespace of its own."""
    models = {suite.split('-')[1] for _, suite, _ in todo}
    size = 2 + int(max(GB_OF_MODELS[m] for m in models) * max(a.scale, 0.02))
    image, mount = a.work / f'{system}.img', a.work / f'{system}.mnt'
    mount.mkdir(exist_ok=True)
    try:
        with open(image, 'wb') as f:
            f.truncate(size << 30)
        subprocess.run([*MKFS[system], image], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(['mount', '-o', 'loop', image, mount], check=True)
        failed = 0
        for m in sorted(models):
            mine = [t for t in todo if t[1].split('-')[1] == m]
            for name in (f'{m}.h5', f'{m}.layers.json'):
                shutil.copyfile(a.data / name, mount / name)
            subprocess.run(['sync', '-f', mount], check=True)
            failed |= run(a, system, mine, mount, mount / 'tmp', minutes / len(models))
            (mount / f'{m}.h5').unlink()
        subprocess.run(['umount', mount], check=True)
        return failed
    finally:
        image.unlink(missing_ok=True)
        mount.rmdir() if not os.path.ismount(mount) else None


def elsewhere(a, system, todo, minutes):
    """The same in a child with a mount namespace, or a line that says why not."""
    why = ('only root may mount' if os.geteuid() else '' if shutil.which(MKFS[system][0]) and shutil.which('unshare') else
           f'{MKFS[system][0]} is not there')
    if not why and subprocess.run(['unshare', '-m', 'true'], capture_output=True).returncode:
        why = 'no mount namespaces here'
    if why:
        print(f'skipped: {system}: {why}')
        return 0
    child = os.fork()
    if child == 0:
        os.execvp('unshare', ['unshare', '-m', sys.executable, *sys.argv, '--inside', system, '--minutes', str(minutes)])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    child = sys.argv.index('--inside') if '--inside' in sys.argv else 0
    system = sys.argv[child + 1] if child else ''
    if child:
        del sys.argv[child:child + 2]
    a = arguments()
    todo = plan(a)
    if child:
        return inside(a, system, [t for t in todo if t[0] == system], a.minutes)
    failed = 0
    if not a.report_only:
        generate(a)
        begun = time.time()
        for system in dict.fromkeys(t[0] for t in todo):
            mine = [t for t in todo if t[0] == system]
            minutes = a.minutes * len(mine) / len(todo)
            failed |= elsewhere(a, system, mine, minutes) if system else run(a, '', mine, a.data, a.work / 'tmp', minutes)
        print(f'{(time.time() - begun) / 60:.1f} minutes')
    report.write(a, report.read(a.samples), ROWS)
    return failed


if __name__ == '__main__':
    sys.exit(main())
