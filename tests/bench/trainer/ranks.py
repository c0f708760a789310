#!/usr/bin/env python3
"""Two processes on two cores: pgfit over MPI beside one process of two devices, and PyTorch's DistributedDataParallel (gloo).

usage: ranks.py --tools DIR [--link [--batches X,...]] [--models NAME,...] [--rounds N] [--mpirun FILE] [--work DIR] [--report FILE]

The batch is the same for all: each process takes half of it. One program after another, in reversed order every second round, as
run.py does; the median of the steps, best of the rounds. PG_TORCH_PYTHON names a Python with torch, PG_HOROVOD_PYTHON one with TensorFlow and Horovod; PG_KERAS2_PYTHON makes the models.

--link: how much of the exchange is hidden behind the computation where the ranks are two machines (tests/ranks/wires.py) on a link of
1 Gbit/s. Each rank takes the model's batch, times each of --batches. Without exchange: two processes at once that do not know of each
other, as many rows each; alone: the same sums, while nobody computes (ninja tests/bench_exchange). Outlasts: what pgfit says of the
rank that waits least: sums that were not finished when the backward pass was. Hidden: 1 - outlasts / alone; slower: (2 ranks - without
exchange) / alone, which is also what moving the sums takes from the cores, and, of long steps, the difference of two large numbers. At
most: what pgfit --plan says could be hidden, as gradients are there only when the backward pass has made them. The link has no delay:
that asks for netem."""
import argparse
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import run as trainer
from specs import DISTINCT  # found by run.py
from tables import shown, table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'ranks'))
import wires  # noqa: E402

ROOT = {k: '1' for k in ('OMPI_ALLOW_RUN_AS_ROOT', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM')}
RATE = '1gbit'
TRIALS = 4  # plans
HEAD = '\nTwo machines on a link of 1 Gbit/s without a delay; ms:\n\n'
PEERS = ('torch-ddp2', 'horovod2')
WAYS = {'1 process, 2 devices': (0, ['--devices', 'cpu:0,cpu:1']), '2 ranks': (2, ['-j', '1']),
        '1 process, deterministic': (0, ['--devices', 'cpu:0,cpu:1', '--deterministic']),
        '2 ranks, deterministic': (2, ['-j', '1', '--deterministic'])}


class Ranks(trainer.Bench):
    n = 0

    def own_command(self, model, tools, extra):
        command = super().own_command(model, tools, extra)
        return [self.a.mpirun, '-np', str(self.n), *command] if self.n else command

    def once(self, model, n_round):
        rows = [(name, n, extra) for name, (n, extra) in WAYS.items()] + [(name, 0, None) for name in PEERS]
        for name, n, extra in rows[::-1 if n_round % 2 else 1]:
            self.n = n
            if extra is not None:
                self.own(name, model, n_round, extra)
            elif name == 'horovod2' and os.environ.get('PG_HOROVOD_PYTHON'):
                self.horovod(name, model, n_round)
            elif name == 'torch-ddp2' and self.python['PG_TORCH_PYTHON']:
                self.peer(name, model, n_round)

    def horovod(self, name, model, n_round):
        argv = [self.a.mpirun, '-np', '2', os.environ['PG_HOROVOD_PYTHON'], trainer.KERAS, model, '--horovod']
        rc, lines, errors, _, rss, _ = trainer.measure(argv, {'OMP_NUM_THREADS': '1'}, self.a.timeout)
        found = [trainer.json.loads(x) for _, x in lines if x.startswith('{')]
        d = found[-1] if rc == 0 and found else {'error': errors.strip()[-300:] or 'exit %d' % rc, 'model': model}
        self.add(**d, peer=name, round=n_round, rss_mb=rss)


class Link(trainer.Bench):
    launcher, rows = [], 0

    def add(self, **sample):
        super().add(**sample, rows=self.rows)

    def own_command(self, model, tools, extra):
        """Each process takes self.rows in a step, alone or as a rank."""
        command = super().own_command(model, tools, ['-j', '1', *extra])
        spec, rows = trainer.SPEC[model], self.rows * (2 if self.launcher else 1)
        per_epoch = max(1, spec['batch'] * DISTINCT // rows)
        command[command.index('--batch-size') + 1] = str(rows)
        return [*map(str, self.launcher), *command, '--epochs', str(-(-(spec['warm'] + max(8, spec['steps'])) // per_epoch))]

    def apart(self, model, n_round):
        """Two processes at once; the slower one's step is that of both."""
        both = [threading.Thread(target=self.own, args=(f'without exchange, {k}', model, n_round, ['--resume=never'])) for k in (0, 1)]
        for t in both:
            t.start()
        for t in both:
            t.join()

    def alone(self, model, n_round):
        program = os.path.join(self.a.tools, '../tests/bench_exchange')
        rc, lines, errors, _, _, _ = trainer.measure([*map(str, self.launcher), program, '9', *map(str, self.plan['buckets'])], {}, self.a.timeout)
        self.add(peer='exchange alone', model=model, round=n_round,
                 **({'ms_med': float(lines[-1][1])} if rc == 0 and lines else {'error': errors[-300:] or 'exit %d' % rc}))

    def predict(self, model, link):
        """pgfit --plan of two machines: which buckets there are, when they are left behind, and what that leaves to be seen of the exchange."""
        command = self.own_command(model, self.a.tools, ['--plan', f'hosts=2,cpus=1,link={link},latency=1ns,scale=weak', '--json'])
        r = subprocess.run(command, capture_output=True, text=True)
        self.plan = trainer.json.loads(r.stdout.splitlines()[-1])
        return self.plan['rows'][1]

    def at_most(self, model, n_round):
        """Were the exchange as fast as alone, and cost the cores nothing. The plan times some steps of its own: where these differ from
        the ones without exchange, its link is as much slower or faster."""
        def of(peer):
            return statistics.median(s['ms_med'] for s in self.samples if s.get('peer') == peer and s['model'] == model and
                                     s['rows'] == self.rows and 'ms_med' in s)
        n_bytes, row, best = sum(self.plan['buckets']), self.plan['rows'][1], None
        ratio = of('exchange alone') / max(of(f'without exchange, {k}') for k in (0, 1))
        for _ in range(TRIALS):
            row = self.predict(model, '%.4gMB' % (n_bytes / (ratio * (row['compute'] + row['update'])) / 1e6))
            off = abs(math.log(row['exchange'] / (row['compute'] + row['update']) / ratio))
            best = min(best or (off, row), (off, row), key=lambda x: x[0])
        self.add(peer='at most', model=model, round=n_round, bytes=n_bytes, share=round(1 - best[1]['exchange_shown'] / best[1]['exchange'], 3))

    def once(self, model, n_round):
        for times in self.a.batches:
            self.rows = max(1, round(trainer.SPEC[model]['batch'] * times))
            self.predict(model, '1Gbit')
            with tempfile.TemporaryDirectory() as d:
                launcher = wires.two(pathlib.Path(d), self.a.mpirun, 1)
                self.apart(model, n_round)
                self.launcher = launcher
                self.own('2 ranks on a link', model, n_round, [])
                self.alone(model, n_round)
                self.launcher = []
            self.at_most(model, n_round)


def link_table(samples, models):
    out = ['| model | MB | rows per rank | without exchange | exchange alone | 2 ranks | outlasts | hidden | at most | slower |', '|---' + '|---:' * 9 + '|']
    done = {(s['model'], s['rows']) for s in samples if s.get('peer') == 'at most' and s['model'] in models}
    for m, rows in sorted(done, key=lambda x: (models.index(x[0]), x[1])):
        def of(peer, key='ms_med'):
            return [s[key] for s in samples if (s.get('peer'), s.get('model'), s.get('rows')) == (peer, m, rows) and key in s]
        pairs = list(zip(of('without exchange, 0'), of('without exchange, 1')))
        alone, both = of('exchange alone'), of('2 ranks on a link')
        if not pairs or not alone or not both:
            out.append('| %s | – | %d | – | – | – | – | – | – | – |' % (m, rows))
            continue
        apart, alone = min(max(p) for p in pairs), statistics.median(alone)
        outlasts = statistics.median(share * ms for share, ms in zip(of('2 ranks on a link', 'exchange'), of('2 ranks on a link', 'ms_step')))
        out.append('| %s | %.1f | %d | %s | %s | %s | %s | **%.0f %%** | %.0f %% | %.0f %% |' % (
            m, of('at most', 'bytes')[0] / 1e6, rows, shown(apart), shown(alone), shown(min(both)), shown(outlasts), (1 - outlasts / alone) * 100,
            statistics.median(of('at most', 'share')) * 100, (min(both) - apart) / alone * 100))
    loads = [s['load'] for s in samples if 'load' in s]
    return '\n'.join(out) + ('\n\nLoad of the machine meanwhile: %.0f to %.0f. Of an exchange of a few ms the share is noise.\n' % (min(loads), max(loads)) if loads else '\n')


def steps_table(samples, models):
    names = [*WAYS, *PEERS]
    rows = []
    for m in models:
        ms = {p: min((s['ms_med'] for s in samples if s.get('peer') == p and s.get('model') == m and 'ms_med' in s), default=None)
              for p in names}
        ratios = ['**%.2f**' % (ms[p] / ms['2 ranks']) if ms[p] and ms['2 ranks'] else '–' for p in PEERS]
        rows.append([m, *(shown(ms[p]) for p in names), *ratios])
    return '\n'.join(table(['ms/step', *names, 'DDP / 2 ranks', 'Horovod / 2 ranks'], rows)) + '\n'


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--tools', required=True)
    ap.add_argument('--models', default='mlp,lenet,vggsmall,lstm2,bertmini,resnet18,mobilenetv2')
    ap.add_argument('--link', action='store_true')
    ap.add_argument('--batches', default='1', type=lambda s: [float(x) for x in s.split(',')])
    ap.add_argument('--inside', action='store_true', help=argparse.SUPPRESS)
    ap.add_argument('--rounds', type=int, default=1)
    ap.add_argument('--mpirun', default=shutil.which('mpirun.openmpi') or 'mpirun')
    ap.add_argument('--work', default=os.path.join(tempfile.gettempdir(), 'pg-bench-trainer'))
    ap.add_argument('--report')
    a = ap.parse_args()
    a.models, a.peers, a.isa, a.steps, a.timeout, a.minutes = a.models.split(','), [], 'native', None, 180, 60
    a.samples = os.path.join(a.work, 'link.jsonl' if a.link else 'ranks.jsonl')
    os.makedirs(a.work, exist_ok=True)
    os.environ.update(ROOT)
    bench = Link(a) if a.link else Ranks(a)
    bench.export()
    if a.link:
        if not a.inside:
            wires.go_inside()
        wires.lay_links()
        wires.set_links('up', 'up')
        wires.slow_down(1, RATE)
    for n_round in range(a.rounds):
        for m in a.models:
            bench.once(m, n_round)
    text = link_table(bench.samples, a.models) if a.link else steps_table(bench.samples, a.models)
    print(text)
    if a.report:  # the other table stays
        old = pathlib.Path(a.report).read_text().partition(HEAD) if os.path.exists(a.report) else ('', '', '')
        pathlib.Path(a.report).write_text(old[0] + HEAD + text if a.link else text + old[1] + old[2])


if __name__ == '__main__':
    main()
