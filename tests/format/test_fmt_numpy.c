#include "pg_test.h"

#include <unistd.h>

#include "base/hash.h"
#include "format/format.h"
#include "io/zip.h"

/* An .npy of one number or two. */
typedef struct npy {
    char bytes[256];
    size_t n;
} npy;

static npy make(const char *descr, const char *rest, const char *data, size_t n)
{
    npy f = {.bytes = "\x93NUMPY\1"};
    const int len = snprintf(f.bytes + 10, sizeof f.bytes - 10, "{'descr': %s, %s}\n", descr, rest);
    f.bytes[8] = (char)len;
    memcpy(f.bytes + 10 + len, data, n);
    f.n = 10 + (size_t)len + n;
    return f;
}

static npy make_one(const char *descr)
{
    return make(descr, "'fortran_order': False, 'shape': (1,), ", "\0\0\x80\x3f", 4);
}

static pg_status open_bytes(pg_store **s, const npy *f, const char *path, pg_err *err)
{
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, f->bytes, f->n, NULL));
    const pg_status st = pg__format_open(s, NULL, io, path, NULL, err);
    pg__io_close(io);
    return st;
}

static void reads_an_array_under_the_name_of_its_file(void **state)
{
    (void)state;
    static const char *const paths[][2] = {
        {"d/w.npy", "w"}, {"w", "w"}, {"d.x/.npy", ".npy"}, {NULL, "array"}};
    const npy array = make_one("'<f4'");
    float v = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        pg_store *s = NULL;
        assert_ok(open_bytes(&s, &array, paths[i][0], NULL));
        assert_string_equal(pg_store_format(s), "npy");
        assert_int_equal(pg_store_n_weights(s), 1);
        assert_string_equal(pg_store_weight(s, 0)->name, paths[i][1]);
        assert_ok(pg_store_read(s, 0, 0, &v, sizeof v, NULL));
        assert_true(v == 1.0f);
        pg_store_close(s);
    }
}

static void turns_fortran_order_and_bytes_around(void **state)
{
    (void)state;
    const npy array =
        make("'>i2'", "'fortran_order': True, 'shape': (2, 3), ", "\0\1\0\4\0\2\0\5\0\3\0\6", 12);
    static const int16_t want[] = {1, 2, 3, 4, 5, 6};
    int16_t got[6] = {0};
    pg_store *s = NULL;
    assert_ok(open_bytes(&s, &array, "w.npy", NULL));
    assert_ok(pg_store_read(s, 0, 0, got, sizeof got, NULL));
    assert_memory_equal(got, want, sizeof got);
    pg_store_close(s);
}

static void refuses_arrays_of_objects_and_other_damage(void **state)
{
    (void)state;
    const npy object = make_one("'|O'"), fields = make_one("[('a', '<f4'), ('b', 'O')]"),
              number = make_one("'<f4'");
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_UNSUPPORTED, open_bytes(&s, &object, "w.npy", &err), &err);
    assert_string_equal(err.msg, "w.npy: a pickle (NumPy array of Python objects); not read "
                                 "because loading it would run code");
    assert_fails(PG_E_UNSUPPORTED, open_bytes(&s, &fields, "w.npy", &err), &err);
    assert_non_null(strstr(err.msg, "structured"));
    for (size_t n = 6; n < number.n; n++) {
        npy part = number;
        part.n = n;
        assert_fails(PG_E_FORMAT, open_bytes(&s, &part, "w.npy", &err), &err);
    }
    assert_null(s);
}

static void reads_the_test_files(void **state)
{
    (void)state;
    char path[512];
    pg_err err = {0};
    pg_store *s = NULL;
    snprintf(path, sizeof path, "%s/files/keras-2.0.9/bignames/rescue_weights.npy", pg_testdata);
    assert_fails(PG_E_UNSUPPORTED, pg_store_open(&s, path, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "a pickle (NumPy array"));
    snprintf(path, sizeof path, "%s/files/pytorch/cnn/x0.npy", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_int_equal(pg_store_weight(s, 0)->rank, 4);
    pg_store_close(s);
    snprintf(path, sizeof path, "%s/golden/mlp_digits/data.npz", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_string_equal(pg_store_format(s), "npz");
    assert_string_equal(pg_store_weight(s, 0)->name, "x0");
    pg_store_close(s);
}

static void names_the_member_that_is_a_pickle(void **state)
{
    (void)state;
    const npy files[] = {make_one("'<f4'"), make_one("'|O'")};
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
        const char *data = files[i].bytes;
        const size_t n = files[i].n;
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

PG_TEST_MAIN(cmocka_unit_test(reads_an_array_under_the_name_of_its_file),
             cmocka_unit_test(turns_fortran_order_and_bytes_around),
             cmocka_unit_test(refuses_arrays_of_objects_and_other_damage),
             cmocka_unit_test(reads_the_test_files),
             cmocka_unit_test(names_the_member_that_is_a_pickle))
