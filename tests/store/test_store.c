#include "pg_test.h"

#include <unistd.h>

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

/* Every weight lies in one piece, and the bytes there are those that a read gives. */
static void check_places(pg_store *s)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        unsigned char mapped[4096], read[4096];
        const size_t n = (size_t)pg_store_weight(s, i)->n_bytes;
        uint64_t off = 0;
        const int fd = pg_store_place(s, i, &off);
        assert_true(n <= sizeof read && fd >= 0);
        assert_int_equal(pread(fd, mapped, n, (off_t)off), n);
        assert_ok(pg_store_read(s, i, 0, read, n, NULL));
        assert_memory_equal(mapped, read, n);
    }
}

static void tells_where_a_tensor_lies(void **state)
{
    (void)state;
    static const char *const files[] = {"keras-2.2.4/cnn4-g2/wrapper_weights.h5",
                                        "keras-3.6.0-native/cnn4/template.keras",
                                        "pytorch/cnn/checkpoint.pth.tar"};
    uint64_t off = 7;
    char path[4096];
    pg_store *s = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/files/%s", pg_testdata, files[i]);
        assert_ok(pg_store_open(&s, path, NULL, NULL));
        check_places(s);
        pg_store_close(s);
        assert_ok(pg_convert_open(&s, path, &(pg_convert_opts){.unwrap = i != 1}, NULL, NULL));
        check_places(s);
        pg_store_close(s);
    }
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_int_equal(pg_store_place(s, pg_store_n_weights(s), &off), -1);
    assert_int_equal(pg_store_place_state(s, 0, &off), -1);
    pg_store_close(s);
    s = pg_test_store("a[w]"); /* no bytes at all */
    assert_int_equal(pg_store_place(s, 0, &off), -1);
    assert_int_equal(off, 7);
    pg_store_close(s);
}

PG_TEST_MAIN(cmocka_unit_test(keeps_file_order), cmocka_unit_test(refuses_a_shape_that_overflows),
             cmocka_unit_test(turns_big_endian_data_round),
             cmocka_unit_test(reads_nothing_outside_a_tensor),
             cmocka_unit_test(tells_where_a_tensor_lies))
