/* The rows of a comparison as layers: their names, and which have no changed tensor. */
#include "pg_test.h"

#define ROW(kind_, name_)                                          \
    {                                                              \
        .kind = PG_ROW_##kind_, .name = (char *)(uintptr_t)(name_) \
    }

static void adjacent_rows_of_one_name_are_a_layer(void **state)
{
    pg_compare_row rows[] = {ROW(EQUAL, "conv1/kernel"),    ROW(EQUAL, "conv1/bias"),
                             ROW(DIFFERS, "conv10/kernel"), ROW(EQUAL, "conv10/bias"),
                             ROW(EQUAL, "head.fc.weight"),  ROW(ONLY_B, "scale")};
    static const struct {
        const char *name;
        size_t n_rows, n_equal;
    } want[] = {{"conv1", 2, 2}, {"conv10", 2, 1}, {"head.fc", 1, 1}, {"scale", 1, 0}};
    const pg_comparison c = {.rows = rows, .n_rows = sizeof rows / sizeof *rows};
    size_t i = 0, n = 0;
    (void)state;
    for (; i < c.n_rows; n++) {
        pg_compare_layer l;
        i = pg_comparison_layer(&l, &c, i);
        assert_int_equal(l.n_name, strlen(want[n].name));
        assert_memory_equal(l.name, want[n].name, l.n_name);
        assert_int_equal(l.n_rows, want[n].n_rows);
        assert_int_equal(l.n_equal, want[n].n_equal);
    }
    assert_int_equal(n, sizeof want / sizeof *want);
}

static void a_layer_may_be_asked_for_from_any_of_its_rows(void **state)
{
    pg_compare_row rows[] = {ROW(EQUAL, "a/x"), ROW(DIFFERS, "a/y"), ROW(EQUAL, "b/x")};
    const pg_comparison c = {.rows = rows, .n_rows = 3};
    pg_compare_layer l;
    (void)state;
    assert_int_equal(pg_comparison_layer(&l, &c, 1), 2);
    assert_int_equal(l.n_rows, 1);
    assert_int_equal(l.n_equal, 0);
    assert_memory_equal(l.name, "a", l.n_name);
}

PG_TEST_MAIN(cmocka_unit_test(adjacent_rows_of_one_name_are_a_layer),
             cmocka_unit_test(a_layer_may_be_asked_for_from_any_of_its_rows))
