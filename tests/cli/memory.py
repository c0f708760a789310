#!/usr/bin/env python3
"""usage: memory.py TESTDATA TOOLS

The forecast of pgfit --dry-run against the peak of the run itself: within 5 %, or 8 MB where that is more. A
batch that no machine has room for is refused before training."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

testdata, tools = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
golden = testdata / 'golden'
os.environ.pop('MALLOC_PERTURB_', None)  # it makes memory resident that the program never touches
bad = 0


def of(run, loss, *more):
    return [golden / run / 'model.json', '--data', golden / run / 'data.npz', '--loss', loss, *more]


RUNS = {
    'digits': ['--demo', 'digits', '--epochs', '2'],
    'digits, 2 devices': ['--demo', 'digits', '--epochs', '2', '--batch-size', '1024', '--devices', 'cpu:0,cpu:1'],
    'unet_seg': of('unet_seg', 'mse', '--batch-size', '32'),
    'bert_mini': of('bert_mini', 'sparse_categorical_crossentropy', '--batch-size', '64'),
}
for name, args in RUNS.items():
    args = [tools / 'pgfit', '-j', '2', *args]
    plan = json.loads(subprocess.run([*args, '--dry-run', '--json'], capture_output=True, check=True).stdout)
    child = subprocess.Popen([*args, '-q'])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    peak = usage.ru_maxrss * 1024
    good = status == 0 and abs(plan['total'] - peak) <= max(0.05 * peak, 8e6) and plan['largest_batch'] > 0
    bad += not good
    print(f'{"ok" if good else "FAIL":5}{name}: forecast {plan["total"] / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB')

with tempfile.TemporaryDirectory() as d:  # 10^12 numbers in every row
    layers = [{'class_name': 'Dense', 'config': {'name': 'd', 'units': 64, 'batch_input_shape': [None, 64]}},
              {'class_name': 'RepeatVector', 'config': {'name': 'r', 'n': 1000000000}},
              {'class_name': 'GlobalAveragePooling1D', 'config': {'name': 'p'}},
              {'class_name': 'Dense', 'config': {'name': 'e', 'units': 10, 'activation': 'softmax'}}]
    model = {'class_name': 'Sequential', 'keras_version': '2.15.0', 'config': {'name': 'large', 'layers': layers}}
    (pathlib.Path(d) / 'large.json').write_text(json.dumps(model))
    r = subprocess.run([tools / 'pgfit', 'large.json', '--data', golden / 'mlp_digits/data.npz', '--loss', 'mse'], cwd=d,
                       capture_output=True, text=True)
    good = r.returncode == 2 and 'out of memory: a batch of 32 needs' in r.stderr
    bad += not good
    print('ok   too large' if good else f'FAIL too large: {r}')
sys.exit(bad != 0)
