"""A test that both Keras judge: with --make and --judge the script is run by the environments of real Keras, without them
it calls itself so, in a folder of its own for each Keras that is there, and does its own part in between."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile


def main(script, make, judge, between, judges=(2, 3)):
    """make(folder) and judge(folder) run in Keras; between(tools, folder, major) here, and returns how much is wrong.
    judges: which Keras has a judge."""
    p = argparse.ArgumentParser()
    p.add_argument('--tools', type=pathlib.Path)
    p.add_argument('--make', type=pathlib.Path)
    p.add_argument('--judge', type=pathlib.Path)
    a = p.parse_args()
    if a.make:
        return make(a.make)
    if a.judge:
        return judge(a.judge)
    pythons = {m: os.environ.get(f'PG_KERAS{m}_PYTHON') for m in (2, 3)}
    if not any(pythons.values()):
        print('needs PG_KERAS2_PYTHON or PG_KERAS3_PYTHON')
        sys.exit(77)
    bad = 0
    for major, python in pythons.items():
        if not python:
            continue
        with tempfile.TemporaryDirectory() as name:
            d = pathlib.Path(name)
            subprocess.run([python, '-W', 'ignore', script, '--make', d], check=True)
            bad += between(a.tools, d, major)
            if major in judges:
                bad += subprocess.run([python, '-W', 'ignore', script, '--judge', d]).returncode != 0
    sys.exit(bad != 0)
