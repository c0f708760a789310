#!/usr/bin/env python3
"""usage: run.py SUITE... --data FOLDER --tmp FOLDER --tools FOLDER [option...]

Times tools side by side, in ratios to a base. Every round runs every case once, in random order; each case is a child
of `meter`. Outputs are removed between cases, so that dirty pages of one are not billed to the next. The base runs
twice ("control"): where its ratio is not near 1, the run supports no fine statement. What is missing is skipped and
named, a case that fails is not tried again, wrong output is marked. Status 1: something failed or was wrong."""
import argparse
import json
import os
import pathlib
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time

from suites import SUITES

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('suites', nargs='*', metavar='SUITE', help='none: their names')
parser.add_argument('--data', type=pathlib.Path, help='what gen.py made')
parser.add_argument('--tmp', type=pathlib.Path, help='for outputs, on the file system to be measured')
parser.add_argument('--tools', help='folder of pgsplit and the others')
parser.add_argument('-r', '--rounds', type=int, default=7)
parser.add_argument('--minutes', type=float, default=0, help='start no further round after this time, for each suite')
parser.add_argument('--slow-rounds', type=int, default=2, help='of peers in Python, h5diff (2)')
parser.add_argument('--only', help='ids of cases, separated by commas; the base always runs')
parser.add_argument('--cache', choices=('warm', 'cold'), default='warm')
parser.add_argument('--py', default=sys.executable, help='Python with h5py, numpy, safetensors, huggingface_hub')
parser.add_argument('--keras2', default='', help='Python with Keras 2.15')
parser.add_argument('--keras3', default='', help='Python with Keras 3.10 or later')
parser.add_argument('--nodelete', action='store_true', help='keep outputs until the end')
parser.add_argument('--no-check', action='store_true', help='do not verify the first output of each case')
parser.add_argument('-o', '--out', help='all samples as JSON')
args = parser.parse_args()
troubles = []


def trouble(*words):
    troubles.append(words)
    print(*words, file=sys.stderr)


class Suite:
    def __init__(self, name):
        spec = SUITES[name]
        self.name, self.folder = name, args.tmp / f'run.{os.getpid()}'
        self.src = args.data / spec['src']
        self.words = {
            'src': shlex.quote(str(self.src)), 'dst': str(self.folder / 'out'), 'W': str(self.folder), 'pg': args.tools,
            'py': args.py, 'k2': args.keras2, 'k3': args.keras3, 'layers': str(self.src.with_suffix('.layers.json')),
            'peers': str(here / 'peers.py'), 'verify': f'{args.py} {here / "verify.py"}'}
        self.setup = [self.fill(c) for c in spec.get('setup', [])]
        self.inputs = [self.src] + [pathlib.Path(self.fill(p)) for p in spec.get('inputs', [])]
        base = spec['cases'][0]
        wanted = args.only and args.only.split(',')
        cases = [c for c in spec['cases'][1:] if not wanted or c['id'] in wanted]
        skipped = [c['id'] for c in cases if not self.can(c)]
        if skipped:
            print(f'{name}: skipped, not there: {", ".join(skipped)}', file=sys.stderr)
        self.base = base['id']
        self.cases = [base, dict(base, id='control')] + [c for c in cases if c['id'] not in skipped]
        self.samples = {c['id']: [] for c in self.cases}
        self.load, self.failed = [], set()

    def can(self, case):
        """Its program is there, with the Python module or the option that it needs."""
        program = shutil.which(shlex.split(self.fill(case['command']))[0])
        if program and 'module' in case and subprocess.run([program, '-c', 'import ' + case['module']], capture_output=True).returncode:
            return False
        return program and ('needs' not in case or case['needs'] in subprocess.run(
            [program, '--help'], capture_output=True, text=True).stdout)

    def fill(self, text):
        return text.format(**self.words)

    def clean(self):
        for path in self.folder.iterdir():
            if path.name.startswith('keep'):
                continue
            if args.nodelete:
                path.rename(self.folder / f'keep-{time.time_ns()}-{path.name}')
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def prepare_cache(self):
        files = [str(f) for p in self.inputs for f in (p.rglob('*') if p.is_dir() else [p]) if f.is_file()]
        for i in range(0, len(files), 500):
            subprocess.run([args.tmp / 'cachectl', args.cache, *files[i:i + 500]], check=True)

    def measure(self, case):
        self.clean()
        if 'pre' in case:
            subprocess.run(self.fill(case['pre']), shell=True, check=True)
        self.prepare_cache()
        out = self.folder / 'keep_meter.json'
        out.unlink(missing_ok=True)
        p = subprocess.run([args.tmp / 'meter', out, *shlex.split(self.fill(case['command']))],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        m = json.loads(out.read_text()) if p.returncode == 0 else {'status': 127}
        if m['status'] not in case.get('status', (0,)):
            trouble('FAILED', self.name, case['id'], p.stderr.decode(errors='replace')[-400:])
            self.failed.add(case['id'])
            return
        self.samples[case['id']].append(m)
        if len(self.samples[case['id']]) == 1 and 'check' in case and not args.no_check:
            q = subprocess.run(self.fill(case['check']), shell=True, capture_output=True)
            if q.returncode:
                trouble('WRONG OUTPUT', self.name, case['id'], q.stderr.decode()[-400:])

    def run(self):
        self.folder.mkdir(parents=True)
        try:
            for command in self.setup:
                subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)
            begun = time.monotonic()
            for _ in range(args.rounds):
                if self.load and 0 < args.minutes * 60 < time.monotonic() - begun:
                    break
                self.load.append(os.getloadavg()[0])
                for case in random.sample(self.cases, len(self.cases)):
                    if case['id'] not in self.failed and not (
                            case.get('slow') and len(self.samples[case['id']]) >= args.slow_rounds):
                        self.measure(case)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def table(self):
        wall, cpu = (lambda m: m['wall']), (lambda m: m['user'] + m['sys'])
        base = self.samples[self.base]
        least = min(map(wall, base)), statistics.median(map(wall, base)), max(min(map(cpu, base)), 1e-4)
        yield f'### {self.name} ({args.cache}, {len(self.load)} rounds, load {min(self.load):.1f}-{max(self.load):.1f})'
        yield f'\n| ratio to {self.base} | wall (min) | wall (median) | cpu | RSS MB | wall min s |\n|---|---:|---:|---:|---:|---:|'
        for case in self.cases:
            v = self.samples[case['id']]
            if v:
                yield (f'| {case["id"]} | {min(map(wall, v)) / least[0]:.2f} '
                       f'| {statistics.median(map(wall, v)) / least[1]:.2f} | {min(map(cpu, v)) / least[2]:.2f} '
                       f'| {max(m["rss_kb"] for m in v) / 1024:.0f} | {min(map(wall, v)):.4f} |')


if not args.suites:
    sys.exit('suites: ' + ' '.join(SUITES))
if not (args.tmp and args.data and args.tools):
    sys.exit('--data, --tmp and --tools are needed')
args.tmp.mkdir(parents=True, exist_ok=True)
for name in ('meter', 'cachectl'):
    if not (args.tmp / name).exists():
        subprocess.run(['cc', '-O2', '-D_GNU_SOURCE', '-o', args.tmp / name, here / f'{name}.c'], check=True)
results = []
for name in args.suites:
    suite = Suite(name)
    suite.run()
    print('\n'.join(suite.table()) + '\n', flush=True)
    results.append({'suite': name, 'base': suite.base, 'cache': args.cache, 'when': int(time.time()), 'load': suite.load, 'samples': suite.samples})
if args.out:
    pathlib.Path(args.out).write_text(json.dumps(results))
sys.exit(bool(troubles))
