/* tf_names.c - what the variables of a checkpoint are called, and which are the model's.
 *
 * With an object graph (Keras' save_weights, tf.train.Checkpoint, SavedModel) a variable is the
 * model's if a path leads to it that passes no optimizer and no metric. It is called by the name
 * that its layer gave it ("dense/kernel") where that is unique, else by the path. Without a graph
 * (tf.train.Saver) the key is the name, and an optimizer's slots are known by their endings. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/tf/tf.h"

#define VALUE "/.ATTRIBUTES/VARIABLE_VALUE"
#define GRAPH "_CHECKPOINTABLE_OBJECT_GRAPH"

typedef enum pass { BY_ATTRIBUTES, BY_LISTS, BY_ALL } pass;

typedef struct walk {
    pg__tf_bundle *b;
    pg__tf_names *out;
    unsigned char *seen;  /* by node, of this pass */
    unsigned char *named; /* by entry */
    pg__str path;
    pass pass;
    int whole; /* of a part, all are weights */
    pg_err *err;
} walk;

static int is_skipped(const walk *w, const pg__tf_child *c)
{
    return (c->name && pg__tf_is_edge(c, "root")) ||
           (w->pass < BY_ALL && (!c->name || pg__tf_is_training(&w->out->graph, c))) ||
           (w->pass < BY_LISTS && pg__tf_is_list(c));
}

/* The name as a component of a path; TensorFlow writes a slash in it as ".S" and a dot before
 * capitals twice, but only the slash would mislead. */
static pg_status add_step(pg__str *path, const pg__tf_child *c, pg_err *err)
{
    pg_status st = PG_OK;
    if (path->n)
        PG_TRY(pg__str_puts(path, "/", err));
    for (size_t i = 0; i < c->n_name; i++)
        PG_TRY(c->name[i] == '/' ? pg__str_puts(path, ".S", err)
                                 : pg__str_add(path, c->name + i, 1, err));
done:
    return st;
}

static pg_status add_name(pg__tf_names *l, size_t entry, const char *name, size_t n,
                          const char *path, int is_state, pg_err *err)
{
    pg__tf_name x = {.entry = entry, .is_state = is_state};
    l->bytes += n + (path ? strlen(path) : 0);
    if (l->bytes > PG_LIMIT_TF_INDEX_BYTES)
        return pg_fail(err, PG_E_LIMIT, "more than %s bytes of names",
                       PG_NUM(PG_LIMIT_TF_INDEX_BYTES));
    x.name = pg__mem_strndup(name, n);
    x.path = path ? pg__mem_strdup(path) : NULL;
    if (!x.name || (path && !x.path) || pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof x)) {
        pg__mem_free(x.name);
        pg__mem_free(x.path);
        return pg__nomem(err);
    }
    l->v[l->n++] = x;
    return PG_OK;
}

static pg_status lacks_pieces(const pg__tf_entry *e, pg_err *err)
{
    uint64_t have = 1, all = 1;
    for (uint32_t k = 0; k < e->rank; k++) {
        have *= e->dims[k];
        all *= e->whole[k];
    }
    return pg_fail(err, PG_E_FORMAT, "%s: its pieces hold %s of %s elements", PG_SHOW(e->key),
                   PG_NUM(have), PG_NUM(all));
}

/* Keras 3 counts the random numbers of a dropout among the variables. */
static int is_seed(const pg__tf_node *n)
{
    static const char end[] = "/seed_generator_state";
    const size_t n_end = sizeof end - 1;
    return n->n_full > n_end && memcmp(n->full + n->n_full - n_end, end, n_end) == 0;
}

static pg_status meet(walk *w, const pg__tf_node *n, int is_state)
{
    const size_t entry = pg__tf_entry_of(w->b, n);
    if (entry == PG_NONE || w->named[entry])
        return PG_OK;
    w->named[entry] = 1;
    if (w->b->v[entry].partial && !n->is_slot)
        return lacks_pieces(&w->b->v[entry], w->err);
    const char *path = n->is_slot ? NULL : w->path.n ? w->path.s : "";
    return add_name(w->out, entry, n->full ? n->full : "", n->n_full, path,
                    is_state || (n->is_slot && !w->whole) || (w->out->by_name && is_seed(n)),
                    w->err);
}

/* A node on the way, the next of its children, and how long the path to it is. */
typedef struct step {
    uint32_t node;
    size_t next, n_path;
} step;

/* Depth first, each node once, children in their order: that of a model's layers. */
static pg_status go(walk *w, uint32_t root, int is_state)
{
    pg_status st = PG_OK;
    pg_err *err = w->err;
    step *stack = NULL;
    size_t n = 0, cap = 0;
    if (pg__mem_grow(&stack, &cap, 1, sizeof *stack))
        return pg__nomem(err);
    stack[n++] = (step){root, 0, w->path.n};
    w->seen[root] = 1;
    PG_TRY(meet(w, &w->out->graph.nodes[root], is_state));
    while (n) {
        step *at = &stack[n - 1];
        const pg__tf_node *node = &w->out->graph.nodes[at->node];
        w->path.n = at->n_path;
        if (w->path.s)
            w->path.s[w->path.n] = 0;
        if (at->next == node->n) {
            n--;
            continue;
        }
        const pg__tf_child *c = &w->out->graph.children[node->first + at->next++];
        if (is_skipped(w, c) || w->seen[c->node])
            continue;
        if (w->path.n + c->n_name > PG_LIMIT_NAME_BYTES)
            PG_FAIL(PG_E_LIMIT, "a path in its object graph of more than %u bytes",
                    PG_LIMIT_NAME_BYTES);
        PG_TRY(add_step(&w->path, c, err));
        w->seen[c->node] = 1;
        PG_TRY(meet(w, &w->out->graph.nodes[c->node], is_state));
        if (pg__mem_grow(&stack, &cap, n + 1, sizeof *stack))
            PG_TRY(pg__nomem(err));
        stack[n++] = (step){c->node, 0, w->path.n};
    }
done:
    pg__mem_free(stack);
    return st;
}

size_t pg__tf_names_find(const pg__tf_names *l, const pg__tf_bundle *b, const char *path)
{
    uint32_t node = l->root;
    for (const char *p = path; *p;) {
        const size_t n = strcspn(p, "/");
        const pg__tf_child *c = pg__tf_child_of(&l->graph, node, p, n);
        if (!c)
            return PG_NONE;
        node = c->node;
        p += n + (p[n] == '/');
    }
    return pg__tf_entry_of(b, &l->graph.nodes[node]);
}

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(pg__tf_name *const *)a)->name, (*(pg__tf_name *const *)b)->name);
}

/* Gives those of a name that is not unique, or empty, their path; and if two of these are equal,
 * the key. */
static pg_status make_unique(pg__tf_names *l, const pg__tf_bundle *b, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tf_name **v = pg__mem_array(l->n, sizeof(pg__tf_name *));
    if (!v)
        return pg__nomem(err);
    for (int by_key = 0; by_key < 2; by_key++) {
        for (size_t i = 0; i < l->n; i++)
            v[i] = &l->v[i];
        if (l->n)
            qsort(v, l->n, sizeof *v, by_name);
        for (size_t i = 0, end; i < l->n; i = end) {
            for (end = i + 1; end < l->n && strcmp(v[i]->name, v[end]->name) == 0;)
                end++;
            for (size_t k = i; k < end && (end - i > 1 || !*v[i]->name); k++) {
                const char *key = b->v[v[k]->entry].key;
                char *name = pg__mem_strdup(by_key || !v[k]->path ? key : v[k]->path);
                if (!name)
                    PG_TRY(pg__nomem(err));
                pg__mem_free(v[k]->name);
                v[k]->name = name;
            }
        }
    }
done:
    pg__mem_free(v);
    return st;
}

static int state_last(const void *a, const void *b)
{
    const pg__tf_name *x = a, *y = b;
    if (x->is_state != y->is_state)
        return x->is_state - y->is_state;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* What the graph does not lead to: keys of other programs, or none at all. */
static pg_status add_rest(pg__tf_bundle *b, pg__tf_names *out, const unsigned char *named,
                          int is_state, pg_err *err)
{
    for (size_t i = 0; i < b->n; i++) {
        const char *key = b->v[i].key;
        const size_t n = strlen(key) - (pg__ends_with(key, VALUE) ? sizeof VALUE - 1 : 0);
        if ((named && named[i]) || strcmp(key, GRAPH) == 0)
            continue;
        const pg_status st = add_name(out, i, key, n, NULL, is_state, err);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

/* What model.export() wrote has each variable twice: in the order of the model, and once more. */
static void pass_over_copies(walk *w)
{
    const pg__tf_graph *g = &w->out->graph;
    const pg__tf_child *copies = pg__tf_child_of(g, 0, "_all_variables", 14);
    const pg__tf_node *list = &g->nodes[copies->node];
    for (size_t i = list->first; i < list->first + list->n; i++) {
        const size_t entry = pg__tf_entry_of(w->b, &g->nodes[g->children[i].node]);
        if (entry != PG_NONE)
            w->named[entry] = 1;
    }
}

static pg_status name_by_graph(walk *w, const char *part)
{
    pg_status st = PG_OK;
    const pg__tf_child *inner = NULL, *exported = pg__tf_exported(&w->out->graph);
    uint32_t root = 0;
    int in_training = 0;
    const int all = part && strcmp(part, ".") == 0;
    w->whole = part != NULL;
    pg__tf_judge(&w->out->graph, w->b);
    if (part && !*part)
        goto done;
    w->out->by_name = exported && !part;
    if (w->out->by_name)
        root = exported->node;
    else if (!part)
        PG_TRY(pg__tf_find_model(&root, &w->out->graph, w->b, w->err));
    else if (!all)
        PG_TRY(pg__tf_find_part(&root, &in_training, &w->out->graph, part, w->err));
    w->out->root = root;
    PG_TRY(pg__tf_inner(&inner, &w->out->graph, w->b, root, w->err));
    w->out->inner = inner ? pg__mem_strndup(inner->name, inner->n_name) : NULL;
    if (inner && !w->out->inner)
        PG_TRY(pg__nomem(w->err));
    for (w->pass = in_training ? BY_ALL : BY_ATTRIBUTES; w->pass <= (part ? BY_ALL : BY_LISTS);
         w->pass++) {
        if (w->pass == BY_ALL && !in_training && !all)
            break;
        memset(w->seen, 0, w->out->graph.n);
        w->path.n = 0;
        PG_TRY(go(w, root, 0));
    }
    if (part && !all)
        goto done;
    if (w->out->by_name)
        pass_over_copies(w);
    w->pass = BY_ALL;
    memset(w->seen, 0, w->out->graph.n);
    w->path.n = 0;
    PG_TRY(go(w, 0, !all));
    PG_TRY(add_rest(w->b, w->out, w->named, !all, w->err));
done:
    return st;
}

/* ---- without a graph ---- */

/* Names of tf.compat.v1.train's optimizers for their slots, and of what they keep beside them. */
static int is_slot_of_saver(const pg__tf_bundle *b, const pg__tf_entry *e)
{
    static const char *const ends[] = {"/Adam",      "/Adam_1",  "/Momentum", "/RMSProp",
                                       "/RMSProp_1", "/Adagrad", "/Adadelta", "/Adadelta_1",
                                       "/Ftrl",      "/Ftrl_1",  "/LARS"};
    static const char *const counters[] = {"beta1_power", "beta2_power", "global_step"};
    const char *base = strrchr(e->key, '/');
    if (e->rank == 0)
        return PG_IS_ANY(base ? base + 1 : e->key, counters);
    if (!base || !PG_IS_ANY(base, ends))
        return 0;
    if (e->partial)
        return 1;
    for (const char *p = e->key; p && p < base; p = memchr(p, '/', (size_t)(base - p))) {
        p += *p == '/'; /* "net/net/w/Adam" is of "net/w" */
        if (pg__tf_find(b, p, (size_t)(base - p)))
            return 1;
    }
    return 0;
}

static pg_status name_by_keys(pg__tf_bundle *b, pg__tf_names *out, const char *part, pg_err *err)
{
    const int all = part && strcmp(part, ".") == 0, state = part && strcmp(part, "optimizer") == 0;
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].partial && !is_slot_of_saver(b, &b->v[i]))
            return lacks_pieces(&b->v[i], err);
    if (part && !all && !state)
        return pg_fail(err, PG_E_ARG, "no part \"%s\" is in this file: \".\", \"optimizer\"",
                       PG_SHOW(part));
    const pg_status st = add_rest(b, out, NULL, 0, err);
    size_t kept = 0;
    for (size_t i = 0; st == PG_OK && i < out->n; i++) {
        pg__tf_name *x = &out->v[i];
        x->is_state = !all && is_slot_of_saver(b, &b->v[x->entry]);
        if (state && !x->is_state) {
            pg__mem_free(x->name);
            continue;
        }
        x->is_state &= !part;
        out->v[kept++] = *x;
    }
    out->n = kept;
    return st;
}

pg_status pg__tf_names_of(pg__tf_names *out, pg__tf_bundle *b, const char *part, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tf_names l = {0};
    size_t n = 0;
    walk w = {.b = b, .out = &l, .err = err};
    const pg__tf_entry *graph = pg__tf_find(b, GRAPH, strlen(GRAPH));
    if (graph) {
        PG_TRY(pg__tf_string(&l.text, &n, b, graph, err));
        PG_TRY(pg__tf_graph_read(&l.graph, l.text, n, err));
        w.seen = pg__mem_array(l.graph.n, 1);
        w.named = pg__mem_array(b->n, 1);
        if (!w.seen || !w.named)
            PG_TRY(pg__nomem(err));
        PG_TRY(name_by_graph(&w, part));
    } else {
        PG_TRY(name_by_keys(b, &l, part, err));
    }
    PG_TRY(make_unique(&l, b, err));
    for (size_t i = 0; i < l.n; i++)
        l.v[i].order = i;
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, state_last);
    *out = l;
    l = (pg__tf_names){0};
done:
    pg__str_fini(&w.path);
    pg__mem_free(w.seen);
    pg__mem_free(w.named);
    pg__tf_names_fini(&l);
    return st;
}

void pg__tf_names_fini(pg__tf_names *l)
{
    for (size_t i = 0; i < l->n; i++) {
        pg__mem_free(l->v[i].name);
        pg__mem_free(l->v[i].path);
    }
    pg__mem_free(l->v);
    pg__tf_graph_fini(&l->graph);
    pg__mem_free(l->inner);
    pg__mem_free(l->text);
    *l = (pg__tf_names){0};
}
