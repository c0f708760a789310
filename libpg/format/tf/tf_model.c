/* tf_model.c - which object of a checkpoint is the model.
 *
 * People call optimizers and metrics as they like (generator_optimizer, kl_loss_tracker), so what
 * an object holds tells what it is. The root is the model itself where Keras or SavedModel wrote
 * the file; that of tf.train.Checkpoint(net=..., optimizer=..., step=...) only holds it, or
 * several. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/tf/tf.h"
#include "store/part_name.h"
#include "store/values.h"

#define MAX_ASKED 8u

/* Edges that lead to what belongs to training. */
static const char *const training[] = {
    "optimizer",     "_optimizer", "metrics",      "_metrics",     "compiled_metrics",
    "compiled_loss", "keras_api",  "save_counter", "loss_tracker", "_loss_tracker"};
static const char *const endings[] = {"optimizer", "_tracker", "_metric"};
static const char *const lists[] = {"variables", "trainable_variables", "non_trainable_variables",
                                    "regularization_losses"};
/* What a root holds that is the model itself: an edge to itself, or those of a SavedModel. */
static const char *const own[] = {"root", "keras_api", "signatures"};

#define LENGTH(list) (sizeof(list) / sizeof *(list))

size_t pg__tf_entry_of(const pg__tf_bundle *b, const pg__tf_node *n)
{
    const int is_text = n->key && !memchr(n->key, 0, n->n_key);
    const pg__tf_entry *e = is_text ? pg__tf_find(b, n->key, n->n_key) : NULL;
    return e ? (size_t)(e - b->v) : PG_NONE;
}

int pg__tf_is_edge(const pg__tf_child *c, const char *name)
{
    return strlen(name) == c->n_name && memcmp(name, c->name, c->n_name) == 0;
}

static int is_among(const pg__tf_child *c, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pg__tf_is_edge(c, list[i]))
            return 1;
    return 0;
}

int pg__tf_is_list(const pg__tf_child *c)
{
    return c->name && is_among(c, lists, LENGTH(lists));
}

int pg__tf_is_training(const pg__tf_graph *g, const pg__tf_child *c)
{
    const pg__tf_node *n = &g->nodes[c->node];
    if (is_among(c, training, LENGTH(training)) || n->is_training)
        return 1;
    for (size_t i = 0; i < LENGTH(endings) && !n->has_layers; i++) {
        const size_t len = strlen(endings[i]);
        if (c->n_name > len && memcmp(c->name + c->n_name - len, endings[i], len) == 0)
            return 1;
    }
    return 0;
}

const pg__tf_child *pg__tf_child_of(const pg__tf_graph *g, uint32_t node, const char *name,
                                    size_t n)
{
    const pg__tf_child *v = g->children + g->nodes[node].first;
    for (size_t i = 0; i < g->nodes[node].n; i++)
        if (v[i].name && v[i].n_name == n && memcmp(v[i].name, name, n) == 0)
            return &v[i];
    return NULL;
}

/* ---- what an object is ---- */

static int has(const pg__tf_graph *g, uint32_t node, const char *name)
{
    return pg__tf_child_of(g, node, name, strlen(name)) != NULL;
}

/* Keras' since 2.11, and those before, whose hyperparameters are variables. */
static int is_optimizer(const pg__tf_graph *g, uint32_t i)
{
    return g->nodes[i].has_slots ||
           (has(g, i, "_variables") && (has(g, i, "_iterations") || has(g, i, "_learning_rate"))) ||
           (has(g, i, "iter") && (has(g, i, "learning_rate") || has(g, i, "decay")));
}

/* All that it holds are sums and counts of a metric of Keras. */
static int is_metric(const pg__tf_graph *g, const pg__tf_bundle *b, uint32_t at)
{
    static const char *const single[] = {"total", "count"};
    static const char *const confusion[] = {"true_positives", "true_negatives", "false_positives",
                                            "false_negatives", "total_cm"};
    const pg__tf_node *n = &g->nodes[at];
    int found = 0;
    for (size_t i = n->first; i < n->first + n->n; i++) {
        const pg__tf_child *c = &g->children[i];
        if (!c->name || is_among(c, training, LENGTH(training)) || pg__tf_is_list(c))
            continue;
        const size_t entry = pg__tf_entry_of(b, &g->nodes[c->node]);
        if (entry == PG_NONE && g->nodes[c->node].n)
            return 0;
        if (entry == PG_NONE)
            continue;
        const int is_sum = b->v[entry].rank == 0 && is_among(c, single, LENGTH(single));
        if (!is_sum && !is_among(c, confusion, LENGTH(confusion)))
            return 0;
        found |= !pg__tf_is_edge(c, "count");
    }
    return found;
}

/* tf.random.Generator, and the scale of a loss in mixed precision. */
static int is_helper(const pg__tf_graph *g, uint32_t i)
{
    return (g->nodes[i].n == 1 && has(g, i, "_state_var")) || has(g, i, "current_loss_scale");
}

/* "layer-3", not "layer_with_weights-0" */
static int is_layer(const pg__tf_child *c)
{
    return c->name && c->n_name > 6 && memcmp(c->name, "layer-", 6) == 0;
}

void pg__tf_judge(pg__tf_graph *g, const pg__tf_bundle *b)
{
    for (uint32_t i = 0; i < g->n; i++) {
        pg__tf_node *n = &g->nodes[i];
        n->is_training = is_optimizer(g, i) || is_metric(g, b, i) || is_helper(g, i);
        for (size_t k = n->first; k < n->first + n->n; k++) {
            const pg__tf_child *c = &g->children[k];
            n->has_layers |= is_layer(c);
        }
    }
}

const pg__tf_child *pg__tf_exported(const pg__tf_graph *g)
{
    return has(g, 0, "_all_variables") && has(g, 0, "trainable_variables") &&
                   has(g, 0, "non_trainable_variables") && has(g, 0, "signatures") &&
                   !g->nodes[0].has_layers
               ? pg__tf_child_of(g, 0, "variables", 9)
               : NULL;
}

/* ---- where the model begins ---- */

typedef struct search {
    const pg__tf_graph *g;
    const pg__tf_bundle *b;
    unsigned char *seen; /* by node */
    uint32_t *stack;
    pg__tf_parts *out;
    size_t n_single; /* of the parts that could be the model: variables of their own */
} search;

static void count(pg__tf_part *p, const pg__tf_bundle *b, size_t entry)
{
    uint64_t n = 1;
    if (entry == PG_NONE || !b->v[entry].known)
        return;
    for (uint32_t k = 0; k < b->v[entry].rank; k++)
        n *= b->v[entry].dims[k];
    p->n_tensors++;
    p->n_params += n;
}

/* Counts the variables that can be reached from a node that no earlier call reached. */
static void count_below(search *s, pg__tf_part *p, uint32_t node)
{
    size_t n = 0;
    if (s->seen[node])
        return;
    s->seen[node] = 1;
    s->stack[n++] = node;
    while (n) {
        const pg__tf_node *at = &s->g->nodes[s->stack[--n]];
        count(p, s->b, pg__tf_entry_of(s->b, at));
        for (size_t i = at->first; i < at->first + at->n; i++) {
            const pg__tf_child *c = &s->g->children[i];
            if (!c->name || s->seen[c->node] || pg__tf_is_training(s->g, c))
                continue;
            s->seen[c->node] = 1;
            s->stack[n++] = c->node;
        }
    }
}

/* A variable beside the models is a counter, unless it has elements of its own. */
static int is_counter(const search *s, const pg__tf_child *c)
{
    const size_t entry = pg__tf_entry_of(s->b, &s->g->nodes[c->node]);
    const pg__tf_entry *e = entry == PG_NONE ? NULL : &s->b->v[entry];
    return e && (!e->known || !pg__dtype_is_float(e->dtype) || e->rank == 0);
}

/* Models of layers come first, then other objects, variables, and what belongs to training. */
static int turn_of(const pg__tf_graph *g, const pg__tf_child *c)
{
    const pg__tf_node *n = &g->nodes[c->node];
    return pg__tf_is_training(g, c) ? 3 : n->has_layers ? 0 : n->n ? 1 : 2;
}

/* What leads to the insides of an earlier part only, a list of variables, is no part. */
static void add_part(search *s, const pg__tf_child *c, int turn)
{
    pg__tf_part p = {.edge = c, .is_model = turn < 3};
    if (turn == 2 && is_counter(s, c))
        return;
    if (turn < 3)
        count_below(s, &p, c->node);
    if (p.n_tensors == 0 && (turn < 3 || s->g->nodes[c->node].n == 0))
        return;
    s->n_single += turn == 2;
    s->out->n_models += turn < 3;
    s->out->v[s->out->n++] = p;
}

static void find_parts(search *s)
{
    const pg__tf_node *root = &s->g->nodes[0];
    s->seen[0] = 1;
    for (int turn = 0; turn < 4; turn++)
        for (size_t i = root->first; i < root->first + root->n; i++) {
            const pg__tf_child *c = &s->g->children[i];
            if (c->name && c->node && turn_of(s->g, c) == turn)
                add_part(s, c, turn);
        }
}

static pg_status ask(const pg__tf_parts *l, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs names = {0};
    for (size_t i = 0; i < l->n_models; i++)
        PG_TRY(pg__strs_add(&names, l->v[i].edge->name, l->v[i].edge->n_name, err));
    (void)pg_fail(err, PG_E_AMBIGUOUS, "%zu parts could be the model", l->n_models);
    for (size_t i = 0; i < names.n && i < MAX_ASKED; i++)
        pg_err_detail(err, "%s", PG_SHOW(names.v[i]));
    pg_err_do(err, PG_DO_CHOOSE_PART, NULL);
    pg_err_arg(err, "part", "%s", names.v[pg__part_likely(&names)]);
    if (l->n_models > MAX_ASKED)
        pg_err_detail(err, "and %zu more", l->n_models - MAX_ASKED);
    st = PG_E_AMBIGUOUS;
done:
    pg__strs_fini(&names);
    return st;
}

static int is_own_model(const pg__tf_graph *g)
{
    int is = g->nodes[0].has_layers;
    for (size_t i = 0; i < LENGTH(own); i++)
        is |= has(g, 0, own[i]);
    return is;
}

pg_status pg__tf_parts_of(pg__tf_parts *out, const pg__tf_graph *g, const pg__tf_bundle *b,
                          pg_err *err)
{
    pg_status st = PG_OK;
    search s = {.g = g, .b = b, .out = out};
    *out = (pg__tf_parts){0};
    if (is_own_model(g))
        return PG_OK;
    s.seen = pg__mem_array(g->n, 1);
    s.stack = pg__mem_array(g->n, sizeof *s.stack);
    out->v = pg__mem_array(g->nodes[0].n + 1, sizeof *out->v);
    if (!s.seen || !s.stack || !out->v)
        PG_TRY(pg__nomem(err));
    find_parts(&s);
    if (s.n_single == out->n_models) /* variables alone: the root is the model */
        out->n = out->n_models = 0;
done:
    pg__mem_free(s.seen);
    pg__mem_free(s.stack);
    return st;
}

pg_status pg__tf_find_model(uint32_t *node, const pg__tf_graph *g, const pg__tf_bundle *b,
                            pg_err *err)
{
    pg__tf_parts parts;
    pg_status st = pg__tf_parts_of(&parts, g, b, err);
    *node = st == PG_OK && parts.n_models == 1 ? parts.v[0].edge->node : 0;
    if (st == PG_OK && parts.n_models > 1)
        st = ask(&parts, err);
    pg__mem_free(parts.v);
    return st;
}

pg_status pg__tf_inner(const pg__tf_child **out, const pg__tf_graph *g, const pg__tf_bundle *b,
                       uint32_t model, pg_err *err)
{
    const pg__tf_node *m = &g->nodes[model];
    search s = {.g = g, .b = b};
    size_t n_found = 0;
    *out = NULL;
    if (!m->has_layers)
        return PG_OK;
    s.seen = pg__mem_array(g->n, 1);
    s.stack = pg__mem_array(g->n, sizeof *s.stack);
    if (!s.seen || !s.stack) {
        pg__mem_free(s.seen);
        pg__mem_free(s.stack);
        return pg__nomem(err);
    }
    s.seen[model] = 1;
    for (int layers = 1; layers >= 0; layers--) /* then what else holds variables of its own */
        for (size_t i = m->first; i < m->first + m->n; i++) {
            const pg__tf_child *c = &g->children[i];
            pg__tf_part p = {0};
            if (!c->name || is_layer(c) != layers || pg__tf_is_training(g, c))
                continue;
            count_below(&s, &p, c->node);
            n_found += p.n_tensors > 0;
            *out = p.n_tensors ? c : *out;
        }
    if (n_found != 1 || !g->nodes[(*out)->node].has_layers)
        *out = NULL;
    pg__mem_free(s.seen);
    pg__mem_free(s.stack);
    return PG_OK;
}

/* What the root holds, but not a list that is there beside. */
static pg_status list_parts(pg__strs *out, const pg__tf_graph *g, pg_err *err)
{
    const pg__tf_node *root = &g->nodes[0];
    pg_status st = PG_OK;
    for (size_t i = root->first; st == PG_OK && i < root->first + root->n; i++) {
        const pg__tf_child *c = &g->children[i];
        if (c->name && c->node && c->n_name && !pg__tf_is_list(c) && g->nodes[c->node].n)
            st = pg__part_note(out, c->name, c->n_name, err);
    }
    return st;
}

/* The part with that name, or what it must mean. */
static pg_status find_meant(const pg__tf_child **out, const pg__tf_graph *g, const char *part,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs there = {0};
    const char *meant = NULL;
    PG_TRY(list_parts(&there, g, err));
    PG_TRY(pg__part_meant(&meant, part, &there, err));
    *out = pg__tf_child_of(g, 0, meant, strlen(meant));
done:
    pg__strs_fini(&there);
    return st;
}

pg_status pg__tf_find_part(uint32_t *node, int *in_training, const pg__tf_graph *g,
                           const char *part, pg_err *err)
{
    *node = 0;
    *in_training = 0;
    for (const char *p = part; *p;) {
        const size_t n = strcspn(p, ".");
        const pg__tf_child *found = pg__tf_child_of(g, *node, p, n);
        const pg_status st = found ? PG_OK : find_meant(&found, g, part, err);
        if (st != PG_OK)
            return st;
        *in_training |= pg__tf_is_training(g, found);
        *node = found->node;
        p += n + (p[n] == '.');
    }
    return PG_OK;
}
