"""Registry shared by the generators. A case is a function that writes one file; the manifest says what a correct tool does with it.

verdict  accept  the tool must load it (exit 0) and, where `same` is given, the values must equal the reference
         refuse  the tool must exit non-zero, print exactly one line (and, where a user can act, indented facts and a `try:` line) on stderr that contains every string of `say`, write nothing
         either  both are acceptable, but never a crash, a hang, a leak, or more than the caps
kind     corrupt (damaged), limit (asks for too much), unsafe (reaches outside the file or runs code), unsupported (valid, not ours),
         names (names that cannot become file names), newer (written by a later library), fine
stage    meta: the refusal is due as soon as the metadata is read; data: only a tool that reads the bytes has to notice
unwrap   what `pgunwrap FILE OUT` must do, default: refuse (nothing here to unwrap), with the status of pginfo where that refuses
tell     strings that pgunwrap must print when it writes an output all the same
caps     5 s of CPU, 512 MiB of resident memory beyond the file size, no file opened but the named one, no process started, unless the case says more
"""

import json, os, re

CASES = []
# damage that shows only when the bytes are read: a tool that reads metadata alone may accept these (manifest: "stage": "data")
DATA = re.compile(
    r"(x-)?(h5-(deflate|fletcher|missing-chunks|unwritten|addr-|shape-bomb|chunk-bomb|bomb-|compact-short|overlap|zero-|cut-p99|cut-minus)|zip-keras-(weights|config|crc|usize|csize|stored|deflate|overlap)|zip-npz-(crc|usize|bomb|member|deflate|count)|pt-storage-crc|tf-crc|dcp-(item|zstd)|wrap-(missing-chunks|addr|external-storage|deflate)|orbax-data)"
)


def case(cid, fname, verdict, kind, say=(), note="", **kw):
    def deco(fn):
        CASES.append(dict(id=cid, file=fname, verdict=verdict, kind=kind, say=list(say), note=note, fn=fn, **kw))
        return fn

    return deco


def build(out, only=None):
    man = []
    os.makedirs(out, exist_ok=True)
    for c in CASES:
        if only and not c["id"].startswith(only):
            continue
        d = os.path.join(out, c["id"])
        os.makedirs(d, exist_ok=True)
        p = os.path.join(d, c["file"])
        try:
            c["fn"](p)
        except Exception as e:
            print("cannot build %s here: %s: %s" % (c["id"], type(e).__name__, e))
            continue
        m = {k: v for k, v in c.items() if k != "fn"}
        m["path"] = os.path.relpath(p, out)
        m["stage"] = "data" if DATA.match(c["id"]) else "meta"
        man.append(m)
    json.dump(man, open(os.path.join(out, "manifest.json"), "w"), indent=1, ensure_ascii=True)
    print("%d cases in %s" % (len(man), out))
    return man
