/* convert_dialect.c - a model's description for the other Keras: edits of the text, so that every
 * number and every name that means the same stays as it was written.
 *
 * Keras 2 to 3: module paths; entries without one get it. Keras 3 to 2: InputLayer's shape has
 * another key, dtype policies become their names, calls are lists of [layer, node, tensor, kwargs].
 * Layers that the other Keras does not have are listed, all of them (files of 2.15 and 3.6). */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "wrap/convert.h"

typedef struct edit {
    size_t off, n; /* bytes that go */
    char *text;    /* what stands there instead; owned */
} edit;

typedef struct translating {
    const char *text;
    int to; /* 2 or 3 */
    edit *edits;
    size_t n, cap;
    size_t n_classes; /* module paths among them */
    pg__strs lacking; /* classes that the other Keras does not have */
    pg_err *err;
} translating;

static int is_any(const char *s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(s, list[i]) == 0)
            return 1;
    return 0;
}
#define IS_ANY(s, list) is_any(s, list, sizeof(list) / sizeof *(list))

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

static pg_status add_edit(translating *t, size_t off, size_t n, const char *text, size_t n_text)
{
    char *copy = pg__mem_strndup(text, n_text);
    if (!copy || pg__mem_grow(&t->edits, &t->cap, t->n + 1, sizeof *t->edits)) {
        pg__mem_free(copy);
        return pg__nomem(t->err);
    }
    t->edits[t->n++] = (edit){off, n, copy};
    return PG_OK;
}

static pg_status replace(translating *t, pg__json_span s, const char *text)
{
    return add_edit(t, s.off, s.n, text, strlen(text));
}

static pg__json_span member_of(const char *text, pg__json_span within, const char *key)
{
    for (pg__json_walk w = pg__json_walk_of(text, within);
         text[within.off] == '{' && pg__json_walk_next(&w);)
        if (pg__json_key_is(text, w.key, key))
            return w.value;
    return (pg__json_span){0};
}

static int is_text(const char *text, pg__json_span s, const char *word)
{
    return s.n > 1 && text[s.off] == '"' && pg__json_key_is(text, s, word);
}

static int is_null(const char *text, pg__json_span s)
{
    return s.n == 4 && memcmp(text + s.off, "null", 4) == 0;
}

/* Removes member `key` of an object, with the comma on one side of it. */
static pg_status remove_member(translating *t, pg__json_span object, const char *key)
{
    size_t end_before = 0;
    for (pg__json_walk w = pg__json_walk_of(t->text, object); pg__json_walk_next(&w);) {
        if (!pg__json_key_is(t->text, w.key, key)) {
            end_before = w.value.off + w.value.n;
            continue;
        }
        const size_t end = w.value.off + w.value.n;
        if (end_before)
            return add_edit(t, end_before, end - end_before, "", 0);
        size_t comma = end;
        while (comma < object.off + object.n && strchr(" \t\r\n", t->text[comma]))
            comma++;
        comma += t->text[comma] == ',';
        return add_edit(t, w.key.off, comma - w.key.off, "", 0);
    }
    return PG_OK;
}

static pg_status lack(translating *t, const char *what, const char *why)
{
    pg__str line = {0};
    pg_status st = pg__str_printf(&line, t->err, "%s%s%s", PG_SHOW(what), *why ? ": " : "", why);
    if (st == PG_OK && pg__strs_find(&t->lacking, line.s) == PG_NONE)
        st = pg__strs_add(&t->lacking, line.s, line.n, t->err);
    pg__str_fini(&line);
    return st;
}

/* ---- Keras 3 to 2 ---- */

/* ["x", 0, 0] of a __keras_tensor__ object; *n is 0 if it is none. */
static pg__json_span history_of(const char *text, pg__json_span s)
{
    if (text[s.off] != '{' || !is_text(text, member_of(text, s, "class_name"), "__keras_tensor__"))
        return (pg__json_span){0};
    return member_of(text, member_of(text, s, "config"), "keras_history");
}

/* [layer, node, tensor, kwargs] for a tensor; kwargs may be "". */
static pg_status put_tensor(pg__str *out, const char *text, pg__json_span history,
                            const char *kwargs, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, out->s[out->n - 1] == '[' ? "" : ", ", err));
    PG_TRY(pg__str_add(out, text + history.off, history.n - 1, err)); /* without its bracket */
    PG_TRY(pg__str_printf(out, err, ", %s]", *kwargs ? kwargs : "{}"));
done:
    return st;
}

/* Arguments of a call that are not tensors, as Keras 2 writes them; *ok is 0 if some are. */
static pg_status put_kwargs(pg__str *out, int *ok, const char *text, pg__json_span kwargs,
                            pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "{", err));
    for (pg__json_walk w = pg__json_walk_of(text, kwargs); pg__json_walk_next(&w);) {
        if (is_null(text, w.value))
            continue;
        if (strchr("{[", text[w.value.off])) {
            *ok = 0;
            goto done;
        }
        PG_TRY(pg__str_puts(out, out->n > 1 ? ", " : "", err));
        PG_TRY(pg__str_add(out, text + w.key.off, w.key.n, err));
        PG_TRY(pg__str_puts(out, ": ", err));
        PG_TRY(pg__str_add(out, text + w.value.off, w.value.n, err));
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

/* The second and third tensor of attention, which Keras 2 passes by name. */
static pg_status put_attention(pg__str *kwargs, const char *text, pg__json_span history, size_t i,
                               pg_err *err)
{
    static const char *const names[] = {"value", "key"};
    pg_status st = PG_OK;
    kwargs->n -= kwargs->n > 0; /* the brace */
    PG_TRY(pg__str_printf(kwargs, err, "%s\"%s\": ", kwargs->n > 1 ? ", " : "", names[i - 1]));
    PG_TRY(pg__str_add(kwargs, text + history.off, history.n, err));
    PG_TRY(pg__str_puts(kwargs, "}", err));
done:
    return st;
}

/* One call; *ok is 0 if Keras 2 has no words for it. */
static pg_status put_call(pg__str *out, int *ok, const char *text, pg__json_span call,
                          int attention, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str kwargs = {0};
    pg__json_span first = {0}, args = member_of(text, call, "args");
    size_t n = 0;
    PG_TRY(put_kwargs(&kwargs, ok, text, member_of(text, call, "kwargs"), err));
    *ok = *ok && args.n && text[args.off] == '[';
    for (pg__json_walk w = pg__json_walk_of(text, args); *ok && pg__json_walk_next(&w); n++) {
        const pg__json_span history = history_of(text, w.value);
        if (n == 0)
            first = w.value;
        else if (attention && n < 3 && history.n)
            PG_TRY(put_attention(&kwargs, text, history, n, err));
        else
            *ok = 0;
    }
    *ok = *ok && first.n && strchr("[{", text[first.off]);
    if (!*ok)
        goto done;
    PG_TRY(pg__str_puts(out, out->s[out->n - 1] == '[' ? "[" : ", [", err));
    if (text[first.off] == '{') {
        const pg__json_span history = history_of(text, first);
        *ok = history.n > 2;
        if (*ok)
            PG_TRY(put_tensor(out, text, history, kwargs.s, err));
    } else {
        for (pg__json_walk w = pg__json_walk_of(text, first); *ok && pg__json_walk_next(&w);) {
            const pg__json_span history = history_of(text, w.value);
            *ok = history.n > 2;
            if (*ok)
                PG_TRY(put_tensor(out, text, history, kwargs.s, err));
        }
    }
    PG_TRY(pg__str_puts(out, "]", err));
done:
    pg__str_fini(&kwargs);
    return st;
}

static pg_status translate_calls(translating *t, pg__json_span nodes, pg__json_span class_name,
                                 const char *name)
{
    pg_status st = PG_OK;
    pg__str out = {0};
    int ok = 1;
    const int attention = is_text(t->text, class_name, "MultiHeadAttention");
    PG_TRY(pg__str_puts(&out, "[", t->err));
    for (pg__json_walk w = pg__json_walk_of(t->text, nodes); ok && pg__json_walk_next(&w);)
        PG_TRY(put_call(&out, &ok, t->text, w.value, attention, t->err));
    PG_TRY(pg__str_puts(&out, "]", t->err));
    if (ok)
        PG_TRY(add_edit(t, nodes.off, nodes.n, out.s, out.n));
    else
        PG_TRY(lack(t, name, "a call with arguments that Keras 2 writes differently"));
done:
    pg__str_fini(&out);
    return st;
}

/* {"class_name": "DTypePolicy", "config": {"name": "float32"}} becomes "float32". */
static pg_status translate_dtype(translating *t, pg__json_span dtype, const char *name)
{
    const pg__json_span class_name = member_of(t->text, dtype, "class_name"),
                        word = member_of(t->text, member_of(t->text, dtype, "config"), "name");
    if (t->text[dtype.off] != '{')
        return PG_OK;
    if (!is_text(t->text, class_name, "DTypePolicy") || !word.n)
        return lack(t, name, "a dtype policy that Keras 2 does not have");
    return add_edit(t, dtype.off, dtype.n, t->text + word.off, word.n);
}

/* Keys of configs that came with Keras 3: dropped where they hold the default. */
static pg_status drop_new_keys(translating *t, pg__json_span config, const char *name)
{
    static const struct {
        const char *key, *fallback;
    } keys[] = {{"rms_scaling", "false"},        {"lora_rank", "null"},
                {"quantization_config", "null"}, {"use_gate", "false"},
                {"flash_attention", "null"},     {"optional", "false"}};
    pg_status st = PG_OK;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const pg__json_span v = member_of(t->text, config, keys[k].key);
        if (v.n == 0)
            continue;
        if (v.n == strlen(keys[k].fallback) && memcmp(t->text + v.off, keys[k].fallback, v.n) == 0)
            PG_TRY(remove_member(t, config, keys[k].key));
        else
            PG_TRY(lack(t, name, keys[k].key));
    }
done:
    return st;
}

static pg_status rename_key(translating *t, pg__json_span object, const char *key, const char *to)
{
    for (pg__json_walk w = pg__json_walk_of(t->text, object); pg__json_walk_next(&w);)
        if (pg__json_key_is(t->text, w.key, key))
            return replace(t, w.key, to);
    return PG_OK;
}

/* ["x", 0, 0] of Keras 3.15 becomes [["x", 0, 0]]. */
static pg_status nest_ends(translating *t, pg__json_span config)
{
    static const char *const keys[] = {"input_layers", "output_layers"};
    pg_status st = PG_OK;
    for (size_t k = 0; k < 2; k++) {
        const pg__json_span v = member_of(t->text, config, keys[k]);
        pg__json_walk w = pg__json_walk_of(t->text, v);
        if (v.n < 2 || t->text[v.off] != '[' || !pg__json_walk_next(&w) ||
            t->text[w.value.off] != '"')
            continue;
        PG_TRY(add_edit(t, v.off, 0, "[", 1));
        PG_TRY(add_edit(t, v.off + v.n, 0, "]", 1));
    }
done:
    return st;
}

/* ---- one object that has a class and a config ---- */

static pg_status to_keras_2(translating *t, pg__json_span entry, pg__json_span config,
                            const char *class_name, const char *name)
{
    pg_status st = PG_OK;
    const pg__json_span module = member_of(t->text, entry, "module"),
                        nodes = member_of(t->text, entry, "inbound_nodes"),
                        dtype = member_of(t->text, config, "dtype");
    if (IS_ANY(class_name, only_3))
        PG_TRY(lack(t, class_name, ""));
    if (is_text(t->text, module, "keras.src.models.functional")) {
        PG_TRY(replace(t, module, "\"keras.src.engine.functional\""));
        t->n_classes++;
    } else if (module.n > 15 && memcmp(t->text + module.off, "\"keras.src.ops.", 15) == 0) {
        PG_TRY(lack(t, name, "an operation used as a layer"));
    }
    if (strcmp(class_name, "OrthogonalInitializer") == 0)
        PG_TRY(replace(t, member_of(t->text, entry, "class_name"), "\"Orthogonal\""));
    if (strcmp(class_name, "IdentityInitializer") == 0)
        PG_TRY(replace(t, member_of(t->text, entry, "class_name"), "\"Identity\""));
    if (strcmp(class_name, "InputLayer") == 0)
        PG_TRY(rename_key(t, config, "batch_shape", "\"batch_input_shape\""));
    if (dtype.n)
        PG_TRY(translate_dtype(t, dtype, name));
    if (nodes.n > 2)
        PG_TRY(translate_calls(t, nodes, member_of(t->text, entry, "class_name"), name));
    if (t->text[config.off] == '{') {
        PG_TRY(drop_new_keys(t, config, name));
        PG_TRY(nest_ends(t, config));
    }
done:
    return st;
}

/* A layer of an older description has no module. */
static pg_status add_module(translating *t, pg__json_span entry, const char *class_name, int layer)
{
    const int model = strcmp(class_name, "Functional") == 0 || strcmp(class_name, "Model") == 0;
    const char *module = model                                   ? "keras.src.models.functional"
                         : strcmp(class_name, "Sequential") == 0 ? "keras"
                         : layer                                 ? "keras.layers"
                                                                 : NULL;
    pg__str text = {0};
    if (!module)
        return PG_OK;
    pg_status st = pg__str_printf(&text, t->err, "\"module\": \"%s\", ", module);
    if (st == PG_OK)
        st = add_edit(t, entry.off + 1, 0, text.s, text.n);
    pg__str_fini(&text);
    t->n_classes++;
    return st;
}

static pg_status to_keras_3(translating *t, pg__json_span entry, const char *class_name, int layer)
{
    pg_status st = PG_OK;
    const pg__json_span module = member_of(t->text, entry, "module"),
                        class_at = member_of(t->text, entry, "class_name");
    if (layer && IS_ANY(class_name, only_2))
        PG_TRY(lack(t, class_name, ""));
    if (is_text(t->text, module, "keras.src.engine.functional")) {
        PG_TRY(replace(t, module, "\"keras.src.models.functional\""));
        t->n_classes++;
    } else if (!module.n) {
        PG_TRY(add_module(t, entry, class_name, layer));
    }
    if (layer && strcmp(class_name, "Model") == 0)
        PG_TRY(replace(t, class_at, "\"Functional\""));
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

static pg_status visit(translating *t, pg__json_span object, int layer)
{
    pg_status st = PG_OK;
    pg__str class_name = {0}, name = {0};
    const pg__json_span class_at = member_of(t->text, object, "class_name"),
                        config = member_of(t->text, object, "config"),
                        name_at = member_of(t->text, config, "name");
    if (!class_at.n || !config.n || t->text[class_at.off] != '"')
        goto done;
    PG_TRY(pg__json_unquote(&class_name, t->text, class_at, t->err));
    if (name_at.n && t->text[name_at.off] == '"')
        PG_TRY(pg__json_unquote(&name, t->text, name_at, t->err));
    else
        PG_TRY(pg__str_puts(&name, class_name.s ? class_name.s : "", t->err));
    if (!class_name.s)
        goto done;
    if (t->to == 2)
        PG_TRY(to_keras_2(t, object, config, class_name.s, name.s));
    else
        PG_TRY(to_keras_3(t, object, class_name.s, layer));
done:
    pg__str_fini(&class_name);
    pg__str_fini(&name);
    return st;
}

/* What was replaced as a whole is not looked into. */
static int is_replaced(const translating *t, pg__json_span s)
{
    for (size_t i = t->n; i-- > 0 && i + 16 > t->n;)
        if (t->edits[i].n && t->edits[i].off <= s.off &&
            s.off + s.n <= t->edits[i].off + t->edits[i].n)
            return 1;
    return 0;
}

typedef struct level {
    pg__json_walk walk;
    int layers; /* what stands here are layers */
} level;

static pg_status walk(translating *t, pg__json_span root)
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
        if ((!object && t->text[v.off] != '[') || is_replaced(t, v))
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

static int by_offset(const void *a, const void *b)
{
    const edit *x = a, *y = b;
    return (x->off > y->off) - (x->off < y->off);
}

static pg_status apply(pg__str *out, translating *t, size_t n)
{
    pg_status st = PG_OK;
    size_t at = 0;
    if (t->n)
        qsort(t->edits, t->n, sizeof *t->edits, by_offset);
    for (size_t i = 0; i < t->n; i++) {
        const edit *e = &t->edits[i];
        PG_TRY(pg__str_add(out, t->text + at, e->off - at, t->err));
        PG_TRY(pg__str_puts(out, e->text, t->err));
        at = e->off + e->n;
    }
    PG_TRY(pg__str_add(out, t->text + at, n - at, t->err));
done:
    return st;
}

static pg_status tell_lacking(const translating *t, pg_err *err)
{
    pg__str list = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < t->lacking.n && i < 8; i++)
        st = pg__str_printf(&list, err, "%s%s", i ? ", " : "", t->lacking.v[i]);
    if (st == PG_OK)
        st = pg_fail(err, PG_E_UNSUPPORTED, "%zu feature%s that Keras %d lacks (%s)", t->lacking.n,
                     t->lacking.n == 1 ? "" : "s", t->to, list.s);
    pg__str_fini(&list);
    return st;
}

pg_status pg__translate(pg__str *out, size_t *n_classes, const char *text, size_t n, int to,
                        pg_err *err)
{
    pg_status st = PG_OK;
    translating t = {.text = text, .to = to, .err = err};
    PG_TRY(walk(&t, (pg__json_span){0, n}));
    if (t.lacking.n) {
        st = tell_lacking(&t, err);
        goto done;
    }
    PG_TRY(apply(out, &t, n));
    *n_classes = t.n_classes;
done:
    for (size_t i = 0; i < t.n; i++)
        pg__mem_free(t.edits[i].text);
    pg__mem_free(t.edits);
    pg__strs_fini(&t.lacking);
    return st;
}
