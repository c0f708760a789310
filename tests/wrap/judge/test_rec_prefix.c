#include "pg_test.h"
#include "wrap/judge/recogniser.h"

static pg_store *flat(const char *const *names)
{
    pg_store *s = NULL;
    const uint64_t dims[] = {2};
    assert_ok(pg__store_new(&s, "safetensors", NULL, NULL, NULL));
    for (; *names; names++) {
        const int counter = strcmp(*names, "n_averaged") == 0;
        assert_ok(pg__store_add_weight(
            s,
            &(pg__tensor_desc){
                .name = *names, .dtype = counter ? PG_I64 : PG_F32, .rank = !counter, .dims = dims},
            NULL));
    }
    return s;
}

static size_t prefix_of(const char *const *names)
{
    pg_store *s = flat(names);
    pg__words w;
    assert_ok(pg__rec_prefix.words(&w, s, NULL));
    pg_store_close(s);
    return w.prefix;
}

static void finds_what_all_names_share(void **state)
{
    (void)state;
    assert_int_equal(prefix_of((const char *const[]){"module.a.weight", "module.b.weight", NULL}),
                     7);
    assert_int_equal(prefix_of((const char *const[]){"_orig_mod.a.weight", "_orig_mod.b", NULL}),
                     10);
    assert_int_equal(
        prefix_of((const char *const[]){"module._orig_mod.a", "module._orig_mod.b", NULL}), 17);
    assert_int_equal(
        prefix_of((const char *const[]){"_orig_mod.module.a", "_orig_mod.module.b", NULL}), 17);
    assert_int_equal(prefix_of((const char *const[]){"_forward_module.module.a",
                                                     "_forward_module.module.b", NULL}),
                     23);
}

static void leaves_a_child_called_module_alone(void **state)
{
    (void)state;
    assert_int_equal(prefix_of((const char *const[]){"module.weight", "out.weight", NULL}), 0);
    assert_int_equal(
        prefix_of((const char *const[]){"module.module.weight", "module.out.weight", NULL}), 7);
    assert_int_equal(prefix_of((const char *const[]){"module.module.w", "module.module.b", NULL}),
                     7);
    assert_int_equal(prefix_of((const char *const[]){"modules.weight", "modules.bias", NULL}), 0);
}

static void never_leaves_an_empty_name(void **state)
{
    (void)state;
    assert_int_equal(prefix_of((const char *const[]){"module.", "module.a", NULL}), 0);
    assert_int_equal(prefix_of((const char *const[]){NULL}), 0);
}

/* Names and what they are without the words of wrappers, in turn. */
static void removes_words_wherever_they_stand(void **state)
{
    (void)state;
    static const char *const cases[][9] = {
        {"module.0._fsdp_wrapped_module.weight", "0.weight", "module.1.bias", "1.bias", NULL},
        {"0._fsdp_wrapped_module.module.weight", "0.module.weight", "1.bias", "1.bias", NULL},
        {"_fsdp_wrapped_module.a._checkpoint_wrapped_module.w", "a.w",
         "_fsdp_wrapped_module.a._fsdp_wrapped_module._checkpoint_wrapped_module._orig_mod.v",
         "a.v", NULL},
        {"a._orig_mod.w", "a.w", "b._dp_module.w", "b.w", "c._fpw_module.w", "c.w", NULL},
        {"_orig_mod.module.module.w", "module.w", "_orig_mod.module.b", "b", NULL},
        /* a compiled model in a DataParallel, if nothing stands beside it */
        {"a.module._orig_mod.w", "a.w", "b", "b", NULL},
        {"module.a.module._orig_mod.w", "a.w", "module.b", "b", NULL},
        {"_orig_mod.a.module._orig_mod.b.module._orig_mod.w", "a.b.w", "_orig_mod.b", "b", NULL},
        {"a.module._orig_mod.w", "a.module.w", "a.b", "a.b", NULL},
        {"a.module._checkpoint_wrapped_module.w", "a.module.w", "b", "b", NULL},
        {"_module.module.w", "w", "_module.module.b", "b", NULL},
        {"_module.w", "_module.w", "b.w", "b.w", NULL},
        {"module._module.w", "_module.w", "module.b", "b", NULL},
        {"replicas.0.w", "w", "replicas.1.w", "w", "module.w", "w", NULL},
        {"replicas.0.w", "w", "module.w", "w", NULL},
        /* one number alone: a list that the user calls so */
        {"replicas.0.0.w", "replicas.0.0.w", "replicas.0.0.b", "replicas.0.0.b", NULL},
        {"module.replicas.1.w", "replicas.1.w", "module.replicas.1.b", "replicas.1.b", NULL},
        {"replicas.w", "replicas.w", "replicas.0.v", "replicas.0.v", NULL},
        {"replicas.0.w", "replicas.0.w", "out.v", "out.v", NULL},
        {"a._orig_mod", "a._orig_mod", "b", "b", NULL},
        {"a.._orig_mod.b", "a..b", "module", "module", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *names[5] = {NULL};
        char got[128];
        pg__words w;
        for (size_t k = 0; cases[i][2 * k]; k++)
            names[k] = cases[i][2 * k];
        pg_store *s = flat(names);
        assert_ok(pg__rec_prefix.words(&w, s, NULL));
        assert_int_equal(w.odd, PG_NONE);
        for (size_t k = 0; names[k]; k++) {
            pg__words_strip(got, &w, names[k]);
            assert_string_equal(got, cases[i][2 * k + 1]);
        }
        pg_store_close(s);
    }
}

static void counts_the_words_it_saw(void **state)
{
    (void)state;
    pg__words w;
    pg_store *s = flat((const char *const[]){"module.a._fsdp_wrapped_module.w",
                                             "module.b._fsdp_wrapped_module.w", "module.c", NULL});
    assert_ok(pg__rec_prefix.words(&w, s, NULL));
    assert_int_equal(w.n_names, 3);
    assert_int_equal(w.prefix, 0);
    for (size_t k = 0; k < PG_N_WORDS; k++)
        if (w.n[k])
            assert_int_equal(w.n[k], strcmp(pg__word(k), "module") == 0                 ? 3
                                     : strcmp(pg__word(k), "_fsdp_wrapped_module") == 0 ? 2
                                                                                        : 0);
    pg_store_close(s);
}

static void knows_what_averaging_adds(void **state)
{
    (void)state;
    pg__words w;
    pg_store *s = flat((const char *const[]){"n_averaged", "module.a", "module.b", NULL});
    assert_ok(pg__rec_prefix.words(&w, s, NULL));
    assert_int_equal(w.counter, 0);
    assert_int_equal(w.n_names, 2);
    assert_int_equal(w.prefix, 7);
    pg_finding f = {0};
    assert_ok(pg_inspect(&f, s, NULL));
    assert_string_equal(
        f.reason, "parallel wrapper: all 2 tensors but n_averaged have the prefix \"module.\"");
    assert_string_equal(f.template_name, "module.");
    pg_finding_fini(&f);
    pg_store_close(s);
    s = flat((const char *const[]){"n_averaged", "module.a", "b", NULL});
    assert_ok(pg__rec_prefix.words(&w, s, NULL));
    assert_int_equal(w.counter, PG_NONE);
    assert_int_equal(w.n_names, 0);
    pg_store_close(s);
}

/* DataParallel within a model, or a child of that name: nothing in names and shapes tells. */
static void points_at_module_within_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *other;
        size_t inner, at;
    } cases[] = {{"enc._orig_mod.module.weight", "dec.w", 0, 14},
                 {"enc._orig_mod.net.module.weight", "dec.w", 0, 18},
                 {"enc._checkpoint_wrapped_module.module.weight", "dec.w", 0, 31},
                 {"enc.module.weight", "dec.w", 0, 4},
                 {"module.enc.module.weight", "module.dec.w", 0, 11},
                 {"enc.a.module.module.weight", "dec.w", 0, 6},
                 {"enc.module.weight", "enc.module.bias", 0, 4},
                 {"enc.module.weight", "enc.out", PG_NONE, 0},
                 {"enc.module.weight", "enc.module", PG_NONE, 0},
                 {"enc.module.weight", "enc.modules.w", PG_NONE, 0},
                 {"enc.module", "dec.w", PG_NONE, 0},
                 {"module.weight", "dec.w", PG_NONE, 0},
                 {"_orig_mod.module.a", "_orig_mod.module.b", PG_NONE, 0},
                 {"enc.module._orig_mod.a", "dec.w", PG_NONE, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg__words w;
        pg_store *s = flat((const char *const[]){cases[i].name, cases[i].other, NULL});
        assert_ok(pg__rec_prefix.words(&w, s, NULL));
        assert_int_equal(w.inner, cases[i].inner);
        if (w.inner != PG_NONE)
            assert_int_equal(w.inner_at, cases[i].at);
        pg_store_close(s);
    }
}

static void says_that_module_within_names_is_not_settled(void **state)
{
    (void)state;
    pg_finding f = {0};
    pg_store *s = flat((const char *const[]){"enc.module.weight", "dec.w", NULL});
    assert_ok(pg_inspect(&f, s, NULL));
    assert_int_equal(f.verdict, PG_V_SINGLE);
    assert_string_equal(f.unsettled,
                        "\"module\" in \"enc.module.weight\" is a DataParallel's, or a "
                        "child of that name: the names do not show which");
    assert_string_equal(f.reason, f.unsettled);
    pg_finding_fini(&f);
    pg_store_close(s);
}

static void names_words_that_it_does_not_know(void **state)
{
    (void)state;
    static const struct {
        const char *name, *part;
        int flat;
    } cases[] = {{"a._acme_wrapped_module.w", "_acme_wrapped_module", 0},
                 {"_fsdp_wrapped_module.b.flat_param", "flat_param", 1},
                 {"_fsdp_wrapped_module._flat_param", "_flat_param", 1},
                 {"a.flat_param_0", "flat_param_0", 1},
                 {"a.flat_param_x", NULL, 0},
                 {"a._wrapped_modules.w", NULL, 0},
                 {"a.wrapped_module.w", NULL, 0},
                 {"flat_param.w", NULL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg__words w;
        pg_finding f = {0};
        pg_store *s = flat((const char *const[]){"x", cases[i].name, NULL});
        assert_ok(pg__rec_prefix.words(&w, s, NULL));
        assert_int_equal(w.odd, cases[i].part ? 1 : PG_NONE);
        if (cases[i].part) {
            assert_string_equal(w.odd_part, cases[i].part);
            assert_int_equal(w.odd_is_flat, cases[i].flat);
            assert_ok(pg_inspect(&f, s, NULL));
            assert_int_equal(f.verdict, PG_V_AMBIGUOUS);
            assert_non_null(strstr(f.reason, cases[i].name));
        }
        pg_finding_fini(&f);
        pg_store_close(s);
    }
}

static void says_so_in_the_verdict(void **state)
{
    (void)state;
    pg_finding f = {0};
    pg_store *s = flat((const char *const[]){"module.a.weight", "module.b.weight", NULL});
    assert_ok(pg_inspect(&f, s, NULL));
    assert_int_equal(f.verdict, PG_V_WRAPPER);
    assert_string_equal(f.template_name, "module.");
    assert_int_equal(f.replicas, 0);
    pg_finding_fini(&f);
    pg_store_close(s);
    s = flat((const char *const[]){"module.a._orig_mod.weight", "module.b.weight", NULL});
    assert_ok(pg_inspect(&f, s, NULL));
    assert_int_equal(f.verdict, PG_V_WRAPPER);
    assert_string_equal(f.template_name, "module, _orig_mod");
    assert_string_equal(f.reason, "parallel wrapper: 2 of 2 names hold words of wrappers (module, "
                                  "_orig_mod)");
    assert_int_equal(f.n_evidence, 2);
    pg_finding_fini(&f);
    pg_store_close(s);
}

PG_TEST_MAIN(cmocka_unit_test(finds_what_all_names_share),
             cmocka_unit_test(leaves_a_child_called_module_alone),
             cmocka_unit_test(never_leaves_an_empty_name),
             cmocka_unit_test(removes_words_wherever_they_stand),
             cmocka_unit_test(counts_the_words_it_saw), cmocka_unit_test(knows_what_averaging_adds),
             cmocka_unit_test(points_at_module_within_a_name),
             cmocka_unit_test(says_that_module_within_names_is_not_settled),
             cmocka_unit_test(names_words_that_it_does_not_know),
             cmocka_unit_test(says_so_in_the_verdict))
