/* modern.h - compares a checkpoint of testdata/modern with the state that its framework loads. */
#ifndef PG_TESTS_MODERN_H
#define PG_TESTS_MODERN_H

#include "pg_test.h"

static inline const char *modern_path(const char *name)
{
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/modern/%s", pg_testdata, name);
    return path[turn];
}

static inline size_t modern_find(const pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        if (strcmp(pg_store_weight(s, i)->name, name) == 0)
            return i;
    return PG_NONE;
}

static inline void modern_equal(pg_store *s, size_t i, pg_store *expected, size_t k)
{
    static unsigned char got[1 << 16], want[1 << 16];
    const pg_weight *x = pg_store_weight(s, i), *y = pg_store_weight(expected, k);
    if (x->rank || y->dims[0] != 1) { /* gen_jax.py stored a scalar as an array of one */
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->dims, y->dims, sizeof x->dims);
    }
    assert_int_equal(x->n_bytes, y->n_bytes);
    assert_true(x->n_bytes <= sizeof got);
    assert_ok(pg_store_read(s, i, 0, got, (size_t)x->n_bytes, NULL));
    assert_ok(pg_store_read(expected, k, 0, want, (size_t)y->n_bytes, NULL));
    assert_memory_equal(got, want, (size_t)x->n_bytes);
    /* and a byte at a time, from the end */
    for (uint64_t at = x->n_bytes; at-- > 0;) {
        unsigned char c = 0;
        assert_ok(pg_store_read(s, i, at, &c, 1, NULL));
        assert_int_equal(c, want[at]);
    }
}

/* Every expected tensor is in the checkpoint, and nothing else; prefix: what its names have more. */
static inline void modern_check(const char *checkpoint, const char *expected, const char *prefix)
{
    pg_store *s = NULL, *e = NULL;
    pg_err err = {0};
    if (pg_store_open(&s, modern_path(checkpoint), NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_ok(pg_store_open(&e, modern_path(expected), NULL, NULL));
    for (size_t k = 0; k < pg_store_n_weights(e); k++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, pg_store_weight(e, k)->name);
        const size_t i = modern_find(s, name);
        if (i == PG_NONE)
            fail_msg("%s: no %s", checkpoint, name);
        modern_equal(s, i, e, k);
    }
    assert_int_equal(pg_store_n_weights(s), pg_store_n_weights(e));
    pg_store_close(s);
    pg_store_close(e);
}

#endif
