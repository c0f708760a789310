/* view.c - a file's tensors under names that mean the same in every format.
 *
 *   legacy       "conv1/kernel:0" in layer "conv1"       conv1/kernel
 *                "dense_1_W:0" (Keras 1), "kernel"       dense_1/W, dense/kernel
 *   path layout  layers/conv2d/vars/0, called "conv1"    conv1/kernel
 *   others       conv1.weight                            conv1.weight
 *
 * Keras 3.6 and later store the name of a layer in the path layout; for an older .keras its config
 * names it, otherwise the group's own name is used. Variables have numbers there: common classes
 * get their variables' names back, others keep the number (FORMATS.md: "Path layout"). */
#include "wrap/compare/view.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"

const pg_weight *pg__view_weight(const pg__view *v, size_t i)
{
    return pg__store_tensor(v->r.s, v->v[i].src);
}

/* Bytes of a name without the number that TensorFlow appends (":0"). */
static size_t bare_length(const char *name)
{
    const char *colon = strrchr(name, ':');
    const size_t n = strlen(name);
    if (!colon || colon == name || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
        return n;
    return (size_t)(colon - name);
}

static int starts_with(const char *s, const char *prefix, size_t n)
{
    return strncmp(s, prefix, n) == 0;
}

/* ---- legacy layout, and formats without layers ---- */

static void split_flat(pg__seen *t)
{
    const size_t n = t->layer ? strlen(t->layer) : 0;
    const size_t owner = pg__owner_len(t->own);
    const char *dot = t->layer ? NULL : strrchr(t->own, '.');
    if (n && starts_with(t->own, t->layer, n) && t->own[n] == '_' && t->own[n + 1]) {
        t->owner = t->layer, t->n_owner = n, t->var = t->own + n + 1;
    } else if (dot) {
        t->owner = t->own, t->n_owner = (size_t)(dot - t->own), t->var = dot + 1;
    } else if (owner && t->own[owner] == '_' && t->own[owner + 1]) {
        t->owner = t->own, t->n_owner = owner, t->var = t->own + owner + 1;
    } else {
        t->owner = t->layer ? t->layer : "", t->n_owner = n, t->var = t->own;
    }
    t->group = t->owner, t->n_group = t->n_owner;
}

static void split_path(pg__seen *t)
{
    const size_t n = pg__owner_len(t->own);
    const size_t end = pg__path_len(t->own, n);
    size_t start = end;
    while (start && t->own[start - 1] != '/')
        start--;
    t->group = t->own, t->n_group = n;
    t->owner = t->own + start, t->n_owner = end - start;
    t->var = t->own[n] ? t->own + n + 1 : t->own;
}

/* Does the name include its layer: "d1/kernel", "d1_2/kernel" in d1? */
static int says_layer(const pg__seen *t)
{
    const size_t n = pg__layer_len(t->layer);
    const char *rest = t->own + n;
    if (!starts_with(t->own, t->layer, n))
        return 0;
    return *rest == '/' || (*rest == '_' && rest[1 + strspn(rest + 1, "0123456789")] == '/');
}

static pg_status name_plain(pg__seen *t, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str label = {0};
    if (strchr(t->own, '/'))
        split_path(t);
    else
        split_flat(t);
    if (!t->layer || says_layer(t))
        PG_TRY(pg__str_puts(&label, t->own, err));
    else
        PG_TRY(pg__str_printf(&label, err, "%.*s/%s", (int)pg__layer_len(t->layer), t->layer,
                              t->owner == t->layer ? t->var : t->own));
    t->label = label.s;
    return PG_OK;
done:
    pg__str_fini(&label);
    return st;
}

/* ---- path layout ---- */

/* Variables of common classes by their number; '-' stands for one that some versions name
 * differently. Only lists of exactly n variables are certain. */
static const struct {
    const char *group, *part;
    size_t n;
    const char *names;
} known[] = {
    {"dense", "", 1, "kernel"},
    {"dense", "", 2, "kernel bias"},
    {"einsum_dense", "", 1, "kernel"},
    {"einsum_dense", "", 2, "kernel bias"},
    {"conv1d", "", 1, "kernel"},
    {"conv1d", "", 2, "kernel bias"},
    {"conv2d", "", 1, "kernel"},
    {"conv2d", "", 2, "kernel bias"},
    {"conv3d", "", 1, "kernel"},
    {"conv3d", "", 2, "kernel bias"},
    {"conv1d_transpose", "", 2, "kernel bias"},
    {"conv2d_transpose", "", 2, "kernel bias"},
    {"conv3d_transpose", "", 2, "kernel bias"},
    {"separable_conv1d", "", 3, "depthwise_kernel pointwise_kernel bias"},
    {"separable_conv2d", "", 3, "depthwise_kernel pointwise_kernel bias"},
    {"embedding", "", 1, "embeddings"},
    {"batch_normalization", "", 4, "gamma beta moving_mean moving_variance"},
    {"layer_normalization", "", 2, "gamma beta"},
    {"group_normalization", "", 2, "gamma beta"},
    {"p_re_lu", "", 1, "alpha"},
    {"simple_rnn", "cell", 3, "kernel recurrent_kernel bias"},
    {"lstm", "cell", 3, "kernel recurrent_kernel bias"},
    {"gru", "cell", 3, "kernel recurrent_kernel bias"},
    {"multi_head_attention", "query_dense", 2, "query/kernel query/bias"},
    {"multi_head_attention", "key_dense", 2, "key/kernel key/bias"},
    {"multi_head_attention", "value_dense", 2, "value/kernel value/bias"},
    {"multi_head_attention", "output_dense", 2, "attention_output/kernel attention_output/bias"},
};

/* Order in which a layer creates its parts; on disk they are sorted by name. */
static int rank_of(const char *part, size_t n)
{
    static const struct {
        const char *part;
        int rank;
    } ranks[] = {{"layer", 0},       {"", 1},          {"forward_layer", 2}, {"backward_layer", 3},
                 {"query_dense", 2}, {"key_dense", 3}, {"value_dense", 4},   {"output_dense", 5}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (strlen(ranks[i].part) == n && memcmp(ranks[i].part, part, n) == 0)
            return ranks[i].rank;
    return 6;
}

/* The layer that holds what is at path: the group below the innermost container. */
static size_t group_length(const char *path, const char *container)
{
    const size_t word = strlen(container);
    size_t found = 0;
    for (const char *p = path; *p;) {
        const size_t n = strcspn(p, "/");
        const char *next = p + n + (p[n] == '/');
        if (n == word && memcmp(p, container, n) == 0 && *next)
            found = (size_t)(next - path) + strcspn(next, "/");
        p = next;
    }
    return found ? found : strcspn(path, "/");
}

/* Layers of a config by their paths. */
typedef struct known_path {
    char *path;
    const char *name; /* borrowed from the graph */
} known_path;

typedef struct paths {
    known_path *v;
    size_t n, cap;
} paths;

static void paths_fini(paths *l)
{
    for (size_t i = 0; i < l->n; i++)
        pg__mem_free(l->v[i].path);
    pg__mem_free(l->v);
}

/* Depth of models is limited by graph_build.c. */
static pg_status add_model(paths *l, const pg__model *m, const char *container, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs own = {0};
    pg__str inside = {0};
    PG_TRY(pg__layer_paths(&own, m, container, err));
    for (size_t i = 0; i < m->n_layers; i++) {
        char *copy = pg__mem_strdup(own.v[i]);
        if (!copy || pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v)) {
            pg__mem_free(copy);
            st = pg__nomem(err);
            goto done;
        }
        l->v[l->n++] = (known_path){copy, m->layers[i].name};
        if (m->layers[i].model) {
            inside.n = 0;
            PG_TRY(pg__str_printf(&inside, err, "%s/layers", own.v[i]));
            PG_TRY(add_model(l, m->layers[i].model, inside.s, err));
        }
    }
done:
    pg__strs_fini(&own);
    pg__str_fini(&inside);
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const known_path *)a)->path, ((const known_path *)b)->path);
}

/* Only for files that do not name their layers themselves. */
static pg_status paths_of_config(paths *out, const pg__view *v, const char *container, pg_err *err)
{
    const pg__verdict *is = &v->r.v;
    for (size_t i = 0; i < pg_store_n_layers(v->r.s); i++)
        if (pg__v3_layer_name(v->r.s, i))
            return PG_OK;
    if (!is->graph || strcmp(container, "layers") != 0)
        return PG_OK;
    const pg__model *m = v->r.plan.root && is->tmpl ? is->tmpl->model : is->graph->root;
    const pg_status st = add_model(out, m, "layers", err);
    if (st == PG_OK && out->n)
        qsort(out->v, out->n, sizeof *out->v, by_path);
    return st;
}

/* Name of the layer at t->group: as stored, by config, else the last component of its path. */
static void name_owner(pg__seen *t, const char *stored, const paths *l)
{
    const char *name = stored;
    for (size_t lo = 0, hi = l->n; !name && lo < hi;) {
        const size_t mid = lo + (hi - lo) / 2;
        int c = strncmp(t->group, l->v[mid].path, t->n_group);
        c = c ? c : -(l->v[mid].path[t->n_group] != 0);
        if (c == 0)
            name = l->v[mid].name;
        else if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    t->owner = name ? name : t->group;
    t->n_owner = name ? pg__layer_len(name) : t->n_group;
    for (size_t i = 0; !name && i < t->n_group; i++)
        if (t->group[i] == '/') {
            t->owner = t->group + i + 1;
            t->n_owner = t->n_group - i - 1;
        }
}

/* Writes "owner/kernel", or "owner/part/0", into label; t->var is the part after the owner. */
static pg_status name_variable(pg__seen *t, const char *part, size_t n, size_t n_vars, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str label = {0};
    const char *number = strrchr(t->own, '/') ? strrchr(t->own, '/') + 1 : t->own;
    const char *kind = t->group + t->n_group, *names = NULL;
    while (kind > t->group && kind[-1] != '/')
        kind--;
    size_t stem = (size_t)(t->group + t->n_group - kind), k = (size_t)strtoul(number, NULL, 10);
    while (stem && isdigit((unsigned char)kind[stem - 1]))
        stem--;
    stem = stem && kind[stem - 1] == '_' && kind[stem] ? stem - 1
                                                       : (size_t)(t->group + t->n_group - kind);
    const char *bare = part + (n && *part == '_');
    const size_t n_bare = n - (size_t)(bare - part);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].n == n_vars && strlen(known[i].group) == stem &&
            starts_with(kind, known[i].group, stem) && strlen(known[i].part) == n_bare &&
            starts_with(bare, known[i].part, n_bare))
            names = known[i].names;
    if (!isdigit((unsigned char)*number))
        names = NULL; /* a layer that saves under names of its own */
    for (; names && k && (names = strchr(names, ' ')); k--)
        names++;
    PG_TRY(pg__str_add(&label, t->owner, t->n_owner, err));
    PG_TRY(pg__str_puts(&label, "/", err));
    if (names) {
        PG_TRY(pg__str_add(&label, names, strcspn(names, " "), err));
    } else {
        PG_TRY(pg__str_add(&label, part, n, err));
        PG_TRY(pg__str_printf(&label, err, "%s%s", n ? "/" : "", number));
    }
    t->label = label.s;
    t->var = names ? label.s + t->n_owner + 1 : NULL;
    return PG_OK;
done:
    pg__str_fini(&label);
    return st;
}

static pg_status name_paths(pg__view *v, pg_err *err)
{
    pg_status st = PG_OK;
    paths config = {0};
    const pg__plan *plan = &v->r.plan;
    const char *word = pg__v3_container(v->r.s), *name = NULL, *last = NULL;
    size_t n_last = 0;
    word = word ? word : "layers";
    PG_TRY(paths_of_config(&config, v, word, err));
    for (size_t i = 0; i < plan->n_layers; i++) {
        const pg__plan_layer *l = &plan->layers[i];
        const char *path = strcmp(l->name, "/") ? l->name : "";
        const size_t n = group_length(path, word);
        if (path[n] == 0 || !last || n_last != n || memcmp(path, last, n) != 0) {
            last = path, n_last = n;
            name = path[n] == 0 && l->src != PG_NONE ? pg__v3_layer_name(v->r.s, l->src) : NULL;
        }
        const char *part = path + n + (path[n] == '/');
        for (size_t k = l->first; k < l->first + l->n; k++) {
            pg__seen *t = &v->v[k];
            t->group = path, t->n_group = n;
            t->rank = rank_of(part + (*part == '_'), strcspn(part, "/") - (*part == '_'));
            name_owner(t, name, &config);
            PG_TRY(name_variable(t, part, strlen(part), l->n, err));
        }
    }
done:
    paths_fini(&config);
    return st;
}

/* ---- all ---- */

static int by_group(const void *a, const void *b, void *seen)
{
    const pg__seen *v = seen;
    const size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const size_t n = v[i].n_group < v[k].n_group ? v[i].n_group : v[k].n_group;
    int c = memcmp(v[i].group, v[k].group, n);
    c = c ? c : (v[i].n_group > v[k].n_group) - (v[i].n_group < v[k].n_group);
    c = c ? c : v[i].rank - v[k].rank;
    return c ? c : (i > k) - (i < k);
}

static pg_status number(pg__view *v, pg_err *err)
{
    size_t *order = pg__mem_array(v->n, sizeof *order);
    if (!order)
        return pg__nomem(err);
    for (size_t i = 0; i < v->n; i++)
        order[i] = i;
    pg__sort(order, v->n, sizeof *order, by_group, v->v);
    for (size_t i = 1; i < v->n; i++) {
        const pg__seen *before = &v->v[order[i - 1]];
        pg__seen *t = &v->v[order[i]];
        if (before->n_group == t->n_group && memcmp(before->group, t->group, t->n_group) == 0)
            t->nth = before->nth + 1;
    }
    pg__mem_free(order);
    return PG_OK;
}

/* Plans a wrapper, or takes the file as it is if the order of the template's layers is unknown:
 * names pair tensors anyway. */
static pg_status make_plan(pg__view *v, pg_err *err)
{
    const pg_unwrap_opts weights_only = {.weights_only = 1, .like = v->like};
    pg_err why = {0};
    const pg_verdict is = v->r.v.f.verdict;
    v->r.plan.src = v->r.s;
    v->unwrapped = is == PG_V_WRAPPER || (is == PG_V_AMBIGUOUS && pg_store_n_layers(v->r.s));
    if (is == PG_V_WRAPPER) {
        const pg_status st = pg__store_has_paths(v->r.s)
                                 ? pg__unwrap_paths(&v->r, &weights_only, &why)
                                 : pg__plan_unwrap(&v->r, &weights_only, &why);
        v->planned = st == PG_OK;
        if (st == PG_OK)
            return PG_OK;
        if (st != PG_E_AMBIGUOUS && st != PG_E_NO && st != PG_E_MISMATCH &&
            st != PG_E_UNSUPPORTED) {
            if (err)
                *err = why;
            return st;
        }
        pg__plan_fini(&v->r.plan);
    }
    return pg__plan_copy_of(&v->r.plan, v->r.s, err);
}

/* The layer of the whole template says nothing about the tensors in it. */
static int is_template(const pg__view *v, const pg__plan_layer *l)
{
    const pg__verdict *is = &v->r.v;
    return v->unwrapped && l->src != PG_NONE && (l->src == is->layer || l->src == is->names.layer);
}

pg_status pg__view_fill(pg__view *v, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__plan *plan = &v->r.plan;
    if (v->r.v.f.verdict == PG_V_DAMAGED)
        return pg_fail(err, PG_E_FORMAT, "%s", v->r.v.f.reason);
    PG_TRY(make_plan(v, err));
    v->v = pg__mem_array(plan->n_items, sizeof *v->v);
    if (!v->v)
        return pg__nomem(err);
    v->n = plan->n_items;
    for (size_t i = 0; i < v->n; i++) {
        const char *name = plan->items[i].name;
        v->v[i] = (pg__seen){.src = plan->items[i].src};
        v->v[i].own = pg__mem_strndup(name, bare_length(name));
        if (!v->v[i].own)
            return pg__nomem(err);
    }
    for (size_t i = 0; i < plan->n_layers; i++)
        for (size_t k = 0; k < plan->layers[i].n; k++) {
            pg__seen *t = &v->v[plan->layers[i].first + k];
            t->layer = is_template(v, &plan->layers[i]) ? NULL : plan->layers[i].name;
            t->nth_in_layer = k;
        }
    if (pg__store_has_paths(v->r.s))
        PG_TRY(name_paths(v, err));
    else
        for (size_t i = 0; i < v->n; i++)
            PG_TRY(name_plain(&v->v[i], err));
    PG_TRY(number(v, err));
done:
    return st;
}

pg_status pg__view_open(pg__view *out, const char *path, const pg_open_opts *how, pg_err *err)
{
    pg_write_opts write = {.part = how->part, .rules = how->rules};
    out->r.in = path;
    out->r.write = &write;
    pg_status st = pg__rewrite_open(&out->r, err);
    out->r.write = NULL;
    if (st != PG_OK)
        return st;
    st = pg__view_fill(out, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    return st;
}

void pg__view_fini(pg__view *v)
{
    for (size_t i = 0; i < v->n; i++) {
        pg__mem_free((void *)(uintptr_t)v->v[i].own);
        pg__mem_free(v->v[i].label);
    }
    pg__mem_free(v->v);
    pg__rewrite_fini(&v->r);
    *v = (pg__view){0};
}
