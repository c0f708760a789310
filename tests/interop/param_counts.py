#!/usr/bin/env python3
"""usage: param_counts.py --tools DIR --testdata DIR

Trainable and non-trainable parameters as pginfo counts them against model.count_params() of real Keras, which
loads each full model of testdata that it can; of wrappers against the template beside them.
Environments: PG_KERAS2_PYTHON, PG_KERAS3_PYTHON, as in run.py; without both the test is skipped (77)."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

JUDGE = r'''
import json, os, signal, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
count = lambda weights: sum(int(__import__("numpy").prod(w.shape)) for w in weights)
def stop(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, stop)
for path in sys.stdin.read().split("\n"):
    signal.alarm(20)  # Keras 3 never ends on some nested descriptions of Keras 2
    try:
        m = keras.models.load_model(path, compile=False)
        print(json.dumps([path, count(m.trainable_weights), count(m.non_trainable_weights)]))
        signal.alarm(0)
    except Exception as e:
        print(json.dumps([path, type(e).__name__]))
'''

p = argparse.ArgumentParser()
p.add_argument('--tools', required=True)
p.add_argument('--testdata', required=True)
a = p.parse_args()
judges = [os.environ[k] for k in ('PG_KERAS2_PYTHON', 'PG_KERAS3_PYTHON') if os.environ.get(k)]
if not judges:
    print('no environment of Keras (PG_KERAS2_PYTHON, PG_KERAS3_PYTHON)')
    sys.exit(77)
files = sorted(f for pattern in ('template_model.h5', 'template.keras') for f in pathlib.Path(a.testdata, 'files').rglob(pattern))
truth = {}
for judge in judges:
    out = subprocess.run([judge, '-c', JUDGE], input='\n'.join(map(str, files)), capture_output=True, text=True, check=True).stdout
    for path, *said in map(json.loads, filter(lambda line: line.startswith('['), out.splitlines())):
        if len(said) == 2:
            truth.setdefault(path, set()).add(tuple(said))
bad = 0
for path, said in sorted(truth.items()):
    here = pathlib.Path(path)
    beside = [here, here.with_name(here.name.replace('template', 'wrapper'))]
    for f in filter(pathlib.Path.exists, beside):
        o = json.loads(subprocess.run([os.path.join(a.tools, 'pginfo'), '--json', f], capture_output=True, text=True, check=True).stdout)
        ours = o['trainable_parameters'], o['non_trainable_parameters']
        if said != {ours}:
            bad += 1
            print(f'{f}: pginfo {ours}, Keras {sorted(said)}')
print(f'{len(truth)} of {len(files)} full models load into a Keras, {bad} counted otherwise')
sys.exit(bad > 0 or len(truth) < 20)
