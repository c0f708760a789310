/* graph_build.c - makes layers from the model JSON (FORMATS.md: "Model JSON"): finds models, the
 * names of layers, and their byte ranges. Models nest: a work list expands them, without recursion
 * and down to a limit. The parsed JSON and the text are walked side by side, so that all byte
 * ranges of one level cost one pass over its bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/try.h"
#include "model/graph/graph_impl.h"

typedef struct todo {
    pg__layer *layer; /* its config may hold a model or an inner layer to build */
    unsigned depth;
} todo;

typedef struct build {
    pg__graph *g;
    todo *list;
    size_t n, cap;
    pg_err *err;
} build;

static int is_one_of(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(s, *words) == 0)
            return 1;
    return 0;
}

/* 1 if every element of list is an object with a class_name: a list of layers. */
static int are_layers(const pg__json *list)
{
    const size_t n = pg__json_len(list);
    for (size_t i = 0; i < n; i++)
        if (!pg__json_get_str(pg__json_at(list, i), "class_name"))
            return 0;
    return n > 0;
}

/* The list of layers if class and config are those of a model, else NULL. */
static const pg__json *layers_of(const char *class_name, const pg__json *config, int is_root)
{
    static const char *const models[] = {"Sequential", "Model",   "Functional",
                                         "Container",  "Network", NULL};
    const int by_class = is_one_of(class_name, models) || is_root;
    if (pg__json_type_of(config) == PG_J_ARRAY)
        return by_class || are_layers(config) ? config : NULL;
    const pg__json *list = pg__json_get(config, "layers");
    if (pg__json_type_of(list) != PG_J_ARRAY)
        return NULL;
    if (by_class || pg__json_get(config, "input_layers"))
        return list;
    /* A subclass of Sequential, or the Merge that Keras 1 puts in front of one. Other classes may
     * keep layers of their own in a list of this name; they are opaque. */
    const char *first = pg__json_get_str(pg__json_at(list, 0), "class_name");
    if (!are_layers(list))
        return NULL;
    if (strcmp(class_name, "Merge") == 0 || strcmp(first, "InputLayer") == 0 ||
        pg__json_get(config, "build_input_shape"))
        return list;
    return NULL;
}

static int is_sequential(const char *class_name, const pg__json *config)
{
    if (strcmp(class_name, "Merge") == 0)
        return 0;
    return pg__json_type_of(config) == PG_J_ARRAY || !pg__json_get(config, "input_layers");
}

static pg_status add_model(build *b, pg__layer *of, pg__model **out)
{
    pg__graph *g = b->g;
    pg__model *m = pg__mem_array(1, sizeof *m);
    if (!m || pg__mem_grow(&g->models, &g->cap_models, g->n_models + 1, sizeof *g->models)) {
        pg__mem_free(m);
        return pg__nomem(b->err);
    }
    g->models[g->n_models++] = m;
    m->class_name = of->class_name;
    m->name = pg__json_get_str(of->config, "name");
    m->sequential = is_sequential(of->class_name, of->config);
    m->config_span = of->config_span;
    of->model = m;
    *out = m;
    return PG_OK;
}

static pg_status later(build *b, pg__layer *layer, unsigned depth)
{
    if (depth > PG_LIMIT_MODEL_DEPTH)
        return pg_fail(b->err, PG_E_LIMIT, "%s: models nested deeper than %u levels",
                       layer->name ? PG_SHOW(layer->name) : "model", PG_LIMIT_MODEL_DEPTH);
    if (pg__mem_grow(&b->list, &b->cap, b->n + 1, sizeof *b->list))
        return pg__nomem(b->err);
    b->list[b->n++] = (todo){layer, depth};
    return PG_OK;
}

/* Span of the member `key` of the object at `in`. */
static pg__json_span member(const pg__graph *g, pg__json_span in, const char *key)
{
    const pg__json_span none = {0};
    pg__json_walk w = pg__json_walk_of(g->text, in);
    while (w.is_object && pg__json_walk_next(&w))
        if (pg__json_key_is(g->text, w.key, key))
            return w.value;
    return none;
}

/* Keras 3 lists operations like layers. A .h5 lacks their modules; but every layer says whether it
 * is trainable, and has its name in its config. */
static int is_op(const pg__layer *l, const pg__json *entry)
{
    const int keras3 =
        pg__json_get(pg__json_at(pg__json_get(entry, "inbound_nodes"), 0), "args") != NULL;
    if (l->module)
        return strstr(l->module, ".ops.") != NULL;
    return (strcmp(l->class_name, "Cast") == 0 && !pg__json_get(l->config, "name")) ||
           (keras3 && !pg__json_get(l->config, "trainable") && !pg__json_get(l->config, "layers"));
}

/* Fills in l, except its name, calls and contents, from its entry in the JSON. */
static pg_status read_entry(build *b, pg__layer *l, const pg__json *entry, pg__json_span span,
                            size_t i)
{
    const char *class_name = pg__json_get_str(entry, "class_name");
    const char *name = pg__json_get_str(entry, "name");
    const pg__json *config = pg__json_get(entry, "config");
    if (!class_name)
        return pg_fail(b->err, PG_E_FORMAT, "layers[%zu]: no \"class_name\"", i);
    if (!name)
        name = pg__json_get_str(config, "name");
    l->class_name = class_name;
    l->name = name;
    const char *shown = name ? name : class_name;
    if (name && strlen(name) > PG_LIMIT_NAME_BYTES)
        return pg_fail(b->err, PG_E_LIMIT, "%s: a \"name\" of %zu bytes", PG_SHOW(name),
                       strlen(name));
    const pg__json_type t = pg__json_type_of(config);
    if (t != PG_J_OBJECT && !(t == PG_J_ARRAY && layers_of(class_name, config, 0)))
        return pg_fail(b->err, PG_E_FORMAT, "%s: \"config\" is %s", PG_SHOW(shown),
                       t == PG_J_NONE ? "missing" : "not an object");
    l->module = pg__json_get_str(entry, "module");
    l->registered_name = pg__json_get_str(entry, "registered_name");
    l->config = config;
    l->is_op = is_op(l, entry);
    l->entry = span;
    l->config_span = member(b->g, span, "config");
    l->trainable = pg__json_bool(pg__json_get(config, "trainable"), 1);
    return PG_OK;
}

static int compare_names(const void *a, const void *b, void *model)
{
    const pg__model *m = model;
    const size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const int c = strcmp(m->layers[i].name, m->layers[k].name);
    return c ? c : i < k ? -1 : i > k;
}

/* Sorts the *n named layers into m->by_name. Sorted rather than hashed: no choice of names makes it
 * slow. */
static pg_status sort_names(pg__model *m, size_t *n, pg_err *err)
{
    if (!m->by_name)
        m->by_name = pg__mem_array(m->n_layers, sizeof *m->by_name);
    if (!m->by_name)
        return pg__nomem(err);
    *n = 0;
    for (size_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].name)
            m->by_name[(*n)++] = i;
    pg__sort(m->by_name, *n, sizeof *m->by_name, compare_names, m);
    return PG_OK;
}

static size_t find_among(const pg__model *m, size_t n, const char *name)
{
    for (size_t lo = 0, hi = n; lo < hi;) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = strcmp(name, m->layers[m->by_name[mid]].name);
        if (c == 0)
            return m->by_name[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return SIZE_MAX;
}

size_t pg__model_find(const pg__model *m, const char *name)
{
    return find_among(m, m->n_layers, name);
}

/* "sequential_1" for a layer without a name, as Keras would name it on loading. */
static pg_status make_name(build *b, const pg__model *m, size_t n_named, pg__layer *l,
                           size_t *count)
{
    char base[64];
    size_t n = 0;
    pg_status st = PG_OK;
    for (const char *p = l->class_name; *p && n + 2 < sizeof base; p++) {
        const int upper = *p >= 'A' && *p <= 'Z';
        if (upper && n && p[-1] >= 'a' && p[-1] <= 'z')
            base[n++] = '_';
        base[n++] = (char)(upper ? *p + 32 : *p);
    }
    base[n] = 0;
    for (;;) {
        char name[96];
        snprintf(name, sizeof name, "%s_%zu", base, ++*count);
        if (find_among(m, n_named, name) != SIZE_MAX)
            continue;
        PG_TRY(pg__strs_add(&b->g->names, name, strlen(name), b->err));
        l->name = b->g->names.v[b->g->names.n - 1];
        break;
    }
done:
    return st;
}

/* Afterwards every layer of m has a name of its own, and m->by_name finds it. */
static pg_status name_layers(build *b, pg__model *m, int may_lack)
{
    pg_err *err = b->err;
    size_t n_named = 0, n = 0, count = 0;
    pg_status st = PG_OK;
    PG_TRY(sort_names(m, &n_named, b->err));
    for (size_t i = 0; i < m->n_layers && n_named < m->n_layers; i++) {
        pg__layer *l = &m->layers[i];
        if (!l->name && !may_lack)
            PG_FAIL(PG_E_FORMAT, "layers[%zu] (%s): no \"name\"", i, PG_SHOW(l->class_name));
        if (!l->name)
            PG_TRY(make_name(b, m, n_named, l, &count));
    }
    if (n_named < m->n_layers)
        PG_TRY(sort_names(m, &n, b->err));
    for (size_t i = 1; i < m->n_layers; i++) {
        const char *name = m->layers[m->by_name[i]].name;
        if (strcmp(name, m->layers[m->by_name[i - 1]].name) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: two layers of this \"name\"", PG_SHOW(name));
    }
done:
    return st;
}

/* "layer" of a wrapping layer (TimeDistributed, Bidirectional ...), which may be a model itself. */
static pg_status read_inner(build *b, pg__layer *l, unsigned depth)
{
    const pg__json *entry = pg__json_get(l->config, "layer");
    pg_status st = PG_OK;
    if (!pg__json_get_str(entry, "class_name") || !pg__json_get(entry, "config"))
        return PG_OK;
    l->inner = pg__mem_array(1, sizeof *l->inner);
    if (!l->inner)
        return pg__nomem(b->err);
    PG_TRY(read_entry(b, l->inner, entry, member(b->g, l->config_span, "layer"), 0));
    if (!l->inner->name)
        l->inner->name = l->inner->class_name;
    PG_TRY(later(b, l->inner, depth + 1));
done:
    return st;
}

static pg_status read_layers(build *b, pg__model *m, const pg__json *entries, pg__json_span span,
                             unsigned depth)
{
    const size_t n = pg__json_len(entries);
    pg_status st = PG_OK;
    pg__json_walk w = pg__json_walk_of(b->g->text, span);
    m->layers = pg__mem_array(n, sizeof *m->layers);
    if (!m->layers)
        return pg__nomem(b->err);
    m->n_layers = n; /* the rest may fail: zeroed layers can be freed */
    for (size_t i = 0; i < n && pg__json_walk_next(&w); i++) {
        PG_TRY(read_entry(b, &m->layers[i], pg__json_at(entries, i), w.value, i));
        PG_TRY(later(b, &m->layers[i], depth + 1));
    }
done:
    return st;
}

/* Builds the contents of one layer: its model, or the layer that it wraps. */
static pg_status expand(build *b, todo t)
{
    pg_status st = PG_OK;
    pg__layer *l = t.layer;
    pg__model *m = NULL;
    const pg__json *entries = layers_of(l->class_name, l->config, t.depth == 0);
    if (!entries)
        return read_inner(b, l, t.depth);
    const int is_list = entries == l->config;
    PG_TRY(add_model(b, l, &m));
    PG_TRY(read_layers(b, m, entries,
                       is_list ? l->config_span : member(b->g, l->config_span, "layers"), t.depth));
    PG_TRY(name_layers(b, m, is_list || !pg__json_get(l->config, "input_layers")));
    m->config = l->config;
    m->entries = entries;
done:
    return st;
}

pg_status pg__graph_build(pg__graph *g, pg__layer *root, pg_err *err)
{
    build b = {.g = g, .err = err};
    pg_status st = PG_OK;
    PG_TRY(later(&b, root, 0));
    while (b.n > 0)
        PG_TRY(expand(&b, b.list[--b.n]));
    for (size_t i = g->n_models; i-- > 0;) /* inner models first: then their outputs are counted */
        PG_TRY(pg__graph_connect(g->models[i], err));
    g->root = root->model;
done:
    pg__mem_free(b.list);
    return st;
}
