/* convert_slots.c - where each variable of a model lies in the path layout, and what it is called
 * in a legacy file (FORMATS.md: "Path layout"; checked against files of Keras 2.15 and 3.6).
 *
 * Keras names a group after the layer's class and counts repeats of a class within one model.
 * Layers that keep their variables in an inner object (a recurrent layer's cell, a wrapper's layer)
 * have a group for each of these on the way. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "wrap/convert/convert.h"

typedef struct placing {
    pg__slots *s;
    const pg__leaf *leaf;
    size_t i_leaf;
    int file_dialect; /* of the description */
    int dialect;      /* whose words are used */
    pg__strs lacking; /* layers that cannot be placed, with the reason */
    pg_err *err;
} placing;

/* A layer, or what stands inside of one: its group and its names' prefix. */
typedef struct spot {
    const pg__layer *layer;
    const char *path, *scope, *object;
    size_t first, n; /* its part of the leaf's variables */
} spot;

/* What is added to them where something stands inside of another. */
typedef struct inward {
    const char *path, *scope, *object; /* "": no such step */
} inward;

const char *pg__modern_class(const char *name)
{
    static const char *const renamed[][2] = {{"Model", "Functional"},
                                             {"Convolution1D", "Conv1D"},
                                             {"Convolution2D", "Conv2D"},
                                             {"Convolution3D", "Conv3D"},
                                             {"AtrousConvolution1D", "Conv1D"},
                                             {"AtrousConvolution2D", "Conv2D"},
                                             {"Deconvolution2D", "Conv2DTranspose"},
                                             {"Deconvolution3D", "Conv3DTranspose"},
                                             {"SeparableConvolution1D", "SeparableConv1D"},
                                             {"SeparableConvolution2D", "SeparableConv2D"},
                                             {"BatchNormalizationV1", "BatchNormalization"},
                                             {"BatchNormalizationV2", "BatchNormalization"},
                                             {"UnifiedLSTM", "LSTM"},
                                             {"UnifiedGRU", "GRU"},
                                             {"GroupedQueryAttention", "GroupQueryAttention"}};
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(name, renamed[i][0]) == 0)
            return renamed[i][1];
    return name;
}

static pg_status lack(placing *p, const char *why)
{
    return pg__strs_printf(&p->lacking, p->err, "%s (%s): %s", PG_SHOW(p->leaf->layer->name),
                           PG_SHOW(p->leaf->layer->class_name), why);
}

/* ---- slots ---- */

static pg_status add_slot(placing *p, const pg__slot *like, const spot *at, size_t index)
{
    pg_status st = PG_OK;
    pg__str path = {0}, name = {0}, object = {0};
    pg_err *err = p->err;
    pg__slots *s = p->s;
    PG_TRY(pg__str_printf(&path, err, "%s/vars/%zu", at->path, index));
    PG_TRY(pg__str_printf(&name, err, "%s/%s:0", at->scope, like->kind));
    PG_TRY(pg__str_printf(&object, err, "%s/%s", at->object, like->kind));
    if (pg__mem_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v)) {
        st = pg__nomem(err);
        goto done;
    }
    s->v[s->n] = *like;
    s->v[s->n].path = path.s;
    s->v[s->n].object = object.s;
    s->v[s->n++].name = name.s;
    path = name = object = (pg__str){0};
done:
    pg__str_fini(&path);
    pg__str_fini(&name);
    pg__str_fini(&object);
    return st;
}

/* Keras 1 stores three arrays per gate; later versions store one per kind for all gates. */
static pg_status place_gates(placing *p, const spot *at)
{
    static const char *const kinds[] = {"kernel", "recurrent_kernel", "bias"};
    pg_status st = PG_OK;
    for (size_t k = 0; st == PG_OK && k < 3; k++) {
        const pg__slot one = {.leaf = p->i_leaf,
                              .var = at->first + k,
                              .n_gates = (uint32_t)(at->n / 3),
                              .kind = kinds[k],
                              .trainable = p->leaf->trainable};
        st = add_slot(p, &one, at, k);
    }
    return st;
}

static const char *modern_kind(const char *name)
{
    static const char *const old[][2] = {{"W", "kernel"}, {"U", "recurrent_kernel"}, {"b", "bias"}};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(name, old[i][0]) == 0)
            return old[i][1];
    return name;
}

/* Variables in at's own `vars`: those that were created trainable come first. */
static pg_status place_own(placing *p, const spot *at)
{
    pg_status st = PG_OK;
    const pg__vars *vars = &p->leaf->vars;
    if (p->dialect > 1 && at->n > 3 && strncmp(vars->v[at->first].name, "W_", 2) == 0)
        return place_gates(p, at);
    for (size_t i = at->first; st == PG_OK && i < at->first + at->n; i++) {
        size_t index = 0;
        for (size_t k = at->first; k < at->first + at->n; k++)
            index += vars->v[k].trainable > vars->v[i].trainable ||
                     (vars->v[k].trainable == vars->v[i].trainable && k < i);
        const pg__slot one = {.leaf = p->i_leaf,
                              .var = i,
                              .n_gates = 1,
                              .kind =
                                  p->dialect > 1 ? modern_kind(vars->v[i].name) : vars->v[i].name,
                              .trainable = p->leaf->trainable && vars->v[i].trainable};
        st = add_slot(p, &one, at, index);
    }
    return st;
}

/* Puts the n variables from first on one step deeper. */
static pg_status place_below(placing *p, const spot *at, const pg__layer *layer, inward step,
                             size_t first, size_t n);

static pg_status place_model(placing *p, const spot *at, const pg__model *m);

static const char *const recurrent[] = {"SimpleRNN",  "LSTM",       "GRU",
                                        "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"};

static pg_status place_recurrent(placing *p, const spot *at, const char *class_name)
{
    pg_status st = PG_OK;
    pg_err *err = p->err;
    pg__str word = {0};
    PG_TRY(pg__v3_snake(&word, class_name, err));
    PG_TRY(pg__str_puts(&word, "_cell", err));
    PG_TRY(place_below(p, at, NULL, (inward){"cell", word.s, "cell"}, at->first, at->n));
done:
    pg__str_fini(&word);
    return st;
}

static pg_status count_vars(size_t *n, const pg__layer *l, int dialect, pg_err *err)
{
    pg__vars vars = {0};
    const pg_status st = pg__layer_vars(&vars, l, dialect, err);
    *n = vars.n;
    pg__vars_fini(&vars);
    return st;
}

static pg_status place_bidirectional(placing *p, const spot *at)
{
    pg_status st = PG_OK;
    size_t n = 0;
    const pg__json *other = pg__json_get(at->layer->config, "backward_layer");
    pg__layer backward = *at->layer->inner;
    if (pg__json_get_str(other, "class_name"))
        backward.class_name = pg__json_get_str(other, "class_name");
    PG_TRY(count_vars(&n, at->layer->inner, p->file_dialect, p->err));
    if (n > at->n)
        return lack(p, "its two directions differ");
    const pg__var *v = p->leaf->vars.v + at->first;
    if (n)
        PG_TRY(place_below(p, at, at->layer->inner,
                           (inward){"forward_layer", v[0].sub, "forward_layer"}, at->first, n));
    if (n < at->n)
        PG_TRY(place_below(p, at, &backward,
                           (inward){"backward_layer", v[n].sub, "backward_layer"}, at->first + n,
                           at->n - n));
done:
    return st;
}

/* RNN(cell) and RNN([cells]): cells are numbered by class like layers. */
static pg_status place_cells(placing *p, const spot *at)
{
    pg_status st = PG_OK;
    pg_err *err = p->err;
    pg__str step = {0}, word = {0}, snake = {0}, object = {0};
    const pg__json *cell = pg__json_get(at->layer->config, "cell");
    const pg__json *list = pg__json_get(pg__json_get(cell, "config"), "cells");
    const size_t n_cells = list ? pg__json_len(list) : 1;
    size_t first = at->first;
    for (size_t i = 0; i < n_cells; i++) {
        const pg__json *entry = list ? pg__json_at(list, i) : cell;
        const pg__layer one = {.name = "",
                               .class_name = pg__json_get_str(entry, "class_name"),
                               .config = pg__json_get(entry, "config"),
                               .trainable = 1};
        size_t n = 0, before = 0;
        if (!one.class_name || !one.config) {
            st = lack(p, "a cell without a class");
            goto done;
        }
        PG_TRY(count_vars(&n, &one, p->file_dialect, err));
        for (size_t k = 0; list && k < i; k++) {
            const char *other = pg__json_get_str(pg__json_at(list, k), "class_name");
            before += other && strcmp(other, one.class_name) == 0;
        }
        snake.n = step.n = word.n = object.n = 0;
        PG_TRY(pg__v3_snake(&snake, one.class_name, err));
        PG_TRY(pg__str_puts(&step, list ? "cell/cells/" : "cell", err));
        PG_TRY(pg__str_printf(&word, err, "%s%s", list ? "stacked_rnn_cells/" : "",
                              first < at->first + at->n ? p->leaf->vars.v[first].sub : ""));
        if (list)
            PG_TRY(pg__str_puts(&step, snake.s, err));
        if (list && before)
            PG_TRY(pg__str_printf(&step, err, "_%zu", before));
        PG_TRY(list ? pg__str_printf(&object, err, "cell/cells/%zu", i)
                    : pg__str_puts(&object, "cell", err));
        PG_TRY(place_below(p, at, NULL, (inward){step.s, word.s, object.s}, first, n));
        first += n;
    }
done:
    pg__str_fini(&object);
    pg__str_fini(&step);
    pg__str_fini(&word);
    pg__str_fini(&snake);
    return st;
}

/* Keras 2 calls them by the private attribute, _query_dense; so does Keras 3 where it has no public
 * one, in GroupQueryAttention. */
static pg_status place_attention(placing *p, const spot *at, int public)
{
    static const char *const steps[][2] = {{"query", "_query_dense"},
                                           {"key", "_key_dense"},
                                           {"value", "_value_dense"},
                                           {"attention_output", "_output_dense"}};
    pg_status st = PG_OK;
    for (size_t i = at->first, end; st == PG_OK && i < at->first + at->n; i = end) {
        const char *sub = p->leaf->vars.v[i].sub;
        size_t k = 0;
        for (end = i + 1; end < at->first + at->n && p->leaf->vars.v[end].sub == sub;)
            end++;
        while (k < 3 && strcmp(steps[k][0], sub) != 0)
            k++;
        st = place_below(p, at, NULL, (inward){steps[k][1] + public, sub, steps[k][1]}, i, end - i);
    }
    return st;
}

/* Keras' attribute `kernel` is the inner layer's, and stored with the wrapper's own again. */
static pg_status place_spectral(placing *p, const spot *at)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    const size_t before = p->s->n;
    const spot own = {at->layer, at->path, at->scope, at->object, at->first + at->n - 1, 1};
    PG_TRY(place_below(p, at, at->layer->inner, (inward){"layer", "", "layer"}, at->first,
                       at->n - 1));
    for (size_t i = before; i < p->s->n; i++)
        if (strcmp(p->s->v[i].kind, "kernel") == 0 || strcmp(p->s->v[i].kind, "embeddings") == 0) {
            PG_TRY(pg__str_printf(&path, p->err, "%s/vars/0", at->path));
            p->s->v[i].copy = path.s;
            path = (pg__str){0};
            break;
        }
    const pg__slot u = {.leaf = p->i_leaf, .var = own.first, .n_gates = 1, .kind = "vector_u"};
    PG_TRY(add_slot(p, &u, &own, 1));
done:
    pg__str_fini(&path);
    return st;
}

static pg_status place(placing *p, const spot *at)
{
    const char *class_name = at->layer ? pg__modern_class(at->layer->class_name) : "";
    if (at->layer && pg__config_has(at->layer, "lora_rank"))
        return lack(p, "it has an adapter (lora_rank)");
    if (strcmp(class_name, "SpectralNormalization") == 0 && at->layer->inner && at->n > 1)
        return place_spectral(p, at);
    if (at->layer && pg__stores_otherwise(at->layer))
        return lack(p, "this class has no counterpart, or stores its variables in another way");
    if (PG_IS_ANY(class_name, recurrent))
        return place_recurrent(p, at, class_name);
    if (strcmp(class_name, "RNN") == 0)
        return place_cells(p, at);
    if (strcmp(class_name, "GroupQueryAttention") == 0)
        return place_attention(p, at, 0);
    if (strcmp(class_name, "MultiHeadAttention") == 0) {
        p->s->attention = 1;
        return place_attention(p, at, p->dialect == 3);
    }
    if (strcmp(class_name, "Bidirectional") == 0 && at->layer->inner && !at->layer->inner->model)
        return place_bidirectional(p, at);
    if (strcmp(class_name, "TimeDistributed") == 0 && at->layer->inner)
        return at->layer->inner->model
                   ? place_model(p, at, at->layer->inner->model)
                   : place_below(p, at, at->layer->inner, (inward){"layer", "", "layer"}, at->first,
                                 at->n);
    return place_own(p, at);
}

static pg_status place_below(placing *p, const spot *at, const pg__layer *layer, inward step,
                             size_t first, size_t n)
{
    pg_status st = PG_OK;
    pg_err *err = p->err;
    pg__str path = {0}, scope = {0}, object = {0};
    PG_TRY(pg__str_printf(&path, err, "%s/%s", at->path, step.path));
    PG_TRY(pg__str_printf(&scope, err, "%s%s%s", at->scope, *step.scope ? "/" : "", step.scope));
    PG_TRY(pg__str_printf(&object, err, "%s/%s", at->object, step.object));
    const spot below = {layer, path.s, scope.s, object.s, first, n};
    PG_TRY(place(p, &below));
done:
    pg__str_fini(&path);
    pg__str_fini(&scope);
    pg__str_fini(&object);
    return st;
}

/* ---- groups ---- */

/* How often each snake case was met in one container. */
typedef struct counts {
    pg__strs words;
    size_t *n, cap;
} counts;

static pg_status next_group(pg__str *out, counts *c, const char *container, const char *class_name,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__str word = {0};
    PG_TRY(pg__v3_snake(&word, pg__modern_class(class_name), err));
    size_t k = pg__strs_find(&c->words, word.s);
    if (k == PG_NONE) {
        k = c->words.n;
        if (pg__mem_grow(&c->n, &c->cap, k + 1, sizeof *c->n)) {
            st = pg__nomem(err);
            goto done;
        }
        PG_TRY(pg__strs_add(&c->words, word.s, word.n, err));
        c->n[k] = 0;
    }
    out->n = 0;
    PG_TRY(pg__str_printf(out, err, "%s/%s", container, word.s));
    if (c->n[k])
        PG_TRY(pg__str_printf(out, err, "_%zu", c->n[k]));
    c->n[k]++;
done:
    pg__str_fini(&word);
    return st;
}

static pg_status add_group(pg__slots *s, const char *path, const pg__layer *l, pg_err *err)
{
    pg__slot_group g = {pg__mem_strdup(path), pg__mem_strdup(l->name), l};
    if (!g.path || !g.label ||
        pg__mem_grow(&s->groups, &s->cap_groups, s->n_groups + 1, sizeof *s->groups)) {
        pg__mem_free(g.path);
        pg__mem_free(g.label);
        return pg__nomem(err);
    }
    s->groups[s->n_groups++] = g;
    return PG_OK;
}

static pg_status place_leaf(placing *p, const char *path, const char *object, const pg__layer *l)
{
    pg__slots *s = p->s;
    p->leaf = &s->leaves.v[p->i_leaf];
    s->first[p->i_leaf] = s->n;
    s->leaf_path[p->i_leaf] = pg__mem_strdup(path);
    if (!s->leaf_path[p->i_leaf])
        return pg__nomem(p->err);
    const spot at = {l, path, l->name, object, 0, p->leaf->vars.n};
    const pg_status st = p->leaf->vars.known ? place(p, &at) : PG_OK;
    s->first[++p->i_leaf] = s->n;
    return st;
}

static void counts_fini(counts *c)
{
    pg__strs_fini(&c->words);
    pg__mem_free(c->n);
}

/* What TensorFlow calls layer i of a model: a Sequential's layers are those without its input. */
static pg_status object_step(pg__str *out, const char *object, const pg__model *m, size_t i,
                             pg_err *err)
{
    size_t n = i;
    for (size_t k = 0; m->sequential && k < i; k++)
        n -= strcmp(m->layers[k].class_name, "InputLayer") == 0;
    out->n = 0;
    return pg__str_printf(out, err, "%s%slayer-%zu", object, *object ? "/" : "", n);
}

/* The layers of a model from variable *first on; its groups stand below path. */
static pg_status place_layers(placing *p, const spot *at, const pg__model *m, const char *path,
                              const char *object, size_t *first)
{
    pg_status st = PG_OK;
    pg_err *err = p->err;
    counts seen = {0};
    pg__str container = {0}, group = {0}, scope = {0}, inner = {0};
    PG_TRY(pg__str_printf(&container, err, "%s/layers", path));
    for (size_t i = 0; i < m->n_layers; i++) {
        const pg__layer *l = &m->layers[i];
        size_t n = 0;
        PG_TRY(next_group(&group, &seen, container.s, l->class_name, err));
        PG_TRY(add_group(p->s, group.s, l, err));
        PG_TRY(object_step(&inner, object, m, i, err));
        if (l->model) {
            PG_TRY(place_layers(p, at, l->model, group.s, inner.s, first));
            continue;
        }
        PG_TRY(count_vars(&n, l, p->file_dialect, err));
        scope.n = 0;
        PG_TRY(pg__str_printf(&scope, err, "%s/%s", at->scope, l->name));
        const spot below = {l, group.s, scope.s, inner.s, *first, n};
        PG_TRY(place(p, &below));
        *first += n;
    }
done:
    counts_fini(&seen);
    pg__str_fini(&container);
    pg__str_fini(&group);
    pg__str_fini(&scope);
    pg__str_fini(&inner);
    return st;
}

/* A model that a layer wraps. graph_build.c lets no model be deeper than PG_LIMIT_MODEL_DEPTH. */
static pg_status place_model(placing *p, const spot *at, const pg__model *m)
{
    size_t first = at->first;
    pg__str path = {0}, object = {0};
    pg_status st = pg__str_printf(&path, p->err, "%s/layer", at->path);
    if (st == PG_OK)
        st = pg__str_printf(&object, p->err, "%s/layer", at->object);
    if (st == PG_OK)
        st = place_layers(p, at, m, path.s, object.s, &first);
    pg__str_fini(&path);
    pg__str_fini(&object);
    return st;
}

typedef struct level {
    const pg__model *m;
    size_t next;
    counts seen;
    pg__str container, object;
} level;

static pg_status walk(placing *p, const pg__model *root)
{
    level stack[PG_LIMIT_MODEL_DEPTH + 2] = {{0}}; /* graph_build.c lets no model be deeper */
    size_t depth = 1;
    pg_status st = PG_OK;
    pg_err *err = p->err;
    pg__str path = {0}, object = {0};
    stack[0].m = root;
    PG_TRY(pg__str_puts(&stack[0].container, "layers", err));
    PG_TRY(pg__str_puts(&stack[0].object, "", err));
    while (depth > 0) {
        level *at = &stack[depth - 1];
        if (at->next == at->m->n_layers) {
            counts_fini(&at->seen);
            pg__str_fini(&at->container);
            pg__str_fini(&at->object);
            *at = (level){0};
            depth--;
            continue;
        }
        PG_TRY(object_step(&object, at->object.s, at->m, at->next, err));
        const pg__layer *l = &at->m->layers[at->next++];
        PG_TRY(next_group(&path, &at->seen, at->container.s, l->class_name, err));
        PG_TRY(add_group(p->s, path.s, l, err));
        if (l->model) {
            stack[depth].m = l->model;
            PG_TRY(pg__str_puts(&stack[depth].object, object.s, err));
            PG_TRY(pg__str_printf(&stack[depth++].container, err, "%s/layers", path.s));
        } else if (strcmp(l->class_name, "InputLayer") != 0) {
            PG_TRY(place_leaf(p, path.s, object.s, l));
        }
    }
done:
    for (size_t i = 0; i < sizeof stack / sizeof *stack; i++) {
        counts_fini(&stack[i].seen);
        pg__str_fini(&stack[i].container);
        pg__str_fini(&stack[i].object);
    }
    pg__str_fini(&path);
    pg__str_fini(&object);
    return st;
}

pg_status pg__slots_of(pg__slots *out, const pg__graph *g, int dialect, pg_err *err)
{
    pg_status st = PG_OK;
    pg__slots s = {0};
    placing p = {.s = &s, .dialect = dialect, .file_dialect = g->dialect, .err = err};
    PG_TRY(pg__leaves_of(&s.leaves, g->root, g->dialect, err));
    s.first = pg__mem_array(s.leaves.n + 1, sizeof *s.first);
    s.leaf_path = pg__mem_array(s.leaves.n + 1, sizeof *s.leaf_path);
    if (!s.first || !s.leaf_path) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(walk(&p, g->root));
    if (p.lacking.n) {
        st = pg_fail(err, PG_E_UNSUPPORTED, "%zu layer%s no place in the other layout", p.lacking.n,
                     p.lacking.n == 1 ? " has" : "s have");
        for (size_t i = 0; i < p.lacking.n; i++)
            pg_err_detail(err, "%s", p.lacking.v[i]);
        goto done;
    }
    *out = s;
    s = (pg__slots){0};
done:
    pg__strs_fini(&p.lacking);
    pg__slots_fini(&s);
    return st;
}

void pg__slots_fini(pg__slots *s)
{
    for (size_t i = 0; i < s->n; i++) {
        pg__mem_free(s->v[i].path);
        pg__mem_free(s->v[i].object);
        pg__mem_free(s->v[i].copy);
        pg__mem_free(s->v[i].name);
    }
    for (size_t i = 0; i < s->n_groups; i++) {
        pg__mem_free(s->groups[i].path);
        pg__mem_free(s->groups[i].label);
    }
    for (size_t i = 0; s->leaf_path && i < s->leaves.n; i++)
        pg__mem_free(s->leaf_path[i]);
    pg__mem_free(s->leaf_path);
    pg__mem_free(s->first);
    pg__mem_free(s->v);
    pg__mem_free(s->groups);
    pg__leaves_fini(&s->leaves);
    *s = (pg__slots){0};
}
