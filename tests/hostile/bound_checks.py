#!/usr/bin/env python3
"""Removes every bound check of the HDF5 reader in turn and shows that a test notices.

  bound_checks.py --instrument FOLDER SOURCE ...   writes copies of the sources in which each check can be switched off,
                                                   and bound_checks.json, the list of them (the build does this)
  bound_checks.py --run LIST [--all | --sample N] [--only FILE[:LINE]] [--seed S] [--seconds T] [-j N] -- TEST ... [-- TEST ...]
  bound_checks.py --list SOURCE ...                prints the checks

A check is a clause of a condition that guards a refusal, a loop or a limit: of PG_H5_NEED(), of an `if` that fails, of what
sums up to `good` or `huge`, of a loop, of a choice that compares; and a call whose only result is a refusal. Clauses are
removed one by one: `a && b` that must hold becomes `b`, then `a`. All switches are compiled in at once; PG_BOUND=NUMBER turns
one. A test notices by failing, crashing, or not ending.

A check that others make redundant, yet that the code is clearer with, has a comment on its line or the line before it that
says "second check" and why; a choice that changes nothing but speed or memory says "only speed" or "only memory". Both are
left alone.
Standard library only. Exit status 1 if a removed check was not noticed.
"""
import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

FAILS = re.compile(r"\b(PG_H5_FAIL|PG_FAIL|PG_H5_UNCOVERED|pg__h5_bad|pg_fail|bad|bad_link|pg__h5_filter_refuse)\(|return NULL")
MEMORY = re.compile(r"pg__mem_|pg__nomem|pg__h5_take|\bst != PG_OK")
CALLS = re.compile(r"\b(check_\w+|sort_objects|pg__h5_own|pg__h5_chunk_check|pg__h5_attrs_check|pg__h5_check_extents)\(")
COUNTER = re.compile(r"^\w+ < [\w>.&\[\]()* -]+$|^i-- > 0$|^$")
COMPARES = re.compile(r"[^-<]<[^<]|[^->]>[^>]|&&")
SECOND = re.compile(r"second check|only speed|only memory")
TEST_S, TEST_BYTES = 20, 2 << 30


# ---- finding checks


class Source:
    """Text of a C file; `code` is the same with comments, strings and preprocessor lines blanked."""

    def __init__(self, path):
        self.path = path
        with open(path) as f:
            self.text = f.read()
        blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
        quiet = lambda m: m.group(0)[0] + "_" * (len(m.group(0)) - 2) + m.group(0)[-1]
        code = re.sub(r"/\*.*?\*/|//[^\n]*", blank, self.text, flags=re.S)
        code = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', quiet, code)
        self.code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, code, flags=re.M)
        self.lines = self.text.split("\n")

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def close(self, at):
        """Of the parenthesis that opens at `at`."""
        depth = 0
        for i in range(at, len(self.code)):
            depth += (self.code[i] in "([{") - (self.code[i] in ")]}")
            if depth == 0:
                return i
        raise ValueError("%s: unbalanced" % self.path)

    def split(self, a, b, sep):
        """The parts of [a, b) between separators that no parenthesis holds."""
        out, depth, i, start = [], 0, a, a
        while i < b:
            c = self.code[i]
            depth += (c in "([{") - (c in ")]}")
            if depth == 0 and self.code.startswith(sep, i):
                out.append((start, i))
                i += len(sep)
                start = i
                continue
            i += 1
        return out + [(start, b)]

    def trim(self, a, b):
        while a < b and self.code[a].isspace():
            a += 1
        while b > a and self.code[b - 1].isspace():
            b -= 1
        return a, b

    def statement(self, at):
        """The end of the statement that begins at or behind `at`."""
        while self.code[at].isspace():
            at += 1
        if self.code[at] == "{":
            return self.close(at) + 1
        depth = 0
        while depth or self.code[at] != ";":
            depth += (self.code[at] in "([{") - (self.code[at] in ")]}")
            at += 1
        return at + 1


def weaken(s, a, b, holds, out):
    """The clauses of the condition [a, b) whose removal lets more through: holds says what the condition must be."""
    a, b = s.trim(a, b)
    if s.code[a] == "(" and s.close(a) == b - 1:
        return weaken(s, a + 1, b - 1, holds, out)
    if s.code.startswith("!(", a) and s.close(a + 1) == b - 1:
        return weaken(s, a + 2, b - 1, not holds, out)
    ors = s.split(a, b, "||")
    ands = s.split(a, b, "&&") if len(ors) == 1 else []
    if len(ors) > 1 and not holds or len(ands) > 1 and holds:
        for x, y in ors if len(ors) > 1 else ands:
            weaken(s, x, y, holds, out)
        return
    out.append((a, b, "true" if holds else "false"))
    if len(ors) > 1 or len(ands) > 1:  # one by one: what an operand of its own demands
        for x, y in ors if len(ors) > 1 else ands:
            more = []
            weaken(s, x, y, holds, more)
            out += more if len(more) > 1 else []


def conditions(s):
    """(start, end, whether it must hold) of every condition that guards something."""
    code = s.code
    for m in re.finditer(r"\bPG_H5_NEED(?=\()", code):
        a, b = m.end() + 1, s.close(m.end())
        yield s.split(a, b, ",")[0] + (True,)
    for m in re.finditer(r"\bif (?=\()", code):
        a, b = m.end() + 1, s.close(m.end())
        body = code[b + 1:s.statement(b + 1)]
        if MEMORY.search(s.lines[s.line(a) - 2] + code[a:b] + body):
            continue
        if FAILS.search(body):
            yield a, b, False
        elif COMPARES.search(code[a:b]):
            yield a, b, True
            yield a, b, False
    for m in re.finditer(r"\b(good|huge) [&|]?= ", code):
        yield m.end(), s.statement(m.end()) - 1, m.group(1) == "good"
    for m in re.finditer(r"\b(while|for) (?=\()", code):
        a, b = m.end() + 1, s.close(m.end())
        parts = s.split(a, b, ";")
        a, b = s.trim(*parts[1 if len(parts) == 3 else 0])
        if not COUNTER.match(code[a:b]):
            yield a, b, True
    for m in re.finditer(r"\?", code):
        a, depth = m.start() - 1, 0
        while True:
            depth += (code[a] in ")]}") - (code[a] in "([{")
            if depth < 0 or depth == 0 and (code[a] in ",;:?" or code[a] == "=" and code[a - 1] not in "=!<>" and code[a + 1] != "="):
                break
            if depth == 0 and code.startswith("return", a):
                a += 5
                break
            a -= 1
        a, b = s.trim(a + 1, m.start())
        if COMPARES.search(code[a:b]) and not MEMORY.search(code[a:b]):
            yield a, b, True
            yield a, b, False


def checks(path):
    """[(start, end, what it becomes)] of a file, and the lines of second checks."""
    s = Source(path)
    out, second = [], set()
    for a, b, holds in conditions(s):
        weaken(s, a, b, holds, out)
    for m in re.finditer(r"\b(?:PG_TRY\(|const pg_status st = )", s.code):
        if CALLS.match(s.code, m.end()):
            call = CALLS.match(s.code, m.end())
            out.append((m.end(), s.close(call.end() - 1) + 1, "PG_OK"))
    keep = []
    for a, b, to in sorted(set(out), key=lambda c: (c[0], -c[1])):
        n = s.line(a)
        near = s.lines[n - 2].strip() if n > 1 else ""
        if s.code[a:b].isdigit() or s.code[a:b] == "st == PG_OK":
            continue
        if SECOND.search(s.lines[n - 1]) or SECOND.search(near) and near.startswith("/*"):
            second.add(n)
        else:
            keep.append((a, b, to))
    return s, keep, second


def instrument(folder, sources):
    table = []
    headers = {os.path.basename(p): p for p in sources if p.endswith(".h")}
    texts = {}
    for path in sources:
        s, found, _ = checks(path)
        marks = []
        for k, (a, b, to) in enumerate(found):
            n = len(table)
            table.append({"file": os.path.basename(path), "line": s.line(a), "to": to, "text": " ".join(s.text[a:b].split())})
            head, tail = {"true": ("(pg_bound(%d) | !!(" % n, "))"), "false": ("(!pg_bound(%d) & !!(" % n, "))"),
                          "PG_OK": ("(pg_bound(%d) ? PG_OK : (" % n, "))")}[to]
            marks += [(b, 0, -a, k, tail), (a, 1, -b, k, head)]
        text = s.text
        for at, _, _, _, mark in sorted(marks, key=lambda m: (m[0], m[1], m[2] if m[1] else -m[2], m[3]), reverse=True):
            text = text[:at] + mark + text[at:]
        texts[path] = text
    for path in sources:
        if path in headers.values():
            continue
        text = texts[path]
        for name, p in headers.items():
            text = re.sub(r'^#include "[^"\n]*%s"$' % re.escape(name), lambda m: "int pg_bound(unsigned check);\n" + texts[p], text,
                          flags=re.M)
        with open(os.path.join(folder, "bound_" + os.path.basename(path)), "w") as f:
            f.write(text)
    with open(os.path.join(folder, "bound_checks.json"), "w") as f:
        json.dump(table, f, indent=0)


# ---- running


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (TEST_S, TEST_S + 1))
    if not os.environ.get("ASAN_OPTIONS"):
        resource.setrlimit(resource.RLIMIT_AS, (TEST_BYTES, TEST_BYTES))


def passes(test, folder, **env):
    """Whether a test passes; it may not last."""
    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        env = dict(os.environ, CMOCKA_TEST_ABORT="1", TMPDIR=tmp, **env)
        try:
            return subprocess.run(test, env=env, cwd=tmp, preexec_fn=limits, timeout=3 * TEST_S, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            return False


class Bench:
    def __init__(self, tests, folder):
        self.folder, self.tests = folder, []
        for test in tests:
            seen = os.path.join(folder, "seen")
            start = time.time()
            if not passes(test, folder, PG_BOUND_SEEN=seen):
                sys.exit("bound_checks: %s fails with all checks in place" % " ".join(test))
            with open(seen, "rb") as f:
                self.tests.append((test, f.read(), time.time() - start))

    def noticed(self, k):
        """By which test, or None."""
        for test, seen, _ in self.tests:
            if k < len(seen) and seen[k] and not passes(test, self.folder, PG_BOUND=str(k)):
                return os.path.basename(test[0])
        return None

    def reached(self, k):
        return any(k < len(seen) and seen[k] for _, seen, _ in self.tests)


def run(a, tests):
    with open(a.run) as f:
        table = json.load(f)
    picked = [k for k, c in enumerate(table) if ("%s:%d" % (c["file"], c["line"])).startswith(a.only)]
    if a.only and a.only.split(":")[1:]:
        picked = [k for k in picked if "%s:%d" % (table[k]["file"], table[k]["line"]) == a.only]
    if not a.all and not a.only:
        random.Random(a.seed).shuffle(picked)
        picked = picked[:a.sample]
        print("bound checks: %d of %d, seed %d" % (len(picked), len(table), a.seed))
    missed, done, end = [], 0, time.time() + a.seconds
    with tempfile.TemporaryDirectory(prefix="pgbound") as folder:
        bench = Bench(tests, folder)

        def one(k):
            return bench.noticed(k) if a.all or a.only or time.time() < end else "no time"

        with ThreadPoolExecutor(a.j) as pool:
            for k, by in zip(picked, pool.map(one, picked)):
                c = table[k]
                done += by != "no time"
                where = "%s:%d: %s -> %s" % (c["file"], c["line"], c["text"], c["to"])
                if by is None:
                    missed.append("%s%s" % (where, "" if bench.reached(k) else " (no test comes here)"))
                    print("not noticed: " + missed[-1])
                elif a.v:
                    print("%s: %s" % (by, where))
                sys.stdout.flush()
    print("%d of %d removed checks are noticed" % (done - len(missed), done))
    return 1 if missed or not done else 0


def main():
    argv, tests = sys.argv[1:], []
    while "--" in argv:
        k = len(argv) - 1 - argv[::-1].index("--")
        tests.insert(0, [os.path.abspath(argv[k + 1])] + argv[k + 2:])
        argv = argv[:k]
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("--instrument")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--run")
    ap.add_argument("--all", action="store_true")
    ap.add_argument("--sample", type=int, default=60)
    ap.add_argument("--seconds", type=float, default=40)
    ap.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    ap.add_argument("--only", default="")
    ap.add_argument("-j", type=int, default=2)
    ap.add_argument("-v", action="store_true")
    ap.add_argument("sources", nargs="*")
    a = ap.parse_args(argv)
    if a.instrument:
        instrument(a.instrument, a.sources)
    elif a.list:
        n = 0
        for path in a.sources:
            s, found, second = checks(path)
            n += len(found)
            for x, y, to in found:
                print("%s:%d: %s -> %s" % (os.path.basename(path), s.line(x), " ".join(s.text[x:y].split()), to))
            for k in sorted(second):
                print("%s:%d: second check" % (os.path.basename(path), k))
        print("%d checks" % n)
    else:
        return run(a, tests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
