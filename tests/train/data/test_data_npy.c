/* One array of NumPy: read in place, whatever its rank; what is no array of rows is refused. */
#include "pg_test.h"

#include "train/data_files.h"

static void an_array_is_read_where_it_lies(void **state)
{
    const pg__dims in = {3, {PG_DIM_ANY, 2, 2}};
    pg__ends ends = one_in_one_out(&in);
    const double x[] = {1, -2, 3, -4, 5, -6, 7, 0.5};
    pg_data *d = NULL;
    (void)state;
    write_npy("x.npy", PG_F64, 0, 3, (const uint64_t[]){2, 2, 2}, x);
    ends.targeted = NULL;
    assert_ok(pg_data_open(&d, in_dir("x.npy").s, NULL));
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_int_equal(pg__data_find(d, "x0")->dtype, PG_F64);
    assert_int_equal(pg__data_find(d, "x0")->dims.rank, 3);
    assert_array(d, "x0", x, 8);
    pg_data_close(d);
}

static void assert_refused(pg_status code)
{
    pg_data *d = NULL;
    pg_err err = {0};
    assert_fails(code, pg_data_open(&d, in_dir("bad.npy").s, &err), &err);
    assert_null(d);
    assert_non_null(strstr(err.msg, "bad.npy: "));
}

static void a_single_number_is_no_array_of_rows(void **state)
{
    (void)state;
    write_npy("bad.npy", PG_F32, 0, 0, NULL, &(const float){1});
    assert_refused(PG_E_MISMATCH);
}

/* Its rows are not together in the file; a vector's are, whatever its order is called. */
static void columns_one_after_the_other_are_refused(void **state)
{
    const pg__dims in = {1, {PG_DIM_ANY}};
    pg__ends ends = one_in_one_out(&in);
    pg_data *d = NULL;
    (void)state;
    for (uint32_t rank = 1; rank <= 2; rank++) {
        char head[128] = "\x93NUMPY\1\0v";
        const int n = snprintf(head + 10, sizeof head - 10,
                               "{'descr': '<f4', 'fortran_order': True, 'shape': (2,%s), }",
                               rank == 2 ? "2" : "");
        const float values[] = {1, 2, 3, 4};
        head[8] = 118, head[9] = 0;
        memset(head + 10 + n, ' ', (size_t)(117 - n));
        head[127] = '\n';
        unsigned char file[sizeof head + sizeof values];
        memcpy(file, head, sizeof head);
        memcpy(file + sizeof head, values, sizeof values);
        write_bytes("bad.npy", file, sizeof head + 4 * (size_t)(rank == 2 ? 4 : 2));
        if (rank == 2)
            assert_refused(PG_E_UNSUPPORTED);
        else {
            ends.targeted = NULL;
            assert_ok(pg_data_open(&d, in_dir("bad.npy").s, NULL));
            assert_ok(pg__data_bind(d, &ends, NULL));
            assert_array(d, "x0", (const double[]){1, 2}, 2);
            pg_data_close(d);
        }
    }
}

static void a_file_without_all_its_rows_is_refused(void **state)
{
    (void)state;
    write_npy("bad.npy", PG_F32, 0, 1, (const uint64_t[]){2}, (const float[]){1, 2});
    assert_int_equal(truncate(in_dir("bad.npy").s, 130), 0);
    assert_refused(PG_E_FORMAT);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir, cmocka_unit_test(an_array_is_read_where_it_lies),
                  cmocka_unit_test(a_single_number_is_no_array_of_rows),
                  cmocka_unit_test(columns_one_after_the_other_are_refused),
                  cmocka_unit_test(a_file_without_all_its_rows_is_refused))
