#!/usr/bin/env python3
"""usage: report.py --tools DIR --testdata DIR

pginfo --html, judged by numpy (in the environment PG_JUDGE_PYTHON, with h5py; without it the test is skipped, exit 77): every
number and every histogram of the page against numpy's own of the same tensor, read by h5py. The page must be HTML that
Python's parser reads with all elements closed, and ask for nothing from elsewhere."""
import argparse
import os
import subprocess
import sys

JUDGE = r'''
import html.parser, math, os, re, subprocess, sys, tempfile, zlib
import h5py, numpy as np
TOOL, DATA = sys.argv[1:3]
BINS, HEIGHT = 40, 24

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.open, self.path = [], [], None
    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert tag not in ("script", "link", "img", "iframe", "a"), tag
        assert not {"src", "href", "onload", "onerror"} & set(attrs), attrs
        if tag in ("details", "table", "div", "svg"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
        elif tag == "path":
            self.rows[-1][-1] = attrs["d"]
    def handle_endtag(self, tag):
        if tag in ("details", "table", "div", "svg"):
            assert self.open.pop() == tag, tag
    def handle_data(self, data):
        if "table" in self.open and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip() if self.open[-1] == "table" else ""

def heights(path):
    out = []
    for v, h in re.findall(r"V(\d+)h(\d+)", path):
        out += [HEIGHT - int(v)] * int(h)
    return out

def near(shown, want):
    if math.isnan(want):
        return shown == "\u2013"
    return abs(float(shown) - want) <= max(5.1e-5, abs(want) * 5.1e-3)

def judge(path, tensors):
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "r.html")
        subprocess.run([TOOL, "-q", "--html", out, path], check=True)
        text = open(out, encoding="utf-8").read()
    page = Page()
    page.feed(text)
    assert not page.open and text.endswith("</html>\n")
    rows = [r for r in page.rows if len(r) == 12]
    assert len(rows) == len(tensors), (len(rows), len(tensors))
    for (name, a), r in zip(tensors, rows):
        x = a.astype(np.float64).ravel()
        f = x[np.isfinite(x)]
        some = f if f.size else np.array([np.nan])
        assert r[3].replace(",", "") == str(a.size), (name, r)
        for shown, want in zip(r[4:8], (some.min(), some.max(), some.mean(), some.std())):
            assert near(shown, want), (name, r, want)
        assert r[9].replace(",", "") == str(x.size - f.size), (name, r)
        assert r[11] == "%08x" % zlib.crc32(a.astype(a.dtype.newbyteorder("<")).tobytes()), (name, r)
        if not f.size:
            assert r[10] == "", (name, r)
        elif f.min() < f.max():
            n = np.histogram(f, bins=BINS)[0]
            want = [math.ceil(v / n.max() * HEIGHT) for v in n]
            assert heights(r[10]) == want, (name, heights(r[10]), want)
    return len(rows)

def legacy(path):
    out = []
    with h5py.File(path) as f:
        g = f["model_weights"] if "model_weights" in f else f
        for layer in g.attrs["layer_names"]:
            w = g[layer.decode() if isinstance(layer, bytes) else layer]
            for n in w.attrs["weight_names"]:
                n = n.decode() if isinstance(n, bytes) else n
                out.append((n, w[n][()]))
    return out

n = 0
for rel in ("files/keras-2.2.4/cnn4-g2/wrapper_model.h5", "files/keras-2.2.4/cnn4-g2/template_model.h5"):
    n += judge(os.path.join(DATA, rel), legacy(os.path.join(DATA, rel)))
rng = np.random.default_rng(1)
made = {"normal": rng.normal(size=(300, 311)).astype("f4"), "half": rng.normal(size=5000).astype("f2"),
        "double": np.exp(rng.normal(size=70000)), "edges": np.arange(41, dtype="f4"), "tenths": (np.arange(1000) % 11 / 10).astype("f4"),
        "ints": rng.integers(-5, 5, size=999).astype("i4"), "nan": np.array([np.nan, 1, 2, np.inf, -np.inf], "f4"),
        "none": np.full(3, np.nan, "f4"), "big": (rng.normal(size=4000) * 1e30).astype("f4"), "order": rng.normal(size=64).astype(">f4")}
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "made.h5")
    with h5py.File(path, "w") as f:
        f.attrs["layer_names"] = [k.encode() for k in made]
        f.attrs["backend"] = b"tensorflow"
        f.attrs["keras_version"] = b"2.15.0"
        for k, a in made.items():
            g = f.create_group(k)
            g.attrs["weight_names"] = [b"kernel:0"]
            g["kernel:0"] = a
    n += judge(path, legacy(path))
print(n, "histograms are numpy's")
'''

parser = argparse.ArgumentParser()
parser.add_argument('--tools', required=True)
parser.add_argument('--testdata', required=True)
args = parser.parse_args()
python = os.environ.get('PG_JUDGE_PYTHON', '')
if not os.access(python, os.X_OK):
    print('skipped: PG_JUDGE_PYTHON names no Python with numpy and h5py')
    sys.exit(77)
tool = os.path.join(args.tools, 'pginfo')
sys.exit(subprocess.run([python, '-c', JUDGE, tool, args.testdata]).returncode)
