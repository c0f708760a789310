#include "pg_test.h"
#include "wrap/recogniser.h"

static pg_store *flat(const char *const *names)
{
    pg_store *s = NULL;
    const uint64_t dims[] = {2};
    assert_ok(pg__store_new(&s, "safetensors", NULL, NULL, NULL));
    for (; *names; names++)
        assert_ok(pg__store_add_weight(
            s, &(pg__tensor_desc){.name = *names, .dtype = PG_F32, .rank = 1, .dims = dims}, NULL));
    return s;
}

static size_t prefix_of(const char *const *names)
{
    pg_store *s = flat(names);
    const size_t n = pg__rec_prefix.prefix(s);
    pg_store_close(s);
    return n;
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
}

PG_TEST_MAIN(cmocka_unit_test(finds_what_all_names_share),
             cmocka_unit_test(leaves_a_child_called_module_alone),
             cmocka_unit_test(never_leaves_an_empty_name), cmocka_unit_test(says_so_in_the_verdict))
