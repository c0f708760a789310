/* verdict_names.c - judges a weights-only legacy file by the names of its layers and weights.
 *
 * A wrapper's file has one layer with weights, preceded by inputs and k slices per input, and
 * followed by one weightless layer per output. From Keras 2.1.2 on, these have the names of the
 * template's output layers, which also occur in the weight names: that settles it. Default names
 * (concatenate_1, merge_1) leave it open, because a model that feeds several views of its input to
 * one sub-model has the same list. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/fit/owner.h"
#include "wrap/judge/order.h"

/* Variables of Keras 1, whose flat names end in them: "dense_1_W:0". */
static const char *const flat_variables[] = {"_running_mean", "_running_std", "_gamma",
                                             "_beta",         "_W",           "_b"};

size_t pg__stem_len(const char *name)
{
    size_t n = strlen(name), end = n;
    while (n && isdigit((unsigned char)name[n - 1]))
        n--;
    return n < end && n > 1 && name[n - 1] == '_' ? n - 1 : end;
}

static int starts(const char *s, size_t n, const char *with)
{
    const size_t w = strlen(with);
    return n >= w && strncmp(s, with, w) == 0;
}

/* A component that names a part of a recurrent layer, not a layer. */
static int is_inner(const char *part, size_t n)
{
    if (starts(part, n, "forward_") || starts(part, n, "backward_"))
        return 1;
    if (starts(part, n, "cell_") && n > 5 && isdigit((unsigned char)part[5]))
        return 1;
    for (size_t i = 0; i + 5 <= n; i++)
        if (strncmp(part + i, "_cell", 5) == 0)
            return 1;
    return 0;
}

/* name[0..n) without a variable of Keras 1 at its end; n if there is none. */
static size_t flat_owner(const char *name, size_t n)
{
    for (size_t k = 0; k < sizeof flat_variables / sizeof *flat_variables; k++) {
        const size_t w = strlen(flat_variables[k]);
        if (n > w && strncmp(name + n - w, flat_variables[k], w) == 0)
            return n - w;
    }
    return n;
}

size_t pg__owner_len(const char *name)
{
    const char *slash = strrchr(name, '/');
    if (!slash) { /* Keras 1; a second build ends in "_1:0" */
        const size_t n = strcspn(name, ":");
        size_t end = n;
        while (end && isdigit((unsigned char)name[end - 1]))
            end--;
        const size_t first = flat_owner(name, n);
        return first != n || end == n || end == 0 || name[end - 1] != '_'
                   ? first
                   : flat_owner(name, end - 1);
    }
    size_t n = (size_t)(slash - name);
    for (;;) {
        size_t start = n;
        while (start && name[start - 1] != '/')
            start--;
        if (start == 0 || !is_inner(name + start, n - start))
            return n;
        n = start - 1;
    }
}

size_t pg__path_len(const char *path, size_t n)
{
    return pg__without_slashes(path, n);
}

size_t pg__layer_len(const char *name)
{
    return pg__path_len(name, strlen(name));
}

/* "d1/kernel:0", "d1_2/kernel:0" and "d1_W:0" belong to d1; "kernel" (Keras 3.0) to any layer. */
static int is_own_name(const char *weight, const char *layer)
{
    const size_t n = pg__layer_len(layer);
    const size_t owner = pg__owner_len(weight);
    if (!strchr(weight, '/') && !strchr(weight, ':'))
        return 1;
    if (strncmp(weight, layer, n) == 0 &&
        (weight[n] == '/' || (weight[n] == '_' && !strchr(weight, '/'))))
        return 1;
    if (!strchr(weight, '/') && is_inner(weight, strlen(weight)))
        return 1; /* Keras 1: forward_lstm_1_W_i:0 in bidirectional_1 */
    return owner > n && strncmp(weight, layer, n) == 0 && weight[n] == '_' &&
           strspn(weight + n + 1, "0123456789") == owner - n - 1;
}

/* tf.keras 1.8 numbers both separately: layer dense_2 holds dense_1/kernel:0. A single owner of the
 * layer's own kind is the layer. */
static int has_one_owner_of_its_kind(const pg_store *s, const pg_layer *l)
{
    const char *first = pg_store_weight(s, l->first)->name;
    const size_t n = pg__owner_len(first), stem = pg__stem_len(l->name);
    if (n < stem || strncmp(first, l->name, stem) != 0 || !strchr(first, '/'))
        return 0;
    if (n > stem && (first[stem] != '_' || strspn(first + stem + 1, "0123456789") != n - stem - 1))
        return 0;
    for (size_t i = l->first; i < l->first + l->n_weights; i++) {
        const char *name = pg_store_weight(s, i)->name;
        if (pg__owner_len(name) != n || strncmp(name, first, n) != 0)
            return 0;
    }
    return 1;
}

static int is_own_layer(const pg_store *s, const pg_layer *l)
{
    if (l->n_weights && has_one_owner_of_its_kind(s, l))
        return 1;
    for (size_t i = l->first; i < l->first + l->n_weights; i++)
        if (!is_own_name(pg_store_weight(s, i)->name, l->name))
            return 0;
    return 1;
}

/* The default name of a class that merges its inputs: "concatenate_1", "merge_1", "average". */
static int has_class_name(const char *name, const char *const *classes)
{
    const size_t n = pg__stem_len(name);
    for (; *classes; classes++)
        if (strlen(*classes) == n && strncasecmp(name, *classes, n) == 0)
            return 1;
    return 0;
}

static int is_join_name(const char *name)
{
    static const char *const classes[] = {"concatenate", "merge", NULL};
    return has_class_name(name, classes);
}

static int is_other_merge_name(const char *name)
{
    static const char *const classes[] = {"average", "add",     "subtract", "multiply",
                                          "maximum", "minimum", "dot",      NULL};
    return has_class_name(name, classes);
}

/* 1 if some path of a weight name, up to any '/', is name[0..n), also without a final _<digits>. */
static int names_path(const char *weight, const char *name, size_t n)
{
    for (const char *slash = strchr(weight, '/'); slash; slash = strchr(slash + 1, '/')) {
        const size_t len = (size_t)(slash - weight);
        if (len < n || strncmp(weight, name, n) != 0)
            continue;
        if (len == n || (weight[n] == '_' && len > n + 1 &&
                         strspn(weight + n + 1, "0123456789") == len - n - 1))
            return 1;
    }
    return 0;
}

static int is_inside(const pg_store *s, const pg_layer *l, const char *name, size_t n)
{
    for (size_t i = l->first; i < l->first + l->n_weights; i++)
        if (names_path(pg_store_weight(s, i)->name, name, n))
            return 1;
    return 0;
}

/* Keras 2.2.3 distinguishes the merges of two outputs of one layer by _1, _2. */
static int is_duplicate_output(const pg_store *s, const pg_layer *l, const char *name,
                               size_t n_merges)
{
    const size_t n = pg__stem_len(name);
    if (name[n] != '_' || n_merges < 2 || !is_inside(s, l, name, n))
        return 0;
    const unsigned long k = strtoul(name + n + 1, NULL, 10);
    return k >= 1 && k <= n_merges;
}

static pg_status sort_out(pg__names *out, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        if (pg_store_layer(s, i)->n_weights && out->n_weighted++ == 0)
            out->layer = i;
    if (out->n_weighted != 1) {
        out->layer = PG_NONE;
        return PG_OK;
    }
    for (size_t i = 0; i < pg_store_n_layers(s); i++) {
        const char *name = pg_store_layer(s, i)->name;
        pg__strs *to = i > out->layer            ? &out->merges
                       : pg__is_slice_name(name) ? &out->slices
                                                 : &out->inputs;
        if (i != out->layer)
            PG_TRY(pg__strs_add(to, name, strlen(name), err));
    }
    const pg_layer *l = pg_store_layer(s, out->layer);
    out->merges_named = out->merges.n > 0;
    for (size_t i = 0; i < out->merges.n; i++) {
        const char *name = out->merges.v[i];
        if (!is_inside(s, l, name, pg__layer_len(name)) &&
            !is_duplicate_output(s, l, name, out->merges.n))
            out->merges_named = 0;
        out->merge_class |= is_join_name(name) || is_other_merge_name(name);
    }
done:
    return st;
}

static pg_status set_template(pg__verdict *v, const char *name, pg_err *err)
{
    v->f.template_name = pg__mem_strdup(name);
    return v->f.template_name ? PG_OK : pg__nomem(err);
}

static pg_status fill_finding(pg__verdict *v, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__names *names = &v->names;
    v->layer = names->layer;
    v->f.replicas = names->slices.n / names->inputs.n;
    for (size_t i = 0; i < names->slices.n; i++)
        if (pg__is_not_one_each(names->slices.v[i]))
            v->f.replicas = 0;
    PG_TRY(set_template(v, pg_store_layer(s, names->layer)->name, err));
    for (size_t i = 0; i < names->slices.n; i++)
        PG_TRY(pg__finding_add(&v->f.slices, &v->f.n_slices, names->slices.v[i], err));
    for (size_t i = 0; i < names->merges.n; i++)
        PG_TRY(pg__finding_add(&v->f.merges, &v->f.n_merges, names->merges.v[i], err));
    PG_TRY(pg__evidence(v, err,
                        "only layer \"%s\" has weights, and they carry the names of other layers",
                        PG_SHOW(v->f.template_name)));
    PG_TRY(pg__evidence(v, err, "before it stand %zu input%s and %zu slices", names->inputs.n,
                        names->inputs.n == 1 ? "" : "s", names->slices.n));
done:
    return st;
}

/* Two or more layers with weights: a single model; nested if it begins with a nested one. */
static pg_status several(pg__verdict *v, const pg_store *s, pg_err *err)
{
    const pg_layer *first = pg_store_layer(s, 0);
    for (size_t i = 0; first->n_weights == 0; i++)
        first = pg_store_layer(s, i);
    if (is_own_layer(s, first))
        return pg__verdict_set(
            v, PG_V_SINGLE, err,
            "not a parallel wrapper, loads as it is (%zu layers hold weights; a wrapper has one)",
            v->names.n_weighted);
    return pg__verdict_set(
        v, PG_V_NESTED, err,
        "nested model \"%s\" (%zu weights) among %zu layers with weights, not a parallel wrapper",
        PG_SHOW(first->name), first->n_weights, v->names.n_weighted);
}

static pg_status by_merges(pg__verdict *v, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__names *names = &v->names;
    PG_TRY(fill_finding(v, s, err));
    for (size_t i = 0; i < names->merges.n; i++)
        if (is_other_merge_name(names->merges.v[i]))
            return pg__verdict_set(
                v, PG_V_NESTED, err,
                "nested model \"%s\", not a parallel wrapper: \"%s\" is not a join of the batch",
                PG_SHOW(v->f.template_name), PG_SHOW(names->merges.v[i]));
    /* With one layer inside, nothing can be misplaced, so a likely wrapper suffices. */
    const int likely = !names->merge_class && pg__has_one_owner(s, names->layer);
    if (!names->merges_named && !likely)
        return pg__verdict_set(v, PG_V_AMBIGUOUS, err,
                               "possibly a parallel wrapper of %zu replicas, possibly a model with "
                               "several views of its input: \"%s\" does not show which",
                               v->f.replicas, PG_SHOW(names->merges.v[0]));
    v->f.certain = names->merges_named;
    v->f.recogniser = pg__named_kind();
    PG_TRY(pg__evidence(v, err, "%s",
                        names->merges_named
                            ? "every layer after it is named like a layer inside it"
                            : "no layer after it has the default name of a merge of another kind"));
    v->f.verdict = PG_V_WRAPPER;
    PG_TRY(pg__describe_wrapper(v, v->f.certain ? "parallel wrapper" : "likely a parallel wrapper",
                                err));
done:
    return st;
}

pg_status pg__judge_names(pg__verdict *v, const pg_store *s, pg_err *err)
{
    pg__names *names = &v->names;
    pg_status st = PG_OK;
    PG_TRY(sort_out(names, s, err));
    if (names->n_weighted != 1)
        return several(v, s, err);
    const pg_layer *l = pg_store_layer(s, names->layer);
    if (is_own_layer(s, l))
        return pg__verdict_set(
            v, PG_V_SINGLE, err,
            "not a parallel wrapper, loads as it is (%zu layers, none is a nested model)",
            pg_store_n_layers(s));
    const size_t k = names->inputs.n ? names->slices.n / names->inputs.n : 0;
    if (k >= 2 && names->slices.n == k * names->inputs.n && names->merges.n)
        return by_merges(v, s, err);
    PG_TRY(set_template(v, l->name, err));
    st = pg__verdict_set(v, PG_V_NESTED, err,
                         "nested model \"%s\" (%zu weights), not a parallel wrapper: %s",
                         PG_SHOW(l->name), l->n_weights,
                         names->merges.n == 0 ? "nothing merges its outputs"
                                              : "no slices of its inputs stand before it");
    v->layer = names->layer;
done:
    return st;
}
