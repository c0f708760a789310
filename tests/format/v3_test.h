/* v3_test.h - what the tests of the path layout's three formats share. */
#ifndef PG_V3_TEST_H
#define PG_V3_TEST_H

#include "pg_test.h"

#include <unistd.h>

#include "base/mem.h"
#include "format/fmt_keras_v3.h"

static char v3_dir[] = "/tmp/pg-test-v3-XXXXXX";

static int v3_setup(void **state)
{
    (void)state;
    return mkdtemp(v3_dir) ? 0 : -1;
}

static int v3_teardown(void **state)
{
    (void)state;
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -r '%s'", v3_dir);
    return system(cmd);
}

#define V3_TEST_MAIN(...)                                            \
    const char *pg_testdata = ".";                                   \
    int main(int argc, char **argv)                                  \
    {                                                                \
        const struct CMUnitTest tests[] = {__VA_ARGS__};             \
        pg_testdata = argc > 1 ? argv[1] : ".";                      \
        return cmocka_run_group_tests(tests, v3_setup, v3_teardown); \
    }

/* A path below testdata/files, or in the test's own folder; four may be in use at a time. */
static inline const char *v3_path(const char *folder, const char *sub, const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s%s/%s", folder, sub, name);
    return p;
}

static inline const char *v3_file(const char *name)
{
    return v3_path(pg_testdata, "/files", name);
}

static inline const char *v3_tmp(const char *name)
{
    return v3_path(v3_dir, "", name);
}

static inline pg_store *v3_open(const char *path)
{
    pg_store *s = NULL;
    pg_err err = {0};
    if (pg_store_open(&s, path, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

static inline void v3_save(const pg__format *f, const char *path, const pg__plan *plan)
{
    pg_err err = {0};
    const pg__save_opts opts = {.sink = {.force = 1, .no_sync = 1}};
    pg__save_report report = {0};
    if (pg__format_save(f, path, plan, &opts, &report, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(report.n_verified, plan->n_items + pg__plan_n_state(plan));
}

static inline void v3_copy_file(const char *from, const char *to)
{
    char buf[4096];
    size_t n;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    while ((n = fread(buf, 1, sizeof buf, in)) > 0)
        assert_int_equal(fwrite(buf, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static inline void v3_write_file(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void v3_same_bytes(pg_store *a, size_t i, pg_store *b, size_t j)
{
    const pg_weight *x = pg__store_tensor(a, i), *y = pg__store_tensor(b, j);
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->rank, y->rank);
    assert_memory_equal(x->dims, y->dims, sizeof x->dims);
    unsigned char *p = pg__mem_array(x->n_bytes, 1), *q = pg__mem_array(y->n_bytes, 1);
    assert_ok(pg__store_read_raw(a, i, 0, p, x->n_bytes, NULL));
    assert_ok(pg__store_read_raw(b, j, 0, q, y->n_bytes, NULL));
    assert_memory_equal(p, q, x->n_bytes);
    pg__mem_free(p);
    pg__mem_free(q);
}

static inline void v3_same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_string_equal(a, b);
}

/* Same layers under the same paths and names, same weights, same bytes. The template's InputLayer
 * is stored with the wrapper: `lifted` may lack layers/input_layer, which `genuine` has. */
static inline void v3_same_model(pg_store *lifted, pg_store *genuine)
{
    size_t a = 0;
    for (size_t b = 0; b < pg_store_n_layers(genuine); b++) {
        const pg_layer *x = pg_store_layer(lifted, a), *y = pg_store_layer(genuine, b);
        if (strcmp(y->name, "layers/input_layer") == 0 && (!x || strcmp(x->name, y->name)))
            continue;
        assert_non_null(x);
        assert_string_equal(x->name, y->name);
        /* a name may lie in another shard than the data; then it is not written */
        if (pg__v3_layer_name(lifted, a) || strcmp(pg_store_format(genuine), "keras-sharded"))
            v3_same_text(pg__v3_layer_name(lifted, a), pg__v3_layer_name(genuine, b));
        a++;
    }
    assert_int_equal(a, pg_store_n_layers(lifted));
    v3_same_text(pg__v3_model_name(lifted), pg__v3_model_name(genuine));
    assert_int_equal(pg_store_n_weights(lifted), pg_store_n_weights(genuine));
    for (size_t i = 0; i < pg_store_n_weights(lifted); i++)
        v3_same_bytes(lifted, i, genuine, i);
}

/* The state outside of the layers is the same in both. */
static inline void v3_same_root_state(pg_store *out, pg_store *in)
{
    size_t n = 0;
    for (size_t i = 0; i < pg_store_n_state(in); i++) {
        if (strncmp(pg_store_state(in, i)->name, "layers/", 7) == 0)
            continue;
        v3_same_bytes(out, pg_store_n_weights(out) + n++, in, pg_store_n_weights(in) + i);
    }
    assert_int_equal(n, pg_store_n_state(out));
}

/* Objects, attributes and data of two walked files agree. */
static inline void v3_same_h5(const pg__h5 *a, const pg__h5 *b)
{
    assert_int_equal(pg__h5_n(a), pg__h5_n(b));
    for (uint32_t i = 0; i < pg__h5_n(a); i++) {
        const pg__h5_object *x = pg__h5_at(a, i), *y = pg__h5_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->parent, y->parent);
        assert_int_equal(x->n_attrs, y->n_attrs);
        for (uint32_t k = 0; k < x->n_attrs; k++) {
            const pg__h5_attr *p = pg__h5_attr_at(a, i, k);
            const pg__h5_attr *q = pg__h5_attr_find(b, i, p->name);
            assert_non_null(q);
            assert_int_equal(p->type.cls, q->type.cls);
            assert_int_equal(p->type.utf8, q->type.utf8);
            assert_int_equal(p->rank, q->rank);
            assert_int_equal(p->n_elems, q->n_elems);
            for (size_t s = 0; p->strs && s < p->n_elems; s++)
                assert_string_equal(p->strs[s], q->strs[s]);
            if (!p->strs)
                assert_memory_equal(p->raw, q->raw, p->n_elems * p->type.size);
        }
    }
}

#endif
