"""Hostile and odd parallel wrappers: files that pgunwrap would have to write something from. Needs h5py and numpy.

`unwrap` says what `pgunwrap FILE OUT` must do: accept (exit 0, a whole output), refuse (nothing written), or either (a whole
output or nothing). What pginfo must say is `verdict`, as for all cases.
"""

import json, sys, numpy as np, h5py
from common import case
from gen_h5 import S, F4, secret

sys.setrecursionlimit(100000)


def dense(name, units=4, **k):
    return {"name": name, "class_name": "Dense", "config": dict({"name": name, "trainable": True, "units": units, "use_bias": True}, **k),
            "inbound_nodes": []}


def template(layers, name="model_1"):
    """a chain of layers behind one input"""
    out = [{"name": "input_1", "class_name": "InputLayer", "inbound_nodes": [],
            "config": {"batch_input_shape": [None, 3], "dtype": "float32", "sparse": False, "name": "input_1"}}]
    for l in layers:
        l["inbound_nodes"] = [[[out[-1]["name"], 0, 0, {}]]]
        out.append(l)
    return {"name": name, "layers": out, "input_layers": [["input_1", 0, 0]], "output_layers": [[out[-1]["name"], 0, 0]]}


def wrapper(t, gpus=2, parts=None, axis=0, merge="d2", calls=None):
    calls = calls or list(range(1, gpus + 1))
    lam = lambda k: {"name": "lambda_%d" % (k + 1), "class_name": "Lambda", "inbound_nodes": [[["input_1", 0, 0, {}]]],
                     "config": {"name": "lambda_%d" % (k + 1), "trainable": True, "function": ["4wIAAAACAAAA\n", None, None],
                                "function_type": "lambda", "output_shape": None, "output_shape_type": "raw",
                                "arguments": {"i": k, "parts": parts or gpus}}}
    return {"class_name": "Model", "config": {"name": "model_2", "layers":
            [json.loads(json.dumps(t["layers"][0]))] + [lam(k) for k in range(gpus)] +
            [{"name": t["name"], "class_name": "Model", "config": t, "inbound_nodes": [[["lambda_%d" % (k + 1), 0, 0, {}]] for k in range(gpus)]},
             {"name": merge, "class_name": "Concatenate", "config": {"name": merge, "trainable": True, "axis": axis},
              "inbound_nodes": [[[t["name"], c, 0, {}] for c in calls]]}],
            "input_layers": [["input_1", 0, 0]], "output_layers": [[merge, 0, 0]]}}


T2 = lambda **k: template([dense("d1", **k), dense("d2")])
NAMES = ["d1/kernel:0", "d1/bias:0", "d2/kernel:0", "d2/bias:0"]


def build(p, cfg=None, names=NAMES, gpus=2, name="model_1", layers=None, skip=(), text=None, data=None, training=None, opt=None):
    f = h5py.File(p, "w")
    f.attrs["keras_version"] = "2.2.4"
    f.attrs["backend"] = "tensorflow"
    if text is None:
        text = json.dumps(wrapper(T2()) if cfg is None else cfg)
    if text is not False:
        f.attrs.create("model_config", text, dtype=h5py.string_dtype("ascii"))  # as Keras does: no limit of 64 KiB
    if training is not None:
        f.attrs.create("training_config", training, dtype=h5py.string_dtype("ascii"))
    g = f.create_group("model_weights") if text is not False else f
    layers = layers or ["input_1"] + ["lambda_%d" % (k + 1) for k in range(gpus)] + [name, "d2"]
    g.attrs["layer_names"] = S(layers)
    g.attrs["backend"] = np.bytes_(b"tensorflow")
    g.attrs["keras_version"] = np.bytes_(b"2.2.4")
    for l in layers:
        h = g.require_group(l)
        h.attrs["weight_names"] = S(names if l == name else [])
        if l == name:
            for n in names:
                if n in skip or n in h:
                    continue
                rows = {"d1": 3, "d2": 4}.get(n.split("/")[0], 3)
                h[n] = data if data is not None else (np.arange(rows * 4, dtype="<f4").reshape(rows, 4) if "kernel" in n else np.ones(4, "<f4"))
    if opt is not None:
        o = f.create_group("optimizer_weights")
        o.attrs["weight_names"] = S(opt)
        for n in opt:
            if n not in skip and n not in o:
                o[n] = F4
    return f


def c(cid, verdict, unwrap, kind="corrupt", say=(), note="", after=None, file="m.h5", tell=(), **k):
    @case("wrap-" + cid, file, verdict, kind, say, note, unwrap=unwrap, tell=list(tell))
    def _(p):
        f = build(p, **{a: b() if callable(b) else b for a, b in k.items()})
        if after:
            after(f, p)
        f.close()


W = "model_weights/model_1/d1/kernel:0"


def replace(**k):
    def go(f, p):
        del f[W]
        f.create_dataset(W, **k)
    return go


c("ok", "accept", "accept", "fine")
c("ok-training", "accept", "accept", "fine", training='{"optimizer_config":{"class_name":"SGD","config":{"lr":NaN}},"loss":{"d2":"mse"}}', opt=["a:0", "b:0"])
c("ok-nan-config", "accept", "accept", "fine", text=lambda: json.dumps(wrapper(template([dense("d1", activity=float("nan")), dense("d2", x=float("inf"))]))),
  note="Python writes NaN and Infinity; they must come out as they were")
c("ok-nul-escape", "accept", "accept", "fine", text=lambda: json.dumps(wrapper(T2())).replace("4wIAAAACAAAA", "\\u0000\\u00e3x\\udc80"),
  note="raw bytecode of Keras 2.1.1: NUL escapes and lone surrogates in the slice function")
c("ok-utf8", "accept", "accept", "fine", name="mod\u00e9l \u6a21", layers=["input_1", "lambda_1", "lambda_2", "mod\u00e9l \u6a21", "d2"],
  cfg=lambda: wrapper(template([dense("d1"), dense("d2")], "mod\u00e9l \u6a21")))
c("ok-be-f64", "accept", "accept", "fine", after=replace(data=np.arange(12, dtype=">f8").reshape(3, 4)))
c("ok-gzip", "accept", "accept", "fine", after=replace(data=F4, chunks=(2, 2), compression="gzip", shuffle=True, fletcher32=True))
c("extlink", "refuse", "refuse", "unsafe", ["external link"], after=lambda f, p: (secret(p), f.__delitem__(W), f.__setitem__(W, h5py.ExternalLink("secret.h5", "/s"))))
c("external-storage", "refuse", "refuse", "unsafe", ["kernel:0", "external"],
  after=lambda f, p: (f.__delitem__(W), f.create_dataset(W, (3, 4), "<f4", external=[(secret(p)[0], 0, 48)])))
c("softlink", "refuse", "refuse", "unsafe", ["soft link"], after=lambda f, p: (f.__delitem__(W), f.__setitem__(W, h5py.SoftLink("/model_weights/model_1/d2/kernel:0"))))
c("missing-chunks", "refuse", "refuse", "corrupt", ["kernel:0"], after=lambda f, p: (replace(shape=(64, 4), dtype="<f4", chunks=(2, 4))(f, p), f[W].__setitem__(slice(0, 2), 1)))
c("missing-dataset", "refuse", "refuse", "corrupt", ["d2/bias:0"], skip=["d2/bias:0"])
c("weight-twice", "refuse", "refuse", "corrupt", ["d1/kernel:0"], names=NAMES + ["d1/kernel:0"])
c("weight-updir", "refuse", "refuse", "corrupt", [".."], names=NAMES[:3] + ["../../lambda_1/d2/bias:0"])
c("parts-lie", "accept", "refuse", "fine", cfg=lambda: wrapper(T2(), 2, parts=3), note="slices of thirds, two of them")
c("calls-lie", "accept", "refuse", "fine", cfg=lambda: wrapper(T2(), 2, calls=[1, 1]), note="the merge takes one replica twice")
c("axis", "accept", "refuse", "fine", cfg=lambda: wrapper(T2(), axis=-1), note="features of two views side by side: no batch merge")
c("replicas-3000", "either", "either", "limit", gpus=3000, cfg=lambda: wrapper(T2(), 3000), note="3,000 slices; must stay fast")
c("nested-400", "either", "either", "limit", [], cfg=lambda: nest(400), note="a template within a template, 400 times", tell=["model_config"])
c("template-more", "accept", "refuse", "corrupt", [], cfg=lambda: wrapper(template([dense("d1"), dense("d3"), dense("d2")])),
  note="the config has one layer more than the file has weights for")
c("template-less", "accept", "refuse", "corrupt", [], cfg=lambda: wrapper(template([dense("d2")])), note="weights of a layer that the config does not know")
c("template-units", "accept", "refuse", "corrupt", [], cfg=lambda: wrapper(template([dense("d1", 5), dense("d2")])), note="config and shapes disagree")
c("template-dup-layer", "either", "either", "corrupt", [], cfg=lambda: wrapper(template([dense("d1"), dense("d1"), dense("d2")])), note="two layers of one name", tell=["model_config"])
c("template-cycle", "either", "either", "corrupt", [], cfg=lambda: cycle(), note="layers that feed each other", tell=["model_config"])
c("config-dupkey", "either", "either", "corrupt", [], text=lambda: json.dumps(wrapper(T2())).replace('"layers":', '"layers": [], "layers":', 1), tell=["model_config"])
c("config-names-int", "either", "either", "corrupt", [], text=lambda: json.dumps(wrapper(T2())).replace('"d1"', "7"), tell=["model_config"])
c("config-null-layers", "either", "either", "corrupt", [], text=lambda: json.dumps(wrapper(T2())).replace('"inbound_nodes": [[["lambda_1"', '"inbound_nodes": null, "x": [[["lambda_1"'), tell=["model_config"])
c("config-index-huge", "either", "either", "corrupt", [], text=lambda: json.dumps(wrapper(T2(), calls=[1, 2 ** 63])), tell=["model_config"])
c("config-deep", "either", "either", "limit", [], text=lambda: json.dumps(wrapper(T2())).replace('"use_bias": true', '"use_bias": true, "z": ' + "[" * 5000 + "]" * 5000, 1), tell=["model_config"])
c("config-truncated", "either", "either", "corrupt", [], text=lambda: json.dumps(wrapper(T2()))[:-40], tell=["model_config"])
c("config-units-huge", "either", "refuse", "limit", [], cfg=lambda: wrapper(template([dense("d1", 2 ** 62), dense("d2")])))
c("config-units-neg", "either", "refuse", "corrupt", [], cfg=lambda: wrapper(template([dense("d1", -4), dense("d2")])))
c("training-broken", "either", "either", "corrupt", [], training='{"loss": ["mse"', opt=["a:0"])
c("opt-missing", "refuse", "refuse", "corrupt", ["b:0"], training="{}", opt=["a:0", "b:0"], skip=["b:0"])
c("opt-twice", "refuse", "refuse", "corrupt", ["a:0"], training="{}", opt=["a:0", "a:0"])
for nm, raw in (("newline", "a\nrm -rf"), ("escape", "a\x1b]0;owned\x07\x1b[2Jb"), ("dotdot", ".."), ("slash", "a/b"), ("percent", "%s%n%x"), ("rtl", "a\u202etxt"), ("long", "n" * 3000)):
    c("name-" + nm, "either", "either", "names", [], name=raw, layers=["input_1", "lambda_1", "lambda_2", raw, "d2"],
      cfg=lambda raw=raw: wrapper(template([dense("d1"), dense("d2")], raw)), note="name of the template")


def nest(n):
    t = T2()
    for i in range(n):
        t = {"name": "m%d" % i, "layers": [json.loads(json.dumps(t["layers"][0])),
             {"name": t["name"], "class_name": "Model", "config": t, "inbound_nodes": [[["input_1", 0, 0, {}]]]}],
             "input_layers": [["input_1", 0, 0]], "output_layers": [[t["name"], 1, 0]]}
    t["name"] = "model_1"
    return wrapper(t)


def cycle():
    t = T2()
    t["layers"][1]["inbound_nodes"] = [[["d2", 0, 0, {}]]]
    return wrapper(t)


# weights only: names are all there is
NAMELESS = dict(text=False, file="w.h5")
c("names-ok", "accept", "either", "fine", **NAMELESS)
c("names-shuffled", "accept", "either", "fine", names=[NAMES[2], NAMES[0], NAMES[3], NAMES[1]], note="no Keras writes this order", **NAMELESS)
c("names-half", "accept", "either", "fine", names=NAMES[:3], note="a bias is missing: legal, use_bias may be false", **NAMELESS)
c("names-two-templates", "accept", "refuse", "fine", layers=["input_1", "lambda_1", "lambda_2", "model_1", "d2", "extra"],
  after=lambda f, p: (f["extra"].attrs.__setitem__("weight_names", S(["extra/kernel:0"])), f.__setitem__("extra/extra/kernel:0", F4)), **NAMELESS)
