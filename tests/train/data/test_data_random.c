/* Made-up rows: noughts and ones in the model's shape, the same for the same seed in whatever order
 * they are read. */
#include "pg_test.h"

#include "train/data_files.h"

static const pg__dims in = {3, {PG_DIM_ANY, PG_DIM_ANY, 3}};

static pg_data *made_up(uint64_t n_rows, uint64_t seed)
{
    const pg__ends ends = one_in_one_out(&in);
    pg_data *d = NULL;
    pg__ends inputs = ends;
    inputs.targeted = NULL;
    assert_ok(pg_data_random(&d, n_rows, seed, NULL));
    assert_ok(pg__data_bind(d, &inputs, NULL));
    return d;
}

static void rows_are_noughts_and_ones_of_the_models_shape(void **state)
{
    size_t n = 0, n_ones = 0;
    (void)state;
    pg_data *d = made_up(5, 1);
    const pg__array *a = pg__data_find(d, "x0");
    assert_int_equal(a->dims.d[0], 5);
    assert_int_equal(a->dims.d[1], 32); /* what the model leaves open */
    assert_int_equal(a->dims.d[2], 3);
    double *v = read_all(a, &n);
    assert_int_equal(n, 5 * 32 * 3);
    for (size_t i = 0; i < n; i++) {
        assert_true(v[i] == 0 || v[i] == 1);
        n_ones += v[i] == 1;
    }
    assert_in_range(n_ones, n / 3, 2 * n / 3);
    pg__mem_free(v);
    pg_data_close(d);
}

static void a_seed_makes_the_same_rows_in_any_order(void **state)
{
    enum { ROW = 32 * 3 };
    const uint64_t some[] = {3, 0};
    size_t n = 0;
    float two[2 * ROW];
    (void)state;
    pg_data *d = made_up(5, 1), *same = made_up(5, 1), *other = made_up(5, 2);
    double *v = read_all(pg__data_find(d, "x0"), &n), *w = read_all(pg__data_find(other, "x0"), &n);
    assert_memory_not_equal(v, w, n * sizeof *v);
    assert_ok(pg__array_read(pg__data_find(same, "x0"), some, 2, PG_AS_F32, two, NULL, NULL));
    for (size_t i = 0; i < ROW; i++) {
        assert_true(two[i] == (float)v[3 * ROW + i]);
        assert_true(two[ROW + i] == (float)v[i]);
    }
    pg__mem_free(v);
    pg__mem_free(w);
    pg_data_close(d);
    pg_data_close(same);
    pg_data_close(other);
}

PG_TEST_MAIN(cmocka_unit_test(rows_are_noughts_and_ones_of_the_models_shape),
             cmocka_unit_test(a_seed_makes_the_same_rows_in_any_order))
