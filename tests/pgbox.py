"""What the outside runners (manifest, hostile, interop, alloc) have in common: running a tool, reading pg_dump, judging a folder.

Standard library only. A runner makes one Box per process and one fresh folder per case.
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading


class Run:
    """One finished command: rc (negative = signal, "HANG"), out, err (text), lines (of stderr), cpu seconds, peak bytes."""

    def __init__(self, argv, rc, out, err, cpu, rss):
        self.argv, self.rc, self.cpu, self.rss = argv, rc, cpu, rss
        self.out, self.err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
        self.lines = [x for x in self.err.split("\n") if x.strip()]
        # indented facts, a "try:" line and "note:" lines may follow the one line
        self.heads = [x for x in self.lines if not x.startswith(("  ", "try: ", "note: "))]

    def show(self):
        return "%s -> %s\n%s%s" % (" ".join(self.argv), self.rc, self.out[:800], self.err[:1200])


def run(argv, env=None, cwd=None, timeout=60, limits=""):
    """Runs argv to its end and measures it. limits: options of the shell's ulimit, "-t 5,-v 1000000"."""
    if limits:
        argv = ["/bin/sh", "-c", "".join("ulimit %s && " % x for x in limits.split(",")) + 'exec "$0" "$@"'] + argv
    with tempfile.TemporaryFile() as o, tempfile.TemporaryFile() as e:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=o, stderr=e, env=env, cwd=cwd,
                             start_new_session=True)
        hang = False

        def kill():
            nonlocal hang
            hang = True
            try:
                os.killpg(p.pid, 9)
            except ProcessLookupError:
                pass

        t = threading.Timer(timeout, kill)
        t.start()
        try:
            _, status, ru = os.wait4(p.pid, 0)
        finally:
            t.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        o.seek(0)
        e.seek(0)
        return Run(argv, "HANG" if hang else p.returncode, o.read(8 << 20), e.read(1 << 20),
                   ru.ru_utime + ru.ru_stime, ru.ru_maxrss * 1024)


class Tensor:
    def __init__(self, layer, dtype, shape, name, data):
        self.layer, self.dtype, self.shape, self.name = layer, dtype, tuple(shape), name
        self.sha = hashlib.sha256(data).hexdigest()
        self.data = data

    def key(self):
        return (self.name, self.dtype, self.shape, self.sha)

    def value(self):
        return (self.dtype, self.shape, self.sha)


class Dump:
    """A file as pg_dump saw it."""

    def __init__(self):
        self.status, self.message, self.format = None, "", ""
        self.layers, self.weights, self.state, self.texts = [], [], [], {}

    def by_layer(self):
        """[(layer name, [tensor])], weightless layers included; [(None, ...)] where files have no layers."""
        if not self.layers:
            return [(None, self.weights)]
        out = [(n, []) for n, _ in self.layers]
        for w in self.weights:
            out[w.layer][1].append(w)
        return out

    def config(self, which=0):
        return json.loads(self.texts[which]) if which in self.texts else None

    def path(self, w):
        """Where a path-layout file keeps a tensor, whether or not its name repeats the layer."""
        if w.layer < 0 or w.name.startswith(self.layers[w.layer][0] + "/"):
            return w.name
        return self.layers[w.layer][0] + "/" + w.name


def parse_dump(b):
    out, i = [], 0

    def line():
        nonlocal i
        j = b.index(b"\n", i)
        r, i = b[i:j].decode(), j + 1
        return r.split(" ")

    def blob(n):
        nonlocal i
        r = b[i:i + n]
        assert b[i + n:i + n + 1] == b"\n", "pg_dump out of step"
        i += n + 1
        return r

    while i < len(b):
        f = line()
        if f[0] == "F":
            text = blob(int(f[2])).decode("utf-8", "replace")
            d = Dump()
            d.status = f[1]
            d.format, d.message = (text, "") if f[1] == "PG_OK" else ("", text)
            out.append(d)
        elif f[0] == "E":
            out[-1].status, out[-1].message = f[1], blob(int(f[2])).decode("utf-8", "replace")
        elif f[0] == "L":
            out[-1].layers.append((blob(int(f[2])).decode("utf-8", "surrogateescape"), int(f[1])))
        elif f[0] in "WS":
            name = blob(int(f[3])).decode("utf-8", "surrogateescape")
            t = Tensor(int(f[1]), f[2], map(int, f[5:]), name, blob(int(f[4])))
            (out[-1].weights if f[0] == "W" else out[-1].state).append(t)
        elif f[0] == "T":
            out[-1].texts[int(f[1])] = blob(int(f[2])).decode("utf-8", "surrogateescape")
        else:
            raise ValueError("pg_dump wrote %r" % f)
    return out


class Box:
    """Tools, test data and a place to work in."""

    def __init__(self, tools, dump, testdata):
        self.tools, self.dump_exe, self.data = os.path.abspath(tools), dump and os.path.abspath(dump), os.path.abspath(testdata)
        self.cache = {}

    def tool(self, name, *args, **kw):
        env = dict(os.environ, LC_ALL="C.UTF-8")
        for k in list(env):
            if k.startswith("PG_") and not k.endswith("_PYTHON"):
                del env[k]
        return run([os.path.join(self.tools, name)] + [str(a) for a in args], env=env, **kw)

    def dump(self, path, cache=False):
        if path in self.cache:
            return self.cache[path]
        p = subprocess.run([self.dump_exe, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode not in (0, 1):
            raise AssertionError("pg_dump %s: exit %s %s" % (path, p.returncode, p.stderr.decode(errors="replace")[:2000]))
        d = parse_dump(p.stdout)[0]
        if cache:
            self.cache[path] = d
        return d


def chosen(what):
    """False for what this run leaves to others: PG_SHARE=N:SEED takes one N-th, another one for each seed; unset takes all."""
    n, _, seed = os.environ.get("PG_SHARE", "1:").partition(":")
    return int(hashlib.sha256((seed + what).encode()).hexdigest(), 16) % int(n) == 0


def sha_file(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while True:
            b = f.read(1 << 20)
            if not b:
                return h.hexdigest()
            h.update(b)


def without_shared_ids(o):
    """Python's numbering of objects in a config; a file saved alone counts anew."""
    if isinstance(o, dict):
        return {k: without_shared_ids(v) for k, v in o.items() if k != "shared_object_id"}
    return [without_shared_ids(x) for x in o] if isinstance(o, list) else o


class Folder:
    """A fresh folder that must hold exactly what the case says at its end."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="pgbox")
        return self

    def __exit__(self, *a):
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def names(self):
        return sorted(os.path.relpath(os.path.join(r, x), self.path) for r, d, f in os.walk(self.path) for x in d + f)


def finish(suite, bad, n, skipped=()):
    for what, why in bad:
        print("FAIL %s\n     %s" % (what, why.replace("\n", "\n     ")))
    for s in skipped:
        print("skipped: " + s)
    print("%s: %d checks, %d failed" % (suite, n, len(bad)))
    sys.stdout.flush()
    return 1 if bad else 0
