#include "pg_test.h"
#include "wrap/files.h"

#include "wrap/rewrite/pairing.h"

static pg_rewrite_report repair(const char *in, const char *out, pg_unwrap_opts o)
{
    pg_err err = {0};
    pg_rewrite_report rep = {0};
    o.write.no_sync = 1;
    if (pg_unwrap_file(in, out, &o, &rep, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return rep;
}

static void renames_layers_that_were_renumbered(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r = repair(data(K224 "renumbered-cnnbn-g2/template_weights.h5"), out,
                                 (pg_unwrap_opts){.like = data(K224 "cnnbn-g2/template.json")});
    assert_string_equal(r.action, "repaired");
    pg_rewrite_report_fini(&r);
    pg_store *a = open_file(out), *b = open_file(data(K224 "cnnbn-g2/template_weights.h5"));
    assert_int_equal(pg_store_n_layers(a), pg_store_n_layers(b));
    for (size_t i = 0; i < pg_store_n_layers(b); i++)
        assert_string_equal(pg_store_layer(a, i)->name, pg_store_layer(b, i)->name);
    for (size_t i = 0; i < pg_store_n_weights(b); i++)
        assert_string_equal(pg_store_weight(a, i)->name, pg_store_weight(b, i)->name);
    pg_store_close(a);
    pg_store_close(b);
    forget(out);
}

static void copies_a_file_that_fits_already(void **state)
{
    (void)state;
    const char *in = data(K224 "nested-g2/template_weights.h5"), *out = tmp("out.h5");
    pg_rewrite_report r =
        repair(in, out, (pg_unwrap_opts){.like = data(K224 "nested-g2/template.json")});
    assert_non_null(strstr(r.notes[0], "as it is"));
    pg_rewrite_report_fini(&r);
    assert_same(out, in, 1);
    forget(out);
}

static void wraps_a_plain_file_into_a_model_with_one_layer(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r = repair(data(K224 "cnnbn-g2/template_weights.h5"), out,
                                 (pg_unwrap_opts){.like = data(K224 "cnnbn-g2/wrapper_model.h5")});
    assert_string_equal(r.action, "wrapped");
    pg_rewrite_report_fini(&r);
    assert_same(out, data(K224 "cnnbn-g2/wrapper_weights.h5"), 1);
    forget(out);
}

static void uses_the_template_of_a_wrapper_that_was_given(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r = repair(data(K224 "cnnbn-g2/wrapper_weights.h5"), out,
                                 (pg_unwrap_opts){.like = data(K224 "cnnbn-g2/wrapper_model.h5")});
    assert_string_equal(r.action, "unwrapped");
    pg_rewrite_report_fini(&r);
    assert_same(out, data(K224 "cnnbn-g2/template_weights.h5"), 1);
    forget(out);
}

/* The model of cnn4-g2 with its last layer renamed and made wider. */
static const char *changed_model(const char *name)
{
    const char *path = tmp(name);
    static char text[20000];
    FILE *f = fopen(data(K224 "cnn4-g2/template.json"), "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    f = fopen(path, "w");
    assert_non_null(f);
    for (char *p = text; *p;) {
        if (strncmp(p, "dense_2", 7) == 0) {
            fputs("head_x", f);
            p += 7;
        } else if (strncmp(p, "\"units\": 5", 10) == 0) {
            fputs("\"units\": 9", f);
            p += 10;
        } else {
            fputc(*p++, f);
        }
    }
    fclose(f);
    return path;
}

static void lists_what_is_missing_and_extra(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_rewrite_report rep = {0};
    const char *like = changed_model("changed.json"), *out = tmp("out.h5"),
               *in = data(K224 "cnn4-g2/template_weights.h5");
    pg_unwrap_opts o = {.like = like};
    assert_fails(PG_E_MISMATCH, pg_unwrap_file(in, out, &o, &rep, &err), &err);
    assert_int_equal(rep.n_missing, 1);
    assert_int_equal(rep.n_extra, 1);
    assert_non_null(strstr(rep.missing[0], "head_x"));
    assert_non_null(strstr(rep.extra[0], "dense_2"));
    assert_non_null(pg_action_get(&err.action, "partial"));
    assert_absent(out);
    pg_rewrite_report_fini(&rep);
    o.partial = 1;
    rep = repair(in, out, o);
    assert_int_equal(rep.n_missing, 1);
    assert_int_equal(rep.n_weighted, 3);
    pg_rewrite_report_fini(&rep);
    pg_store *s = open_file(out);
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        assert_string_not_equal(pg_store_layer(s, i)->name, "head_x");
    pg_store_close(s);
    unlink(like);
    forget(out);
}

/* ---- pairing ---- */

static const char *pair(char *buf, size_t n, const char *from, const char *to)
{
    pg_err err = {0};
    size_t *pairs = NULL, at = 0;
    int renumbered = 0;
    pg_store *a = pg_test_store(from), *b = pg_test_store(to);
    const size_t k = pg_store_n_weights(b);
    if (pg__pair(&pairs, &renumbered, a, b, 0, k, &err) != PG_OK)
        snprintf(buf, n, "?");
    else
        at = (size_t)snprintf(buf, n, "%s", renumbered ? "by number:" : "by name:");
    for (size_t i = 0; pairs && i < k; i++)
        at += (size_t)snprintf(buf + at, n - at, " %zu", pairs[i]);
    free(pairs);
    pg_store_close(a);
    pg_store_close(b);
    return buf;
}

static void pairs_by_name_before_numbers(void **state)
{
    (void)state;
    char got[100];
    assert_string_equal(pair(got, sizeof got, "x[b_2/k:0 b_1/k:0]", "m[b_1/k:0 b_2/k:0]"),
                        "by name: 1 0");
    assert_string_equal(pair(got, sizeof got, "x[b_5/k:0 b_7/k:0]", "m[b_12/k:0 b_8/k:0]"),
                        "by number: 1 0");
    assert_string_equal(
        pair(got, sizeof got, "x[dense/k:0 dense_1/k:0]", "m[dense_2/k:0 dense_1/k:0]"),
        "by number: 1 0");
}

static void refuses_pairs_that_do_not_fit(void **state)
{
    (void)state;
    char got[100];
    assert_string_equal(pair(got, sizeof got, "x[a/k:0]", "m[b/k:0]"), "?");
    assert_string_equal(pair(got, sizeof got, "x[a/k:0#2]", "m[a/k:0#3]"), "?");
    assert_string_equal(pair(got, sizeof got, "x[a/k:0 b/k:0]", "m[a/k:0]"), "?");
    assert_string_equal(pair(got, sizeof got, "x[a/k:0 a/k:0]", "m[a/k:0 a/k:0]"), "?");
    /* d_1 has a kernel, d_2 a bias there; here one layer has both: numbers would mix two layers. */
    assert_string_equal(pair(got, sizeof got, "x[d_1/k:0 d_2/b:0]", "m[d_3/k:0 d_3/b:0]"), "?");
}

PG_TEST_MAIN(cmocka_unit_test(renames_layers_that_were_renumbered),
             cmocka_unit_test(copies_a_file_that_fits_already),
             cmocka_unit_test(wraps_a_plain_file_into_a_model_with_one_layer),
             cmocka_unit_test(uses_the_template_of_a_wrapper_that_was_given),
             cmocka_unit_test(lists_what_is_missing_and_extra),
             cmocka_unit_test(pairs_by_name_before_numbers),
             cmocka_unit_test(refuses_pairs_that_do_not_fit))
