/* IDX files: types, dimensions, what is refused. */
#include "pg_test.h"

#include "train/data_files.h"

static const pg__dims in = {3, {PG_DIM_ANY, 2, 2}};

static void values_are_big_endian(void **state)
{
    static const unsigned char bytes[] = {0, 0, 0x08, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                          0, 0, 0,    2, 1, 2, 3, 4, 5, 6, 7, 255};
    static const unsigned char shorts[] = {0, 0, 0x0B, 1, 0, 0, 0, 2, 1, 0, 255, 255};
    const pg__ends ends = one_in_one_out(&in);
    char list[400];
    pg_data *d = NULL;
    (void)state;
    write_bytes("x.idx", bytes, sizeof bytes);
    write_bytes("y.idx", shorts, sizeof shorts);
    snprintf(list, sizeof list, "%s,%s", in_dir("x.idx").s, in_dir("y.idx").s);
    assert_ok(pg_data_open(&d, list, NULL));
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_int_equal(pg__data_find(d, "x0")->dims.rank, 3);
    assert_array(d, "x0", (const double[]){1, 2, 3, 4, 5, 6, 7, 255}, 8);
    assert_array(d, "y0", (const double[]){256, -1}, 2);
    pg_data_close(d);
}

static void assert_refused(const void *bytes, size_t n, pg_status code)
{
    pg_data *d = NULL;
    pg_err err = {0};
    write_bytes("bad.idx", bytes, n);
    assert_fails(code, pg_data_open(&d, in_dir("bad.idx").s, &err), &err);
    assert_non_null(strstr(err.msg, "bad.idx: "));
}

static void wrong_magic_and_sizes_are_refused(void **state)
{
    (void)state;
    assert_refused("\0\0\x07\x01\0\0\0\x01\0", 9, PG_E_UNKNOWN); /* no such type */
    assert_refused("\0\1\x08\x01\0\0\0\x01\0", 9, PG_E_UNKNOWN);
    assert_refused("\0\0\x08\x01\0\0\0\x02\0", 9, PG_E_FORMAT); /* a byte is missing */
    assert_refused("\0\0\x08\x01\0\0\0\x01\0\0", 10, PG_E_FORMAT);
    assert_refused("\0\0\x08\x02\0\0\0\x02", 8, PG_E_FORMAT); /* a dimension is missing */
    assert_refused("\0\0\x0E\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16, PG_E_FORMAT);
    assert_refused("\0\0\x08\xff\0\0\0\x02", 8, PG_E_LIMIT);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir, cmocka_unit_test(values_are_big_endian),
                  cmocka_unit_test(wrong_magic_and_sizes_are_refused))
