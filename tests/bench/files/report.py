"""The tables of the benchmark, made of the samples that run.py took."""
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import time

MARKS = '<!-- speed of the file tools: from here -->', '<!-- speed of the file tools: to here -->'
QUIET = 0.9, 1.1  # the base against itself


def read(path):
    """The runs of each suite on each file system: the latest one, with those before it that are comparable."""
    found = {}
    if path.exists():
        for line in path.read_text().splitlines():
            sample = json.loads(line)
            key = sample['system'], sample['suite']
            runs = [r for r in found.get(key, {}).get('runs', []) if (r['scale'], r['machine']) == (sample['scale'], sample['machine'])]
            found[key] = dict(sample, runs=[*runs, sample])
    return found


def pick(suite, case):
    """The run with most rounds of a case; of our tools only the build that was measured last. A ratio is always of one run."""
    runs = [r for r in suite['runs'] if r['samples'].get(case) and (not case.startswith('pg') or r['tools'] == suite['tools'])]
    return max(runs, key=lambda r: (len(r['samples'][case]), r['when']), default=None)


def machine():
    text = pathlib.Path('/proc/cpuinfo').read_text()
    cpu = re.search(r'model name\s*: (.*)', text)
    vector = next((n for n, flag in (('AVX-512', 'avx512f'), ('AVX2', 'avx2')) if re.search(rf'\b{flag}\b', text)), 'no AVX2')
    gib = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    return f'{cpu.group(1) if cpu else platform.machine()} ({vector}), {os.cpu_count()} cores, {gib:.0f} GiB, ' \
           f'{platform.system()} {platform.release().split("-")[0]}'


def kind_of(path):
    r = subprocess.run(['findmnt', '-n', '-o', 'FSTYPE', '-T', path], capture_output=True, text=True)
    return r.stdout.strip() or 'unknown'


def wall(samples):
    return min(m['wall'] for m in samples)


def cpu(samples):
    return max(min(m['user'] + m['sys'] for m in samples), 1e-4)


def control(run, measure):
    """The base against itself: 1 on a machine where that measure can be trusted."""
    v, b = run['samples'].get('control'), run['samples'].get(run['base'])
    return measure(v) / measure(b) if v and b else 0


class Figure:
    """A case of a suite against a base: ratios of minima, whether the base agreed with itself, peak memory."""

    def __init__(self, suite, case, base=None):
        run = pick(suite, case)
        v = run['samples'][case] if run else []
        b = run['samples'].get(base or run['base']) if run else []
        self.there = bool(v and b)
        if self.there:
            self.wall, self.cpu = wall(v) / wall(b), cpu(v) / cpu(b)
            self.control = control(run, wall), control(run, cpu)
            self.fine = QUIET[0] <= self.control[0] <= QUIET[1]
            self.median = statistics.median(m['wall'] for m in v) / statistics.median(m['wall'] for m in b)
            self.rss, self.seconds, self.n = max(m['rss_kb'] for m in v) / 1024, wall(v), len(v)


def number(x):
    return f'{x:.3f}' if x < 0.01 else f'{x:.2f}' if x < 10 else f'{x:.0f}'


def lines(samples, rows, system_of):
    """Cells of each row on each of its file systems, as far as it was measured."""
    for row in rows:
        for system in row.systems:
            suites = [samples.get((system, f'{row.suite}-{m}')) for m in row.models]
            here = [(m, s, Figure(s, row.case, row.base)) for m, s in zip(row.models, suites) if s]
            here = [(m, s, f) for m, s, f in here if f.there]
            if not here:
                continue
            peers = []
            for label, case in row.peers.items():
                found = [Figure(s, case, row.base) for _, s, _ in here]
                if any(f.there for f in found):
                    peers.append(f'{label} ' + ' and '.join(number(f.wall) if f.there else '–' for f in found))
            fine = all(f.fine for _, _, f in here)
            figures = [f for _, _, f in here]
            yield [row.what, ', '.join(m for m, _, _ in here) + (f' on {system_of(system)}' if system else ''),
                   row.base or here[0][1]['base'], ', '.join(number(f.wall) for f in figures) + ('' if fine else ' \\*'),
                   ', '.join(number(f.cpu) for f in figures), ', '.join(peers), f'{max(f.rss for f in figures):.0f}']


def table(heads, right, rows):
    return ['| ' + ' | '.join(heads) + ' |', '|' + '|'.join('---:' if i in right else '---' for i in range(len(heads))) + '|',
            *('| ' + ' | '.join(r) + ' |' for r in rows)]


def head(samples):
    """Machine, time, load and versions of what was measured."""
    some = list(samples.values())
    loads = [x for s in some for r in s['runs'] for x in r['load']]
    newest = max(some, key=lambda s: s['when'])
    kinds = ', '.join(dict.fromkeys(s['kind'] for s in some))
    scale = '' if newest['scale'] == 1 else f' Inputs scaled to {newest["scale"]}: a trial.'
    return [f'{newest["machine"]}, {kinds}, {time.strftime("%d %B %Y", time.gmtime(newest["when"])).lstrip("0")}, warm page cache, load '
            f'{min(loads):.1f} to {max(loads):.1f}. {", ".join(newest["versions"])}.{scale}']


def short(samples, rows):
    rows = list(lines(samples, rows, str))
    star = ['', '\\* The base measured twice differed by more than a tenth, so this row supports no claim.'] if any(
        '\\*' in r[3] for r in rows) else []
    return [*head(samples), '', *table(['', 'model', 'to', 'wall', 'processor', 'peers, wall', 'peak, MB'], {3, 4, 6}, rows), *star]


def full(samples):
    """Every case of every suite."""
    for (_, name), s in samples.items():
        loads = [x for r in s['runs'] for x in r['load']]
        cells = []
        for case in dict.fromkeys(c for r in s['runs'] for c in r['samples']):
            f = Figure(s, case)
            if f.there:
                cells.append([case, *map(number, (f.wall, f.median, f.cpu, *f.control)), f'{f.rss:.0f}', f'{f.seconds:.4f}', str(f.n)])
        yield from (f'### {name} on {s["kind"]}: to `{s["base"]}`', '', f'Load {min(loads):.1f} to {max(loads):.1f}.', '')
        yield from table(['', 'wall', 'median', 'cpu', 'control', 'in cpu', 'RSS MB', 'seconds', 'runs'], set(range(1, 9)), cells)
        yield ''


def between(path, inside):
    before, mark, after = path.read_text().partition(MARKS[0])
    if not mark or MARKS[1] not in after:
        raise SystemExit(f'{path}: no lines {MARKS[0]} and {MARKS[1]}')
    path.write_text(before + '\n'.join([MARKS[0], *inside, MARKS[1]]) + after.partition(MARKS[1])[2])


def write(a, samples, rows):
    if not samples:
        raise SystemExit(f'{a.samples}: nothing was measured')
    text = short(samples, rows)
    print('\n'.join(text))
    if a.readme:
        between(a.readme, text)
    if a.report:
        between(a.report, [*text, '', '## All cases', '', *full(samples)][:-1])
