#include "pg_test.h"

#include <unistd.h>

#include "base/hash.h"
#include "format/format.h"
#include "io/zip.h"

#define NPY(descr) \
    "\x93NUMPY\1\0\x76\0{'descr': " descr ", 'fortran_order': False, 'shape': (1,), }   \n"

static pg_status open_bytes(const char *text, size_t n, pg_err *err)
{
    pg__io *io = NULL;
    pg_store *s = NULL;
    assert_ok(pg__io_open_mem(&io, text, n, NULL));
    const pg_status st = pg__format_open(&s, NULL, io, "w.npy", NULL, err);
    assert_null(s);
    pg__io_close(io);
    return st;
}

static void tells_object_arrays_from_numbers(void **state)
{
    (void)state;
    static const char number[] = NPY("'<f4'"), object[] = NPY("'|O'"),
                      fields[] = NPY("[('a', '<f4'), ('b', 'O')]");
    pg_err err = {0};
    assert_fails(PG_E_UNSUPPORTED, open_bytes(number, sizeof number - 1, &err), &err);
    assert_string_equal(err.msg, "w.npy: a NumPy array (.npy); reading NumPy files comes with "
                                 "pgjoin, which this version does not have");
    assert_fails(PG_E_UNSUPPORTED, open_bytes(object, sizeof object - 1, &err), &err);
    assert_string_equal(err.msg, "w.npy: a pickle (NumPy array of Python objects); not read "
                                 "because loading it would run code");
    assert_fails(PG_E_UNSUPPORTED, open_bytes(fields, sizeof fields - 1, &err), &err);
    assert_non_null(strstr(err.msg, "a pickle"));
    for (size_t n = 6; n < sizeof number; n++)
        assert_fails(PG_E_UNSUPPORTED, open_bytes(number, n, &err), &err);
}

static void names_the_test_files(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"files/keras-2.0.9/bignames/rescue_weights.npy", "a pickle (NumPy array"},
        {"files/pytorch/cnn/x0.npy", "a NumPy array (.npy)"},
        {"golden/mlp_digits/data.npz", "NumPy arrays (.npz)"},
    };
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        pg_err err = {0};
        pg_store *s = NULL;
        snprintf(path, sizeof path, "%s/%s", pg_testdata, cases[i][0]);
        assert_fails(PG_E_UNSUPPORTED, pg_store_open(&s, path, NULL, &err), &err);
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("%s", err.msg);
    }
}

static void names_the_member_that_is_a_pickle(void **state)
{
    (void)state;
    static const char number[] = NPY("'<f4'"), object[] = NPY("'|O'");
    char path[] = "/tmp/pg-test-npz-XXXXXX", file[64];
    uint64_t off = 0;
    pg_err err = {0};
    pg__sink *sink = NULL;
    pg__zip_out *z = NULL;
    pg__io *io = NULL;
    pg_store *s = NULL;
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/a.npz", path);
    assert_ok(pg__sink_open(&sink, file, NULL, NULL));
    assert_ok(pg__zip_out_new(&z, sink, NULL));
    for (int i = 0; i < 2; i++) {
        const char *data = i ? object : number;
        const size_t n = i ? sizeof object - 1 : sizeof number - 1;
        assert_ok(pg__zip_out_begin(z, i ? "b.npy" : "a.npy", n, 0, &off, NULL));
        assert_ok(pg__sink_write(sink, off, data, n, NULL));
        assert_ok(pg__zip_out_end(z, pg__crc32(0, data, n), NULL));
    }
    assert_ok(pg__zip_out_finish(z, NULL));
    pg__zip_out_free(z);
    assert_ok(pg__sink_reopen(sink, &io, NULL));
    assert_fails(PG_E_UNSUPPORTED, pg__format_open(&s, NULL, io, "w.npz", NULL, &err), &err);
    assert_non_null(strstr(err.msg, "w.npz: b.npy: a pickle (NumPy array of Python objects)"));
    pg__io_close(io);
    pg__sink_close(sink);
    assert_int_equal(rmdir(path), 0);
}

PG_TEST_MAIN(cmocka_unit_test(tells_object_arrays_from_numbers),
             cmocka_unit_test(names_the_test_files),
             cmocka_unit_test(names_the_member_that_is_a_pickle))
