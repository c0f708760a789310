#!/usr/bin/env python3
"""pgfit --list-layers against the layer classes that real Keras exports, and against its manual page: what cannot be trained stands there
with the same reason, and so does what is no class of a file. The page about formats says for every class that ONNX has what it becomes.

usage: list_layers.py --tools DIR --page FILE --formats FILE [--classes]      --classes: run inside a Keras, prints what it exports
Environments: PG_KERAS2_PYTHON, PG_KERAS3_PYTHON, as in run.py; the page is looked at without them too."""
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


def page_rows(path, head=None):
    """{class: why} of the page's table, or of the one whose second column has that head."""
    with open(path) as f:
        text = f.read()
    if head:
        text = re.search(r"^\| [a-z]+ \| %s \|\n.*?\n\n" % head, text, re.M | re.S).group()
    rows = re.findall(r"^\| ([A-Z][^|]*?) \| ([^|]*?) \|$", text, re.M)
    return {name: why for names, why in rows for name in names.split(", ")}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools")
    ap.add_argument("--page")
    ap.add_argument("--formats")
    ap.add_argument("--classes", action="store_true")
    a = ap.parse_args()
    if a.classes:
        return exported()
    said = json.loads(subprocess.run([os.path.join(a.tools, "pgfit"), "--list-layers", "--json"], check=True, capture_output=True).stdout)
    rows, bad = page_rows(a.page), []
    for name, why in said["why"].items():
        if rows.get(name) != why:
            bad.append("the page: %s: %s, pgfit says: %s" % (name, rows.get(name), why))
    beside = {name for name in rows if name not in said["layers"]}
    bad += ["the page: %s is trained" % name for name in rows if said["layers"].get(name)]
    become = {name for name, has in said["onnx"].items() if has}
    told = set(page_rows(a.formats, "operators"))
    bad += ["the page about formats: %s becomes ONNX, but it does not say what" % name for name in sorted(become - told)]
    bad += ["the page about formats: %s does not become ONNX" % name for name in sorted(told - become)]
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
        bad += ["%s: neither in the table nor on the page" % name for name in missing]
    if os.environ.get("PG_KERAS2_PYTHON") and os.environ.get("PG_KERAS3_PYTHON"):
        bad += ["the page: no Keras exports %s" % name for name in sorted(beside - found)]
    print("\n".join(bad) or "the page agrees: %d not trained, %d no layers of files" % (len(said["why"]), len(beside)))
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
