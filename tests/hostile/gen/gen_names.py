"""Tensor names that must not become file names as they are, and names that would become one file: for pgsplit, which makes a file of
every tensor. Standard library only: they are made when the suite runs."""

import json, struct
from common import case
from gen_npz import Z, npy
from gen_pickle import i, pt, s, sd, tensor

D = struct.pack("<12f", *(k / 8 for k in range(12)))


def st(names):
    head, at = {}, 0
    for k, n in enumerate(names):
        head[n] = {"dtype": "F32", "shape": [12], "data_offsets": [48 * k, 48 * k + 48]}
    h = json.dumps(head).encode()
    return struct.pack("<Q", len(h)) + h + b"".join(struct.pack("<12f", *(k + j for j in range(12))) for k in range(len(names)))


def torch(names):
    return pt(sd([(n, tensor(key=str(k))) for k, n in enumerate(names)]),
              {str(k): struct.pack("<12f", *(k + j for j in range(12))) for k in range(len(names))})


def npz(names):
    z = Z()
    for k, n in enumerate(names):
        z.add(n + ".npy", npy((12,), struct.pack("<12f", *(k + j for j in range(12)))))
    return z.end()


def c(cid, names, verdict="accept", kind="names", note="", formats=("safetensors", "pt"), say=()):
    for suffix, write in (("safetensors", st), ("pt", torch), ("npz", npz)):
        if suffix not in formats:
            continue

        @case("%s-%s" % (cid, suffix), "w." + suffix, verdict, kind, say, note, split=True)
        def _(p, write=write):
            with open(p, "wb") as f:
                f.write(write(names))


BAD = {
    "updir": "../../etc/x", "updir-mid": "a/../../b", "updir-dots": "a.....b", "absolute": "/etc/x", "dot": ".", "dotdot": "..", "empty": "", "slash": "/",
    "slashes": "a//b", "trailing-slash": "a/", "newline": "a\nb", "tab": "a\tb", "escape": "\x1b[2J", "bidi": "a\u202eb", "space": " a ", "dash": "-rf", "tilde": "~root/x",
    "shell": "$(touch pwned)", "quote": "a\"'`b", "backslash": "..\\..\\x", "drive": "C:/x", "device": "CON/nul.aux", "long": "n" * 5000, "deep": "/".join("d" * 400),
    "wide": "\u00fc" * 300, "emoji": "\U0001f600" * 80, "percent": "%2e%2e%2fx", "reserved": "manifest.json", "sums": "SHA256SUMS", "npy": "w.npy", "lock": ".pg-lock",
}
for k, n in BAD.items():
    c("name-" + k, [n, "ok"], formats=("safetensors", "pt", "npz") if k in ("space", "dash", "shell", "reserved", "wide") else ("safetensors", "pt"))
c("name-updir-npz", ["../../etc/x"], "refuse", formats=("npz",), say=["w.npz"])
c("name-absolute-npz", ["/etc/x"], "refuse", formats=("npz",), say=["w.npz"])
c("name-nul-pt", ["a\0b"], "refuse", formats=("pt",), say=["w.pt"])
c("name-nul", ["a\0b"], "refuse", formats=("safetensors",), say=["w.safetensors"])
c("name-far-too-long", ["n" * 70000], "refuse", "limit")
COLLIDE = {
    "case": ["a/Kernel", "a/kernel", "A/kernel"], "case-folder": ["Dense/kernel", "dense/bias"], "file-folder": ["a", "a/b", "a/b/c"], "nfc": ["caf\u00e9", "cafe\u0301"],
    "ss": ["stra\u00dfe", "STRASSE"], "escaped": ["a%2Fb", "a/b", "a%2fb"], "dots": ["a.b", "a/b", "a:b"], "suffix": ["w", "w.npy", "w-00001-of-00002"], "tilde": ["a", "A", "a~1", "A~1"],
    "long": ["n" * 400 + "1", "n" * 400 + "2", "n" * 400], "empty": ["", ".", "..", "_"], "trailing": ["a", "a ", "a.", "a/"], "turkish": ["\u0130", "i\u0307", "I", "i"],
    "many": ["x" * (k % 3) + "X" * (3 - k % 3) + str(k // 8) for k in range(0, 64)], "manifest": ["manifest", "manifest.json", "MANIFEST.JSON"],
}
for k, names in COLLIDE.items():
    c("collide-" + k, list(dict.fromkeys(names)))
c("collide-twice", ["a", "a"], "refuse", formats=("pt", "npz"), say=["a"])
