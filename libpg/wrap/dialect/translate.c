/* translate.c - translates a model's description for the other Keras by editing the text, so that
 * every number and every name with the same meaning stays as written. This file handles classes and
 * modules, translate_keys.c the members of configs, translate_calls.c the calls.
 *
 * Every class of keras.layers of 2.15 and 3.6 was tried both ways. The error lists all layers that
 * the other Keras does not have, or that predict something else there. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "model/graph/classes.h"
#include "model/lower/vars.h"
#include "wrap/dialect/translate.h"

static const char *const only_3[] = {"AugMix",
                                     "AutoContrast",
                                     "CutMix",
                                     "Equalization",
                                     "FlaxLayer",
                                     "GroupQueryAttention",
                                     "GroupedQueryAttention",
                                     "JaxLayer",
                                     "MaxNumBoundingBoxes",
                                     "MelSpectrogram",
                                     "MixUp",
                                     "Pipeline",
                                     "RMSNormalization",
                                     "RandAugment",
                                     "RandomColorDegeneration",
                                     "RandomColorJitter",
                                     "RandomElasticTransform",
                                     "RandomErasing",
                                     "RandomGaussianBlur",
                                     "RandomGrayscale",
                                     "RandomHue",
                                     "RandomInvert",
                                     "RandomPerspective",
                                     "RandomPosterization",
                                     "RandomSaturation",
                                     "RandomSharpness",
                                     "RandomShear",
                                     "Rematerialize",
                                     "STFTSpectrogram",
                                     "Solarization"};

static const char *const only_2[] = {"AddLoss",
                                     "AddMetric",
                                     "ClassMethod",
                                     "CuDNNGRU",
                                     "CuDNNLSTM",
                                     "InstanceMethod",
                                     "InstanceProperty",
                                     "LocallyConnected1D",
                                     "LocallyConnected2D",
                                     "RandomHeight",
                                     "RandomWidth",
                                     "SlicingOpLambda",
                                     "SyncBatchNormalization",
                                     "TFOpLambda",
                                     "TensorFlowOpLayer",
                                     "ThresholdedReLU"};

/* Both have these, but they compute different results: Keras 3 rounds before it finds the bin, and
 * crops the centre when Keras 2 shrinks the image. */
static const char *const differ[] = {"Discretization", "RandomCrop"};

/* ---- edits ---- */

pg_status pg__edit_add(pg__translating *t, size_t off, size_t n, const char *text, size_t n_text)
{
    char *copy = pg__mem_strndup(text, n_text);
    if (!copy || pg__mem_grow(&t->edits, &t->cap, t->n + 1, sizeof *t->edits)) {
        pg__mem_free(copy);
        return pg__nomem(t->err);
    }
    t->edits[t->n] = (pg__edit){off, n, t->n, copy};
    t->n++;
    return PG_OK;
}

pg_status pg__edit_replace(pg__translating *t, pg__json_span s, const char *text)
{
    return pg__edit_add(t, s.off, s.n, text, strlen(text));
}

pg_status pg__edit_insert(pg__translating *t, pg__json_span object, const char *key,
                          const char *text)
{
    pg__str member = {0};
    pg__json_walk w = pg__json_walk_of(t->text, object);
    pg_status st = pg__str_printf(&member, t->err, "\"%s\": %s%s", key, text,
                                  pg__json_walk_next(&w) ? ", " : "");
    if (st == PG_OK)
        st = pg__edit_add(t, object.off + 1, 0, member.s, member.n);
    pg__str_fini(&member);
    return st;
}

pg_status pg__edit_lack(pg__translating *t, const char *what, const char *why)
{
    pg__str line = {0};
    pg_status st = pg__str_printf(&line, t->err, "%s%s%s", PG_SHOW(what), *why ? ": " : "", why);
    if (st == PG_OK && pg__strs_find(&t->lacking, line.s) == PG_NONE)
        st = pg__strs_add(&t->lacking, line.s, line.n, t->err);
    pg__str_fini(&line);
    return st;
}

/* ---- one object that has a class and a config ---- */

/* Renamed classes: old name, new name. */
static pg_status rename_class(pg__translating *t, pg__json_span at, const char *class_name)
{
    static const char *const names[][2] = {
        {"OrthogonalInitializer", "\"Orthogonal\""},
        {"IdentityInitializer", "\"Identity\""},
        {"Model", "\"Functional\""},
        {"BatchNormalizationV1", "\"BatchNormalization\""},
        {"BatchNormalizationV2", "\"BatchNormalization\""},
        {"UnifiedLSTM", "\"LSTM\""},
        {"UnifiedGRU", "\"GRU\""},
        {"GroupedQueryAttention", "\"GroupQueryAttention\""}, /* as it is exported */
    };
    for (size_t i = t->to == 3 ? 2 : 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(class_name, names[i][0]) == 0)
            return pg__edit_replace(t, at, names[i][1]);
    return PG_OK;
}

static int is_model(const char *class_name)
{
    return strcmp(class_name, "Functional") == 0 || strcmp(class_name, "Model") == 0 ||
           strcmp(class_name, "Sequential") == 0;
}

/* Layers of older descriptions have no module. */
static pg_status add_module(pg__translating *t, pg__json_span entry, const char *class_name,
                            int layer)
{
    const int sequential = strcmp(class_name, "Sequential") == 0;
    const char *functional =
        t->to == 3 ? "\"keras.src.models.functional\"" : "\"keras.src.engine.functional\"";
    const char *module = sequential             ? "\"keras\""
                         : is_model(class_name) ? functional
                         : layer                ? "\"keras.layers\""
                                                : NULL;
    if (!module)
        return PG_OK;
    t->n_classes++;
    return pg__edit_insert(t, entry, "module", module);
}

static pg_status to_keras_2(pg__translating *t, pg__json_span entry, const char *class_name,
                            const char *name, int layer)
{
    pg_status st = PG_OK;
    const pg__json_span module = pg__json_member(t->text, entry, "module");
    if (PG_IS_ANY(class_name, only_3))
        PG_TRY(pg__edit_lack(t, class_name, ""));
    if (!t->same && strcmp(class_name, "SpectralNormalization") == 0)
        PG_TRY(pg__edit_lack(t, class_name, "Keras 2.15 cannot load it"));
    if (pg__json_is_text(t->text, module, "keras.src.models.functional")) {
        PG_TRY(pg__edit_replace(t, module, "\"keras.src.engine.functional\""));
        t->n_classes++;
    } else if (module.n > 15 && memcmp(t->text + module.off, "\"keras.src.ops.", 15) == 0) {
        PG_TRY(pg__edit_lack(t, name, "an operation used as a layer"));
    } else if (!module.n) {
        PG_TRY(add_module(t, entry, class_name, layer));
    }
done:
    return st;
}

/* Sequential models of early releases give the input shape in their first layer. */
static pg_status add_input(pg__translating *t, pg__json_span config)
{
    pg_status st = PG_OK;
    pg__str entry = {0};
    const char *text = t->text;
    const pg__json_span layers =
        text[config.off] == '[' ? config : pg__json_member(text, config, "layers");
    pg__json_walk w = pg__json_walk_of(text, layers);
    if (layers.n == 0 || !pg__json_walk_next(&w))
        return PG_OK;
    const pg__json_span first = pg__json_member(text, w.value, "config"),
                        class_name = pg__json_member(text, w.value, "class_name"),
                        shape = pg__json_member(text, first, "batch_input_shape"),
                        name = pg__json_member(text, first, "name");
    if (!shape.n || pg__json_is_text(text, class_name, "InputLayer"))
        return PG_OK;
    PG_TRY(pg__str_puts(&entry,
                        "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", "
                        "\"config\": {\"batch_shape\": ",
                        t->err));
    PG_TRY(pg__str_add(&entry, text + shape.off, shape.n, t->err));
    if (name.n > 2 && text[name.off] == '"') {
        PG_TRY(pg__str_puts(&entry, ", \"name\": ", t->err));
        PG_TRY(pg__str_add(&entry, text + name.off, name.n - 1, t->err));
        PG_TRY(pg__str_puts(&entry, "_input\"", t->err));
    }
    PG_TRY(pg__str_puts(&entry, "}, \"registered_name\": null}, ", t->err));
    PG_TRY(pg__edit_add(t, layers.off + 1, 0, entry.s, entry.n));
done:
    pg__str_fini(&entry);
    return st;
}

static pg_status to_keras_3(pg__translating *t, pg__json_span entry, const char *class_name,
                            int layer)
{
    pg_status st = PG_OK;
    int weightless;
    const pg__json_span module = pg__json_member(t->text, entry, "module"),
                        built = pg__json_member(t->text, entry, "build_config");
    if (t->same) /* an .h5 has no modules; objects that are not Keras' own stay as they are */
        return !module.n && (is_model(class_name) || pg__class_known(class_name, &weightless))
                   ? add_module(t, entry, class_name, layer)
                   : PG_OK;
    if (layer && PG_IS_ANY(class_name, only_2))
        PG_TRY(pg__edit_lack(t, class_name, ""));
    if (strcmp(class_name, "SpectralNormalization") == 0)
        PG_TRY(pg__edit_lack(t, class_name, "its variables are listed differently"));
    if (pg__json_is_text(t->text, module, "keras.src.engine.functional")) {
        PG_TRY(pg__edit_replace(t, module, "\"keras.src.models.functional\""));
        t->n_classes++;
    } else if (!module.n) {
        PG_TRY(add_module(t, entry, class_name, layer));
    }
    if (built.n && layer && !is_model(class_name)) /* calling it builds it, whatever its inputs */
        PG_TRY(pg__edit_replace(t, built, "null"));
    if (strcmp(class_name, "Sequential") == 0)
        PG_TRY(add_input(t, pg__json_member(t->text, entry, "config")));
done:
    return st;
}

/* ---- the walk ---- */

static int holds_layers(const char *text, pg__json_span key)
{
    static const char *const keys[] = {"layers",         "layer", "forward_layer",
                                       "backward_layer", "cell",  "cells"};
    for (size_t i = 0; key.n && i < sizeof keys / sizeof *keys; i++)
        if (pg__json_key_is(text, key, keys[i]))
            return 1;
    return 0;
}

/* Keras 3 refuses "/" in a layer's name, and TensorFlow's name scopes allow only these characters.
 */
static pg_status check_name(pg__translating *t, const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.\\/>-";
    if (t->to == 3)
        return strchr(name, '/') ? pg__edit_lack(t, name, "a slash in a layer's name") : PG_OK;
    return name[strspn(name, allowed)] || strchr("_\\/>-", name[0])
               ? pg__edit_lack(t, name,
                               "a layer name with other characters than ASCII letters and digits")
               : PG_OK;
}

static pg_status visit(pg__translating *t, pg__json_span object, int layer)
{
    pg_status st = PG_OK;
    pg__str class_name = {0}, name = {0};
    const pg__json_span class_at = pg__json_member(t->text, object, "class_name"),
                        config = pg__json_member(t->text, object, "config"),
                        name_at = pg__json_member(t->text, config, "name");
    if (!class_at.n || !config.n || t->text[class_at.off] != '"')
        goto done;
    PG_TRY(pg__json_unquote(&class_name, t->text, class_at, t->err));
    if (name_at.n && t->text[name_at.off] == '"')
        PG_TRY(pg__json_unquote(&name, t->text, name_at, t->err));
    else
        PG_TRY(pg__str_puts(&name, class_name.s ? class_name.s : "", t->err));
    if (!class_name.s)
        goto done;
    if (layer && !t->same && name_at.n && name.s)
        PG_TRY(check_name(t, name.s));
    if (layer && !t->same && PG_IS_ANY(class_name.s, differ))
        PG_TRY(pg__edit_lack(t, name.s, "this class computes something else there"));
    if (t->to == 2)
        PG_TRY(to_keras_2(t, object, class_name.s, name.s, layer));
    else
        PG_TRY(to_keras_3(t, object, class_name.s, layer));
    PG_TRY(rename_class(t, class_at, class_name.s));
    PG_TRY(pg__translate_keys(t, config, class_name.s, name.s));
    if (!t->same)
        PG_TRY(pg__translate_calls(t, config));
done:
    pg__str_fini(&class_name);
    pg__str_fini(&name);
    return st;
}

typedef struct level {
    pg__json_walk walk;
    int layers; /* its members are layers */
} level;

static pg_status walk(pg__translating *t, pg__json_span root)
{
    pg_status st = PG_OK;
    pg_err *err = t->err;
    size_t depth = 1;
    level *stack = pg__mem_array(PG_LIMIT_JSON_DEPTH + 2, sizeof *stack);
    if (!stack)
        return pg__nomem(t->err);
    PG_TRY(visit(t, root, 0));
    stack[0].walk = pg__json_walk_of(t->text, root);
    while (depth > 0) {
        level *at = &stack[depth - 1];
        if (!pg__json_walk_next(&at->walk)) {
            depth--;
            continue;
        }
        const pg__json_span v = at->walk.value;
        const int object = t->text[v.off] == '{';
        const int layers = at->walk.is_object ? holds_layers(t->text, at->walk.key) : at->layers;
        if (!object && t->text[v.off] != '[')
            continue;
        if (at->walk.is_object && pg__json_key_is(t->text, at->walk.key, "inbound_nodes"))
            continue;
        if (object)
            PG_TRY(visit(t, v, layers));
        if (depth == PG_LIMIT_JSON_DEPTH + 2)
            PG_FAIL(PG_E_LIMIT, "the model's description is nested too deep");
        stack[depth++] = (level){pg__json_walk_of(t->text, v), object ? 0 : layers};
    }
done:
    pg__mem_free(stack);
    return st;
}

/* ---- the step ---- */

/* Insertions before replacements, each in the order in which they were added. */
static int by_offset(const void *a, const void *b)
{
    const pg__edit *x = a, *y = b;
    if (x->off != y->off)
        return x->off < y->off ? -1 : 1;
    if ((x->n == 0) != (y->n == 0))
        return x->n ? 1 : -1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Ignores edits inside text that was replaced as a whole. */
static pg_status apply(pg__str *out, pg__translating *t, size_t n)
{
    pg_status st = PG_OK;
    pg_err *err = t->err;
    size_t at = 0;
    if (t->n)
        qsort(t->edits, t->n, sizeof *t->edits, by_offset);
    for (size_t i = 0; i < t->n; i++) {
        const pg__edit *e = &t->edits[i];
        if (e->off < at && e->off + e->n <= at)
            continue;
        if (e->off < at)
            PG_FAIL(PG_E_FORMAT, "the model's description says something twice");
        PG_TRY(pg__str_add(out, t->text + at, e->off - at, err));
        PG_TRY(pg__str_puts(out, e->text, err));
        at = e->off + e->n;
    }
    PG_TRY(pg__str_add(out, t->text + at, n - at, err));
done:
    return st;
}

static pg_status refuse_lacking(const pg__translating *t, pg_err *err)
{
    pg__str list = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < t->lacking.n && i < 8; i++)
        st = pg__str_printf(&list, err, "%s%s", i ? ", " : "", t->lacking.v[i]);
    if (st == PG_OK)
        st = pg_fail(err, PG_E_UNSUPPORTED, "uses %zu feature%s that Keras %d lacks (%s)",
                     t->lacking.n, t->lacking.n == 1 ? "" : "s", t->to, list.s);
    pg__str_fini(&list);
    return st;
}

pg_status pg__translate(pg__str *out, size_t *n_classes, const char *text, size_t n, int to,
                        int same, pg_err *err)
{
    pg_status st = PG_OK;
    pg__translating t = {.text = text, .to = to, .same = same, .err = err};
    pg__graph *graph = NULL;
    PG_TRY(walk(&t, (pg__json_span){0, n}));
    if (t.lacking.n) {
        st = refuse_lacking(&t, err);
        goto done;
    }
    PG_TRY(apply(out, &t, n));
    PG_TRY(pg__graph_parse(&graph, out->s, out->n, err)); /* it must still be a valid graph */
    *n_classes = t.n_classes;
done:
    for (size_t i = 0; i < t.n; i++)
        pg__mem_free(t.edits[i].text);
    pg__mem_free(t.edits);
    pg__strs_fini(&t.lacking);
    pg__graph_free(graph);
    return st;
}
