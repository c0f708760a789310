/* HDF5 as data: stored in one piece or in packed chunks, the same rows. */
#include "pg_test.h"

#include <hdf5.h>

#include "train/data_files.h"

enum { ROWS = 50, COLUMNS = 3 };

static void add(hid_t file, const char *name, int chunked, hid_t type, const void *values, int rank)
{
    const hsize_t dims[] = {ROWS, COLUMNS}, chunk[] = {7, 2};
    const hid_t space = H5Screate_simple(rank, dims, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    if (chunked) {
        H5Pset_chunk(how, rank, chunk);
        H5Pset_shuffle(how);
        H5Pset_deflate(how, 4);
    }
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    assert_true(set >= 0);
    assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
}

static void rows_of_chunks_and_of_one_piece_are_the_same(void **state)
{
    double x[ROWS * COLUMNS], y[ROWS], got[2 * COLUMNS];
    const uint64_t rows[] = {48, 6};
    (void)state;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = i / 8.0;
    for (int i = 0; i < ROWS; i++)
        y[i] = i % 5;
    for (int chunked = 0; chunked < 2; chunked++) {
        const hid_t file = H5Fcreate(in_dir("d.h5").s, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        pg_data *d = NULL;
        pg_err err = {0};
        add(file, "x0", chunked, H5T_IEEE_F32BE, x, 2);
        add(file, "y0", chunked, H5T_STD_I16LE, y, 1);
        H5Gclose(H5Gcreate2(file, "other", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        H5Fclose(file);
        if (pg_data_open(&d, in_dir("d.h5").s, &err) != PG_OK)
            fail_msg("%s", err.msg);
        assert_array(d, "x0", x, ROWS * COLUMNS);
        assert_array(d, "y0", y, ROWS);
        assert_ok(pg__array_read(pg__data_find(d, "x0"), rows, 2, PG_AS_F64, got, NULL, NULL));
        assert_memory_equal(got, x + 48 * COLUMNS, COLUMNS * sizeof *x);
        assert_memory_equal(got + COLUMNS, x + 6 * COLUMNS, COLUMNS * sizeof *x);
        pg_data_close(d);
    }
}

static void files_without_arrays_are_refused(void **state)
{
    const hid_t file = H5Fcreate(in_dir("e.h5").s, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    H5Fclose(file);
    assert_fails(PG_E_FORMAT, pg_data_open(&d, in_dir("e.h5").s, &err), &err);
    assert_non_null(strstr(err.msg, "e.h5: holds no arrays"));
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir,
                  cmocka_unit_test(rows_of_chunks_and_of_one_piece_are_the_same),
                  cmocka_unit_test(files_without_arrays_are_refused))
