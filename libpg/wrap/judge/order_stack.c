/* order_stack.c - decides whether a list of layers is a plain stack, in this order only
 * (FORMATS.md: "Order without a template", tests 7 to 9).
 *
 * A wrapper's list holds trainable weights first and frozen layers last. So for every split of the
 * list into P (trainable) and S (frozen, without statistics at the end), every interleaving of P
 * and S may be the true order. The list's own order is written only if all others contradict the
 * widths or the numbers in the names. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/bsd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "store/store_impl.h"
#include "wrap/judge/order.h"

/* ---- widths ---- */

typedef struct variables {
    const pg_weight *kernel, *recurrent, *depthwise, *pointwise, *embeddings, *bias, *gamma, *beta;
    size_t n_kernels, n_recurrent, n_other;
    int agree; /* a second kernel (Bidirectional) has the shape of the first */
} variables;

static int is_variable(const char *weight, const char *name)
{
    const char *last = strrchr(weight, '/');
    const char *v = last ? last + 1 : weight;
    const size_t n = strlen(name);
    if (strncmp(v, name, n) != 0)
        return 0;
    v += n;
    if (*v == '_')
        v += 1 + strspn(v + 1, "0123456789");
    return *v == 0 || *v == ':';
}

static void put(variables *v, const pg_weight **slot, const pg_weight *w)
{
    if (*slot && !pg__same_shape(*slot, w))
        v->agree = 0;
    *slot = w;
}

static variables collect(const pg__group *g, const pg_store *s, const pg_layer *l)
{
    variables v = {.agree = 1};
    for (size_t i = 0; i < g->n; i++) {
        const pg_weight *w = pg_store_weight(s, l->first + g->first + i);
        if (is_variable(w->name, "kernel"))
            v.n_kernels++, put(&v, &v.kernel, w);
        else if (is_variable(w->name, "recurrent_kernel"))
            v.n_recurrent++, put(&v, &v.recurrent, w);
        else if (is_variable(w->name, "depthwise_kernel"))
            put(&v, &v.depthwise, w);
        else if (is_variable(w->name, "pointwise_kernel"))
            put(&v, &v.pointwise, w);
        else if (is_variable(w->name, "embeddings"))
            put(&v, &v.embeddings, w);
        else if (is_variable(w->name, "bias"))
            put(&v, &v.bias, w);
        else if (is_variable(w->name, "gamma"))
            put(&v, &v.gamma, w);
        else if (is_variable(w->name, "beta"))
            put(&v, &v.beta, w);
        else
            v.n_other++;
    }
    return v;
}

static uint64_t dim(const pg_weight *w, uint32_t from_end)
{
    return w->rank >= from_end ? w->dims[w->rank - from_end] : 0;
}

static int bias_is(const pg_weight *bias, uint64_t n)
{
    return !bias || (bias->rank == 1 && bias->dims[0] == n);
}

static void set(pg__group *g, pg__kind kind, uint64_t in, uint64_t out)
{
    g->kind = in && out ? kind : PG_KIND_OTHER;
    g->in = in;
    g->out = out;
}

static void measure_recurrent(pg__group *g, const variables *v)
{
    const uint64_t u = dim(v->recurrent, 2);
    const uint32_t rank = v->recurrent->rank;
    if (v->n_kernels != v->n_recurrent || v->n_kernels > 2 || u == 0 || v->kernel->rank != rank)
        return;
    const uint64_t gates = dim(v->recurrent, 1) / u;
    if (dim(v->recurrent, 1) % u || gates == 0 || gates > 4 || dim(v->kernel, 1) != gates * u)
        return;
    if (rank == 2)
        set(g, PG_KIND_RECURRENT, dim(v->kernel, 2), v->n_kernels * u);
    else if (gates == 4)
        set(g, PG_KIND_CONV, dim(v->kernel, 2), v->n_kernels * u);
    if (v->n_kernels == 2)
        g->out2 = u; /* merge_mode sum, mul, ave */
}

static void measure_kernel(pg__group *g, const variables *v)
{
    const pg_weight *k = v->kernel;
    if (v->n_kernels != 1 || k->rank < 2 || k->rank > 5)
        return;
    if (k->rank == 2 && bias_is(v->bias, dim(k, 1)))
        set(g, PG_KIND_DENSE, dim(k, 2), dim(k, 1));
    else if (k->rank > 2 && strcasestr(g->name, "transpose") && bias_is(v->bias, dim(k, 2)))
        set(g, PG_KIND_CONV, dim(k, 1), dim(k, 2));
    else if (k->rank > 2 && bias_is(v->bias, dim(k, 1)))
        set(g, PG_KIND_CONV, dim(k, 2), dim(k, 1));
}

void pg__group_measure(pg__group *g, const pg_store *s, const pg_layer *l)
{
    const variables v = collect(g, s, l);
    const size_t n_norm = (v.gamma ? 1u : 0u) + (v.beta ? 1u : 0u);
    set(g, PG_KIND_OTHER, 0, 0);
    g->out2 = 0;
    if (v.n_other || !v.agree)
        return;
    if (n_norm) {
        const pg_weight *w = v.gamma ? v.gamma : v.beta;
        if (n_norm == g->n && w->rank == 1 && (!v.beta || pg__same_shape(w, v.beta)))
            set(g, PG_KIND_NORM, w->dims[0], w->dims[0]);
    } else if (v.embeddings) {
        if (g->n == 1 && v.embeddings->rank == 2)
            set(g, PG_KIND_EMBEDDING, v.embeddings->dims[0], v.embeddings->dims[1]);
    } else if (v.recurrent && v.kernel) {
        measure_recurrent(g, &v);
    } else if (v.depthwise && v.depthwise->rank >= 3 && !v.kernel) {
        const uint64_t in = dim(v.depthwise, 2), wide = in * dim(v.depthwise, 1);
        const uint64_t out = v.pointwise ? dim(v.pointwise, 1) : wide;
        if (bias_is(v.bias, out) && (!v.pointwise || dim(v.pointwise, 2) == wide))
            set(g, PG_KIND_CONV, in, out);
    } else if (v.kernel && !v.depthwise && !v.pointwise && g->n == (v.bias ? 2 : 1)) {
        measure_kernel(g, &v);
    }
}

/* ---- the chain ---- */

typedef struct flow {
    uint64_t out, out2; /* widths that the last layer may give */
    int flat;           /* a Flatten may follow the last layer that is not a normalisation */
    int dense;          /* a dense layer came before */
    int any;
} flow;

static int is_width(const flow *f, uint64_t w)
{
    return w == f->out || (f->out2 && w == f->out2);
}

static int is_multiple(const flow *f, uint64_t w)
{
    return w % f->out == 0 || (f->out2 && w % f->out2 == 0);
}

/* 1 if g may follow; *f then describes the stack with g on top. */
static int follow(flow *f, const pg__group *g)
{
    int ok = g->kind != PG_KIND_OTHER;
    if (f->any)
        switch (g->kind) {
        case PG_KIND_OTHER:
        case PG_KIND_EMBEDDING: ok = 0; break;
        case PG_KIND_NORM:
        case PG_KIND_RECURRENT: ok = is_width(f, g->in); break;
        case PG_KIND_CONV: ok = !f->dense && is_width(f, g->in); break;
        case PG_KIND_DENSE: ok = is_width(f, g->in) || (f->flat && is_multiple(f, g->in)); break;
        }
    if (!ok)
        return 0;
    if (g->kind != PG_KIND_NORM)
        f->flat = g->kind == PG_KIND_CONV || g->kind == PG_KIND_RECURRENT;
    f->dense |= g->kind == PG_KIND_DENSE;
    f->out = g->out;
    f->out2 = g->out2;
    f->any = 1;
    return 1;
}

int pg__stack_chains(const pg__group *g, size_t n, size_t *at)
{
    flow f = {0};
    for (*at = 0; *at < n; ++*at)
        if (!follow(&f, &g[*at]))
            return 0;
    return 1;
}

/* ---- numbers in names ---- */

static char *skeleton_of(const char *name)
{
    const size_t n = strlen(name);
    char *s = pg__mem_array(n + 3, 1);
    size_t w = 0;
    if (!s)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)name[i]))
            s[w++] = name[i];
        else if (i == 0 || !isdigit((unsigned char)name[i - 1]))
            s[w++] = '#';
    }
    if (pg__stem_len(name) == n) { /* tf.keras: "dense" comes before "dense_1" */
        s[w++] = '_';
        s[w++] = '#';
    }
    s[w] = 0;
    return s;
}

/* Compares the numbers of two names of one skeleton, from the left. */
static int compare_numbers(const char *a, const char *b)
{
    for (;;) {
        a += strcspn(a, "0123456789");
        b += strcspn(b, "0123456789");
        if (!*a || !*b)
            return (*a != 0) - (*b != 0);
        a += strspn(a, "0");
        b += strspn(b, "0");
        const size_t na = strspn(a, "0123456789"), nb = strspn(b, "0123456789");
        const int c = na != nb ? (na > nb) - (na < nb) : strncmp(a, b, na);
        if (c)
            return c;
        a += na;
        b += nb;
    }
}

typedef struct sorted {
    const pg__group *g;
    size_t i;
} sorted;

static int by_skeleton(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    const int c = strcmp(x->g->skeleton, y->g->skeleton);
    return c ? c : (x->i > y->i) - (x->i < y->i);
}

pg_status pg__numbers_rise(pg__group *g, size_t n, size_t *at, pg_err *err)
{
    sorted *v = pg__mem_array(n, sizeof *v);
    *at = PG_NONE;
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++) {
        if (!g[i].skeleton)
            g[i].skeleton = skeleton_of(g[i].name);
        if (!g[i].skeleton) {
            pg__mem_free(v);
            return pg__nomem(err);
        }
        g[i].prev = PG_NONE;
        v[i] = (sorted){&g[i], i};
    }
    qsort(v, n, sizeof *v, by_skeleton);
    for (size_t k = 1; k < n; k++) {
        const size_t a = v[k - 1].i, b = v[k].i;
        if (strcmp(g[a].skeleton, g[b].skeleton) != 0)
            continue;
        g[b].prev = a;
        if (compare_numbers(g[a].name, g[b].name) >= 0 && b < *at)
            *at = b;
    }
    pg__mem_free(v);
    return PG_OK;
}

/* ---- uniqueness ---- */

/* A search over states (i of P placed, j of S placed, which was last, may a Flatten follow) for one
 * split at k. It starts wherever a group of S is placed before P is exhausted. */
typedef struct search {
    const pg__group *g;
    size_t n, k, n_s;
    int last_known;
    size_t *after; /* per group of S: groups of P that must come before it (same skeleton) */
    unsigned char *seen;
    struct state *todo;
    size_t n_todo, cap_todo;
    size_t *n_states; /* of all splits */
} search;

typedef struct state {
    size_t i, j;
    flow f;
    int last_s;
} state;

static pg_status push(search *x, const state *t, pg_err *err)
{
    const size_t bit =
        ((t->i * (x->n_s + 1) + t->j) * 2 + (size_t)t->last_s) * 2 + (size_t)(t->f.flat != 0);
    if (x->seen[bit / 8] & (1u << (bit % 8)))
        return PG_OK;
    x->seen[bit / 8] |= (unsigned char)(1u << (bit % 8));
    if (pg__mem_grow(&x->todo, &x->cap_todo, x->n_todo + 1, sizeof *x->todo))
        return pg__nomem(err);
    x->todo[x->n_todo++] = *t;
    ++*x->n_states;
    return PG_OK;
}

static pg_status step_s(search *x, const state *t, pg_err *err)
{
    state next = *t;
    if (t->j == x->n_s || t->i < x->after[t->j] || !follow(&next.f, &x->g[x->k + t->j]))
        return PG_OK;
    next.j++;
    next.last_s = 1;
    return push(x, &next, err);
}

static pg_status step_p(search *x, const state *t, pg_err *err)
{
    state next = *t;
    if (t->i == x->k || !follow(&next.f, &x->g[t->i]))
        return PG_OK;
    next.i++;
    next.last_s = 0;
    return push(x, &next, err);
}

/* Starts wherever the first group of S may precede a group of P, then follows every path. */
static pg_status run(search *x, int *unique, pg_err *err)
{
    pg_status st = PG_OK;
    state t = {0};
    for (; t.i < x->k; t.i++) {
        PG_TRY(step_s(x, &t, err));
        if (!follow(&t.f, &x->g[t.i]))
            break;
    }
    while (x->n_todo && *unique == 1) {
        const state at = x->todo[--x->n_todo];
        if (*x->n_states > PG_LIMIT_ORDER_STATES)
            *unique = -1;
        if (at.i == x->k && at.j == x->n_s && (at.last_s || !x->last_known))
            *unique = 0;
        PG_TRY(step_s(x, &at, err));
        PG_TRY(step_p(x, &at, err));
    }
done:
    return st;
}

static pg_status try_split(search *x, int *unique, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t bits =
        (x->k + 1) * (x->n_s + 1) * 4; /* at most (n + 1)^2 * 4, n <= PG_LIMIT_OBJECTS */
    if (bits > PG_LIMIT_ORDER_STATES * 64) {
        *unique = -1;
        return PG_OK;
    }
    x->after = pg__mem_array(x->n_s, sizeof *x->after);
    x->seen = pg__mem_array(bits / 8 + 1, 1);
    if (!x->after || !x->seen) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t j = 0; j < x->n_s; j++) {
        size_t p = x->g[x->k + j].prev;
        while (p != PG_NONE && p >= x->k)
            p = x->g[p].prev;
        x->after[j] = p == PG_NONE ? 0 : p + 1;
    }
    st = run(x, unique, err);
done:
    pg__mem_free(x->after);
    pg__mem_free(x->seen);
    pg__mem_free(x->todo);
    return st;
}

pg_status pg__stack_is_unique(const pg__group *g, size_t n, int last_known, int *unique,
                              pg_err *err)
{
    pg_status st = PG_OK;
    size_t n_states = 0;
    size_t n_normed = 0;
    *unique = 1;
    for (size_t i = 0; i < n; i++)
        n_normed += g[i].n_stats > 0;
    for (size_t k = n; k-- > 1 && *unique == 1 && st == PG_OK;) {
        /* A frozen normalisation is in one piece, before the statistics of all trainable ones that
         * follow it. Only the last one of the list, if it is the only one, looks the same either
         * way. */
        if (g[k].n_stats && !(k == n - 1 && n_normed == 1))
            break; /* trainable, and so is everything before it */
        if (g[k].prev == k - 1)
            continue; /* the first of S cannot move */
        search x = {
            .g = g, .n = n, .k = k, .n_s = n - k, .last_known = last_known, .n_states = &n_states};
        st = try_split(&x, unique, err);
    }
    return st;
}
