#!/usr/bin/env python3
"""pgcheck, judged by the manifest, and its output by other readers of the same forms.

usage: check.py --tools DIR --testdata DIR [-v]
1. Every file of a template passes with the description that Keras wrote of it, in every format; every wrapper fails with exit
   status 1 and the command that mends it; a single shard fails and names its index.
2. A file passes with no description of a model whose tensors have other shapes.
3. TAP is counted and its details are read, JUnit's XML is parsed, GitHub's commands are unescaped: the same answers come out.
4. Values: NaN and infinities in files made here are found where they are.
Standard library only.
"""
import argparse
import json
import math
import os
import re
import shutil
import struct
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from pgbox import Box, finish  # noqa: E402

SHARD = re.compile(r"_\d{5}\.weights\.h5$")


class Suite:
    def __init__(self, box, man):
        self.box, self.man, self.bad, self.n = box, man, [], 0

    def p(self, rel):
        return os.path.join(self.box.data, rel)

    def need(self, ok, what, why):
        self.n += 1
        if not ok:
            self.bad.append((what, why))

    def files(self):
        for f in self.man["files"]:
            case = self.man["cases"].get(f.get("case") or "", {})
            j = case.get("template_json")
            if j and f["file"].startswith("files/") and not f["expected"].startswith("damaged") and f["kind"] != "npy rescue":
                yield f, case, self.p(j)

    # 1
    def manifest(self):
        passed = failed = 0
        for f, _, model in self.files():
            r = self.box.tool("pgcheck", "--model", model, self.p(f["file"]))
            if SHARD.search(f["file"]):
                self.need(r.rc == 1 and "check its index" in r.out, f["file"], r.show())
            elif f["holds"] == "wrapper":
                failed += 1
                self.need(r.rc == 1 and "try: pgunwrap " in r.out and "not ok  structure" in r.out, f["file"], r.show())
            else:
                passed += 1
                self.need(r.rc == 0 and "loads strictly on one device" in r.out, f["file"], r.show())
        self.need(passed >= 95 and failed >= 80, "manifest", "%d passed, %d failed" % (passed, failed))

    # 2
    def foreign(self):
        models = {}
        for f, case, model in self.files():
            if f["kind"] == "weights only (legacy HDF5)" and f["holds"] == "template" and case.get("weights"):
                models.setdefault(tuple(tuple(w["shape"]) for w in case["weights"]), (self.p(f["file"]), model))
        self.need(len(models) >= 10, "foreign", "only %d architectures" % len(models))
        for shapes, (path, _) in models.items():
            for other, (_, model) in models.items():
                if other == shapes:
                    continue
                r = self.box.tool("pgcheck", "--model", model, path)
                self.need(r.rc == 1 and "not ok  structure" in r.out, "%s with %s" % (path, model), r.show())

    # 3
    def forms(self, work):
        odd = os.path.join(work, 'a <&"\'#%:,]]> \u00e9.h5')
        shutil.copyfile(self.p("files/keras-2.2.4/cnn4-g2/wrapper_weights.h5"), odd)
        model = self.p("files/keras-2.2.4/cnn4-g2/template.json")
        good, bad, none = self.p("files/keras-2.2.4/cnn4-g2/template_weights.h5"), self.p("negative/truncated_half.h5"), work + "/none.h5"
        args = ["--model", model, odd, good, bad, none]
        want = json.loads(self.box.tool("pgcheck", "--json", *args).out)
        flat = [(f["file"], c["name"], c["ok"], c["summary"], c["details"]) for f in want for c in f["checks"]]
        self.need([f["ok"] for f in want] == [False, True, False, False], "json", str(want)[:500])

        r = self.box.tool("pgcheck", "--format", "tap", *args)
        lines = r.out.split("\n")
        tests = [x for x in lines if re.match(r"(not )?ok \d+ - ", x)]
        self.need(r.rc == 2 and lines[0] == "TAP version 13" and lines[1] == "1..%d" % len(tests), "tap", r.show())
        self.need([int(re.match(r"(?:not )?ok (\d+)", x).group(1)) for x in tests] == list(range(1, len(tests) + 1)), "tap", "numbers")
        self.need([x.startswith("ok") for x in tests] == [c[2] for c in flat] + [False], "tap", r.out)
        self.need(not any(re.search(r"(?<!\\)#", x) for x in tests), "tap", "an unescaped # starts a directive")
        details = [json.loads(x[6:]) for x in lines if x.startswith("    - ")]
        self.need(details == [d for c in flat if not c[2] for d in c[4]], "tap", str(details))

        r = self.box.tool("pgcheck", "--format", "junit", *args)
        root = xml.fromstring(r.out)
        got = [(c.get("classname"), c.get("name"), c.find("failure") is None) for s in root for c in s if c.find("error") is None]
        self.need(got == [c[:3] for c in flat], "junit", str(got))
        for s in root:
            self.need(int(s.get("tests")) == len(s) and int(s.get("failures")) == len(s.findall("testcase/failure")) and
                      int(s.get("errors")) == len(s.findall("testcase/error")), "junit", s.get("name"))
        texts = [(x.get("message"), x.text or "") for x in root.iter("failure")]
        self.need(texts == [(c[3], "\n".join(c[4])) for c in flat if not c[2]], "junit", str(texts))

        r = self.box.tool("pgcheck", "--format", "github", *args)
        undo = lambda s: re.sub("%([0-9A-F]{2})", lambda m: chr(int(m.group(1), 16)), s)  # noqa: E731
        got = []
        for x in r.out.splitlines():
            m = re.fullmatch(r"::error file=([^:,]*),title=([^:,]*)::(.*)", x)
            self.need(m is not None and undo(m.group(2)).startswith("pgcheck"), "github", x)
            text = undo(m.group(3)) if m else ""
            got += [(undo(m.group(1)), text.split("\ntry: ")[0])] if m else []  # the next command may follow
        expected = [(c[0], "\n".join([c[3]] + c[4])) for c in flat if not c[2]]
        self.need(got[:len(expected)] == expected and got[-1][0] == none, "github", str(got))

    # 4
    def values(self, work):
        path = os.path.join(work, "v.safetensors")
        count = 3 * 5 * 300
        for bad, dtype, code, one in (([], "F32", "f", 4), ([(4321, math.nan)], "F32", "f", 4), ([(0, math.inf), (4499, math.nan)], "F64", "d", 8),
                                      ([(256, -math.inf)], "F16", "e", 2), ([(255, math.nan), (2000, math.nan)], "F16", "e", 2)):
            v = [float(i % 4) for i in range(count)]
            for i, x in bad:
                v[i] = x
            header = json.dumps({"conv2/kernel": {"dtype": dtype, "shape": [3, 5, 300], "data_offsets": [0, count * one]}}).encode()
            with open(path, "wb") as h:
                h.write(struct.pack("<Q", len(header)) + header + struct.pack("<%d%s" % (count, code), *v))
            r = self.box.tool("pgcheck", "--format", "github", "--finite", path)
            if not bad:
                self.need(r.rc == 0 and r.out == "", dtype, r.show())
                z = self.box.tool("pgcheck", "--finite", path)
                self.need("%s finite, %s zeros" % (format(count, ","), format(v.count(0.0), ",")) in z.out, dtype, z.show())
                continue
            nan = sum(math.isnan(x) for _, x in bad)
            what = " and ".join(["%d NaN" % nan] * (nan > 0) + ["%d infinite" % (len(bad) - nan)] * (nan < len(bad)))
            i = bad[0][0]
            line = "::error file=%s,title=pgcheck%%3A values::conv2/kernel holds %s (first at [%d,%d,%d])\n" % (path, what, i // 1500, i // 300 % 5, i % 300)
            self.need(r.rc == 1 and r.out == line, "%s %s" % (dtype, bad), r.show())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools", required=True)
    ap.add_argument("--testdata", required=True)
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    with open(os.path.join(a.testdata, "manifest.json")) as h:
        s = Suite(Box(a.tools, None, a.testdata), json.load(h))
    work = tempfile.mkdtemp(prefix="pgcheck")
    try:
        s.manifest()
        s.foreign()
        s.forms(work)
        s.values(work)
        return finish("check", s.bad, s.n)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
