"""Makes a find of train.py smaller while it stays one."""
import copy
import time


def without_layer(spec, k):
    """Layer k goes; what took its result takes its input."""
    s, n = copy.deepcopy(spec), len(spec['inputs'])
    gone, instead = n + k, s['layers'][k]['in'][0]
    if any(layer.get('same') == k for layer in s['layers']):
        return None
    del s['layers'][k]

    def moved(t):
        t = instead if t == gone else t
        return t - (t > gone)

    for layer in s['layers']:
        layer['in'] = [moved(t) for t in layer['in']]
        if layer.get('same', -1) > k:
            layer['same'] -= 1
    for o in s['outputs']:
        o['tensor'] = moved(o['tensor'])
    return s


def tidy(s):
    """Without layers and inputs that nothing uses."""
    while True:
        used = {t for layer in s['layers'] for t in layer['in']} | {o['tensor'] for o in s['outputs']}
        n = len(s['inputs'])
        idle = [k for k in range(len(s['layers'])) if n + k not in used and not any(layer.get('same') == k for layer in s['layers'])]
        if idle:
            s = without_layer(s, idle[-1])
            continue
        idle = [k for k in range(n) if k not in used]
        if not idle:
            return s
        k = idle[-1]
        del s['inputs'][k]
        for layer in s['layers']:
            layer['in'] = [t - (t > k) for t in layer['in']]
        for o in s['outputs']:
            o['tensor'] -= o['tensor'] > k


def candidates(spec):
    def change(f):
        s = copy.deepcopy(spec)
        f(s)
        return s

    for k in range(len(spec['outputs'])):
        if len(spec['outputs']) > 1:
            yield tidy(change(lambda s: s['outputs'].pop(k)))
    for k in reversed(range(len(spec['layers']))):
        s = without_layer(spec, k)
        if s and s['layers']:
            yield tidy(s)
    for k in range(len(spec['outputs'])):
        for key, v in (('metrics', []), ('weighted_metrics', []), ('row_weights', False), ('loss_weight', 1.0), ('loss', 'mse')):
            if spec['outputs'][k][key] != v:
                yield change(lambda s: s['outputs'][k].update({key: v}))
        if isinstance(spec['outputs'][k]['loss'], dict):
            for key in spec['outputs'][k]['loss']['with']:
                yield change(lambda s: s['outputs'][k]['loss']['with'].pop(key))
    if spec['class_weight']:
        yield change(lambda s: s.update(class_weight=None))
    if spec['optimizer'] != {'of': 'optimizers.SGD', 'with': {'learning_rate': 0.1}, 'legacy': False}:
        yield change(lambda s: s.update(optimizer={'of': 'optimizers.SGD', 'with': {'learning_rate': 0.1}, 'legacy': False}))
        for key in spec['optimizer']['with']:
            yield change(lambda s: s['optimizer']['with'].pop(key))
    for k, layer in enumerate(spec['layers']):
        for key in layer['config']:
            yield change(lambda s: s['layers'][k]['config'].pop(key))
        for key in layer['config'].get('layer', {'with': {}})['with']:
            yield change(lambda s: s['layers'][k]['config']['layer']['with'].pop(key))
    if spec['epochs'] > 1:
        yield change(lambda s: s.update(epochs=1))
    for n in (1, spec['batch']):
        if n < spec['rows']:
            yield change(lambda s: s.update(rows=n))
    if spec['file'] != 'keras':
        yield change(lambda s: s.update(file='keras'))


def smaller(spec, run, verdict, seconds):
    """(the smallest spec that run() gives the same verdict for, why) within this time"""
    end, why, again = time.monotonic() + seconds, 'not made smaller', True
    while again:
        again = False
        for s in candidates(spec):
            if time.monotonic() > end:
                return spec, why
            try:
                c = run(s)
            except Exception:  # no model at all
                continue
            if c.verdict == verdict and c.has_weights():  # Keras 2's legacy optimizers count no steps where nothing is trained
                spec, why, again = s, c.why, True
                break
    return spec, why
