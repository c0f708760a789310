#include "pg_test.h"

#include "base/index.h"

static void finds_the_first_of_equal_names(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "a", "c", "a", "", "b/x", "b.x"};
    pg__index x = {0};
    assert_int_equal(pg__index_find(&x, "a"), PG_NONE);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_ok(pg__index_add(&x, names[i], i, NULL));
    pg__index_sort(&x);
    assert_int_equal(pg__index_find(&x, "a"), 1);
    assert_int_equal(pg__index_find(&x, ""), 4);
    assert_int_equal(pg__index_find(&x, "c"), 2);
    assert_int_equal(pg__index_find(&x, "d"), PG_NONE);
    pg__index_fini(&x);
    assert_int_equal(x.n, 0);
}

static void gives_all_names_with_a_prefix_side_by_side(void **state)
{
    (void)state;
    static const char *const names[] = {"b/y", "b", "b.x", "c", "b/x", "b0"};
    pg__index x = {0};
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_ok(pg__index_add(&x, names[i], i, NULL));
    pg__index_sort(&x);
    for (size_t k = pg__index_from(&x, "b/"); k < x.n && strncmp(x.v[k].name, "b/", 2) == 0; k++)
        n++;
    assert_int_equal(n, 2);
    assert_int_equal(pg__index_from(&x, "d"), x.n);
    pg__index_fini(&x);
}

PG_TEST_MAIN(cmocka_unit_test(finds_the_first_of_equal_names),
             cmocka_unit_test(gives_all_names_with_a_prefix_side_by_side))
