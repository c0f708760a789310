/* files.h - real files in, real files out: a folder for outputs, and stores compared. */
#ifndef WRAP_FILES_H
#define WRAP_FILES_H

#include "pg_test.h"

#include <unistd.h>

#define K224 "files/keras-2.2.4/"

/* A path below testdata/; freed by nobody, overwritten after eight calls. */
static inline const char *data(const char *rel)
{
    static char buf[8][600];
    static unsigned n;
    char *p = buf[n++ % 8];
    snprintf(p, sizeof buf[0], "%s/%s", pg_testdata, rel);
    return p;
}

static char tmp_dir[64];

/* A path in a folder of its own. */
static inline const char *tmp(const char *name)
{
    static char buf[8][128];
    static unsigned n;
    char *p = buf[n++ % 8];
    if (!tmp_dir[0]) {
        strcpy(tmp_dir, "/tmp/pg-test-XXXXXX");
        assert_non_null(mkdtemp(tmp_dir));
    }
    snprintf(p, sizeof buf[0], "%s/%s", tmp_dir, name);
    return p;
}

static inline void forget(const char *path)
{
    unlink(path);
    rmdir(tmp_dir); /* succeeds with the last file */
    if (access(tmp_dir, F_OK) != 0)
        tmp_dir[0] = 0;
}

static inline pg_store *open_file(const char *path)
{
    pg_err err = {0};
    pg_store *s = NULL;
    if (pg_store_open(&s, path, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

static inline void assert_same_weight(pg_store *a, pg_store *b, size_t i, int names)
{
    const pg_weight *x = pg_store_weight(a, i), *y = pg_store_weight(b, i);
    unsigned char *p = malloc(x->n_bytes + 1), *q = malloc(x->n_bytes + 1);
    if (names)
        assert_string_equal(x->name, y->name);
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->rank, y->rank);
    assert_int_equal(x->n_bytes, y->n_bytes);
    assert_ok(pg_store_read(a, i, 0, p, x->n_bytes, NULL));
    assert_ok(pg_store_read(b, i, 0, q, x->n_bytes, NULL));
    assert_memory_equal(p, q, x->n_bytes);
    free(p);
    free(q);
}

/* Layers, weights, order and bytes; names = 0: only what a topological load sees. */
static inline void assert_same(const char *out, const char *genuine, int names)
{
    pg_store *a = open_file(out), *b = open_file(genuine);
    assert_int_equal(pg_store_n_weights(a), pg_store_n_weights(b));
    for (size_t i = 0; names && i < pg_store_n_layers(b); i++) {
        assert_non_null(pg_store_layer(a, i));
        assert_string_equal(pg_store_layer(a, i)->name, pg_store_layer(b, i)->name);
        assert_int_equal(pg_store_layer(a, i)->n_weights, pg_store_layer(b, i)->n_weights);
    }
    if (names)
        assert_int_equal(pg_store_n_layers(a), pg_store_n_layers(b));
    for (size_t i = 0; i < pg_store_n_weights(b); i++)
        assert_same_weight(a, b, i, names);
    pg_store_close(a);
    pg_store_close(b);
}

static inline void assert_absent(const char *path)
{
    if (access(path, F_OK) == 0)
        fail_msg("%s was written", path);
}

#endif
