#!/usr/bin/env python3
"""A hunt: random models trained by genuine Keras and by pgfit.

usage: train.py TOOLS [--seconds N | --models N] [--seed S] [--keras 2|3] [--log FILE] [--whole] [-v]     random models from seed S on
       train.py TOOLS --spec FILE.json | --seed S --models 1 --show                        one of them, and all that is compared
TOOLS is the folder of pgfit; --whole does not make finds smaller, -v tells of what is equal, too. See README.md beside this file for what is compared and what "equal" means. What was found once
(train_finds.jsonl) is tried first. Needs PG_JUDGE_PYTHON (numpy, h5py) and PG_KERAS2_PYTHON or PG_KERAS3_PYTHON, as in
../interop/run.py; skips (77) without them. PG_HUNT_SECONDS: the seconds if none are given."""
import argparse
import collections
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

import train_models
import train_reduce

HERE = pathlib.Path(__file__).parent
TIMES, FLOOR = 20, 32  # of Keras' own error; in ulps of the largest value of a tensor
WEAK = 0.1             # a bound beyond this share of what the tensor moved decides nothing
NUDGES = 3
DEVICES = ('cpu:0', 'cpu:0,cpu:1', 'cpu:0,cpu:1,cpu:2')


class Judge:
    """A Keras that stays; it starts anew when it hangs, dies, or has grown large."""
    LIVES = 300

    def __init__(self, python):
        self.python, self.p, self.left = python, None, 0

    def ask(self, **q):
        if not self.p or self.left <= 0 and 'spec' in q:
            self.close()
            self.p = subprocess.Popen([self.python, '-W', 'ignore', HERE / 'train_judge.py'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True)
            self.left = self.LIVES
        self.left -= 'spec' in q
        clock = threading.Timer(600, self.p.kill)
        clock.start()
        try:
            print(json.dumps(q), file=self.p.stdin, flush=True)
            line = self.p.stdout.readline()
        except OSError:
            line = ''
        clock.cancel()
        if not line:
            self.close()
            return {'error': 'the judge died or hung'}
        return json.loads(line)

    def close(self):
        if self.p:
            self.p.kill()
            self.p.wait()
            self.p = None


def tensors(path):
    """{path within the file: array} of a full model's weights and optimizer state."""
    import h5py
    import numpy as np
    f, found = path, {}
    if str(path).endswith('.keras'):
        f = io.BytesIO(zipfile.ZipFile(path).read('model.weights.h5'))
    with h5py.File(f) as h:
        h.visititems(lambda name, o: found.update({name: np.asarray(o[()])}) if isinstance(o, h5py.Dataset) and not name.startswith('metrics/') else None)
        if 'optimizer_weights' in h:  # Keras goes by their order; it makes names of its own for what it loaded
            found = {k: v for k, v in found.items() if not k.startswith('optimizer_weights/')}
            state = h['optimizer_weights']
            found.update({f'optimizer {i}': np.asarray(state[n][()]) for i, n in enumerate(state.attrs.get('weight_names', []))})
    return found


def content(path):
    """What deterministic runs must have in common, bit for bit."""
    return zipfile.ZipFile(path).read('model.weights.h5') if str(path).endswith('.keras') else path.read_bytes()


class Bound:
    """Keras' results with float32 and float64, and how far from them is near: for each tensor TIMES the larger of its own
    error and the median error of all (a tensor may be lucky), and FLOOR ulps."""

    def __init__(self, narrow, wide, start=None):
        import numpy as np
        self.narrow, self.wide, self.start = narrow, wide, start
        self.size = {k: float(np.abs(v).max(initial=0)) for k, v in wide.items()}
        self.error = {k: self.distance(k, narrow[k]) for k in wide}
        some = sorted(e / self.size[k] for k, e in self.error.items() if self.size[k] > 0 and e > 0)
        self.usual = some[len(some) // 2] if some else 0.0

    def distance(self, k, v):
        import numpy as np
        w = self.wide[k]
        if v.shape != w.shape or not v.size:
            return 0.0 if v.shape == w.shape else float('inf')
        d = float(np.abs(np.asarray(v, 'f8') - w).max())
        return d if d == d else float('inf')

    def near(self, k):
        return TIMES * max(self.error[k], self.usual * self.size[k]) + FLOOR * 2.0**-24 * self.size[k] + 1e-30

    def moved(self, k):
        was = self.start.get(k) if self.start else None
        moved = self.distance(k, was) if was is not None and was.shape == self.wide[k].shape else 0
        return moved if moved > 0 and moved != float('inf') else self.size[k]

    def weak(self):
        """Tensors of which the bound says nothing; and "all" where the run exploded."""
        import numpy as np
        if any(not np.isfinite(v).all() or np.abs(v).max(initial=0) > 1e8 for v in self.wide.values()):
            return set(self.wide)
        return {k for k in self.wide if self.near(k) > WEAK * self.moved(k) and self.error[k] > 64 * 2.0**-24 * self.size[k]}

    def widen(self, other):
        for k in self.wide:
            if k in other:
                self.error[k] = max(self.error[k], self.distance(k, other[k]))

    def off(self, got):
        """What is not near: [(name, distance, bound)]"""
        bad = [(k, float('inf'), 'absent') for k in self.wide if k not in got] + [(k, float('inf'), 'not in Keras') for k in got if k not in self.wide]
        return bad + [(k, self.distance(k, got[k]), self.near(k)) for k in self.wide if k in got and not self.distance(k, got[k]) <= self.near(k)]


def logs(past):
    """Keras' history as tensors"""
    import numpy as np
    return {f'{k} of epoch {i + 1}': np.asarray(v, 'f8') for k, vs in past.items() for i, v in enumerate(vs)}


def told(event):
    """An epoch's line of JSON as Keras' history has it: "f1_score[0]" and "f1_score[1]" are an array."""
    found = {}
    for k, v in event.items():
        name, bracket, _ = k.partition('[')
        if bracket:
            found.setdefault(name, []).append(v)
        else:
            found[k] = v
    return found


class Case:
    """One model, one Keras: run() leaves what it came to in self.verdict and the reasons in self.why.
    equal; refused: pgfit names why; weak: not decidable; invalid: Keras itself cannot; keras: Keras' own file does not go on as Keras does;
    different, bits, broken, file: a find."""
    FINDS = ('different', 'bits', 'broken', 'file')

    def __init__(self, spec, major, judge, tools, d, show=False):
        self.spec, self.major, self.judge, self.tools, self.d, self.show = train_models.fits(spec, major), major, judge, tools, d, show
        self.x = '.' + self.spec['file']
        self.verdict, self.why = 'equal', ''

    def run(self):
        for f in self.d.iterdir():
            f.unlink()
        self.verdict, self.why = self.judged()
        return self

    def fit(self, devices, deterministic=False):
        out = self.d / f'{"det" if deterministic else "out"}{1 + devices.count(",")}{self.x}'
        s = self.spec
        args = [self.tools / 'pgfit', self.d / f'model{self.x}', '--data', self.d / 'data.npz', '--batch-size', s['batch'], '--epochs', s['epochs'],
                '--no-shuffle', '--json', '--full-model', '--resume=never', '--devices', devices, '-j', min(2, 1 + devices.count(',')), '-o', out]
        if deterministic:
            args += ['--deterministic']
        elif ',' in devices and any(layer['class'] == 'BatchNormalization' for layer in s['layers']):
            args += ['--bn', 'sync']
        if s['class_weight']:
            args += ['--class-weight', ','.join(f'{k}={v}' for k, v in s['class_weight'].items())]
        try:
            r = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120, cwd=self.d, env={**os.environ, 'OMP_WAIT_POLICY': 'passive'})
        except subprocess.TimeoutExpired:
            return None, f'{devices}: hangs'
        if r.returncode:
            return r.returncode, r.stderr.strip()[:1500]
        return 0, [e for e in map(json.loads, r.stdout.splitlines()) if e['event'] == 'epoch']

    def tensors(self, name):
        found, o = tensors(self.d / (name + self.x)), self.spec['optimizer']
        if o['of'] == 'optimizers.SGD' and not o['with'].get('momentum'):  # Keras 2.15 keeps the last step there, and never reads it
            found = {k: v for k, v in found.items() if not k.startswith('optimizer')}
        return found

    def has_weights(self):
        return any(k.split('/')[0] in ('model_weights', 'layers') for k in self.tensors('model'))

    def logged(self, past):
        """Without the losses of single outputs where Keras 3.6 counts rows of batches: run eagerly, as here, it does, else not."""
        uneven = self.major == 3 and len(self.spec['outputs']) > 1 and self.spec['rows'] % self.spec['batch']
        return {k: v for k, v in past.items() if k not in ('lr', 'learning_rate') and not (uneven and k.endswith('_loss'))}

    def judged(self):
        k = self.judge.ask(spec=self.spec, dir=str(self.d))
        if 'error' in k:
            return 'invalid', k['error'] + (k.get('trace', '') if self.show else '')
        for past in ('past32', 'past64', 'more32', 'more64'):
            k[past] = self.logged(k[past])
        runs = {}
        for det in (False, True):
            for devices in DEVICES:
                rc, events = self.fit(devices, det)
                if rc:
                    return ('refused' if rc in (1, 2, 3) and not runs else 'broken'), f'exit {rc}: {events}'
                if rc is None:
                    return 'broken', events
                runs[det, devices] = events
        for devices in DEVICES[1:]:
            if runs[True, devices] != runs[True, DEVICES[0]]:
                return 'bits', f'--deterministic --devices {devices}: logs {runs[True, devices]} against {runs[True, DEVICES[0]]}'
            n = 1 + devices.count(',')
            if content(self.d / f'det{n}{self.x}') != content(self.d / f'det1{self.x}'):
                return 'bits', f'--deterministic --devices {devices}: other bits than on one device'
        on = self.judge.ask(**{'continue': str(self.d / f'out1{self.x}'), 'to': str(self.d / f'on{self.x}'), 'epochs': 1})
        if 'error' in on:
            return self.blame('file', f'Keras cannot go on from pgfit\'s file: {on["error"]}', k)
        import numpy as np
        start = self.tensors('model')
        files, more = Bound(self.tensors('want32'), self.tensors('want64'), start), Bound(self.tensors('more32'), self.tensors('more64'), start)
        past, past_on = Bound(logs(k['past32']), logs(k['past64'])), Bound(logs(k['more32']), logs(k['more64']))
        pairs = [(files, lambda f=f: self.tensors(f), f) for f in ('out1', 'out2', 'out3', 'det1')]
        for (det, devices), events in runs.items():
            got = {f'{key} of epoch {i + 1}': np.asarray(v, 'f8') for i, e in enumerate(events) for key, v in told(e).items() if key in k['past32']}
            if not det or devices == DEVICES[0]:
                pairs.append((past, lambda got=got: got, f'logs{" --deterministic" * det} {devices}'))
        if self.major == 3 or self.spec['optimizer']['of'] != 'optimizers.Nadam':  # Keras 2.15 does not store what Nadam needs to go on
            pairs += [(past_on, lambda: logs(self.logged(on['past'])), 'Keras\' logs after it'), (more, lambda: self.tensors('on'), 'Keras\' epoch after it')]
        weak = [len(b.weak()) for b in (files, past)]
        if self.show:
            for b in (files, past, past_on, more):
                for key in b.wide:
                    print(f'{key}: error {b.error[key]:.3g}, near {b.near(key):.3g}, moved {b.moved(key):.3g}{" weak" * (key in b.weak())}')
        if weak[0] * 2 > len(files.wide) or weak[1] * 2 > len(past.wide):
            return 'weak', f'{weak[0]} of {len(files.wide)} tensors'
        bad = [(what, b, b.off(got())) for b, got, what in pairs]
        bad = [(what, b, off) for what, b, off in bad if off]
        if not bad:
            return 'equal', ''
        return self.second_look(bad, (files, more, past, past_on), pairs, k)

    def second_look(self, bad, bounds, pairs, k):
        """Whether a difference remains when Keras' error is measured on more runs, from weights an ulp away."""
        files, more, past, past_on = bounds
        for i in range(NUDGES):
            n = self.judge.ask(nudge=i, dir=str(self.d))
            if 'error' in n:
                return 'invalid', n['error']
            files.widen(self.tensors(f'near{i}'))
            more.widen(self.tensors(f'far{i}'))
            past.widen(logs(self.logged(n['past'])))
            past_on.widen(logs(self.logged(n['more'])))
        still = [(what, b, b.off(got())) for b, got, what in pairs]
        still = [(what, b, off) for what, b, off in still if off]
        if not still:
            return 'equal', 'on the second look'
        weak = set().union(*(b.weak() for b in bounds))
        text = '; '.join(f'{what}: ' + ', '.join(f'{key} off by {d:.3g} (near is {n if isinstance(n, str) else format(n, ".3g")})' for key, d, n in off[:4]) for what, _, off in still[:4])
        if weak and all(isinstance(n, float) for _, _, off in still for _, _, n in off):
            return 'weak', text
        return self.blame('file' if all('after it' in what for what, _, _ in still) else 'different', text, k)

    def blame(self, verdict, text, k):
        """What Keras itself does with its own file: where that goes wrong too, pgfit is not to blame."""
        at, n = ('want32', 1) if verdict == 'file' else ('model', self.spec['epochs'])
        own = self.judge.ask(**{'continue': str(self.d / f'{at}{self.x}'), 'to': str(self.d / f'own{self.x}'), 'epochs': n})
        if 'error' in own:
            return 'keras', f'Keras cannot go on from its own file: {own["error"]}'
        a, b = ('more', 'more32') if verdict == 'file' else ('past', 'want32')
        same = not Bound(self.tensors(f'{b}'), self.tensors(f'{b[:-2]}64')).off(self.tensors('own'))
        same = same and not Bound(logs(k[a + '32']), logs(k[a + '64'])).off(logs(self.logged(own['past'])))
        return (verdict, text) if same else ('keras', f'Keras does not go on from its own file as without it; {text}')


def kind(text):
    """A refusal without what differs between models"""
    text = re.sub(r'/\S*/', '', text.split('\n')[0])
    return re.sub(r'"[^"]*"|\'[^\']*\'', '"..."', re.sub(r'\b[a-z0-9]+_\d+\b', 'LAYER', re.sub(r'\d+(\.\d+)?', 'N', text)))[:160]


class Hunt:
    def __init__(self, a):
        self.a, self.lock = a, threading.Lock()
        self.counts, self.reasons, self.finds = collections.Counter(), collections.Counter(), []
        self.end = time.monotonic() + a.seconds if a.seconds else None

    def seeds(self):
        for k in range(self.a.models or 10**9):
            if self.end and time.monotonic() > self.end:
                return
            yield self.a.seed + k

    def specs(self):
        if self.a.spec:
            yield 'spec', json.loads(self.a.spec.read_text())
            return
        if not self.a.show and (HERE / 'train_finds.jsonl').exists():
            for i, line in enumerate((HERE / 'train_finds.jsonl').read_text().splitlines()):
                find = json.loads(line)
                yield f'find {i + 1}, {find["was"]}', find['spec']
        for seed in self.seeds():
            yield f'seed {seed}', train_models.make(seed)

    def work(self, major, python):
        judge = Judge(python)
        with tempfile.TemporaryDirectory() as name:
            name = os.environ.get('PG_HUNT_KEEP', name)
            for what, spec in self.specs():
                begin = time.monotonic()
                try:
                    c = Case(spec, major, judge, self.a.tools, pathlib.Path(name), self.a.show).run()
                    self.note(what, c, time.monotonic() - begin)
                    if c.verdict in Case.FINDS and not (self.a.show or self.a.whole):
                        self.reduce(c, what)
                except Exception as e:  # a fault of the hunt itself must not end it unseen
                    with self.lock:
                        self.counts[major, 'hunt failed'] += 1
                        self.finds.append(f'Keras {major}, {what}: {type(e).__name__} {e}')
                        print(self.finds[-1], flush=True)
        judge.close()

    def note(self, what, c, seconds):
        with self.lock:
            self.counts[c.major, c.verdict] += 1
            if c.verdict in ('refused', 'invalid', 'keras'):
                self.reasons[c.major, c.verdict, kind(c.why)] += 1
            if c.verdict in Case.FINDS:
                self.finds.append(f'Keras {c.major}, {what}: {c.verdict}: {c.why}')
            if self.a.log:
                with open(self.a.log, 'a') as f:
                    print(json.dumps({'what': what, 'keras': c.major, 'verdict': c.verdict, 'why': c.why, 'seconds': round(seconds, 2)}), file=f)
            if c.verdict not in ('equal', 'weak') or self.a.show or self.a.verbose:
                print(f'Keras {c.major}, {what}, {seconds:.1f} s: {c.verdict} {c.why}', flush=True)

    def reduce(self, c, what):
        small, why = train_reduce.smaller(c.spec, lambda s: Case(s, c.major, c.judge, self.a.tools, c.d).run(), c.verdict, 60)
        with self.lock:
            print(f'Keras {c.major}, {what}, reduced: {why}\n{json.dumps({"was": what, "keras": c.major, "spec": small})}', flush=True)

    def tell(self):
        for major in (2, 3):
            n = {v: k for (m, v), k in self.counts.items() if m == major}
            if n:
                print(f'Keras {major}: {sum(n.values())} tried: ' + ', '.join(f'{k} {v}' for v, k in sorted(n.items())))
        for (major, verdict, why), n in self.reasons.most_common():
            print(f'{n:5} Keras {major} {verdict}: {why}')
        bad = list(self.finds)
        for f in bad:
            print(f)
        for major in (2, 3):
            n = {v: k for (m, v), k in self.counts.items() if m == major}
            whole = sum(n.values())
            if whole >= 50 and (n.get('weak', 0) > whole // 20 or n.get('invalid', 0) > whole // 20):
                bad.append('')
                print(f'Keras {major}: more than 5 % are not decidable or no models: the hunt says too little')
        return not bad


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('tools', type=pathlib.Path)
    p.add_argument('--seconds', type=float)
    p.add_argument('--models', type=int)
    p.add_argument('--seed', type=int, default=int(time.time()))
    p.add_argument('--keras', type=int)
    p.add_argument('--spec', type=pathlib.Path)
    p.add_argument('--log', type=pathlib.Path)
    p.add_argument('--whole', action='store_true', help='do not make finds smaller')
    p.add_argument('--show', action='store_true')
    p.add_argument('-v', '--verbose', action='store_true')
    a = p.parse_args()
    a.tools = a.tools.resolve()
    pythons = {m: os.environ.get(f'PG_KERAS{m}_PYTHON') for m in (2, 3) if a.keras in (None, m)}
    judge = os.environ.get('PG_JUDGE_PYTHON')
    if not judge or not any(pythons.values()):
        print('needs PG_JUDGE_PYTHON and PG_KERAS2_PYTHON or PG_KERAS3_PYTHON')
        sys.exit(77)
    if not os.environ.get('PG_HUNT_JUDGE'):
        os.environ['PG_HUNT_JUDGE'] = '1'
        os.execv(judge, [judge, __file__, *sys.argv[1:]])
    if not a.seconds and not a.models:
        a.seconds = float(os.environ.get('PG_HUNT_SECONDS', '60'))
    print(f'seed {a.seed}', flush=True)
    hunt = Hunt(a)
    threads = [threading.Thread(target=hunt.work, args=(m, python)) for m, python in pythons.items() if python]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sys.exit(not hunt.tell())


if __name__ == '__main__':
    main()
