#!/usr/bin/env python3
"""Run inside a Keras: the descriptions that tests/hostile/lies.c makes mutants of, one a line: of all cases of
tests/interop/train_layers.py the shortest with each layer class, operation or argument of a call.

usage: gen_lies.py OUT.jsonl"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "interop"), os.path.join(HERE, "..", "..")]
import train_layers  # noqa: E402


def shows(text):
    """What a description has that another may not have."""
    found = set()

    def walk(o, key):
        if isinstance(o, dict):
            name = o.get("class_name")
            if isinstance(name, str) and isinstance(o.get("config"), dict):
                if "inbound_nodes" in o or key in ("layer", "cell", "cells", "backward_layer", "layers"):
                    found.add((key if key != "layers" else "", name, o["config"].get("function")))
            for k, v in o.items():
                walk(v, k)
        elif isinstance(o, list):
            if len(o) == 4 and isinstance(o[3], dict) and o[3]:
                found.update(("call", k) for k in o[3])
            for v in o:
                walk(v, key)
    walk(json.loads(text), "")
    return found


def lean(o):
    """Without what only a new weight is asked for, and what is the same everywhere."""
    if isinstance(o, dict):
        is_input = "batch_shape" in o or "batch_input_shape" in o
        return {k: lean(v) for k, v in o.items()
                if is_input or not k.endswith(("_initializer", "_constraint", "_regularizer", "dtype", "build_config", "synchronized"))}
    return [lean(v) for v in o] if isinstance(o, list) else o


def main():
    keras, _, _ = train_layers.start()
    texts = []
    for layer, shapes in train_layers.recipes(keras).values():
        ins = [s.make(keras) if hasattr(s, "make") else keras.Input(s, batch_size=getattr(shapes[0], "batch", None)) for s in shapes]
        try:
            texts.append(keras.Model(ins, layer(*ins)).to_json())
        except Exception:  # Keras itself cannot
            pass
    seen = set()
    with open(sys.argv[1], "w") as f:
        for text in sorted(texts, key=lambda t: (len(t), t)):
            new = shows(text) - seen
            if new:
                seen |= new
                f.write(json.dumps(lean(json.loads(text)), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
