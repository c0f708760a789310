#!/usr/bin/env python3
"""pgfit --list-layers against the layer classes that real Keras exports, and against the README: what cannot be trained stands there
with the same reason, and so does what is no class of a file.

usage: list_layers.py --tools DIR --readme FILE [--classes]      --classes: run inside a Keras, prints what it exports
Environments: PG_KERAS2_PYTHON, PG_KERAS3_PYTHON, as in run.py; the README is looked at without them too."""
import argparse
import inspect
import json
import os
import re
import subprocess
import sys


def exported():
    """Names under which keras.layers and what lies below it can be asked for classes, and the classes' own names."""
    import keras
    names, todo, seen = set(), [keras.layers], set()
    while todo:
        module = todo.pop()
        for name in dir(module):
            it = getattr(module, name)
            if inspect.isclass(it):
                names.update((name, it.__name__))
            elif inspect.ismodule(it) and "layers" in it.__name__ and it.__name__ not in seen:
                seen.add(it.__name__)
                todo.append(it)
    print(json.dumps(sorted(names)))


def readme_rows(path):
    """{class: why} of the table of the README's section."""
    with open(path) as f:
        text = f.read()
    section = re.search(r"^### Layers that are not trained\n(.*?)(?=^##)", text, re.M | re.S).group(1)
    rows = re.findall(r"^\| ([A-Z][^|]*?) \| ([^|]*?) \|$", section, re.M)
    return {name: why for names, why in rows for name in names.split(", ")}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools")
    ap.add_argument("--readme")
    ap.add_argument("--classes", action="store_true")
    a = ap.parse_args()
    if a.classes:
        return exported()
    said = json.loads(subprocess.run([os.path.join(a.tools, "pgfit"), "--list-layers", "--json"], check=True, capture_output=True).stdout)
    rows, bad = readme_rows(a.readme), []
    for name, why in said["why"].items():
        if rows.get(name) != why:
            bad.append("README: %s: %s, pgfit says: %s" % (name, rows.get(name), why))
    beside = {name for name in rows if name not in said["layers"]}
    bad += ["README: %s is trained" % name for name in rows if said["layers"].get(name)]
    found = set()
    for env in ("PG_KERAS2_PYTHON", "PG_KERAS3_PYTHON"):
        if not os.environ.get(env):
            continue
        out = subprocess.run([os.environ[env], os.path.abspath(__file__), "--classes"], check=True, stdout=subprocess.PIPE,
                             env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}).stdout
        names = set(json.loads(out.splitlines()[-1]))
        found |= names
        missing = sorted(names - set(said["layers"]) - beside)
        print("%s: %d exported, %d in the table, missing: %s" % (env, len(names), len(names & set(said["layers"])), ", ".join(missing) or "none"))
        bad += ["%s: neither in the table nor in the README" % name for name in missing]
    if os.environ.get("PG_KERAS2_PYTHON") and os.environ.get("PG_KERAS3_PYTHON"):
        bad += ["README: no Keras exports %s" % name for name in sorted(beside - found)]
    print("\n".join(bad) or "the README agrees: %d not trained, %d no layers of files" % (len(said["why"]), len(beside)))
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
