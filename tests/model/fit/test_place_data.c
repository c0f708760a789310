/* Every genuine wrapper of the test data against the template that its manifest names. */
#include "model/match_test.h"

static char *slurp(const char *file, size_t *n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", pg_testdata, file);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *n, f), *n);
    text[*n] = 0;
    fclose(f);
    return text;
}

static pg__json *manifest(void)
{
    size_t n;
    pg__json *j = NULL;
    char *text = slurp("manifest.json", &n);
    assert_non_null(text);
    assert_ok(pg__json_parse(&j, text, n, NULL));
    free(text);
    return j;
}

static pg_status place_file(pg__placing *p, const pg_store *s, const template_ *t, pg_err *err)
{
    flat f = flat_of(s);
    const pg_status st = pg__place(p, &t->leaves, f.v, f.n, err);
    free(f.v);
    return st;
}

static pg_store *open_file(const char *file)
{
    char path[1024];
    pg_err err = {0};
    pg_store *s = NULL;
    snprintf(path, sizeof path, "%s/%s", pg_testdata, file);
    if (pg_store_open(&s, path, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* Where the case keeps the architecture; NULL if it has none. */
static char *template_text(const pg__json *cases, const char *name)
{
    char path[512];
    size_t n;
    const char *json = pg__json_get_str(pg__json_get(cases, name), "template_json");
    if (!json)
        return NULL;
    char *text = slurp(json, &n);
    snprintf(path, sizeof path, "files/%s/%s", name, json);
    return text ? text : slurp(path, &n);
}

/* Stable grouping by top-level layer must give the order of the template's own file. */
static void check_order(const char *file, const template_ *t, const pg__placing *p,
                        const pg__json *weights)
{
    const size_t n = pg__json_len(weights);
    size_t *wanted = calloc(n, sizeof *wanted);
    assert_non_null(wanted);
    assert_int_equal(p->n, n);
    for (size_t i = 0; i < n; i++) {
        int64_t in_template, in_wrapper;
        assert_true(pg__json_int(pg__json_get(pg__json_at(weights, i), "index_in_template_file"),
                                 &in_template));
        assert_true(pg__json_int(pg__json_get(pg__json_at(weights, i), "index_in_wrapper_file"),
                                 &in_wrapper));
        assert_true((size_t)in_template < n);
        wanted[in_template] = (size_t)in_wrapper;
    }
    size_t at = 0;
    for (size_t top = 0; top < t->g->root->n_layers; top++)
        for (size_t i = 0; i < n; i++)
            if (t->leaves.v[p->leaf[i]].top == top && wanted[at++] != i)
                fail_msg("%s: weight %zu of the template is %zu, not %zu", file, at - 1,
                         wanted[at - 1], i);
    assert_int_equal(at, n);
    free(wanted);
}

static void every_wrapper_is_placed_as_keras_stored_the_template(void **state)
{
    (void)state;
    pg__json *m = manifest();
    const pg__json *files = pg__json_get(m, "files"), *cases = pg__json_get(m, "cases");
    size_t n_placed = 0;
    for (size_t i = 0; i < pg__json_len(files); i++) {
        const pg__json *f = pg__json_at(files, i);
        const char *file = pg__json_get_str(f, "file"), *kind = pg__json_get_str(f, "kind"),
                   *holds = pg__json_get_str(f, "holds"), *name = pg__json_get_str(f, "case");
        if (!holds || !name || strcmp(holds, "wrapper") != 0 || !strstr(kind, "legacy") ||
            strstr(kind, "left behind"))
            continue;
        const pg__json *weights = pg__json_get(pg__json_get(cases, name), "weights");
        char *text = template_text(cases, name);
        if (!text)
            continue;
        pg_err err = {0};
        pg__placing p = {0};
        template_ t = template_of(text);
        pg_store *s = open_file(file);
        if (place_file(&p, s, &t, &err) != PG_OK)
            fail_msg("%s: %s\n%s", file, err.msg, err.detail);
        if (pg__json_get(pg__json_at(weights, 0), "index_in_wrapper_file"))
            check_order(file, &t, &p, weights);
        n_placed++;
        pg__placing_fini(&p);
        pg_store_close(s);
        template_free(&t);
        free(text);
    }
    assert_true(n_placed >= 70);
    pg__json_free(m);
}

static void wrong_templates_are_refused_and_right_ones_taken(void **state)
{
    (void)state;
    pg__json *m = manifest();
    const pg__json *pairs = pg__json_get(m, "wrong_template_pairs");
    for (size_t i = 0; i < pg__json_len(pairs); i++) {
        const pg__json *pair = pg__json_at(pairs, i);
        const int accept = strcmp(pg__json_get_str(pair, "expected"), "accept") == 0;
        size_t n;
        pg_err err = {0};
        pg__placing p = {0};
        char *text = slurp(pg__json_get_str(pair, "template_json"), &n);
        assert_non_null(text);
        template_ t = template_of(text);
        pg_store *s = open_file(pg__json_get_str(pair, "wrapper"));
        const pg_status st = place_file(&p, s, &t, &err);
        if (st != (accept ? PG_OK : PG_E_MISMATCH))
            fail_msg("pair %zu (%s): %s", i, pg__json_get_str(pair, "why"), err.msg);
        if (!accept)
            assert_true(err.detail[0] != 0);
        pg__placing_fini(&p);
        pg_store_close(s);
        template_free(&t);
        free(text);
    }
    assert_true(pg__json_len(pairs) >= 7);
    pg__json_free(m);
}

PG_TEST_MAIN(cmocka_unit_test(every_wrapper_is_placed_as_keras_stored_the_template),
             cmocka_unit_test(wrong_templates_are_refused_and_right_ones_taken))
