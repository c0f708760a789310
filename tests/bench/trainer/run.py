#!/usr/bin/env python3
"""Times pgfit beside TensorFlow, Keras 3 and PyTorch, and writes the tables.

usage: run.py --tools DIR [--quick] [options]     see README.md

One process per measurement; all programs of a model run one after the other, in reversed order every second round, so that
all see the same conditions. Every result is appended to --samples at once: a run that was cut off goes on where it was, and
its tables can be written at any time (--report-only). Peers that are far behind after the first round are not run again."""
import argparse
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, 'peers'))
import report  # noqa: E402
from specs import LEARNING_RATE, SPEC, loss, optimizer  # noqa: E402

KERAS, TORCH = os.path.join(HERE, 'peers/keras_peer.py'), os.path.join(HERE, 'peers/torch_peer.py')
ENVIRONMENTS = ('PG_KERAS2_PYTHON', 'PG_KERAS3_PYTHON', 'PG_TORCH_PYTHON', 'PG_JAX_PYTHON')
PEERS = {  # Python, program and options, environment
    'tfkeras': ('PG_KERAS2_PYTHON', [KERAS], {}),
    'keras3-tf': ('PG_KERAS3_PYTHON', [KERAS, '--impl', 'keras3'], {'KERAS_BACKEND': 'tensorflow'}),
    'keras3-jax': ('PG_JAX_PYTHON', [KERAS, '--impl', 'keras3'], {'KERAS_BACKEND': 'jax'}),
    'keras3-torch': ('PG_TORCH_PYTHON', [KERAS, '--impl', 'keras3'], {'KERAS_BACKEND': 'torch'}),
    'torch': ('PG_TORCH_PYTHON', [TORCH], {}),
    'torch-cl': ('PG_TORCH_PYTHON', [TORCH, '--mode', 'cl'], {}),
    'torch-bf16': ('PG_TORCH_PYTHON', [TORCH, '--mode', 'bf16'], {}),
    'torch-compile': ('PG_TORCH_PYTHON', [TORCH, '--mode', 'compile'], {'TORCHINDUCTOR_FX_GRAPH_CACHE': '1'}),
    'torch-autotune': ('PG_TORCH_PYTHON', [TORCH, '--mode', 'autotune'], {'TORCHINDUCTOR_FX_GRAPH_CACHE': '1'}),
    'torch-ddp2': ('PG_TORCH_PYTHON', [TORCH, '--mode', 'ddp'], {}),
    'mirrored2': ('PG_KERAS2_PYTHON', [KERAS, '--mirrored'], {}),
}
ISAS = {  # --isa: what the libraries of all programs read
    'native': {},
    'avx2': {'PG_ISA': 'avx2', 'ONEDNN_MAX_CPU_ISA': 'AVX2', 'DNNL_MAX_CPU_ISA': 'AVX2', 'MKL_ENABLE_INSTRUCTIONS': 'AVX2',
             'ATEN_CPU_CAPABILITY': 'avx2', 'XLA_FLAGS': '--xla_cpu_max_isa=AVX2',
             'TORCHINDUCTOR_CACHE_DIR': os.path.join(tempfile.gettempdir(), 'pg-bench-inductor-avx2')},  # whose keys do not tell
}
OWN = {  # rows of our own: arguments beside those of every run
    'pgfit': [],
    'pgfit-2dev': ['--devices', 'cpu:0,cpu:1'],
    'pgfit-det': ['--deterministic'],
    'pgfit-direct': ['--conv', 'direct'],
    'pgfit-bf16': ['--precision', 'bfloat16'],  # where the processor has it
}
LOGS = {  # what is written when an epoch ends: options, with a folder for them
    'no-logs': [],
    'logs': ['--tensorboard', '%s/logs', '--csv', '%s/log.csv'],
    'histograms': ['--tensorboard', '%s/logs', '--csv', '%s/log.csv', '--histogram-freq', '1'],
}
PASSES = 30  # over the 10 batches that there are: three epochs of 100 steps
EVERY_EPOCH = {'epochs': [], 'epochs-checkpoint': ['--checkpoint', '%s/{epoch}.keras', '--save-freq', '100', '--keep', '2']}
CONVOLUTIONS = ('lenet', 'vggsmall', 'unet', 'resnet18', 'vgg16', 'densenet121')
LOGGED = ('vggsmall',)
BUSY = ('lenet', 'vggsmall', 'lstm2')
SEVEN = 'mlp,lenet,vggsmall,unet,lstm2,bertmini,resnet18'
FOUR = 'mobilenetv2,densenet121,efficientnetb0,xception'
ALL_PEERS = 'tfkeras,keras3-tf,keras3-jax,keras3-torch,torch-cl,torch-compile,torch-autotune,torch-ddp2'
FAR_BEHIND = 1.6  # times the best peer: not asked a second time


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--tools', required=True, help='folder of pgfit')
    ap.add_argument('--tools3', help='folder of a pgfit built with oneDNN 3')
    ap.add_argument('--quick', action='store_true', help='one round, three models, three peers')
    ap.add_argument('--rounds', type=int, default=2)
    ap.add_argument('--models', default=SEVEN + ',vgg16,' + FOUR, help='vgg16 is run in the first round only')
    ap.add_argument('--peers', default=ALL_PEERS, help='of ' + ', '.join(PEERS))
    ap.add_argument('--isa', default='native', choices=ISAS, help='as if the processor had no more')
    ap.add_argument('--steps', type=int, help='measured steps, for trials')
    ap.add_argument('--work', default=os.path.join(tempfile.gettempdir(), 'pg-bench-trainer'), help='models and data')
    ap.add_argument('--samples', help='JSON lines to append to (default WORK/samples.jsonl)')
    ap.add_argument('--report', default=os.path.join(HERE, 'results.md'))
    ap.add_argument('--readme', help='put the short table between the marks of this file')
    ap.add_argument('--epochs-only', action='store_true', help='what checkpoints cost, and nothing else')
    ap.add_argument('--report-only', action='store_true')
    ap.add_argument('--minutes', type=float, default=60, help='start nothing after this time')
    ap.add_argument('--timeout', type=int, default=180, help='seconds for one measurement')
    a = ap.parse_args()
    if a.quick:
        a.rounds, a.models, a.peers = 1, 'mlp,lenet,vggsmall', 'tfkeras,keras3-tf,torch-cl'
    os.environ.update(ISAS[a.isa])
    a.samples = a.samples or os.path.join(a.work, 'samples.jsonl')
    a.models, a.peers = a.models.split(','), [p for p in a.peers.split(',') if p]
    os.makedirs(a.work, exist_ok=True)
    return a


def alone():
    """A session of its own, at raised priority where that is allowed (root): the same for every program."""
    os.setsid()
    try:
        with open('/proc/self/autogroup', 'w') as f:
            f.write('-15')
    except OSError:
        pass


def measure(argv, env, timeout, session=alone):
    """Runs a program; (exit status or None, lines with the time they came at, text of errors, start, peak RSS in MB, CPU s)."""
    lines = []
    with tempfile.TemporaryFile() as errors:
        begun = time.time()
        p = subprocess.Popen(argv, env={**os.environ, **env, 'BENCH_T0': repr(begun)}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=session)

        def read():
            for line in p.stdout:
                lines.append((time.time(), line))
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        timer = threading.Timer(timeout, lambda: os.killpg(p.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, usage = os.wait4(p.pid, 0)
        except BaseException:
            os.killpg(p.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        reader.join(5)
        errors.seek(0)
        return p.returncode, lines, errors.read().decode(errors='replace'), begun, round(usage.ru_maxrss / 1024, 1), \
            usage.ru_utime + usage.ru_stime


class Bench:
    def __init__(self, a):
        self.a, self.begun = a, time.time()
        self.samples = report.with_isa(report.read(a.samples), a.isa)
        self.version = subprocess.run([os.path.join(a.tools, 'pgfit'), '--version'], capture_output=True, text=True).stdout.partition('\n')[0]
        self.help = subprocess.run([os.path.join(a.tools, 'pgfit'), '--help'], capture_output=True, text=True).stdout
        self.python = {v: os.environ.get(v) for v in ENVIRONMENTS}

    def over(self):
        return time.time() - self.begun > self.a.minutes * 60

    def add(self, **sample):
        sample['isa'] = self.a.isa
        self.samples.append(sample)
        with open(self.a.samples, 'a') as f:
            f.write(json.dumps(sample) + '\n')
        shown = [str(sample.get(k, '')) for k in ('round', 'model', 'peer', 'ms_med', 'ms_gap', 'epoch_s', 'epoch_cpu_s', 'rss_mb', 't_first', 'error')]
        print('  '.join(shown), flush=True)

    def has(self, **keys):
        return any(all(s.get(k) == v for k, v in keys.items()) for s in self.samples)

    def export(self):
        """Models and data as pgfit reads them, made once; a model that cannot be made is left out."""
        for m in list(self.a.models):
            if os.path.exists(os.path.join(self.a.work, m + '.json')):
                continue
            python = self.python['PG_KERAS2_PYTHON'] or self.python['PG_KERAS3_PYTHON']
            impl = [] if self.python['PG_KERAS2_PYTHON'] else ['--impl', 'keras3']
            r = python and subprocess.run([python, KERAS, m, *impl, '--export', self.a.work], capture_output=True, text=True)
            if not r or r.returncode:
                print('left out: %s: %s' % (m, r.stderr[-300:] if r else 'no Keras to make it'))
                self.a.models.remove(m)

    def peer(self, name, model, n_round):
        variable, argv, env = PEERS[name]
        argv = [self.python[variable], *argv[:1], model, *argv[1:]]
        if self.a.steps:
            argv += ['--steps', str(self.a.steps)]
        load = os.getloadavg()[0]
        rc, lines, errors, _, rss, _ = measure(argv, env, self.a.timeout)
        found = [json.loads(x) for _, x in lines if x.startswith('{')]
        d = found[-1] if rc == 0 and found else {'error': errors.strip()[-300:] or 'exit %d' % rc, 'model': model}
        self.add(**d, peer=name, round=n_round, rss_mb=rss, load=round(load, 1), when=round(time.time()))

    def own_command(self, model, tools, extra):
        if model == 'digits':
            return [os.path.join(tools, 'pgfit'), '--demo', 'digits', '--epochs', '4', *extra]
        return [os.path.join(tools, 'pgfit'), os.path.join(self.a.work, model + '.json'), '--data',
                os.path.join(self.a.work, model + '.npz'), '--loss', loss(model), '--optimizer',
                '%s:learning_rate=%g' % (optimizer(model), LEARNING_RATE), '--batch-size', str(SPEC[model]['batch']),
                '--no-shuffle', *extra]

    def computes_in_bf16(self, model):
        r = subprocess.run([*self.own_command(model, self.a.tools, OWN['pgfit-bf16']), '--dry-run'], capture_output=True)
        return r.returncode == 0

    def own(self, name, model, n_round, extra, tools=None, session=alone):
        tools = tools or self.a.tools
        load, spec = os.getloadavg()[0], SPEC.get(model, {'batch': None, 'warm': 10})
        warm = spec['warm']
        rc, lines, errors, begun, rss, _ = measure([*self.own_command(model, tools, extra), '--json=batch'], {},
                                                self.a.timeout, session)
        steps = [(t, json.loads(x)) for t, x in lines if x.startswith('{"event": "batch"')]
        base = {'peer': name, 'model': model, 'round': n_round, 'batch': spec['batch'], 'load': round(load, 1),
                'when': round(time.time()), 'rss_mb': rss}
        if rc or len(steps) <= warm or not math.isfinite(steps[-1][1]['loss'] or math.nan):
            self.add(**base, error=errors.strip()[-300:] or 'exit %d' % rc)
            return
        ms = sorted(s['ms'] for _, s in steps[warm:])
        ranks = [r for _, x in lines if '"ranks": [' in x for r in json.loads(x)['ranks']]
        self.add(**base, ver=self.version.split()[-1], ms_step=round(sum(ms) / len(ms), 3), ms_med=round(ms[len(ms) // 2], 3), ms_min=round(ms[0], 3),
                 **({'exchange': min(r['exchange'] for r in ranks)} if ranks else {}), t_first=round(steps[0][0] - begun, 3),
                 loss=steps[-1][1]['loss'])

    def logs(self, name, model, n_round):
        """Between the end of an epoch and the first step of the next one, in ms: the median of many short epochs. What is
        written in an epoch is in the time of its steps."""
        with tempfile.TemporaryDirectory() as d:
            extra = [x.replace('%s', d) for x in LOGS[name]]
            epochs = ['--epochs', '12', '--steps-per-epoch', '5', '--validation-split', '0.1', '--validation-steps', '1']
            rc, lines, errors, _, _, _ = measure([*self.own_command(model, self.a.tools, extra), *epochs, '--json=batch'], {},
                                              self.a.timeout)
        gaps, ended = [], None
        for t, event in ((t, json.loads(x)) for t, x in lines):
            if event['event'] == 'batch' and ended:
                gaps.append((t - ended) * 1e3 - event['ms'])
            ended = t if event['event'] == 'epoch' else None
        base = {'peer': name, 'model': model, 'round': n_round}
        if rc or not gaps:
            self.add(**base, error=errors.strip()[-300:] or 'exit %d' % rc)
        else:
            self.add(**base, ms_gap=round(sorted(gaps)[len(gaps) // 2], 3))

    def epochs(self, n_round, model='vggsmall'):
        """100 steps with and without a checkpoint behind them, in turn."""
        for name in list(EVERY_EPOCH)[::-1 if n_round % 2 else 1]:
            if self.over() or model not in self.a.models or self.has(peer=name, model=model, round=n_round):
                continue
            with tempfile.TemporaryDirectory(dir=self.a.work) as d:
                extra = ['--epochs', str(PASSES), '--json']
                extra += [x.replace('%s', d) for x in EVERY_EPOCH[name]]
                load = os.getloadavg()[0]
                rc, lines, errors, _, rss, cpu = measure(self.own_command(model, self.a.tools, extra), {}, self.a.timeout)
                ends = [t for t, x in lines if x.startswith('{"event": "epoch"')]
                steps = json.loads(lines[0][1])['batches'] if lines else 0
                base = {'peer': name, 'model': model, 'round': n_round, 'load': round(load, 1), 'when': round(time.time()),
                        'rss_mb': rss}
                if rc or len(ends) != PASSES:
                    self.add(**base, error=errors.strip()[-300:] or 'exit %d' % rc)
                else:  # to the end of the process: what is still being written counts
                    self.add(**base, epoch_s=round((lines[-1][0] - ends[0]) * 100 / steps / (PASSES - 1), 3),
                             epoch_cpu_s=round(cpu * 100 / steps / PASSES, 3))

    def forecast(self, model):
        """What the dry run says that pgfit will take, in MB."""
        r = subprocess.run([*self.own_command(model, self.a.tools, []), '--dry-run', '--json'], capture_output=True, text=True)
        for line in r.stdout.splitlines():
            if line.startswith('{"event": "plan"'):
                self.add(peer='forecast', model=model, round=0, rss_mb=round(json.loads(line)['total'] / 2**20, 1))

    def rows(self, model, n_round):
        """Names and calls of everything that is measured with a model in a round."""
        best = report.best_median(self.samples, model)
        out = []
        for p in self.a.peers:
            mine = report.median_of(self.samples, model, p)
            behind = n_round > 0 and (mine is None or best and mine > FAR_BEHIND * best)
            if self.python[PEERS[p][0]] and not behind:
                out.append((p, lambda p=p: self.peer(p, model, n_round)))
        for name, extra in OWN.items():
            options = [x for x in extra if x.startswith('--')]
            if any(x not in self.help for x in options) or '--conv' in options and model not in CONVOLUTIONS:
                continue
            if name == 'pgfit-bf16' and not self.computes_in_bf16(model):
                continue
            out.append((name, lambda name=name, extra=extra: self.own(name, model, n_round, extra)))
        if self.a.tools3:
            out.append(('pgfit-dnnl3', lambda: self.own('pgfit-dnnl3', model, n_round, [], self.a.tools3)))
        return out if n_round % 2 == 0 else out[::-1]

    def profile(self, model):
        """Where the time of the steps goes, and what a core can do."""
        ceiling = os.path.join(self.a.tools, '../tests/bench_ceiling')
        r = subprocess.run([*self.own_command(model, self.a.tools, []), '--profile', '--json'], capture_output=True, text=True)
        rows = [json.loads(x) for x in r.stdout.splitlines() if x.startswith('{"event": "profile"')]
        top = subprocess.run([ceiling], capture_output=True, text=True) if os.path.exists(ceiling) else None
        if rows and top and top.returncode == 0:
            self.add(peer='profile', model=model, round=0, ops=rows, **json.loads(top.stdout))

    def round(self, n_round):
        for model in self.a.models:
            if model == 'vgg16' and n_round > 0:
                continue
            for name, run in self.rows(model, n_round):
                if not self.over() and not self.has(model=model, peer=name, round=n_round):
                    run()

    def extras(self, n_round):
        """Two devices against one of them, a busy machine, and the forecast."""
        for name, extra in (('one-core', ['--devices', 'cpu:0', '-j', '1']), ('two-cores', ['--devices', 'cpu:0,cpu:1'])):
            for model in ('vggsmall', 'mlp', 'digits'):
                there = '--demo' in self.help if model == 'digits' else model in self.a.models
                if there and not self.over() and not self.has(peer=name, model=model, round=n_round):
                    self.own(name, model, n_round, extra)
        todo = [m for m in BUSY if m in self.a.models and not self.has(peer='busy', model=m, round=n_round)]
        for model in todo:
            if self.over():
                break
            spinning = [subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True) for _ in range(2)]
            try:
                self.own('busy', model, n_round, [], session=os.setsid)
            finally:
                for p in spinning:
                    p.kill()
                    p.wait()
        for model in self.a.models:
            for name in LOGS:
                if model in LOGGED and not self.over() and not self.has(peer=name, model=model, round=n_round):
                    self.logs(name, model, n_round)
            if n_round == 0 and not self.has(peer='forecast', model=model):
                self.forecast(model)
            if n_round == 0 and not self.over() and not self.has(peer='profile', model=model):
                self.profile(model)


def main():
    a = arguments()
    if a.report_only:
        return report.write(a, report.read(a.samples))
    with open(os.path.join(tempfile.gettempdir(), 'pg-bench.lock'), 'a') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # nothing else of ours is timed meanwhile
        b = Bench(a)
        missing = [v for v in ENVIRONMENTS if not b.python[v]]
        if missing:
            print('no environment for peers: ' + ' '.join(missing))
        b.export()
        for r in range(a.rounds):
            if not a.epochs_only:
                b.round(r)
                b.extras(r)
            b.epochs(r)
            report.write(a, report.read(a.samples))
    print('%.1f minutes' % ((time.time() - b.begun) / 60))
    return 0


if __name__ == '__main__':
    sys.exit(main())
