/* What the writer makes is judged by libhdf5 itself, and its name lists by what genuine Keras
 * wrote. */
#include "pg_test.h"

#include <hdf5.h>
#include <unistd.h>

#include "format/h5/h5_writer.h"

static const pg__h5_dtype f32 = {.cls = PG_H5_NUMBER, .dtype = PG_F32};
static char out_path[] = "/tmp/pg-test-h5_writer-XXXXXX";

/* Finishes h, puts `data` into dataset 0 (before the metadata if asked) and commits out_path. */
static void save(pg__h5_out *h, const void *data, size_t n, int data_first)
{
    pg__sink *sink = NULL;
    const pg__sink_opts opts = {.force = 1, .no_sync = 1};
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_ok(pg__sink_open(&sink, out_path, &opts, NULL));
    if (n && data_first)
        assert_ok(pg__sink_write(sink, pg__h5_out_offset(h, 0), data, n, NULL));
    assert_ok(pg__h5_out_flush(h, sink, 0, NULL));
    if (n && !data_first)
        assert_ok(pg__sink_write(sink, pg__h5_out_offset(h, 0), data, n, NULL));
    assert_ok(pg__sink_extend(sink, pg__h5_out_bytes(h), NULL)); /* other datasets: zeros */
    assert_int_equal(pg__sink_size(sink), pg__h5_out_bytes(h));
    assert_ok(pg__sink_commit(sink, NULL));
    pg__sink_close(sink);
    pg__h5_out_free(h);
}

static pg__h5_out *fresh(void)
{
    pg__h5_out *h = NULL;
    assert_ok(pg__h5_out_new(&h, NULL));
    return h;
}

static hid_t reopen(void)
{
    const hid_t f = H5Fopen(out_path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(f >= 0);
    return f;
}

static void lays_out_what_libhdf5_reads(void **state)
{
    (void)state;
    const float want[6] = {1, 2, 3, 4, 5, 6};
    for (int data_first = 0; data_first < 2; data_first++) {
        size_t id = 99;
        float got[6] = {0};
        pg__h5_out *h = fresh();
        assert_ok(pg__h5_out_group(h, "a/b", NULL));
        assert_ok(pg__h5_out_group(h, "a/b", NULL));
        assert_ok(pg__h5_out_dataset(h, "a/c/w:0", &f32, 2, (uint64_t[]){2, 3}, &id, NULL));
        assert_int_equal(id, 0);
        save(h, want, sizeof want, data_first);
        const hid_t f = reopen(), d = H5Dopen2(f, "/a/c/w:0", H5P_DEFAULT);
        const hid_t fcpl = H5Fget_create_plist(f);
        unsigned super = 9;
        assert_true(H5Dread(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, got) >= 0);
        assert_memory_equal(got, want, sizeof want);
        assert_true(H5Pget_version(fcpl, &super, NULL, NULL, NULL) >= 0);
        assert_int_equal(super, 0);
        H5Pclose(fcpl), H5Dclose(d), H5Fclose(f);
    }
}

static void writes_every_type_as_h5py_does(void **state)
{
    (void)state;
    size_t id = 0;
    char name[24];
    pg__h5_out *h = fresh();
    for (int t = PG_F16; t <= PG_BOOL; t++)
        for (int big = 0; big < 2; big++) {
            const pg__h5_dtype type = {
                .cls = PG_H5_NUMBER, .dtype = (pg_dtype)t, .big_endian = big};
            snprintf(name, sizeof name, "%d_%d", t, big);
            assert_ok(pg__h5_out_dataset(h, name, &type, 0, NULL, &id, NULL));
        }
    save(h, NULL, 0, 0);
    const hid_t f = reopen();
    for (int t = PG_F16; t <= PG_BOOL; t++)
        for (int big = 0; big < 2; big++) {
            snprintf(name, sizeof name, "%d_%d", t, big);
            const hid_t d = H5Dopen2(f, name, H5P_DEFAULT), type = H5Dget_type(d);
            const H5T_class_t cls = H5Tget_class(type);
            assert_int_equal(H5Tget_size(type), pg_dtype_bytes((pg_dtype)t));
            assert_int_equal(cls, t == PG_BF16   ? H5T_OPAQUE
                                  : t == PG_BOOL ? H5T_ENUM
                                  : t <= PG_F64  ? H5T_FLOAT
                                                 : H5T_INTEGER);
            if (cls == H5T_FLOAT || cls == H5T_INTEGER)
                assert_int_equal(H5Tget_order(type), big ? H5T_ORDER_BE : H5T_ORDER_LE);
            if (cls == H5T_INTEGER)
                assert_int_equal(H5Tget_sign(type), t >= PG_U8 ? H5T_SGN_NONE : H5T_SGN_2);
            if (t == PG_F16) {
                size_t spos, epos, esize, mpos, msize;
                assert_true(H5Tget_fields(type, &spos, &epos, &esize, &mpos, &msize) >= 0);
                assert_true(spos == 15 && epos == 10 && esize == 5 && mpos == 0 && msize == 10);
                assert_int_equal(H5Tget_ebias(type), 15);
            }
            if (t == PG_BOOL) {
                signed char yes = 9;
                assert_true(H5Tenum_valueof(type, "TRUE", &yes) >= 0 && yes == 1);
            }
            H5Tclose(type), H5Dclose(d);
        }
    H5Fclose(f);
}

static void holds_nothing_of_a_large_dataset(void **state)
{
    (void)state;
    size_t id = 0;
    pg__h5_out *h = fresh();
    assert_ok(pg__h5_out_dataset(h, "none", &f32, 2, (uint64_t[]){0, 3}, &id, NULL));
    assert_ok(pg__h5_out_dataset(h, "large", &f32, 1, (uint64_t[]){UINT64_C(1) << 40}, &id, NULL));
    assert_ok(pg__h5_out_dataset(h, "after", &f32, 0, NULL, &id, NULL));
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_int_equal(pg__h5_out_offset(h, 0), 0);
    assert_true(pg__h5_out_offset(h, 1) > 0);
    assert_true(pg__h5_out_offset(h, 2) < UINT64_C(1) << 43);
    assert_true(pg__h5_out_bytes(h) >= UINT64_C(1) << 42);
    assert_true(pg__h5_out_bytes(h) < (UINT64_C(1) << 42) + 8192);
    pg__h5_out_free(h);
}

/* Number of strings and width (0: variable) of an attribute of the root; -1 if it is not there. */
static long long list_of(hid_t f, const char *name, size_t *width)
{
    if (H5Aexists(f, name) <= 0)
        return -1;
    const hid_t a = H5Aopen(f, name, H5P_DEFAULT), t = H5Aget_type(a), s = H5Aget_space(a);
    const long long n = H5Sget_simple_extent_npoints(s);
    assert_int_equal(H5Sget_simple_extent_ndims(s), 1);
    if (H5Tget_class(t) == H5T_STRING) {
        assert_int_equal(H5Tget_cset(t), H5T_CSET_ASCII);
        *width = H5Tis_variable_str(t) ? 0 : H5Tget_size(t);
        if (*width)
            assert_int_equal(H5Tget_strpad(t), H5T_STR_NULLPAD);
    } else {
        assert_int_equal(H5Tget_class(t), H5T_FLOAT);
        *width = H5Tget_size(t);
    }
    H5Sclose(s), H5Tclose(t), H5Aclose(a);
    return n;
}

/* n names, `len` bytes long but for the last one of `last` bytes. */
static void write_names(size_t n, size_t len, size_t last, pg__h5_class like)
{
    pg__h5_out *h = fresh();
    char **names = calloc(n + 1, sizeof *names);
    for (size_t i = 0; i < n; i++) {
        const size_t k = i + 1 == n ? last : len;
        names[i] = calloc(k + 1, 1);
        memset(names[i], 'x', k);
    }
    assert_ok(pg__h5_out_names(h, "", "names", (const char *const *)names, n, like, NULL));
    save(h, NULL, 0, 0);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

static void keeps_short_lists_in_the_kind_asked_for(void **state)
{
    (void)state;
    size_t width = 99;
    write_names(3, 4, 9, PG_H5_STR_FIXED);
    hid_t f = reopen();
    assert_int_equal(list_of(f, "names", &width), 3);
    assert_int_equal(width, 9);
    H5Fclose(f);
    write_names(4091, 4, 9, PG_H5_STR_VLEN);
    f = reopen();
    assert_int_equal(list_of(f, "names", &width), 4091);
    assert_int_equal(width, 0);
    H5Fclose(f);
    write_names(0, 0, 0, PG_H5_STR_VLEN);
    f = reopen();
    assert_int_equal(list_of(f, "names", &width), 0);
    assert_int_equal(width, 8); /* float64, as numpy makes an empty list */
    H5Fclose(f);
}

/* Expected counts: numpy.array_split() and the rule of keras.engine.saving. */
static void cuts_long_lists_as_keras_does(void **state)
{
    (void)state;
    static const struct {
        size_t n, len, last;
        pg__h5_class like;
        size_t parts;
        long long counts[4];
        size_t width;
    } cases[] = {
        {1008, 64, 64, PG_H5_STR_FIXED, 1, {1008}, 64}, /* 64512 exactly */
        {1009, 64, 64, PG_H5_STR_FIXED, 2, {505, 504}, 64},
        {1009, 64, 64, PG_H5_STR_VLEN, 2, {505, 504}, 64},
        {700, 10, 200, PG_H5_STR_FIXED, 3, {234, 233, 233}, 200}, /* one long name widens all */
        {4092, 4, 4, PG_H5_STR_VLEN, 2, {2046, 2046}, 4},
        {4092, 4, 4, PG_H5_STR_FIXED, 1, {4092}, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t width = 0;
        write_names(cases[i].n, cases[i].len, cases[i].last, cases[i].like);
        const hid_t f = reopen();
        char name[40] = "names";
        for (size_t k = 0; k < cases[i].parts; k++) {
            if (cases[i].parts > 1)
                snprintf(name, sizeof name, "names%zu", k);
            assert_int_equal(list_of(f, name, &width), cases[i].counts[k]);
            assert_int_equal(width, cases[i].width);
        }
        snprintf(name, sizeof name, "names%zu", cases[i].parts);
        assert_int_equal(list_of(f, name, &width), -1);
        H5Fclose(f);
    }
}

static void writes_attributes_of_all_kinds(void **state)
{
    (void)state;
    const double numbers[2] = {1.5, 2.5};
    const char *text[] = {"one", "a longer one"};
    pg__h5_out *h = fresh();
    const pg__h5_attr attrs[] = {
        {.name = "scalar", .type = {.cls = PG_H5_STR_VLEN, .utf8 = 1}, .n_elems = 1, .strs = text},
        {.name = "numbers",
         .type = {.cls = PG_H5_NUMBER, .dtype = PG_F64},
         .rank = 1,
         .dims = {2},
         .n_elems = 2,
         .raw = numbers},
        {.name = "null", .type = {.cls = PG_H5_NUMBER, .dtype = PG_F64}, .rank = PG_H5_NULL},
        {.name = "spaces",
         .type = {.cls = PG_H5_STR_FIXED, .pad = 2, .size = 4},
         .rank = 1,
         .dims = {1},
         .n_elems = 1,
         .raw = "ab  "},
    };
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++)
        assert_ok(pg__h5_out_attr(h, "", &attrs[i], NULL));
    save(h, NULL, 0, 0);
    const hid_t f = reopen();
    hid_t a = H5Aopen(f, "scalar", H5P_DEFAULT), t = H5Aget_type(a);
    char *got = NULL;
    assert_int_equal(H5Tget_cset(t), H5T_CSET_UTF8);
    assert_true(H5Aread(a, t, &got) >= 0);
    assert_string_equal(got, "one");
    H5free_memory(got);
    H5Tclose(t), H5Aclose(a);
    a = H5Aopen(f, "null", H5P_DEFAULT);
    const hid_t s = H5Aget_space(a);
    assert_int_equal(H5Sget_simple_extent_type(s), H5S_NULL);
    H5Sclose(s), H5Aclose(a);
    a = H5Aopen(f, "spaces", H5P_DEFAULT), t = H5Aget_type(a);
    assert_int_equal(H5Tget_strpad(t), H5T_STR_SPACEPAD);
    H5Tclose(t), H5Aclose(a), H5Fclose(f);
}

static void says_what_cannot_be_written(void **state)
{
    (void)state;
    size_t id = 0;
    pg_err err = {0};
    pg__h5_out *h = fresh();
    const char *text[] = {"cut\0here"};
    const size_t lens[] = {8};
    const pg__h5_attr nul = {
        .name = "nul", .type = {.cls = PG_H5_STR_VLEN}, .n_elems = 1, .strs = text, .lens = lens};
    assert_ok(pg__h5_out_dataset(h, "a", &f32, 0, NULL, &id, NULL));
    assert_fails(PG_E_FORMAT, pg__h5_out_dataset(h, "a", &f32, 0, NULL, &id, &err), &err);
    assert_non_null(strstr(err.msg, "a: "));
    assert_fails(PG_E_FORMAT, pg__h5_out_dataset(h, "a/b", &f32, 0, NULL, &id, &err), &err);
    assert_fails(PG_E_FORMAT, pg__h5_out_group(h, "a", &err), &err);
    assert_fails(PG_E_FORMAT, pg__h5_out_group(h, "/x", &err), &err);
    assert_fails(PG_E_FORMAT, pg__h5_out_group(h, "x/./y", &err), &err);
    assert_fails(PG_E_FORMAT, pg__h5_out_group(h, "x/../y", &err), &err);
    assert_fails(PG_E_UNSUPPORTED, pg__h5_out_attr(h, "", &nul, &err), &err);
    const uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    assert_fails(PG_E_LIMIT, pg__h5_out_dataset(h, "h", &f32, 2, huge, &id, &err), &err);
    assert_ok(pg__h5_out_finish(h, NULL));
    pg__h5_out_free(h);
    pg__h5_out_free(NULL);
}

/* Keras 2 gives HDF5 the names of layers called "g/" and "g//sub". */
static void drops_idle_slashes_of_paths(void **state)
{
    (void)state;
    size_t id = 0;
    pg_err err = {0};
    pg__h5_out *h = fresh();
    assert_ok(pg__h5_out_group(h, "g/", NULL));
    assert_ok(pg__h5_out_dataset(h, "g///x", &f32, 0, NULL, &id, NULL)); /* "g/" is open */
    assert_ok(pg__h5_out_group(h, "g", NULL));
    assert_ok(pg__h5_out_dataset(h, "g//sub//y", &f32, 0, NULL, &id, NULL));
    assert_fails(PG_E_FORMAT, pg__h5_out_dataset(h, "g/sub/y", &f32, 0, NULL, &id, &err), &err);
    save(h, "", 0, 0);
    const hid_t f = H5Fopen(out_path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(H5Lexists(f, "g/x", H5P_DEFAULT) > 0);
    assert_true(H5Lexists(f, "g/sub/y", H5P_DEFAULT) > 0);
    assert_true(H5Lexists(f, "x", H5P_DEFAULT) == 0 && H5Lexists(f, "sub", H5P_DEFAULT) == 0);
    H5Fclose(f);
}

/* A program that uses libhdf5 itself must not lose its error printing to us. */
static void leaves_the_callers_error_handler_alone(void **state)
{
    (void)state;
    H5E_auto2_t before = NULL, after = NULL;
    void *data = NULL;
    assert_true(H5Eget_auto2(H5E_DEFAULT, &before, &data) >= 0);
    pg__h5_out_free(fresh());
    assert_true(H5Eget_auto2(H5E_DEFAULT, &after, &data) >= 0);
    assert_true(before == after && before != NULL);
}

static int make_path(void **state)
{
    (void)state;
    const int fd = mkstemp(out_path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(out_path);
}

#define CASE(f) cmocka_unit_test(f)
const char *pg_testdata = ".";

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lays_out_what_libhdf5_reads),
        CASE(writes_every_type_as_h5py_does),
        CASE(holds_nothing_of_a_large_dataset),
        CASE(keeps_short_lists_in_the_kind_asked_for),
        CASE(cuts_long_lists_as_keras_does),
        CASE(writes_attributes_of_all_kinds),
        CASE(says_what_cannot_be_written),
        CASE(drops_idle_slashes_of_paths),
        CASE(leaves_the_callers_error_handler_alone),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
