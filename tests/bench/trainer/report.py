"""The tables of the trainer's benchmark, made of the samples that run.py took."""
import json
import os
import platform
import re
import time

TITLES = {'mlp': 'MLP 784-512-512-10', 'lenet': 'LeNet 28×28', 'vggsmall': 'VGG-small 32×32', 'unet': 'U-Net 128×128',
          'lstm2': 'two towers, shared LSTM', 'bertmini': 'BERT-mini', 'resnet18': 'ResNet-18 32×32', 'vgg16': 'VGG16 224×224',
          'mobilenetv2': 'MobileNetV2 96×96', 'densenet121': 'DenseNet121 96×96', 'efficientnetb0': 'EfficientNetB0 96×96',
          'xception': 'Xception 96×96'}
OURS = ('pgfit', 'pgfit-2dev', 'pgfit-det', 'pgfit-direct', 'pgfit-bf16', 'pgfit-dnnl3')
NOT_PEERS = (*OURS, 'one-core', 'two-cores', 'busy', 'forecast', 'no-logs', 'logs', 'histograms', 'epochs', 'epochs-checkpoint', 'profile')
MARKS = '<!-- speed of training: from here -->', '<!-- speed of training: to here -->'


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(x) for x in f if x.endswith('}\n')]


def with_isa(samples, isa):
    return [s for s in samples if s.get('isa', 'native') == isa]


def of(samples, model, peer, key):
    return [s[key] for s in samples if s['model'] == model and s['peer'] == peer and 'error' not in s and s.get(key) is not None]


def median_of(samples, model, peer):
    """The best median of all rounds."""
    return min(of(samples, model, peer, 'ms_med'), default=None)


def peers_of(samples, model):
    return list(dict.fromkeys(s['peer'] for s in samples if s['model'] == model and s['peer'] not in NOT_PEERS))


def best(samples, model, key, peers=None):
    """(value, peer) of the least; DDP's memory is that of two processes."""
    peers = [p for p in peers or peers_of(samples, model) if key != 'rss_mb' or p != 'torch-ddp2']
    return min(((v, p) for p in peers for v in of(samples, model, p, key)), default=(None, None))


def best_median(samples, model):
    return best(samples, model, 'ms_med')[0]


def table(heads, rows):
    return ['| %s |' % ' | '.join(heads), '|---' + '|---:' * (len(heads) - 1) + '|', *('| %s |' % ' | '.join(r) for r in rows), '']


def number(x):
    return '–' if x is None else '%.2f' % x if x < 10 else '%.1f' % x if x < 100 else '{:,.0f}'.format(x)


def ratio(a, b):
    return '–' if not a or not b else '**%.2f**' % (a / b)


def rate(samples, model, ms):
    batch = max(s.get('batch') or 0 for s in samples if s['model'] == model)
    return '–' if ms is None else number(batch * 1e3 / ms)


def short(samples, models, limited=()):
    """Speed, memory and start: ours and the best peer's; limited: samples of all programs without AVX-512."""
    rows = []
    for m in models:
        ours, (peer, who) = median_of(samples, m, 'pgfit'), best(samples, m, 'ms_med')
        rss, first = best(samples, m, 'rss_mb', ['pgfit'])[0], best(samples, m, 't_first', ['pgfit'])[0]
        peer_rss, peer_first = best(samples, m, 'rss_mb')[0], best(samples, m, 't_first')[0]
        rows.append([TITLES[m], rate(samples, m, ours), '%s (%s)' % (rate(samples, m, peer), who) if who else '–', ratio(peer, ours),
                     '%s / %s' % (number(rss), number(peer_rss)), '%s / %s' % (number(first), number(peer_first))])
        if limited:
            avx2, (peer, who) = median_of(limited, m, 'pgfit'), best(limited, m, 'ms_med')
            rows[-1][4:4] = ['%s (%s)' % (ratio(peer, avx2), who) if who and avx2 else '–']
    return table(['model', 'pgfit, samples/s', 'best peer', 'ratio', *['with AVX2'] * bool(limited), 'peak memory, MB', 'first step after, s'], rows)


def span(samples, model, peer):
    v = of(samples, model, peer, 'ms_med')
    return '–' if not v else number(v[0]) if len(v) == 1 else '%s (%s)' % (number(min(v)), number(max(v)))


def all_peers(samples, models):
    names = list(dict.fromkeys(p for m in models for p in peers_of(samples, m)))
    return table(['ms/step', 'pgfit', *names], [[m, *(span(samples, m, p) for p in ('pgfit', *names))] for m in models])


def own_rows(samples, models):
    names = [p for p in OURS if any(of(samples, m, p, 'ms_med') for m in models)]
    rows = []
    for m in models:
        base = median_of(samples, m, 'pgfit')
        rows.append([m] + [span(samples, m, p) + (' ×%.2f' % (median_of(samples, m, p) / base) if base and p != 'pgfit' and median_of(samples, m, p) else '')
                           for p in names])
    return table(['ms/step', *names], rows)


def paragraph(out, title, lines):
    if lines:
        out += ['', '## ' + title, '', *lines]


def checkpoints(samples, model):
    """A full model after every epoch: medians of all rounds, which ran in turn."""
    def median(name, key):
        v = sorted(of(samples, model, name, key))
        return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2 if v else None

    plain, wall = median('epochs', 'epoch_s'), median('epochs-checkpoint', 'epoch_s')
    before, cpu = median('epochs', 'epoch_cpu_s'), median('epochs-checkpoint', 'epoch_cpu_s')
    if not plain or not wall:
        return []
    return ['- %s: a proven full model of every epoch %+.1f%% of its time (%.2f s, without %.2f s), %+.1f%% of its processor time' % (
        model, 100 * (wall / plain - 1), wall, plain, 100 * (cpu / before - 1))]


def extras(samples, models):
    out = []
    lines = []
    for m in (*models, 'digits'):
        one, two = median_of(samples, m, 'one-core'), median_of(samples, m, 'two-cores')
        if one and two:
            lines.append('- %s: %s ms on `cpu:0` with one core, %s ms on `cpu:0,cpu:1`: %s times as fast' % (m, number(one), number(two), ratio(one, two)))
    paragraph(out, 'Two devices of one core against one of them', lines)
    lines = []
    for m in models:
        quiet, busy = median_of(samples, m, 'pgfit'), median_of(samples, m, 'busy')
        if quiet and busy:
            lines.append('- %s: %s ms, alone %s ms: ×%.2f' % (m, number(busy), number(quiet), busy / quiet))
    paragraph(out, 'Beside two processes that spin', lines)
    lines = []
    for m in models:
        gap = lambda name: sorted(of(samples, m, name, 'ms_gap'))
        none, step = gap('no-logs'), median_of(samples, m, 'pgfit')
        for name, what in (('logs', 'TensorBoard and CSV'), ('histograms', 'with histograms of all weights')):
            if none and gap(name) and step:
                took = max(gap(name)[len(gap(name)) // 2] - none[len(none) // 2], 0)
                lines.append('- %s: %s %.2f ms, %.3f%% of an epoch' % (m, what, took, took / step))
        lines += checkpoints(samples, m)
    paragraph(out, 'What is written at the end of an epoch of 100 steps', lines)
    rows = []
    for m in models:
        said, took = best(samples, m, 'rss_mb', ['forecast'])[0], max(of(samples, m, 'pgfit', 'rss_mb'), default=None)
        if said and took:
            rows.append([m, number(said), number(took), '%+.1f MB, %+.1f%%' % (took - said, 100 * (took / said - 1))])
    if rows:
        paragraph(out, 'Memory that the dry run forecasts, and what was taken', table(['MB', 'forecast', 'peak', 'difference'], rows)[:-1])
    return out


def reached(op, s):
    """The share of what a core does at best; None where there is nothing to compare with."""
    if op['flops']:
        return op['flops'] / op['seconds'] * 1e-9 / s['gflops']
    return op['bytes'] / op['seconds'] * 1e-9 / s['gbytes'] if op['bytes'] else None


def at_ceiling(samples, model):
    """The share of its time that a step would take if no operation were slower than a core is at best."""
    for s in (s for s in samples if s['model'] == model and s['peer'] == 'profile'):
        return sum(o['seconds'] * min(1, reached(o, s) or 1) for o in s['ops']) / sum(o['seconds'] for o in s['ops'])
    return None


def shares(samples, models):
    """Of each model the operations that take most time, in shares of it and of what a core does at best."""
    rows = []
    for m in models:
        for s in (s for s in samples if s['model'] == m and s['peer'] == 'profile'):
            whole = sum(o['seconds'] for o in s['ops'])
            cells = []
            for o in sorted(s['ops'], key=lambda o: -o['seconds'])[:6]:
                share = reached(o, s)
                most = '%.0f GFLOP/s' % s['gflops'] if o['flops'] else '%.0f GB/s' % s['gbytes']
                cells.append('%s %.0f %%' % (o['op'], 100 * o['seconds'] / whole) + (', %.0f %% of %s' % (100 * share, most) if share else ''))
            rows.append([m, '; '.join(cells)])
    return table(['model', 'operation, its share of the time, what it reached'], rows)[:-1] if rows else []


def ceilings(models, *isas):
    """For each instruction set: the ratio to the best peer, and what it would be at the ceiling."""
    rows = []
    for m in models:
        row = [m]
        for samples in isas:
            ours, peer, share = median_of(samples, m, 'pgfit'), best_median(samples, m), at_ceiling(samples, m)
            row += [ratio(peer, ours), ratio(peer, ours and share and ours * share)]
        rows.append(row)
    return rows


def machine(samples):
    with open('/proc/cpuinfo') as f:
        text = f.read()
    cpu = re.search(r'model name\s*: (.*)', text)
    vector = [n for n, flag in (('AVX-512', 'avx512f'), ('AVX2', 'avx2')) if re.search(r'\b%s\b' % flag, text)]
    gib = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    loads = [s['load'] for s in samples if 'load' in s]
    versions = {s['peer']: s['ver'] for s in samples if s.get('ver') and s['peer'] not in NOT_PEERS[1:]}
    when = max((s.get('when', 0) for s in samples), default=0)
    return ['%s (%s), %d cores, %.0f GiB, %s, %s. Load before a measurement: %s to %s.' % (
        cpu.group(1) if cpu else platform.machine(), ', '.join(vector[:1]) or 'no AVX2', os.cpu_count(), gib, platform.system() + ' ' +
        platform.release().split('-')[0], time.strftime('%Y-%m-%d', time.gmtime(when)), min(loads, default=0), max(loads, default=0)), '',
        'Versions: ' + ', '.join('%s %s' % v for v in versions.items()) + '.']


def put(path, marks, lines):
    """Between the marks of a file."""
    with open(path) as f:
        before, _, after = f.read().partition(marks[0])
    if not after:
        raise SystemExit('%s: no line %s' % (path, marks[0]))
    with open(path, 'w') as f:
        f.write(before + '\n'.join([marks[0], *lines, marks[1]]) + after.partition(marks[1])[2])


def write(a, samples):
    limited, samples = with_isa(samples, 'avx2'), with_isa(samples, 'native')
    models = [m for m in TITLES if any(s['model'] == m and 'ms_med' in s for s in samples)]
    n_rounds = [1 + max(s['round'] for s in samples if s['model'] == m) for m in models]
    rounds = '%d round%s' % (min(n_rounds), 's' * (min(n_rounds) > 1)) if n_rounds else 'no round'
    more = [m for m, n in zip(models, n_rounds) if n > min(n_rounds)]
    rounds += ' (%s: %d)' % (', '.join(more), max(n_rounds)) if more else ''
    text = ['# The trainer beside TensorFlow, Keras 3 and PyTorch', '', *machine(samples), '',
            'Best median of %s of one interleaved run, float32; the ratio is the time of the best peer over ours.' % rounds, '', *short(samples, models, limited)[:-1], '', '## All programs', '',
            'Best median of the rounds, in brackets the worst.', '', *all_peers(samples, models)[:-1], '', '## pgfit in its ways', '',
            'One device with two workers; two devices; `--deterministic`; `--conv direct`; × is the time against the first.', '',
            *own_rows(samples, models)[:-1], *extras(samples, models)]
    if limited:
        paragraph(text, 'Without AVX-512', [
            'All programs held to AVX2 by the variables of their libraries (`--isa avx2`) on the same machine.', '', *all_peers(limited, models)[:-1]])
    paragraph(text, 'Where the time goes', shares(samples, models) and [
        'By `pgfit --profile`; beside it what `bench_ceiling` reaches on a core while all work: products of 512 x 512 x 512, copies of 64 MiB. '
        'Operations count by definition: Winograd does a convolution with a fourth of the multiplications, so it may pass 100 %.', '',
        *shares(samples, models)])
    isas = [s for s in (samples, limited) if s]
    paragraph(text, 'How far it can be', shares(samples, models) and [
        'The ratio to the best peer; beside it the one that there would be if every product and copy were as fast as `bench_ceiling`. What is '
        'faster, and what has no such rate (the optimizer, sums over devices, input), stays as it is.', '',
        *table(['model', *['ratio', 'at the ceiling', 'with AVX2', 'at the ceiling'][:2 * len(isas)]], ceilings(models, *isas))[:-1]])
    failed = ['- %s, %s%s: %s' % (s['model'], s['peer'], ', AVX2' * (s in limited), s['error'].splitlines()[-1][:200])
              for s in (*samples, *limited) if 'error' in s]
    paragraph(text, 'What did not run', list(dict.fromkeys(failed)))
    with open(a.report, 'w') as f:
        f.write('\n'.join(text) + '\n')
    if a.readme:
        put(a.readme, MARKS, short(samples, models, limited)[:-1])
    return 0
