#!/usr/bin/env python3
"""Makes fresh mutants of genuine HDF5 files and asks everyone: what our reader passes must not harm libhdf5, and whatever it
is, a tool answers as to any file.

usage: mutants.py --judge BIN --tools DIR --testdata DIR [--count N] [--sample N] [--seed S] [--keep FOLDER] [--sanitizer]
  --count   mutants for reader and libhdf5 (2,000)     --sample  of them for the tools too
  --seed    repeats a run; printed, another each time  --keep    where a mutant that did harm is copied to

A mutant differs in a few places, most of them in metadata; three times in four its checksums are right again. Judged:
  - libhdf5 opens and reads what our reader passed, in a process of its own: no crash, no hang, no refusal
  - pginfo --stats, pgunwrap -n, pgcheck: no signal, at most 5 s of CPU and 512 MiB, a refusal is one line and nothing on
    stdout, and no file appears
Standard library only. Exit status 1 if any mutant did harm.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "gen"))
sys.dont_write_bytecode = True
from pgbox import Box, finish  # noqa: E402
import mutate_h5  # noqa: E402

MAX_SEED = 48 << 10
TOOLS = (("pginfo", "--stats"), ("pgunwrap", "-n"), ("pgcheck",))


def genuine(testdata):
    """Small .h5 files, the same ones in the same order everywhere."""
    out = []
    for root, dirs, files in os.walk(testdata):
        dirs.sort()
        out += [os.path.join(root, n) for n in sorted(files) if n.endswith(".h5")]
    return [p for p in out if 0 < os.path.getsize(p) <= MAX_SEED]


def make(folder, seeds, seed, count):
    data = {}
    for k in range(count):
        r = random.Random(seed * 1000003 + k)
        path = r.choice(seeds)
        if path not in data:
            with open(path, "rb") as f:
                data[path] = f.read()
        b, what = mutate_h5.mutate(data[path], r)
        name = os.path.join(folder, "m%05d.h5" % k)
        with open(name, "wb") as f:
            f.write(b)
        yield name, "%s: %s" % (os.path.basename(path), what)


def judge(exe, names, memory):
    """"passed", "refused" or what happened, of every file; after harm another process goes on."""
    out = {}
    while len(out) < len(names):
        left = names[len(out):]
        cmd = 'ulimit -c 0 && exec "$0"' if memory is None else 'ulimit -c 0 && ulimit -v %d && exec "$0"' % memory
        p = subprocess.run(["/bin/sh", "-c", cmd, exe], input="\n".join(left) + "\n", stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, universal_newlines=True)
        answers = p.stdout.split()
        for name, answer in zip(left, answers):
            out[name] = answer
        if len(answers) < len(left):
            out[left[len(answers)]] = "status %d %s" % (p.returncode, p.stderr[-1500:])
    return out


def use(box, path, folder, sanitizer):
    """What is wrong with the tools' answers."""
    why = []
    for tool, *options in TOOLS:
        before = os.listdir(folder)
        r = box.tool(tool, *options, path, cwd=folder, timeout=60, limits="-t %d,-c 0" % (30 if sanitizer else 10))
        if r.rc not in (0, 1, 2, 3) or "Sanitizer" in r.err or "runtime error:" in r.err:
            why.append("%s: status %s: %s" % (tool, r.rc, r.err[:1500]))
        if not sanitizer and (r.cpu > 5 or r.rss > 512 << 20):
            why.append("%s: %.1f s of CPU, %d MiB" % (tool, r.cpu, r.rss >> 20))
        if r.rc in (2, 3) and tool != "pgcheck" and (len(r.heads) != 1 or r.out):
            why.append("%s: refuses by %d lines, %d bytes on stdout: %s" % (tool, len(r.heads), len(r.out), r.err[:400]))
        if r.rc in (2, 3) and tool == "pgcheck" and len(r.heads) > 1:
            why.append("%s: refuses by %d lines: %s" % (tool, len(r.heads), r.err[:400]))
        if sorted(os.listdir(folder)) != sorted(before):
            why.append("%s: leaves %s" % (tool, set(os.listdir(folder)) - set(before)))
    return why


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("--judge", required=True)
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("--count", type=int, default=2000)
    ap.add_argument("--sample", type=int, default=100)
    ap.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    ap.add_argument("--keep")
    ap.add_argument("--sanitizer", action="store_true")
    a = ap.parse_args()
    seeds = genuine(a.testdata)
    print("mutants: %d of %d genuine files, seed %d" % (a.count, len(seeds), a.seed))
    sys.stdout.flush()
    bad = []
    with tempfile.TemporaryDirectory(prefix="pgmutants") as folder:
        made = dict(make(folder, seeds, a.seed, a.count))
        names = list(made)
        answers = judge(os.path.abspath(a.judge), names, None if a.sanitizer else 2 << 20)
        for name in names:
            if answers[name] not in ("passed", "refused"):
                bad.append((name, "%s\n%s" % (made[name], answers[name])))
        box = Box(a.tools, None, a.testdata)
        # half of the sample is what the reader passed: there the tools go further
        passed = [n for n in names if answers[n] == "passed"][:a.sample // 2]
        sample = passed + [n for n in names if answers[n] != "passed"][:a.sample - len(passed)]
        for name in sample:
            why = use(box, name, folder, a.sanitizer)
            if why:
                bad.append((name, made[name] + "\n" + "\n".join(why)))
        if a.keep and bad:
            os.makedirs(a.keep, exist_ok=True)
            for name, _ in bad:
                shutil.copy(name, a.keep)
        print("%d passed by the reader and read by libhdf5, %d refused, %d by the tools" %
              (sum(x == "passed" for x in answers.values()), sum(x == "refused" for x in answers.values()), len(sample)))
    return finish("mutants", bad, a.count + len(sample) * len(TOOLS))


if __name__ == "__main__":
    sys.exit(main())
