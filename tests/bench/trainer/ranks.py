#!/usr/bin/env python3
"""Two processes on two cores: pgfit over MPI beside one process of two devices, and PyTorch's DistributedDataParallel (gloo).

usage: ranks.py --tools DIR [--models NAME,...] [--rounds N] [--mpirun FILE] [--work DIR] [--report FILE]

The batch is the same for all: each process takes half of it. One program after another, in reversed order every second round, as
run.py does; the median of the steps, best of the rounds. PG_TORCH_PYTHON names a Python with torch; PG_KERAS2_PYTHON makes the models."""
import argparse
import os
import shutil
import tempfile

import run as trainer

ROOT = {k: '1' for k in ('OMPI_ALLOW_RUN_AS_ROOT', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM')}
WAYS = {'1 process, 2 devices': (0, ['--devices', 'cpu:0,cpu:1']), '2 ranks': (2, ['-j', '1']),
        '1 process, deterministic': (0, ['--devices', 'cpu:0,cpu:1', '--deterministic']),
        '2 ranks, deterministic': (2, ['-j', '1', '--deterministic'])}


class Ranks(trainer.Bench):
    n = 0

    def own_command(self, model, tools, extra):
        command = super().own_command(model, tools, extra)
        return [self.a.mpirun, '-np', str(self.n), *command] if self.n else command

    def once(self, model, n_round):
        rows = [(name, n, extra) for name, (n, extra) in WAYS.items()] + [('torch-ddp2', 0, None)]
        for name, n, extra in rows[::-1 if n_round % 2 else 1]:
            self.n = n
            if extra is not None:
                self.own(name, model, n_round, extra)
            elif self.python['PG_TORCH_PYTHON']:
                self.peer(name, model, n_round)


def table(samples, models):
    names = [*WAYS, 'torch-ddp2']
    out = ['| ms/step | ' + ' | '.join(names) + ' | DDP / 2 ranks |', '|---' + '|---:' * (len(names) + 1) + '|']
    for m in models:
        ms = {p: min((s['ms_med'] for s in samples if s.get('peer') == p and s.get('model') == m and 'ms_med' in s), default=None)
              for p in names}
        shown = ['–' if ms[p] is None else '%.3g' % ms[p] if ms[p] < 100 else '%.0f' % ms[p] for p in names]
        both = ms['torch-ddp2'] and ms['2 ranks']
        out.append('| %s | %s | %s |' % (m, ' | '.join(shown), '**%.2f**' % (ms['torch-ddp2'] / ms['2 ranks']) if both else '–'))
    return '\n'.join(out) + '\n'


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--tools', required=True)
    ap.add_argument('--models', default='mlp,lenet,vggsmall,lstm2,bertmini,resnet18,mobilenetv2')
    ap.add_argument('--rounds', type=int, default=1)
    ap.add_argument('--mpirun', default=shutil.which('mpirun.openmpi') or 'mpirun')
    ap.add_argument('--work', default=os.path.join(tempfile.gettempdir(), 'pg-bench-trainer'))
    ap.add_argument('--report')
    a = ap.parse_args()
    a.models, a.peers, a.steps, a.timeout, a.minutes = a.models.split(','), [], None, 180, 60
    a.samples = os.path.join(a.work, 'ranks.jsonl')
    os.makedirs(a.work, exist_ok=True)
    os.environ.update(ROOT)
    bench = Ranks(a)
    bench.export()
    for n_round in range(a.rounds):
        for m in a.models:
            bench.once(m, n_round)
    text = table(bench.samples, a.models)
    print(text)
    if a.report:
        with open(a.report, 'w') as f:
            f.write(text)


if __name__ == '__main__':
    main()
