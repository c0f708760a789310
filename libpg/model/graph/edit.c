/* edit.c - edits a description by replacing byte ranges of its text. */
#include "model/graph/edit.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "base/try.h"

void pg__edits_fini(pg__edits *e)
{
    for (size_t i = 0; i < e->n; i++)
        pg__mem_free(e->v[i].text);
    pg__mem_free(e->v);
    *e = (pg__edits){0};
}

static pg_status add_edit(pg__edits *e, size_t off, size_t n, const pg__str *text, pg_err *err)
{
    if (pg__mem_grow(&e->v, &e->cap, e->n + 1, sizeof *e->v))
        return pg__nomem(err);
    char *copy = pg__mem_strdup(text->s);
    if (!copy)
        return pg__nomem(err);
    e->v[e->n++] = (pg__edit){off, n, copy};
    return PG_OK;
}

/* Sets a member of a layer's config, or adds it. */
static pg_status set_member(pg__edits *e, const pg__graph *g, const pg__layer *l, const char *key,
                            const char *value, pg_err *err)
{
    const pg__json_span old = pg__json_member(g->text, l->config_span, key);
    pg__str text = {0};
    pg_status st = PG_OK;
    if (pg__json_type_of(l->config) != PG_J_OBJECT)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: its config is a list", PG_SHOW(l->name));
    if (old.n) {
        PG_TRY(pg__str_puts(&text, value, err));
        PG_TRY(add_edit(e, old.off, old.n, &text, err));
    } else {
        PG_TRY(pg__str_printf(&text, err, "\"%s\": %s%s", key, value,
                              pg__json_len(l->config) ? ", " : ""));
        PG_TRY(add_edit(e, l->config_span.off + 1, 0, &text, err));
    }
done:
    pg__str_fini(&text);
    return st;
}

/* ---- layers that do not train ---- */

typedef struct pattern {
    char *text; /* without the '!' */
    int trains, used;
} pattern;

typedef struct freezing {
    pattern *v;
    size_t n;
    pg__strs names; /* names of all layers, for a hint */
} freezing;

/* A model on the stack. `last`: number, from 1, of the last pattern that matches it or a model
 * around it. */
typedef struct level {
    const pg__model *m;
    size_t next, last,
        path; /* path: length of its name with those of the models around it, and a '/' */
} level;

static pg_status read_patterns(freezing *f, const char *text, pg_err *err)
{
    size_t n = 1;
    for (const char *s = text; *s; s++)
        n += *s == ',';
    if (!*text)
        return pg_fail(err, PG_E_ARG, "freeze: no pattern is given");
    f->v = pg__mem_array(n, sizeof *f->v);
    if (!f->v)
        return pg__nomem(err);
    for (const char *s = text; *s;) {
        const size_t len = strcspn(s, ","), trains = *s == '!';
        if (len == trains)
            return pg_fail(err, PG_E_ARG, "freeze: \"%s\": an empty pattern", PG_SHOW(text));
        f->v[f->n].trains = (int)trains;
        f->v[f->n].text = pg__mem_strndup(s + trains, len - trains);
        if (!f->v[f->n].text)
            return pg__nomem(err);
        f->n++;
        s += len + (s[len] == ',');
    }
    return PG_OK;
}

/* The last pattern, from 1, that matches the name or the path, or 0. */
static size_t last_match(freezing *f, const char *name, const char *path)
{
    size_t last = 0;
    for (size_t i = 0; i < f->n; i++)
        if (fnmatch(f->v[i].text, name, 0) == 0 || fnmatch(f->v[i].text, path, 0) == 0) {
            f->v[i].used = 1;
            last = i + 1;
        }
    return last;
}

static pg_status decide(pg__edits *out, const pg__graph *g, const freezing *f, const pg__layer *l,
                        size_t last, pg_err *err)
{
    if (last == 0 || f->v[last - 1].trains == l->trainable)
        return PG_OK;
    return set_member(out, g, l, "trainable", f->v[last - 1].trains ? "true" : "false", err);
}

static pg_status walk(pg__edits *out, const pg__graph *g, freezing *f, pg_err *err)
{
    level stack[PG_LIMIT_MODEL_DEPTH + 2]; /* graph_build.c refuses deeper models */
    size_t depth = 1;
    pg__str path = {0};
    pg_status st = PG_OK;
    stack[0] = (level){.m = g->root};
    while (depth > 0) {
        level *at = &stack[depth - 1];
        if (at->next == at->m->n_layers) {
            depth--;
            continue;
        }
        const pg__layer *l = &at->m->layers[at->next++];
        path.n = at->path;
        PG_TRY(pg__str_puts(&path, l->name, err));
        if (strcmp(l->class_name, "InputLayer") == 0 || pg__layer_is_op(l))
            continue;
        PG_TRY(pg__strs_add(&f->names, l->name, strlen(l->name), err));
        const size_t own = last_match(f, l->name, path.s), last = own > at->last ? own : at->last;
        if (l->model) {
            PG_TRY(pg__str_puts(&path, "/", err));
            if (!l->trainable && last && f->v[last - 1].trains)
                PG_TRY(decide(out, g, f, l, last, err));
            stack[depth++] = (level){.m = l->model, .last = last, .path = path.n};
        } else {
            PG_TRY(decide(out, g, f, l, last, err));
        }
    }
done:
    pg__str_fini(&path);
    return st;
}

pg_status pg__edit_freeze(pg__edits *out, const pg__graph *g, const char *patterns, pg_err *err)
{
    freezing f = {0};
    pg_status st = PG_OK;
    PG_TRY(read_patterns(&f, patterns, err));
    PG_TRY(walk(out, g, &f, err));
    for (size_t i = 0; i < f.n; i++) {
        if (f.v[i].used)
            continue;
        const char *near = pg__nearest(f.v[i].text, (const char *const *)f.names.v, f.names.n);
        st = pg_fail(err, PG_E_ARG, "freeze: the model has no layer \"%s\"", PG_SHOW(f.v[i].text));
        if (near)
            pg_err_set(err, "freeze", "%s%s", f.v[i].trains ? "!" : "", near);
        break;
    }
done:
    for (size_t i = 0; i < f.n; i++)
        pg__mem_free(f.v[i].text);
    pg__mem_free(f.v);
    pg__strs_fini(&f.names);
    return st;
}

/* ---- another number of classes ---- */

/* Classes that keep the last dimension. */
static const char *const passes[] = {"Activation",
                                     "Dropout",
                                     "ELU",
                                     "GlobalAveragePooling1D",
                                     "GlobalAveragePooling2D",
                                     "GlobalAveragePooling3D",
                                     "GlobalMaxPooling1D",
                                     "GlobalMaxPooling2D",
                                     "GlobalMaxPooling3D",
                                     "Identity",
                                     "LeakyReLU",
                                     "ReLU",
                                     "Reshape",
                                     "Softmax",
                                     "ThresholdedReLU"};

static const char *const units_keys[] = {"units", "output_dim", "filters", "nb_filter"};

static const char *units_key(const pg__layer *l)
{
    for (size_t i = 0; i < sizeof units_keys / sizeof *units_keys; i++)
        if (pg__json_get(l->config, units_keys[i]))
            return units_keys[i];
    return NULL;
}

static int is_head(const pg__layer *l)
{
    static const char *const heads[] = {
        "Dense",  "TimeDistributedDense", "Conv1D",        "Conv2D",
        "Conv3D", "Convolution1D",        "Convolution2D", "Convolution3D"};
    return PG_IS_ANY(l->class_name, heads) && units_key(l) != NULL;
}

static int64_t units_of(const pg__layer *l)
{
    int64_t n = 0;
    (void)pg__json_int(pg__json_get(l->config, units_key(l)), &n);
    return n;
}

/* Is its last dimension that of the head, unmixed with others? */
static int ends_with(const pg__layer *reshape, int64_t units)
{
    const pg__json *shape = pg__json_get(reshape->config, "target_shape");
    const size_t n = pg__json_len(shape);
    int64_t last;
    return n > 0 && pg__json_int(pg__json_at(shape, n - 1), &last) && last == units;
}

static pg_status no_head(const pg__layer *l, pg_err *err)
{
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "the output of the model is made by %s (%s), not by a Dense layer or a "
                   "convolution: it has no number of classes that could be replaced",
                   PG_SHOW(l->name), PG_SHOW(l->class_name));
}

pg_status pg__head_of(pg__head *out, const pg__graph *g, size_t k, pg_err *err)
{
    const pg__model *m = g->root;
    pg__tensor_ref ref = m->outputs[k];
    *out = (pg__head){0};
    for (;;) {
        const pg__layer *l = &m->layers[ref.layer];
        if (l->model && ref.tensor < l->model->n_outputs) {
            m = l->model;
            ref = m->outputs[ref.tensor];
            continue;
        }
        if (is_head(l) || (l->inner && strcmp(l->class_name, "TimeDistributed") == 0 &&
                           !l->inner->model && is_head(l->inner))) {
            out->layer = is_head(l) ? l : l->inner;
            if (out->reshape && !ends_with(out->reshape, units_of(out->layer)))
                return no_head(out->reshape, err);
            return PG_OK;
        }
        const pg__call *call = pg__call_of(m, ref);
        const int shapes = strcmp(l->class_name, "Reshape") == 0;
        if (!call || call->n_inputs != 1 || !PG_IS_ANY(l->class_name, passes) ||
            (shapes && out->reshape))
            return no_head(l, err);
        if (strcmp(l->class_name, "Activation") == 0 && !out->activation)
            out->activation = l;
        if (shapes)
            out->reshape = l;
        ref = call->inputs[0];
    }
}

/* The target_shape with another last number. */
static pg_status end_with(pg__edits *out, const pg__graph *g, const pg__layer *reshape,
                          const char *number, pg_err *err)
{
    const pg__json *shape = pg__json_get(reshape->config, "target_shape");
    pg__str text = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; i + 1 < pg__json_len(shape); i++) {
        int64_t dim = 0;
        (void)pg__json_int(pg__json_at(shape, i), &dim);
        PG_TRY(pg__str_printf(&text, err, "%s%lld", i ? ", " : "[", (long long)dim));
    }
    PG_TRY(pg__str_printf(&text, err, "%s%s]", text.n ? ", " : "[", number));
    PG_TRY(set_member(out, g, reshape, "target_shape", text.s, err));
done:
    pg__str_fini(&text);
    return st;
}

pg_status pg__edit_head(pg__edits *out, const pg__graph *g, size_t k, uint64_t units,
                        const char *name, pg_err *err)
{
    pg__head head;
    char number[24];
    pg__str quoted = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__head_of(&head, g, k, err));
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)units);
    PG_TRY(set_member(out, g, head.layer, units_key(head.layer), number, err));
    if (head.reshape)
        PG_TRY(end_with(out, g, head.reshape, number, err));
    const pg__layer *active = head.activation ? head.activation : head.layer;
    const char *now = pg__json_get_str(active->config, "activation");
    if (!name && units == 1 && now && strcmp(now, "softmax") == 0) {
        st = pg_fail(err, PG_E_ARG, "replace head: the softmax of one number is always 1");
        pg_err_set(err, "replace_head", "1:sigmoid");
        goto done;
    }
    if (!name)
        goto done;
    PG_TRY(pg__json_quote(&quoted, name, strlen(name), err));
    PG_TRY(set_member(out, g, active, "activation", quoted.s, err));
done:
    pg__str_fini(&quoted);
    return st;
}

/* ---- the new text ---- */

static int compare_edits(const void *x, const void *y)
{
    const pg__edit *a = x, *b = y;
    return a->off < b->off ? -1 : a->off > b->off;
}

pg_status pg__edits_apply(pg__graph **g, pg__edits *e, pg_err *err)
{
    const pg__graph *old = *g;
    pg__graph *edited = NULL;
    pg__str text = {0};
    size_t at = 0;
    pg_status st = PG_OK;
    if (e->n == 0)
        return PG_OK;
    qsort(e->v, e->n, sizeof *e->v, compare_edits);
    for (size_t i = 0; i < e->n; i++) {
        if (e->v[i].off < at) /* the same layer, reached twice */
            continue;
        PG_TRY(pg__str_add(&text, old->text + at, e->v[i].off - at, err));
        PG_TRY(pg__str_puts(&text, e->v[i].text, err));
        at = e->v[i].off + e->v[i].n;
    }
    PG_TRY(pg__str_add(&text, old->text + at, old->n_text - at, err));
    PG_TRY(pg__graph_parse(&edited, text.s, text.n, err));
    pg__graph_free(*g);
    *g = edited;
done:
    pg__str_fini(&text);
    return st;
}
