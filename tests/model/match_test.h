/* match_test.h - weights and models as one line of text each. */
#ifndef PG_MATCH_TEST_H
#define PG_MATCH_TEST_H

#include "pg_test.h"

#include "model/fit/match.h"

/* A model of JSON text and its leaves. */
typedef struct template_ {
    pg__graph *g;
    pg__leaves leaves;
} template_;

static inline template_ template_of(const char *json)
{
    template_ t = {0};
    pg_err err = {0};
    if (pg__graph_parse(&t.g, json, strlen(json), &err) != PG_OK ||
        pg__leaves_of(&t.leaves, t.g->root, t.g->dialect, &err) != PG_OK)
        fail_msg("%s: %s", err.msg, json);
    return t;
}

static inline void template_free(template_ *t)
{
    pg__leaves_fini(&t->leaves);
    pg__graph_free(t->g);
}

/* The weights of all layers of a store, as one flat list. */
typedef struct flat {
    pg__stored *v;
    size_t n;
} flat;

static inline flat flat_of(const pg_store *s)
{
    flat f = {.n = pg_store_n_weights(s)};
    f.v = calloc(f.n + 1, sizeof *f.v);
    assert_non_null(f.v);
    for (size_t i = 0; i < f.n; i++) {
        const pg_weight *w = pg_store_weight(s, i);
        f.v[i] = (pg__stored){.name = w->name, .rank = w->rank, .dims = w->dims};
    }
    return f;
}

#endif
