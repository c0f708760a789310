/* Archives of NumPy arrays: stored or compressed members by their names; others do not matter. */
#include "pg_test.h"

#include "train/data_files.h"

static const double six[] = {0, 1, 2, 3, 4, 5};
static const pg__dims in = {2, {PG_DIM_ANY, 2}};

static void write_members(void)
{
    write_npy("x0.npy", PG_F32, 0, 2, (const uint64_t[]){3, 2}, (const float[]){0, 1, 2, 3, 4, 5});
    write_npy("y0.npy", PG_I64, 0, 1, (const uint64_t[]){3}, (const int64_t[]){7, 8, 9});
    write_npy("number.npy", PG_F32, 0, 0, NULL, &(const float){1});
    write_text("README", "no array");
}

/* As numpy.savez (stored) and numpy.savez_compressed write them. */
static void pack(const char *name, const char *how, const char *members)
{
    char command[600];
    snprintf(command, sizeof command,
             "cd %s && python3 -c \"import sys, zipfile\n"
             "with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_%s) as z:\n"
             "  for m in sys.argv[2:]: z.write(m)\" %s %s",
             test_dir, how, name, members);
    assert_int_equal(system(command), 0);
}

static void members_are_arrays_by_their_names(void **state)
{
    static const char *const how[] = {"STORED", "DEFLATED"};
    const pg__ends ends = one_in_one_out(&in);
    (void)state;
    write_members();
    for (size_t i = 0; i < 2; i++) {
        pg_data *d = NULL;
        pack("a.npz", how[i], "y0.npy README number.npy x0.npy");
        assert_ok(pg_data_open(&d, in_dir("a.npz").s, NULL));
        assert_true(pg_data_holds(d, "x0,y0"));
        assert_false(pg_data_holds(d, "number"));
        assert_ok(pg__data_bind(d, &ends, NULL));
        assert_array(d, "x0", six, 6);
        assert_array(d, "y0", (const double[]){7, 8, 9}, 3);
        pg_data_close(d);
    }
}

static void strings_are_in_the_way_of_no_other_array(void **state)
{
    static const char strings[] =
        "\x93NUMPY\1\0\x48\0{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }"
        "              \na\0\0";
    const pg__ends ends = one_in_one_out(&in);
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    write_members();
    write_bytes("names.npy", strings, sizeof strings);
    pack("s.npz", "STORED", "x0.npy y0.npy names.npy");
    assert_ok(pg_data_open(&d, in_dir("s.npz").s, &err));
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "x0", six, 6);
    assert_true(pg_data_holds(d, "names"));
    pg_data_close(d);
}

static void a_damaged_member_is_named(void **state)
{
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    write_members();
    assert_int_equal(truncate(in_dir("y0.npy").s, 130), 0);
    pack("d.npz", "STORED", "x0.npy y0.npy");
    assert_fails(PG_E_FORMAT, pg_data_open(&d, in_dir("d.npz").s, &err), &err);
    assert_non_null(strstr(err.msg, "d.npz: y0.npy: "));
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir,
                  cmocka_unit_test(members_are_arrays_by_their_names),
                  cmocka_unit_test(strings_are_in_the_way_of_no_other_array),
                  cmocka_unit_test(a_damaged_member_is_named))
