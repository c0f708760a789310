#!/usr/bin/env python3
"""What `pgfit --plan` predicts for 1, 2 and 4 processes of one thread on 2 cores beside what they take, and sums of gradients
beside bare MPI_Allreduce.

usage: plan.py --tools DIR [--models NAME,...] [--rounds N] [--mpirun FILE] [--work DIR] [--report FILE]

Latency and bandwidth of the sums of as many processes are measured first (bench_allreduce: ninja -C build tests/bench_allreduce) and given
to the planner; it times the rest. All of a model is run one after the other, in reversed order every second round; of each number the best of the
rounds counts, a median of steps in each. Four processes share two cores: the planner is told so (cores=2). It takes the numbers of a link for
those of cores of one's own, so what four processes measured is given as half the latency and twice the bandwidth."""
import argparse
import json
import os
import shutil
import tempfile

import run as trainer
from tables import shown, table

MPI = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMPI_MCA_rmaps_base_oversubscribe': '1',
       'OMPI_MCA_hwloc_base_binding_policy': 'none', 'OMPI_MCA_btl_vader_single_copy_mechanism': 'none'}
RANKS = (1, 2, 4)
CORES = 2


class Plan(trainer.Bench):
    n = 0

    def own_command(self, model, tools, extra):
        command = super().own_command(model, tools, extra)
        return [self.a.mpirun, '-np', str(self.n), *command] if self.n > 1 else command

    def steps(self, model, n_round, n):
        self.n = n
        self.own('%d ranks' % n, model, n_round, ['-j', '1'])
        self.n = 0

    def object(self, what, model, argv):
        """The last JSON object of a program that runs as measured ones do."""
        rc, lines, errors, _, _, _ = trainer.measure(argv, {}, self.a.timeout)
        found = [x for _, x in lines if x.startswith('{')]
        if rc or not found:
            self.add(peer=what, model=model, error=errors.strip()[-300:])
            return None
        return json.loads(found[-1])

    def planned(self, model, link, more):
        spec = ','.join([more] + ['%s=%g%s' % (k, v, unit) for k, v, unit in link])
        return self.object('plan', model, self.own_command(model, self.a.tools, ['-j', str(CORES), '--plan', spec, '--json']))

    def plan(self, model, n_round):
        for n in RANKS:
            d = self.planned(model, self.link(model, max(n, CORES)), 'cpus=%d,cores=%d' % (max(n, CORES), CORES))
            if d:
                row = next(r for r in d['rows'] if r['devices'] == n)
                self.add(peer='plan %d' % n, model=model, round=n_round, ms_med=row['step'] * 1e3, load=os.getloadavg()[0],
                         **{k: row[k] * 1e3 for k in ('compute', 'exchange_shown', 'update', 'rest')})

    def sums(self, model, n_round, buckets):
        bench = os.path.join(self.a.tools, '../tests/bench_allreduce')
        for n in RANKS[1:]:
            d = self.object('sums', model, [self.a.mpirun, '-np', str(n), bench, *map(str, buckets)])
            if d:
                self.add(peer='sums %d' % n, model=model, round=n_round, **d)

    def best(self, peer, model, key='ms_med', of=min):
        return of((s[key] for s in self.samples if s.get('peer') == peer and s.get('model') == model and key in s), default=None)

    def link(self, model, n):
        share = n / CORES
        latency, bandwidth = self.best('sums %d' % n, model, 'latency'), self.best('sums %d' % n, model, 'bandwidth', max)
        return [('inner-latency', max(latency / share, 1e-9) * 1e6, 'us'), ('inner', bandwidth * share / 1e9, 'GB')]

    def once(self, model, n_round):
        d = self.planned(model, [], 'cpus=2,cores=%d' % CORES)
        if not d:
            return
        self.sums(model, n_round, d['buckets'])
        todo = [lambda: self.plan(model, n_round)]
        todo += [lambda n=n: self.steps(model, n_round, n) for n in RANKS]
        for f in todo[::-1 if n_round % 2 else 1]:
            f()


def report(bench, models):
    rows = []
    errors = {n: [] for n in RANKS}
    for m in models:
        cells = [m]
        for n in RANKS:
            a, b = bench.best('plan %d' % n, m), bench.best('%d ranks' % n, m)
            e = a / b - 1 if a and b else None
            errors[n] += [abs(e)] if e is not None else []
            cells += ['%s, %s' % (shown(a), shown(b)), '–' if e is None else '%+.0f %%' % (e * 100)]
        rows.append(cells)
    out = table(['model'] + [x for n in RANKS for x in ('%d rank%s: predicted, measured ms' % (n, 's' * (n > 1)), 'error')], rows)
    out.append('')
    for n in RANKS:
        if errors[n]:
            out.append('%d rank%s: mean of the absolute errors %.0f %%, largest %.0f %%.  ' %
                       (n, 's' * (n > 1), 100 * sum(errors[n]) / len(errors[n]), 100 * max(errors[n])))
    loads = [s['load'] for s in bench.samples if 'load' in s]
    if loads:
        out.append('The load of the machine was %.1f to %.1f, of which what is measured is up to 4.  ' % (min(loads), max(loads)))
    rows = []
    for m in models:
        get = lambda k, of=min: bench.best('sums 2', m, k, of)
        if get('bare') is None:
            continue
        ms = {k: get(k) * 1e3 for k in ('bare', 'bare_buckets', 'normal', 'deterministic')}
        rows.append(['%s, %.1f MB in %d' % (m, get('bytes') / 1e6, get('buckets')), shown(ms['bare']), shown(ms['bare_buckets']),
                     shown(ms['normal']), '**%.2f**' % (ms['normal'] / ms['bare_buckets']), shown(ms['deterministic']),
                     '%.2f' % (ms['deterministic'] / ms['bare']), '%.1f' % (get('latency') * 1e6), '%.1f' % (get('bandwidth', max) / 1e9)])
    out += ['', *table(['gradients, 2 ranks', 'bare MPI_Allreduce, ms', 'of each bucket', 'normal', '/ of each bucket', 'deterministic',
                        '/ bare', 'latency, us', 'GB/s'], rows)]
    return '\n'.join(out) + '\n'


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--tools', required=True)
    ap.add_argument('--models', default='mlp,lenet,vggsmall,lstm2,bertmini,resnet18,mobilenetv2')
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--mpirun', default=shutil.which('mpirun.openmpi') or 'mpirun')
    ap.add_argument('--work', default=os.path.join(tempfile.gettempdir(), 'pg-bench-trainer'))
    ap.add_argument('--report')
    a = ap.parse_args()
    a.models, a.peers, a.steps, a.timeout, a.minutes = a.models.split(','), [], None, 180, 60
    a.samples = os.path.join(a.work, 'plan.jsonl')
    os.makedirs(a.work, exist_ok=True)
    os.environ.update(MPI)
    bench = Plan(a)
    bench.export()
    for n_round in range(a.rounds):
        for m in a.models:
            bench.once(m, n_round)
    text = report(bench, a.models)
    print(text)
    if a.report:
        with open(a.report, 'w') as f:
            f.write(text)


if __name__ == '__main__':
    main()
