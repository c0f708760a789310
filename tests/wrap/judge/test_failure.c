/* What is told of a file that no reader opened: damaged or unknown, and its container by its first
 * bytes. */
#include "pg_test.h"

#include "train/data_files.h"

static const char *container(const char *bytes, size_t n, size_t at, pg_status failure)
{
    unsigned char file[2000] = {0};
    memcpy(file + at, bytes, n);
    write_bytes("f", file, at + n);
    return pg_failure_container(in_dir("f").s, failure);
}

static void first_bytes_tell_the_container(void **state)
{
    (void)state;
    for (size_t at = 0; at <= 1024; at = at ? 2 * at : 512)
        assert_string_equal(container("\x89HDF\r\n\x1a\n", 8, at, PG_E_FORMAT), "hdf5");
    assert_null(container("\x89HDF\r\n\x1a\n", 8, 100, PG_E_FORMAT));
    assert_null(container("\x89HDF\r\n\x1a", 7, 0, PG_E_FORMAT));
    assert_string_equal(container("PK\3\4", 4, 0, PG_E_FORMAT), "zip");
    assert_string_equal(container("PK\3\4", 4, 0, PG_E_UNSUPPORTED), "pytorch-zip");
    assert_string_equal(container("\x93NUMPY", 6, 0, PG_E_UNKNOWN), "npy");
    assert_null(container("hello", 5, 0, PG_E_UNKNOWN));
    assert_null(container("", 0, 0, PG_E_UNKNOWN));
    assert_null(pg_failure_container(in_dir("nowhere").s, PG_E_IO));
}

static void what_cannot_be_right_is_damaged(void **state)
{
    (void)state;
    assert_int_equal(pg_failure_verdict(PG_E_FORMAT), PG_V_DAMAGED);
    assert_int_equal(pg_failure_verdict(PG_E_LIMIT), PG_V_DAMAGED);
    assert_int_equal(pg_failure_verdict(PG_E_UNKNOWN), PG_V_UNKNOWN);
    assert_int_equal(pg_failure_verdict(PG_E_IO), PG_V_UNKNOWN);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir, cmocka_unit_test(first_bytes_tell_the_container),
                  cmocka_unit_test(what_cannot_be_right_is_damaged))
