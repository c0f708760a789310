#!/usr/bin/env python3
"""usage: loads_in.py --tools DIR --testdata DIR

The note of pgunwrap that says which Keras loads its output as it is, against load_model() of Keras 2.15 and 3.6 on each full
wrapper of testdata (and of the collection beside the checkout, where there is one). Where the note names pgconvert --keras 3,
Keras 3.6 loads what that makes, as .keras and as .h5. PG_KERAS2_PYTHON and PG_KERAS3_PYTHON name the judges; without both the
test is skipped (77)."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LOAD = r'''
import json, os, signal, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
def stop(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, stop)
for path, custom in json.load(sys.stdin):
    objects = {c: type(c, (keras.layers.Layer,), {}) for c in custom}
    for compiled in True, False:
        signal.alarm(20)  # Keras 3 never ends on some nested descriptions of Keras 2
        try:
            keras.models.load_model(path, compile=compiled, custom_objects=objects)
            said = ""
        except Exception as e:
            said = type(e).__name__ + ": " + str(e)[:200]
        signal.alarm(0)
        print(json.dumps([path, compiled, said]))
'''


def judge(python, files):
    out = subprocess.run([python, '-c', LOAD], input=json.dumps(files), capture_output=True, text=True, check=True).stdout
    return {(p, c): said for p, c, said in map(json.loads, filter(lambda line: line.startswith('['), out.splitlines()))}


def claims(note):
    """{(Keras, compile): loads} that a note states."""
    if note.startswith('only the Python') or note.startswith('Keras 1 '):
        return {(k, c): False for k in (2, 3) for c in (True, False)}
    if note.startswith('Keras 2 and 3 load it as it is'):
        return {(k, c): True for k in (2, 3) for c in (True, False)}
    if note.startswith('Keras 3 loads it as it is'):
        return {(2, True): False, (2, False): False, (3, True): True, (3, False): True}
    if note.startswith('Keras 3 loads it with compile=False'):
        return {(2, True): False, (2, False): False, (3, True): False, (3, False): True}
    assert note.startswith('Keras 2 loads it as it is'), note
    said = {(2, True): True, (2, False): True}
    if '; Keras 3 ' in note:
        said.update({(3, True): False, (3, False): 'compile=False' in note})
    return said


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--tools', required=True)
    ap.add_argument('--testdata', required=True)
    a = ap.parse_args()
    judges = {2: os.environ.get('PG_KERAS2_PYTHON'), 3: os.environ.get('PG_KERAS3_PYTHON')}
    if not all(judges.values()):
        print('skipped: PG_KERAS2_PYTHON and PG_KERAS3_PYTHON do not name Pythons')
        return 77
    here = pathlib.Path(a.testdata, 'files')
    more = pathlib.Path(a.testdata).resolve().parents[1] / 'shared/testdata/files'
    files, bytes_of = [], set()
    for f in sorted(f for top in (here, more) for s in ('*.h5', '*.keras') for f in top.rglob(s)):
        if 'wrapper' in f.name and f.read_bytes() not in bytes_of:
            bytes_of.add(f.read_bytes())
            files.append(f)
    bad, notes, asked = 0, {}, []
    with tempfile.TemporaryDirectory() as d:
        for n, f in enumerate(files):
            out = f'{d}/{n}{f.suffix}'
            r = subprocess.run([os.path.join(a.tools, 'pgunwrap'), f, out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            note = re.findall(r'note: ((?:only the Python|Keras [123] )[^\n]*)', r.stdout)
            if r.returncode == 0 and note:
                notes[out] = f, note
                if 'convert it for Keras 3' in note[0]:
                    for suffix in '.keras', '.h5':
                        subprocess.run([os.path.join(a.tools, 'pgconvert'), '--keras', '3', out, f'{d}/{n}-3{suffix}'], check=True, stdout=subprocess.DEVNULL)
                        asked.append(f'{d}/{n}-3{suffix}')
        own = {o: re.findall(r'\w+', ''.join(re.findall(r'custom_objects for ([^)]*)', n[0]))) for o, (_, n) in notes.items()}
        truth = {k: judge(python, [[o, own[o]] for o in notes] + [[o, []] for o in asked if k == 3]) for k, python in judges.items()}
        for out, (f, note) in notes.items():
            for (k, compiled), loads in claims(note[0]).items():
                if len(note) != 1 or loads != (truth[k][out, compiled] == ''):
                    bad += 1
                    print(f'{f}: {note}, but Keras {k}, compile={compiled}: {truth[k][out, compiled] or "loads"}')
        for out in asked:
            if truth[3][out, True]:
                bad += 1
                print(f'{out}: {truth[3][out, True]}')
    print(f'{len(notes)} full models, {len(asked)} converted, {bad} problems')
    return bad > 0 or len(notes) < 20


if __name__ == '__main__':
    sys.exit(main())
