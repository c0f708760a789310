#!/usr/bin/env python3
"""Runs pginfo, pginfo --stats, pginfo --json, pgdiff, pgcheck, pgunwrap and pgsplit over the hostile corpus and judges every answer.

usage: run.py --tools DIR --testdata DIR [--faultrun BIN] [--sanitizer] [--only PREFIX] [-j N] [-v]
  --faultrun   also see which files pginfo --stats and pgunwrap open (tests/faults; left out where programs may not be traced)
  --sanitizer  the tools are ASan builds: no limit of address space, three times the CPU time

The corpus is testdata/hostile/corpus.tar.xz (made by gen/make.py --pack) plus the cases whose generators need the standard library
only, which are made here.
What the fields of its manifest mean stands in gen/common.py. Judged for every case and command:
  - the verdict: exit 0, or 2 (3: legal, but not read by this build; pgunwrap: 1 where there is nothing to unwrap)
  - a refusal is one line on stderr, "tool: file: ...", with every string of `say`; indented facts and a "try:" line may follow
  - no crash, no sanitizer report, no hang: 5 s of CPU, 512 MiB resident beyond the file's size
  - nothing is written but a whole output, and nothing outside the file comes out
Standard library only. Exit status 1 if any case failed.
"""
import argparse
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "gen"))
sys.dont_write_bytecode = True
from pgbox import Box, Folder, chosen, finish  # noqa: E402

FIFOS = {"h5-fifo": "w.h5", "shard-fifo": "w_00001.weights.h5"}  # an archive is no place for them
SECRETS = ("TOP-SECRET", "1234.5")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


def corpus(testdata, out):
    """Unpacks and makes the corpus under out; returns the cases."""
    import common
    import gen_dcp  # noqa: F401
    import gen_jax  # noqa: F401
    import gen_megatron  # noqa: F401
    import gen_names  # noqa: F401
    import gen_npy  # noqa: F401
    import gen_npz  # noqa: F401
    import gen_onnx  # noqa: F401
    import gen_pickle  # noqa: F401
    import gen_safetensors  # noqa: F401
    import gen_tf  # noqa: F401
    import gen_zero  # noqa: F401

    with tarfile.open(os.path.join(testdata, "hostile", "corpus.tar.xz")) as t:
        t.extractall(out, filter="fully_trusted") if hasattr(tarfile, "fully_trusted_filter") else t.extractall(out)
    with open(os.path.join(testdata, "hostile", "manifest.json")) as f:
        man = json.load(f)
    for c in man:
        if c["id"] in FIFOS:
            os.makedirs(os.path.join(out, c["id"]), exist_ok=True)
            os.mkfifo(os.path.join(out, c["id"], FIFOS[c["id"]]))
    with open(os.devnull, "w") as null:
        stdout, sys.stdout = sys.stdout, null
        try:
            man += common.build(out)
        finally:
            sys.stdout = stdout
    return man


def bytes_of(path):
    return os.path.getsize(path) if os.path.isfile(path) else 0


class Judge:
    def __init__(self, a, box, root):
        self.a, self.box, self.root = a, box, root
        factor = 3 if a.sanitizer else 1
        self.cpu = 5 * factor
        self.limits = "-t %d,-c 0,-f 2097152" % (3 * self.cpu)

    def run(self, tool, *args):
        if self.a.faultrun and (tool == "pgunwrap" or "--stats" in args):
            fd, log = tempfile.mkstemp(prefix="pgopen")
            os.close(fd)
            from pgbox import run
            r = run([self.a.faultrun, "-q", "-c", "open", "-l", log, "--", os.path.join(self.box.tools, tool)] + list(args),
                    env=dict(os.environ, LC_ALL="C.UTF-8"), timeout=60, limits=self.limits)
            with open(log) as f:
                r.opened = [x.split() for x in f]
            os.unlink(log)
        else:
            r = self.box.tool(tool, *args, timeout=60, limits=self.limits)
            r.opened = []
        return r

    def common(self, c, path, r, why):
        what = r.argv[-3:]
        if r.rc == "HANG":
            why.append("hangs: %s" % what)
        elif isinstance(r.rc, int) and (r.rc < 0 or r.rc > 125):
            why.append("ends with signal or status %s: %s\n%s" % (r.rc, what, r.err[-1500:]))
        if "Sanitizer" in r.err or "runtime error:" in r.err:
            why.append("sanitizer report: %s" % r.err[:3000])
        if r.cpu > self.cpu * (2 if r.opened else 1):  # tracing takes time, too
            why.append("%.1f s of CPU (%s)" % (r.cpu, what))
        if not self.a.sanitizer and r.rss > (512 << 20) + bytes_of(path):
            why.append("%d MiB resident (%s)" % (r.rss >> 20, what))
        for s in SECRETS:
            if s in r.out + r.err:
                why.append("shows what stands in another file: %s" % s)
        for q in r.opened:
            name = q[4] if len(q) > 4 else ""
            if q[3] != "-2" and ("secret" in name or name in ("/etc/hostname", "/etc/passwd", "/dev/zero")):
                why.append("opened %s" % name)
        m = CONTROL.search(r.out + r.err)
        if m:
            why.append("prints %r unescaped: %r" % (m.group(), (r.out + r.err)[max(0, m.start() - 40):m.end() + 40]))

    def refusal(self, c, path, tool, r, why, statuses, says):
        if r.rc not in statuses:
            why.append("%s: exit %s, expected %s: %s" % (tool, r.rc, statuses, (r.err or r.out)[:300]))
            return
        if len(r.heads) != 1:
            why.append("%s: %d lines on stderr: %s" % (tool, len(r.heads), r.err[:400]))
            return
        if not r.heads[0].startswith(tool + ": ") or os.path.basename(path) not in r.heads[0]:
            why.append("%s: the line does not name tool and file: %s" % (tool, r.heads[0][:300]))
        if r.heads[0].count(path) > 1:
            why.append("%s: the file is named twice: %s" % (tool, r.heads[0][:300]))
        if says:
            text = " ".join(r.lines).lower()
            miss = [s for s in c["say"] if s.lower() not in text]
            if miss:
                why.append("%s: message lacks %s: %s" % (tool, "|".join(miss), r.err[:300]))

    def split(self, c, path, why):
        """pgsplit: what it makes of names stays in its folder, and is the same model. It rescues what damaged HDF5 holds."""
        with Folder() as d:
            home = os.path.join(d.path, "deep", "er")
            out = os.path.join(home, "out")
            os.makedirs(home)
            r = self.run("pgsplit", "--no-sync", path, out)
            self.common(c, path, r, why)
            if r.rc not in (0, 1, 2, 3) or (c.get("split") and c["verdict"] == "accept" and r.rc != 0):
                why.append("pgsplit: exit %s: %s" % (r.rc, r.err[:300]))
            rescued = c["id"].startswith(("h5-", "x-", "wrap-", "shard-", "path-"))
            if c["verdict"] == "refuse" and r.rc == 0 and not rescued:
                why.append("pgsplit: makes shards of it: %s" % r.out[:300])
            if os.listdir(d.path) != ["deep"] or os.listdir(os.path.dirname(home)) != ["er"] or not set(os.listdir(home)) <= {"out"}:
                why.append("pgsplit: writes outside of its folder: %s" % [p for p, _, _ in os.walk(d.path)])
            for folder, folders, names in os.walk(out):
                for n in folders + names:
                    if len(os.fsencode(n)) > 200 or CONTROL.search(n) or n != n.strip() or n.startswith(("-", "~")) or os.path.islink(os.path.join(folder, n)):
                        why.append("pgsplit: makes a file called %r" % n)
                if len({n.casefold() for n in folders + names}) != len(folders + names):
                    why.append("pgsplit: names that differ in case only: %s" % sorted(folders + names))
            if r.rc == 0 and c["verdict"] == "accept" and not rescued:
                q = self.run("pgdiff", out, path)
                if q.rc != 0 and "holds no tensors" not in q.err:
                    why.append("pgsplit: its shards differ: %s" % (q.out + q.err)[:300])

    def in_place(self, c, path, unwrapped, why):
        """pgunwrap --in-place of a copy: where pgunwrap writes something, it may too; else not a byte changes."""
        if path.endswith(".json") or not os.path.isfile(path):
            return
        with Folder() as d:
            own = d / os.path.basename(path)
            shutil.copyfile(path, own)
            r = self.run("pgunwrap", "--in-place", own)
            self.common(c, own, r, why)
            if r.rc == 0:
                if unwrapped != 0:
                    why.append("pgunwrap --in-place: changes what pgunwrap refuses: %s" % r.out[:300])
                q = self.run("pginfo", "--stats", own)
                self.common(c, own, q, why)
                if q.rc != 0:
                    why.append("pgunwrap --in-place: its output is refused: %s" % q.err[:300])
            elif not filecmp.cmp(own, path, shallow=False):
                why.append("pgunwrap --in-place: refused, yet the file is changed")
            if d.names() != [os.path.basename(own)]:
                why.append("pgunwrap --in-place: leaves %s" % d.names())

    def one(self, c):
        why = []
        path = os.path.abspath(os.path.join(self.root, c["path"]))
        before = sorted(os.listdir(os.path.dirname(path)))
        for args in ([], ["--stats"], ["--json"]):
            r = self.run("pginfo", *args, path)
            self.common(c, path, r, why)
            v = c["verdict"]
            if v == "refuse" and c["stage"] == "data" and args != ["--stats"] and r.rc == 0:
                v = "accept"  # only who reads the bytes has to notice
            if v == "either":
                v = "accept" if r.rc == 0 else "refuse"
            if v == "accept":
                if r.rc != 0:
                    why.append("pginfo %s: exit %s, must be accepted: %s" % (args, r.rc, r.err[:300]))
                elif r.err:
                    why.append("pginfo %s: stderr: %s" % (args, r.err[:300]))
            else:
                self.refusal(c, path, "pginfo", r, why, (2, 3), c["verdict"] == "refuse")
                if r.out and args != ["--json"]:
                    why.append("pginfo %s: refused, yet stdout holds %r" % (args, r.out[:200]))
            if args == ["--json"] and r.rc in (0, 2):
                try:
                    o = json.loads(r.out)
                    if not isinstance(o, dict) or (r.rc == 2) != (o["verdict"] in ("damaged", "unknown")):
                        why.append("--json: verdict %s with exit %s" % (o["verdict"], r.rc))
                except (ValueError, KeyError, TypeError) as e:
                    why.append("--json is no object (%s): %r" % (e, r.out[:200]))
        r = self.run("pgdiff", path, path)
        self.common(c, path, r, why)
        if c["verdict"] == "refuse" or r.rc not in (0, 1):
            self.refusal(c, path, "pgdiff", r, why, (2, 3), c["verdict"] == "refuse")
            if r.out:
                why.append("pgdiff: refused, yet stdout holds %r" % r.out[:200])
        r = self.run("pgcheck", path)
        self.common(c, path, r, why)
        if c["verdict"] == "refuse" and (r.rc not in (1, 2, 3) or (r.rc != 3 and "not ok" not in r.out and not r.heads)):
            why.append("pgcheck: exit %s, must not pass: %s" % (r.rc, r.out[:300]))
        with Folder() as d:
            name = os.path.basename(path)
            out = d / ("out" + (".weights.h5" if name.endswith(".json") else name[name.index("."):]))
            r = self.run("pgunwrap", path, out)
            self.common(c, path, r, why)
            v = c.get("unwrap", "either" if c["verdict"] == "either" else "refuse")
            if v == "accept" and r.rc != 0:
                why.append("pgunwrap: exit %s, must be unwrapped: %s" % (r.rc, r.err[:300]))
            if v == "refuse" and r.rc == 0:
                why.append("pgunwrap: writes an output: %s" % r.out[:300])
            if r.rc == 0:
                miss = [x for x in c.get("tell", ()) if x not in r.out + r.err]
                if miss:
                    why.append("pgunwrap: writes an output and does not tell of %s: %s" % (", ".join(miss), r.out[:300]))
                if d.names() != [os.path.basename(out)]:
                    why.append("pgunwrap: leaves %s" % d.names())
                q = self.run("pginfo", "--stats", out)
                self.common(c, out, q, why)
                if q.rc != 0 and os.path.exists(out):
                    why.append("pgunwrap: its output is refused: %s" % q.err[:300])
            else:
                statuses = (2, 3) if c["verdict"] == "refuse" and c["stage"] == "meta" else (1, 2, 3)
                self.refusal(c, path, "pgunwrap", r, why, statuses, c["verdict"] == "refuse" and r.rc in (2, 3))
                if d.names():
                    why.append("pgunwrap: refused, yet leaves %s" % d.names())
        self.in_place(c, path, r.rc, why)
        self.split(c, path, why)
        if sorted(os.listdir(os.path.dirname(path))) != before:
            why.append("wrote beside the input: %s" % sorted(os.listdir(os.path.dirname(path))))
        return why


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("--faultrun")
    ap.add_argument("--sanitizer", action="store_true")
    ap.add_argument("--only", default="")
    ap.add_argument("-j", type=int, default=os.cpu_count() or 1)
    ap.add_argument("-v", action="store_true")
    ap.add_argument("--unpack", help="only unpack the corpus here and print its manifest")
    a = ap.parse_args()
    if a.unpack:
        json.dump(corpus(a.testdata, a.unpack), sys.stdout)
        return 0
    if a.faultrun and subprocess.run([a.faultrun, "-q", "--", "true"]).returncode:
        print("skipped: what is opened (ptrace)")
        a.faultrun = None
    root = tempfile.mkdtemp(prefix="pghostile")
    try:
        # in a process of its own: what this one holds would count as memory of every tool it starts
        made = subprocess.run([sys.executable, os.path.abspath(__file__), "--tools", a.tools, "--testdata", a.testdata, "--unpack", root],
                              stdout=subprocess.PIPE, check=True).stdout
        man = [c for c in json.loads(made) if c["id"].startswith(a.only) and chosen(c["id"])]
        j = Judge(a, Box(a.tools, None, a.testdata), root)

        def safe(c):
            try:
                return j.one(c)
            except Exception as e:
                return ["%s: %s" % (type(e).__name__, e)]

        bad = []
        with ThreadPoolExecutor(a.j) as pool:
            for c, why in zip(man, pool.map(safe, man)):
                if why:
                    bad.append(("%s (%s, %s)" % (c["id"], c["verdict"], c["note"]), "\n".join(why)))
                if a.v:
                    print("%s %s" % ("BAD" if why else "ok ", c["id"]))
        if os.path.exists("pwned") or any("pwned" in f for _, _, f in os.walk(root)):
            bad.append(("pwned", "code from a file was run"))
        return finish("hostile", bad, len(man))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
