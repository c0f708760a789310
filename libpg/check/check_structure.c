/* check_structure.c - would Keras' strict loader take the file? (FORMATS.md: "The real loaders")
 *
 *   legacy layout  layers with weights are paired by position, names are not compared: number of
 *                  layers, then of weights, then shapes
 *   path layout    every layer has a place
 *   objects        every variable of the model where TensorFlow restores it from
 *   no layers      every variable of the model by its name
 *
 * A file whose names contradict that pairing loads without a word and predicts noise, so that
 * fails too. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "check/check_impl.h"
#include "format/fmt_keras_v3.h"
#include "model/fit/fit.h"
#include "wrap/convert/convert.h"

enum { MAX_LISTED = 12 };

typedef struct structure {
    pg__checking *c;
    const pg_store *s;
    const pg__model *m;
    int dialect;
    char source[200]; /* "model.json", "its own description" */
    pg__leaves leaves;
    size_t n_model, n_file;         /* layers with weights */
    size_t *model_top, *file_layer; /* their indices */
} structure;

/* ---- who holds weights ---- */

static int has_layer(const pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        if (pg_store_layer(s, i)->n_weights && strcmp(pg_store_layer(s, i)->name, name) == 0)
            return 1;
    return 0;
}

static pg_status list_weighted(structure *t, pg_err *err)
{
    const size_t n = pg_store_n_layers(t->s);
    t->file_layer = pg__mem_array(n, sizeof *t->file_layer);
    t->model_top = pg__mem_array(t->m->n_layers, sizeof *t->model_top);
    if (!t->file_layer || !t->model_top)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        if (pg_store_layer(t->s, i)->n_weights)
            t->file_layer[t->n_file++] = i;
    for (size_t i = 0; i < t->m->n_layers; i++) {
        const pg__leaves part = pg__leaves_below(&t->leaves, i);
        if (part.n_vars || (!part.all_known && has_layer(t->s, t->m->layers[i].name)))
            t->model_top[t->n_model++] = i;
    }
    return PG_OK;
}

/* "conv1 (2)  conv2 (2)  ... 5 more" */
static pg_status list_layers(structure *t, const char *label, int of_model, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str line = {0};
    const size_t n = of_model ? t->n_model : t->n_file;
    for (size_t i = 0; i < n && i < MAX_LISTED; i++) {
        const char *name;
        size_t k;
        if (of_model) {
            name = t->m->layers[t->model_top[i]].name;
            k = pg__leaves_below(&t->leaves, t->model_top[i]).n_vars;
        } else {
            name = pg_store_layer(t->s, t->file_layer[i])->name;
            k = pg_store_layer(t->s, t->file_layer[i])->n_weights;
        }
        PG_TRY(pg__str_printf(&line, err, "%s%s (%zu%s)", i ? "  " : "", PG_SHOW(name), k,
                              n == 1 ? " tensors" : ""));
    }
    if (n > MAX_LISTED)
        PG_TRY(pg__str_printf(&line, err, "  ... %zu more", n - MAX_LISTED));
    PG_TRY(pg__check_detail(t->c, err, "%s%s", label, line.s ? line.s : "none"));
done:
    pg__str_fini(&line);
    return st;
}

/* ---- unknown classes, types ---- */

static pg_status report_unknown(structure *t, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    for (size_t i = 0; i < t->leaves.n; i++) {
        const pg__layer *l = t->leaves.v[i].layer;
        if (t->leaves.v[i].vars.known || n++ >= MAX_LISTED)
            continue;
        PG_TRY(
            pg__check_note(t->c, err,
                           "%s: unknown layer class \"%s\" (layer %s): its weights are checked by "
                           "count only",
                           PG_SHOW(t->source), PG_SHOW(l->class_name), PG_SHOW(l->name)));
    }
done:
    return st;
}

/* The one type that all layers of the model compute in, or NULL. */
static const char *model_dtype(const structure *t)
{
    const char *common = NULL;
    for (size_t i = 0; i < t->leaves.n; i++) {
        const pg__leaf *leaf = &t->leaves.v[i];
        const char *dtype = pg__json_get_str(leaf->layer->config, "dtype");
        if (leaf->vars.n == 0)
            continue;
        if (!dtype || (common && strcmp(common, dtype) != 0))
            return NULL;
        common = dtype;
    }
    return common;
}

/* Keras converts values while loading: a note, not a failure. *match: types are equal, or the model
 * does not specify them. */
static pg_status check_types(const structure *t, int *match, pg_err *err)
{
    const char *want = model_dtype(t);
    size_t n = 0, at = 0;
    *match = 1;
    for (size_t i = 0; want && strncmp(want, "float", 5) == 0 && i < pg_store_n_weights(t->s);
         i++) {
        const char *is = pg_dtype_name(pg_store_weight(t->s, i)->dtype);
        if (strstr(is, "float") && strcmp(is, want) != 0 && n++ == 0)
            at = i;
    }
    if (!n)
        return PG_OK;
    *match = 0;
    const pg_weight *w = pg_store_weight(t->s, at);
    return pg__check_note(
        t->c, err,
        "%zu tensors are of another type, %s is %s where the model has %s: Keras converts", n,
        PG_SHOW(w->name), pg_dtype_name(w->dtype), want);
}

static pg_status fits(structure *t, const char *how, pg_err *err)
{
    pg_status st = PG_OK;
    int types = 1;
    const size_t n = pg_store_n_weights(t->s);
    size_t layers = t->n_model;
    if (t->c->o->strict && !t->leaves.all_known) {
        PG_TRY(pg__check_add(t->c, "structure", 0, err,
                             "layers of unknown classes can be checked by count only"));
        for (size_t i = 0, k = 0; i < t->leaves.n && k < MAX_LISTED; i++)
            if (!t->leaves.v[i].vars.known && ++k)
                PG_TRY(pg__check_detail(t->c, err, "%s (class %s)",
                                        PG_SHOW(t->leaves.v[i].layer->name),
                                        PG_SHOW(t->leaves.v[i].layer->class_name)));
        goto done;
    }
    PG_TRY(report_unknown(t, err));
    PG_TRY(check_types(t, &types, err));
    PG_TRY(pg__check_add(t->c, "structure", 1, err,
                         "%zu layer%s with weights %s %s, %zu/%zu tensors, shapes%s match", layers,
                         layers == 1 ? "" : "s", how, PG_SHOW(t->source), n, n,
                         types ? " and types" : ""));
done:
    return st;
}

/* ---- legacy layout ---- */

static pg_status other_count(structure *t, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__check_add(t->c, "structure", 0, err, "file has %zu layer%s with weights, %s has %zu",
                         t->n_file, t->n_file == 1 ? "" : "s", PG_SHOW(t->source), t->n_model));
    PG_TRY(list_layers(t, "file    ", 0, err));
    PG_TRY(list_layers(t, "model   ", 1, err));
    PG_TRY(pg__check_detail(t->c, err,
                            "Keras:  Layer count mismatch when loading weights from file. Model "
                            "expected %zu layers, found %zu saved layers.",
                            t->n_model, t->n_file));
done:
    return st;
}

static pg_status list_lines(structure *t, const char *label, const pg__strs *l, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < l->n && i < MAX_LISTED; i++)
        PG_TRY(pg__check_detail(t->c, err, "%s%s", label, PG_SHOW(l->v[i])));
    if (l->n > MAX_LISTED)
        PG_TRY(pg__check_detail(t->c, err, "%s... %zu more", label, l->n - MAX_LISTED));
done:
    return st;
}

/* The numbers agree, but not every layer fits the one at its position. */
static pg_status other_layers(structure *t, const pg__alignment *a, pg_err *err)
{
    pg_status st = PG_OK;
    size_t at = 0, want = 0, have = 0;
    t->c->repairable = a->missing.n < t->n_model;
    PG_TRY(pg__check_add(t->c, "structure", 0, err, "%zu of %zu layers do not fit %s", a->missing.n,
                         t->n_model, PG_SHOW(t->source)));
    PG_TRY(list_lines(t, "missing: ", &a->missing, err));
    PG_TRY(list_lines(t, "extra:   ", &a->extra, err));
    for (; at < t->n_model && want == have; at++) {
        const pg__leaves part = pg__leaves_below(&t->leaves, t->model_top[at]);
        have = pg_store_layer(t->s, t->file_layer[at])->n_weights;
        want = part.all_known ? part.n_vars : have;
    }
    if (want != have)
        PG_TRY(pg__check_detail(
            t->c, err,
            "Keras:   Weight count mismatch for layer #%zu (named %s in the current model, %s in "
            "the "
            "save file). Layer expects %zu weight(s). Received %zu saved weight(s)",
            at - 1, PG_SHOW(t->m->layers[t->model_top[at - 1]].name),
            PG_SHOW(pg_store_layer(t->s, t->file_layer[at - 1])->name), want, have));
done:
    return st;
}

/* Every layer fits by its name, but Keras goes by position. */
static pg_status other_order(structure *t, pg_err *err)
{
    pg_status st = PG_OK;
    t->c->repairable = 1;
    PG_TRY(pg__check_add(t->c, "structure", 0, err,
                         "the layers stand in another order than in %s; Keras pairs them by "
                         "position",
                         PG_SHOW(t->source)));
    PG_TRY(list_layers(t, "file    ", 0, err));
    PG_TRY(list_layers(t, "model   ", 1, err));
done:
    return st;
}

static pg_status check_legacy(structure *t, pg_err *err)
{
    pg_status st = PG_OK;
    pg__alignment a = {0};
    size_t n_renamed = 0;
    int in_order = 1;
    if (t->n_file != t->n_model)
        return other_count(t, err);
    PG_TRY(pg__align(&a, t->m, &t->leaves, t->s, err));
    if (a.missing.n || a.extra.n) {
        st = other_layers(t, &a, err);
        goto done;
    }
    for (size_t i = 0; i < t->n_model; i++) {
        in_order &= a.file_layer[t->model_top[i]] == t->file_layer[i];
        n_renamed += strcmp(t->m->layers[t->model_top[i]].name,
                            pg_store_layer(t->s, t->file_layer[i])->name) != 0;
    }
    if (!in_order) {
        st = other_order(t, err);
        goto done;
    }
    if (a.candidates.n) {
        PG_TRY(pg__check_add(t->c, "structure", 0, err,
                             "names say another order of the layers than their places do"));
        st = list_lines(t, "", &a.candidates, err);
        goto done;
    }
    if (n_renamed)
        PG_TRY(
            pg__check_note(t->c, err,
                           "%zu of %zu layers have another name than in %s: Keras pairs layers by "
                           "position, but by_name=True would not load them",
                           n_renamed, t->n_model, PG_SHOW(t->source)));
    st = fits(t, "in the order of", err);
done:
    pg__alignment_fini(&a);
    return st;
}

/* ---- path layout ---- */

static pg_status check_paths(structure *t, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err why = {0};
    pg__path_misfit misfit = {0};
    const char *word = pg__v3_container(t->s);
    if (word && strcmp(word, "layers") != 0) {
        PG_TRY(pg__check_note(
            t->c, err, "not compared with %s: Keras 2.12 and 2.13 count groups in another way",
            PG_SHOW(t->source)));
        t->c->report.fitted = 0;
        return pg__check_add(t->c, "structure", 1, err, "%zu tensors, not compared with a model",
                             pg_store_n_weights(t->s));
    }
    st = pg__fits_paths(t->s, "", t->m, t->dialect, &misfit, &why);
    if (st == PG_OK)
        return fits(t, "in the places of", err);
    if (st != PG_E_MISMATCH)
        return pg_fail(err, st, "%s", why.msg);
    PG_TRY(pg__check_add(t->c, "structure", 0, err, "does not fit %s: %s", PG_SHOW(t->source),
                         why.msg));
    if (misfit.layer)
        PG_TRY(pg__check_detail(t->c, err,
                                "Keras:  Layer '%s' expected %zu variables, but received %zu "
                                "variables during loading.",
                                PG_SHOW(misfit.layer->name), misfit.n_expected, misfit.n_held));
done:
    return st;
}

/* ---- no layers: safetensors ---- */

typedef struct found {
    const char *label;
    size_t i;
} found;

static int by_label(const void *a, const void *b)
{
    return strcmp(((const found *)a)->label, ((const found *)b)->label);
}

static const found *look_up(const structure *t, const found *labels, const char *name)
{
    const found key = {.label = name};
    return t->c->view.n ? bsearch(&key, labels, t->c->view.n, sizeof key, by_label) : NULL;
}

/* By the name that pgconvert gives variable k of leaf i in safetensors, whose layer may have
 * objects within: "bidirectional/forward_lstm/lstm_cell/kernel"; or that which Keras itself gives
 * it, which does not tell of a model around the layer. */
static pg_status look_up_full(const found **f, const structure *t, const pg__slots *s,
                              const found *labels, size_t i, size_t k, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    for (size_t j = s->n ? s->first[i] : 0; s->n && !*f && j < s->first[i + 1]; j++) {
        const char *own = s->v[j].name;
        if (s->v[j].var != k)
            continue;
        PG_TRY(pg__flat_name(&name, t->m->layers[t->leaves.v[i].top].name, own, err));
        *f = look_up(t, labels, name.s);
        name.n = 0;
        PG_TRY(pg__str_add(&name, own, strcspn(own, ":"), err));
        if (!*f)
            *f = look_up(t, labels, name.s);
    }
done:
    pg__str_fini(&name);
    return st;
}

/* Looks up every variable of the model; *n counts those found with their shape. */
static pg_status find_all(structure *t, const pg__slots *s, const found *labels, size_t *n,
                          pg__strs *missing, pg__strs *shapes, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    for (size_t i = 0; i < t->leaves.n; i++)
        for (size_t k = 0; k < t->leaves.v[i].vars.n; k++) {
            const pg__var *var = &t->leaves.v[i].vars.v[k];
            name.n = 0;
            PG_TRY(pg__str_printf(&name, err, "%s/%s%s%s", t->leaves.v[i].layer->name, var->sub,
                                  var->sub[0] ? "/" : "", var->name));
            const found *f = look_up(t, labels, name.s);
            if (!f)
                PG_TRY(look_up_full(&f, t, s, labels, i, k, err));
            if (!f) {
                PG_TRY(pg__strs_add(missing, name.s, name.n, err));
                continue;
            }
            const pg_weight *w = pg__view_weight(&t->c->view, f->i);
            const pg__stored stored = {.name = w->name, .rank = w->rank, .dims = w->dims};
            if (pg__dims_agree(var, &stored))
                ++*n;
            else
                PG_TRY(pg__strs_add(shapes, name.s, name.n, err));
        }
done:
    pg__str_fini(&name);
    return st;
}

static pg_status check_names(structure *t, const pg__graph *g, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err why = {0};
    pg__slots slots = {0};
    pg__strs missing = {0}, shapes = {0};
    const pg__view *v = &t->c->view;
    size_t n = 0;
    found *labels = pg__mem_array(v->n, sizeof *labels);
    if (!labels)
        return pg__nomem(err);
    for (size_t i = 0; i < v->n; i++)
        labels[i] = (found){v->v[i].label, i};
    if (v->n)
        qsort(labels, v->n, sizeof *labels, by_label);
    st = pg__slots_of(&slots, g, t->dialect, &why); /* of known layers alone */
    if (st != PG_OK && st != PG_E_UNSUPPORTED)
        PG_TRY(pg_fail(err, st, "%s", why.msg));
    PG_TRY(find_all(t, &slots, labels, &n, &missing, &shapes, err));
    if (n == v->n && !missing.n && !shapes.n) {
        st = fits(t, "under the names of", err);
        goto done;
    }
    PG_TRY(
        pg__check_add(t->c, "structure", 0, err,
                      "of %zu variables of %s, %zu are there under their names; the file has %zu "
                      "tensors",
                      t->leaves.n_vars, PG_SHOW(t->source), n, v->n));
    PG_TRY(list_lines(t, "missing: ", &missing, err));
    PG_TRY(list_lines(t, "shape:   ", &shapes, err));
done:
    pg__slots_fini(&slots);
    pg__strs_fini(&missing);
    pg__strs_fini(&shapes);
    pg__mem_free(labels);
    return st;
}

/* ---- TensorFlow's objects: names do not matter ---- */

typedef struct objects {
    size_t n; /* variables that are there */
    size_t n_used;
    unsigned char *used; /* by tensor */
    pg__strs missing, shapes;
} objects;

static void objects_fini(objects *o)
{
    pg__mem_free(o->used);
    pg__strs_fini(&o->missing);
    pg__strs_fini(&o->shapes);
}

/* Looks up every variable of the model below the object `within`. */
static pg_status find_objects(objects *out, structure *t, const pg__slots *s, const char *within,
                              pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    const size_t n_weights = pg_store_n_weights(t->s);
    out->used = pg__mem_array(n_weights, 1);
    if (!out->used)
        return pg__nomem(err);
    for (size_t i = 0; i < s->n; i++) {
        const pg__slot *slot = &s->v[i];
        path.n = 0;
        PG_TRY(pg__str_printf(&path, err, "%s%s%s", within, *within ? "/" : "", slot->object));
        const size_t at = pg__store_find_object(t->s, path.s);
        if (at >= n_weights) {
            PG_TRY(pg__strs_add(&out->missing, slot->name, strcspn(slot->name, ":"), err));
            continue;
        }
        const pg_weight *w = pg_store_weight(t->s, at);
        const pg__stored stored = {.name = w->name, .rank = w->rank, .dims = w->dims};
        out->n_used += !out->used[at];
        out->used[at] = 1;
        if (pg__dims_agree(&t->leaves.v[slot->leaf].vars.v[slot->var], &stored))
            out->n++;
        else
            PG_TRY(pg__strs_add(&out->shapes, slot->name, strcspn(slot->name, ":"), err));
    }
done:
    pg__str_fini(&path);
    return st;
}

static int all_fit(const objects *o, const structure *t)
{
    return !o->missing.n && !o->shapes.n && o->n_used == pg_store_n_weights(t->s);
}

static pg_status check_objects(structure *t, const pg__graph *g, pg_err *err)
{
    pg_status st = PG_OK;
    pg__slots s = {0};
    objects own = {0}, below = {0};
    pg_err why = {0};
    const char *inner = pg__store_inner_object(t->s);
    st = pg__slots_of(&s, g, t->dialect, &why);
    if (st == PG_E_UNSUPPORTED)
        return check_names(t, g, err); /* a layer whose objects are not known */
    if (st != PG_OK)
        return pg_fail(err, st, "%s", why.msg);
    PG_TRY(find_objects(&own, t, &s, "", err));
    if (all_fit(&own, t)) {
        st = fits(t, "in the objects of", err);
        goto done;
    }
    if (inner)
        PG_TRY(find_objects(&below, t, &s, inner, err));
    if (inner && all_fit(&below, t)) {
        t->c->repairable = 1;
        st = pg__check_add(
            t->c, "structure", 0, err,
            "the model of the checkpoint holds %s as \"%s\"; a conversion with it takes "
            "it out",
            PG_SHOW(t->source), PG_SHOW(inner));
        goto done;
    }
    PG_TRY(pg__check_add(t->c, "structure", 0, err,
                         "of %zu variables of %s, %zu are there; the file has %zu tensors", s.n,
                         PG_SHOW(t->source), own.n, pg_store_n_weights(t->s)));
    PG_TRY(list_lines(t, "missing: ", &own.missing, err));
    PG_TRY(list_lines(t, "shape:   ", &own.shapes, err));
done:
    objects_fini(&own);
    objects_fini(&below);
    pg__slots_fini(&s);
    return st;
}

/* ---- all ---- */

static pg_status without_model(pg__checking *c, pg_err *err)
{
    const pg_store *s = c->view.r.s;
    size_t n = 0;
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        n += pg_store_layer(s, i)->n_weights > 0;
    if (pg_store_n_layers(s))
        return pg__check_add(c, "structure", 1, err,
                             "%zu layer%s with weights, %zu tensors; no model to compare with", n,
                             n == 1 ? "" : "s", pg_store_n_weights(s));
    return pg__check_add(c, "structure", 1, err, "%zu tensors; no model to compare with",
                         pg_store_n_weights(s));
}

static pg_status without_weights(pg__checking *c, pg_err *err)
{
    return pg__check_add(c, "structure", 0, err, "saved without weights: no layer holds a tensor");
}

/* A model whose layers hold no weights. */
static int has_none(const structure *t)
{
    for (size_t i = 0; i < t->leaves.n; i++)
        if (t->leaves.v[i].vars.n > 0 || !t->leaves.v[i].vars.known ||
            pg__stores_otherwise(t->leaves.v[i].layer))
            return 0;
    return 1;
}

pg_status pg__check_structure(pg__checking *c, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__graph *g = c->given ? c->given : c->view.r.v.graph;
    structure t = {.c = c, .s = c->view.r.s};
    const char *index = pg__v3_shard_index(t.s);
    if (index)
        return pg__check_add(c, "structure", 0, err, "one shard of several; check its index, %s",
                             PG_SHOW(index));
    const int is_empty = pg_store_n_weights(t.s) == 0;
    if (!g)
        return is_empty ? without_weights(c, err) : without_model(c, err);
    t.m = g->root;
    t.dialect = g->dialect;
    const char *source = c->given ? pg__base_name(pg__model_name(c->o->model, c->o->model_text))
                                  : "its own description";
    memcpy(t.source, source, strnlen(source, sizeof t.source - 1));
    c->report.fitted = 1;
    PG_TRY(pg__leaves_of(&t.leaves, t.m, t.dialect, err));
    PG_TRY(list_weighted(&t, err));
    if (is_empty && has_none(&t))
        st = pg__check_add(c, "structure", 1, err, "no layer of %s has weights, and none are there",
                           t.source);
    else if (is_empty)
        st = without_weights(c, err);
    else if (pg__store_is_legacy(t.s))
        st = check_legacy(&t, err);
    else if (pg__store_has_paths(t.s))
        st = check_paths(&t, err);
    else if (pg__store_has_objects(t.s))
        st = check_objects(&t, g, err);
    else if (pg_store_n_layers(t.s) == 0)
        st = check_names(&t, g, err);
    else
        st = check_legacy(&t, err); /* shards of a legacy file have its layers */
done:
    pg__leaves_fini(&t.leaves);
    pg__mem_free(t.file_layer);
    pg__mem_free(t.model_top);
    return st;
}
