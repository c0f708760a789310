#include "pg_test.h"

static void keeps_file_order(void **state)
{
    (void)state;
    pg_store *s = pg_test_store("input_1 conv[kernel:0#3x3x1x4 bias:0#4] flatten dense[kernel:0]");
    assert_int_equal(pg_store_n_layers(s), 4);
    assert_int_equal(pg_store_n_weights(s), 3);
    assert_string_equal(pg_store_layer(s, 3)->name, "dense");
    assert_int_equal(pg_store_layer(s, 3)->first, 2);
    assert_int_equal(pg_store_weight(s, 0)->n_bytes, 144);
    assert_int_equal(pg_store_weight(s, 2)->layer, 3);
    assert_null(pg_store_weight(s, 3));
    assert_null(pg_store_layer(s, 4));
    pg_store_close(s);
}

static void refuses_a_shape_that_overflows(void **state)
{
    (void)state;
    pg_err err = {0};
    const uint64_t dims[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    pg_store *s = pg_test_store("a");
    const pg__tensor_desc d = {.name = "w", .dtype = PG_F32, .rank = 2, .dims = dims};
    assert_fails(PG_E_LIMIT, pg__store_add_weight(s, &d, &err), &err);
    assert_int_equal(pg_store_n_weights(s), 0);
    pg_store_close(s);
}

static pg_status count_up(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    (void)ctx, (void)tensor, (void)err;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = (unsigned char)(off + i);
    return PG_OK;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static void turns_big_endian_data_round(void **state)
{
    (void)state;
    static const pg__store_io io = {.read = count_up, .close = nothing};
    const uint64_t dims[] = {4};
    const pg__tensor_desc d = {.name = "w",
                               .dtype = PG_F32,
                               .rank = 1,
                               .dims = dims,
                               .big_endian = __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__};
    const unsigned char want[] = {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12};
    pg_store *s = NULL;
    assert_ok(pg__store_new(&s, "test", &io, NULL, NULL));
    assert_ok(pg__store_add_weight(s, &d, NULL));
    for (size_t off = 0; off < 16; off++)
        for (size_t n = 0; off + n <= 16; n++) {
            unsigned char got[16] = {0};
            assert_ok(pg_store_read(s, 0, off, got, n, NULL));
            assert_memory_equal(got, want + off, n);
        }
    pg_store_close(s);
}

static void reads_nothing_outside_a_tensor(void **state)
{
    (void)state;
    pg_err err = {0};
    char buf[32];
    pg_store *s = pg_test_store("a[w]");
    assert_fails(PG_E_ARG, pg_store_read(s, 0, 20, buf, 5, &err), &err);
    assert_fails(PG_E_ARG, pg_store_read(s, 1, 0, buf, 1, &err), &err);
    assert_fails(PG_E_UNSUPPORTED, pg_store_read(s, 0, 0, buf, 24, &err), &err);
    pg_store_close(s);
}

PG_TEST_MAIN(cmocka_unit_test(keeps_file_order), cmocka_unit_test(refuses_a_shape_that_overflows),
             cmocka_unit_test(turns_big_endian_data_round),
             cmocka_unit_test(reads_nothing_outside_a_tensor))
