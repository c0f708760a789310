#include "pg_test.h"

#include <unistd.h>

#include "format/format.h"

static char path[] = "/tmp/pg-test-format-XXXXXX";

static const char *testdata(const char *name)
{
    static char full[512];
    snprintf(full, sizeof full, "%s/%s", pg_testdata, name);
    return full;
}

static void fill(const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static size_t times(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
        n++;
    return n;
}

static void finds_the_format_by_content_not_by_name(void **state)
{
    (void)state;
    static const char *const files[][3] = {
        {"files/keras-2.2.4/cnn4-g2/wrapper_weights.h5", "keras-h5-weights", "keras-h5"},
        {"files/keras-2.2.4/cnn4-g2/wrapper_model.h5", "keras-h5-model", "keras-h5"},
        {"files/keras-2.15.0-native/cnn4/template.weights.h5", "keras-weights-h5",
         "keras-weights-h5"},
        {"files/keras-2.15.0-native/cnn4/template.keras", "keras-zip", "keras-zip"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pg_store *s = NULL;
        pg_err err = {0};
        pg__io *io = NULL;
        const pg__format *f = NULL;
        assert_ok(pg__io_open(&io, testdata(files[i][0]), NULL));
        if (pg__format_open(&s, &f, io, "a name without any suffix", NULL, &err) != PG_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(pg_store_format(s), files[i][1]);
        assert_string_equal(f->name, files[i][2]);
        assert_ptr_equal(pg__format_of(s), f);
        assert_string_equal(pg__store_path(s), "a name without any suffix");
        pg_store_close(s);
        pg__io_close(io);
    }
}

static void names_the_file_once_when_it_is_none_of_ours(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } files[] = {{"", 0}, {"x", 1}, {"0123456789abcdef and more", 25}};
    for (size_t i = 0; i < 3; i++) {
        pg_err err = {0};
        pg_store *s = NULL;
        fill(files[i].bytes, files[i].n);
        assert_fails(PG_E_UNKNOWN, pg_store_open(&s, path, NULL, &err), &err);
        assert_int_equal(times(err.msg, path), 1);
        assert_null(s);
    }
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_IO, pg_store_open(&s, "/nonexistent/file.h5", NULL, &err), &err);
    assert_int_equal(times(err.msg, "/nonexistent"), 1);
    assert_fails(PG_E_FORMAT, pg_store_open(&s, testdata("negative/truncated_half.h5"), NULL, &err),
                 &err);
    assert_int_equal(times(err.msg, "truncated_half.h5"), 1);
}

static void tells_hdf5_of_others_from_no_hdf5(void **state)
{
    (void)state;
    static const char *const files[] = {"negative/table.h5", "negative/userblock.h5"};
    for (size_t i = 0; i < 2; i++) {
        pg_err err = {0};
        pg_store *s = NULL;
        assert_fails(PG_E_UNKNOWN, pg_store_open(&s, testdata(files[i]), NULL, &err), &err);
        assert_non_null(strstr(err.msg, "HDF5, but not a Keras file"));
    }
}

/* MATLAB's habit; a tensor must be found behind the block too. */
static void reads_keras_behind_a_user_block(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_store *a = NULL, *b = NULL;
    float x[4], y[4];
    const char *name = testdata("files/keras-2.2.4/cnn4-g2/wrapper_weights.h5");
    assert_ok(pg__io_open(&io, name, NULL));
    const size_t n = (size_t)pg__io_size(io);
    char *bytes = calloc(n + 2048, 1);
    assert_ok(pg__io_read(io, 0, bytes + 2048, n, NULL));
    fill(bytes, n + 2048);
    pg_err err = {0};
    if (pg_store_open(&a, path, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_ok(pg_store_open(&b, name, NULL, NULL));
    assert_int_equal(pg_store_n_weights(a), pg_store_n_weights(b));
    for (size_t i = 0; i < pg_store_n_weights(b); i++) {
        const uint64_t all = pg_store_weight(b, i)->n_bytes;
        const size_t k = all < sizeof x ? (size_t)all : sizeof x;
        assert_ok(pg_store_read(a, i, all - k, x, k, NULL));
        assert_ok(pg_store_read(b, i, all - k, y, k, NULL));
        assert_memory_equal(x, y, k);
    }
    pg_store_close(a), pg_store_close(b);
    pg__io_close(io);
    free(bytes);
}

static int make_path(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

const char *pg_testdata = ".";

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_format_by_content_not_by_name),
        cmocka_unit_test(names_the_file_once_when_it_is_none_of_ours),
        cmocka_unit_test(tells_hdf5_of_others_from_no_hdf5),
        cmocka_unit_test(reads_keras_behind_a_user_block),
    };
    pg_testdata = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
