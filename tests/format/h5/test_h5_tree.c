/* New files by our own writer at the sizes where their structures change, before libhdf5 and before
 * our reader. tests/fuzz/fuzz_h5_writer.c makes random ones beside libhdf5. */
#include "pg_test.h"

#include <hdf5.h>
#include <unistd.h>

#include "format/h5/h5_reader.h"
#include "format/h5/h5_writer.h"

static const pg__h5_dtype f32 = {.cls = PG_H5_NUMBER, .dtype = PG_F32, .size = 4};
static const pg__h5_dtype i8 = {.cls = PG_H5_NUMBER, .dtype = PG_I8, .size = 1};
static char path[] = "/tmp/pg-test-h5_tree-XXXXXX";

static pg__h5_out *fresh(void)
{
    pg__h5_out *h = NULL;
    assert_ok(pg__h5_out_new(&h, NULL));
    return h;
}

static void save(pg__h5_out *h)
{
    pg__sink *sink = NULL;
    const pg__sink_opts opts = {.force = 1, .no_sync = 1};
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_ok(pg__sink_open(&sink, path, &opts, NULL));
    assert_ok(pg__h5_out_flush(h, sink, 0, NULL));
    assert_ok(pg__sink_extend(sink, pg__h5_out_bytes(h), NULL));
    assert_int_equal(pg__sink_size(sink), pg__h5_out_bytes(h));
    assert_ok(pg__sink_commit(sink, NULL));
    pg__sink_close(sink);
    pg__h5_out_free(h);
}

static hid_t reopen(unsigned flags)
{
    const hid_t f = H5Fopen(path, flags, H5P_DEFAULT);
    assert_true(f >= 0);
    return f;
}

/* Our reader passes the file; number of its objects. */
static uint32_t read_by_us(void)
{
    pg__io *io = NULL;
    pg__h5 *h = NULL;
    pg_err err = {0};
    assert_ok(pg__io_open(&io, path, NULL));
    if (pg__h5_open(&h, io, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(pg__h5_trailing(h), 0);
    const uint32_t n = pg__h5_n(h);
    pg__h5_close(h);
    pg__io_close(io);
    return n;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* A group of n datasets, which were added in no order. */
static void make_links(unsigned n)
{
    char name[32];
    size_t id;
    pg__h5_out *h = fresh();
    assert_ok(pg__h5_out_group(h, "g", NULL));
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "g/%u", i * 7919u % n); /* 7919 is prime, n no multiple */
        assert_ok(pg__h5_out_dataset(h, name, &i8, 0, NULL, &id, NULL));
    }
    save(h);
    assert_int_equal(read_by_us(), n + 2);
}

static herr_t count_sorted(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    (void)group, (void)info;
    char *last = ctx;
    assert_true(strcmp(last, name) < 0);
    (void)snprintf(last, 32, "%s", name);
    return 0;
}

/* 8 links fill a symbol node, 256 the nodes below one of the B-tree, 8192 those two levels down. */
static void finds_every_link_of_a_group(void **state)
{
    (void)state;
    static const unsigned counts[] = {0, 1, 8, 9, 255, 256, 257, 8192, 8193, 20000};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        char name[32], last[32] = "";
        H5G_info_t info;
        hsize_t at = 0;
        make_links(counts[k]);
        const hid_t f = reopen(H5F_ACC_RDONLY), g = H5Gopen2(f, "g", H5P_DEFAULT);
        assert_true(g >= 0 && H5Gget_info(g, &info) >= 0);
        assert_int_equal(info.nlinks, counts[k]);
        assert_true(H5Literate(g, H5_INDEX_NAME, H5_ITER_INC, &at, count_sorted, last) >= 0);
        assert_int_equal(at, counts[k]);
        for (unsigned i = 0; i < counts[k]; i += 1 + i / 50) {
            (void)snprintf(name, sizeof name, "%u", i);
            assert_true(H5Lexists(g, name, H5P_DEFAULT) > 0);
        }
        assert_true(H5Lexists(g, "x", H5P_DEFAULT) == 0);
        H5Gclose(g), H5Fclose(f);
    }
}

/* Full nodes are split when links are added, empty ones go. */
static void libhdf5_adds_and_deletes_links(void **state)
{
    (void)state;
    static const unsigned counts[] = {0, 8, 256, 8192};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        char name[32];
        make_links(counts[k]);
        hid_t f = reopen(H5F_ACC_RDWR), g = H5Gopen2(f, "g", H5P_DEFAULT);
        for (unsigned i = 0; i < 300; i++) {
            (void)snprintf(name, sizeof name, "%u new", i * 31);
            assert_true(H5Gclose(H5Gcreate2(g, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)) >= 0);
        }
        H5Gclose(g), H5Fclose(f);
        assert_int_equal(read_by_us(), counts[k] + 302);
        f = reopen(H5F_ACC_RDWR), g = H5Gopen2(f, "g", H5P_DEFAULT);
        for (unsigned i = 0; i < counts[k]; i++) {
            (void)snprintf(name, sizeof name, "%u", i);
            assert_true(i % 97 == 96 || H5Ldelete(g, name, H5P_DEFAULT) >= 0);
        }
        H5Gclose(g), H5Fclose(f);
        assert_int_equal(read_by_us(), counts[k] / 97 + 302);
    }
}

/* Names that begin alike, with bytes of both signs: HDF5 sorts them as unsigned. */
static void tells_names_apart_by_their_last_bit(void **state)
{
    (void)state;
    static const char bytes[] = {'\1', 'a', 'b', '\x7f', '\x80', '\xff'};
    enum { N = sizeof bytes };
    char name[4] = "";
    pg__h5_out *h = fresh();
    for (unsigned i = 0; i < N + N * N; i++) {
        name[0] = bytes[i % N];
        name[1] = i < N ? 0 : bytes[i / N - 1];
        assert_ok(pg__h5_out_group(h, name, NULL));
        assert_ok(pg__h5_out_group(h, name, NULL));
    }
    save(h);
    assert_int_equal(read_by_us(), 1 + N + N * N);
    const hid_t f = reopen(H5F_ACC_RDONLY);
    for (unsigned i = 0; i < N + N * N; i++) {
        name[0] = bytes[i % N];
        name[1] = i < N ? 0 : bytes[i / N - 1];
        assert_true(H5Lexists(f, name, H5P_DEFAULT) > 0);
    }
    H5Fclose(f);
}

static void refuses_a_name_twice(void **state)
{
    (void)state;
    size_t id;
    pg_err err = {0};
    pg__h5_out *h = fresh();
    const pg__h5_attr a = {.name = "a", .type = i8, .n_elems = 1, .raw = "x"};
    assert_ok(pg__h5_out_dataset(h, "g/a", &i8, 0, NULL, &id, NULL));
    assert_fails(PG_E_FORMAT, pg__h5_out_dataset(h, "g//a/", &i8, 0, NULL, &id, &err), &err);
    assert_string_equal(err.msg, "g//a/: HDF5 cannot create this dataset: name already exists");
    assert_fails(PG_E_FORMAT, pg__h5_out_dataset(h, "g", &i8, 0, NULL, &id, &err), &err);
    assert_fails(PG_E_FORMAT, pg__h5_out_dataset(h, "", &i8, 0, NULL, &id, &err), &err);
    assert_ok(pg__h5_out_attr(h, "g", &a, NULL)); /* no link */
    assert_fails(PG_E_FORMAT, pg__h5_out_attr(h, "g/", &a, &err), &err);
    assert_string_equal(err.msg, "g/: HDF5 cannot write attribute a: attribute already exists");
    assert_fails(PG_E_FORMAT, pg__h5_out_attr(h, "g/b", &a, &err), &err);
    assert_string_equal(err.msg, "g/b: HDF5 cannot write attribute a: object doesn't exist");
    pg__h5_out_free(h);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* A list of `n` strings in one attribute of fixed width. */
static pg_status put_text(pg__h5_out *h, const char *name, uint32_t width, pg_err *err)
{
    char *text = calloc(width + 1, 1);
    const char *strs[] = {memset(text, 'x', width)};
    const pg__h5_attr a = {.name = name,
                           .type = {.cls = PG_H5_STR_FIXED, .pad = 1, .size = width},
                           .rank = 1,
                           .dims = {1},
                           .n_elems = 1,
                           .strs = strs};
    const pg_status st = pg__h5_out_attr(h, "", &a, err);
    free(text);
    return st;
}

static void fills_a_message_to_its_last_byte(void **state)
{
    (void)state;
    static char got[65473];
    pg_err err = {0};
    pg__h5_out *h = fresh();
    assert_ok(put_text(h, "weight_names", 65472, NULL));
    assert_fails(PG_E_FORMAT, put_text(h, "layer_names", 65473, &err), &err);
    assert_non_null(strstr(err.msg, "object header message is too large"));
    assert_fails(PG_E_FORMAT, put_text(h, "layer_names", UINT32_C(1) << 24, &err), &err);
    save(h);
    assert_int_equal(read_by_us(), 1);
    const hid_t f = reopen(H5F_ACC_RDONLY), a = H5Aopen(f, "weight_names", H5P_DEFAULT);
    const hid_t t = H5Aget_type(a);
    assert_true(H5Aread(a, t, got) >= 0 && strlen(got) == 65472);
    H5Tclose(t), H5Aclose(a), H5Fclose(f);
}

/* libhdf5 would begin a second block of the header after the first attribute. */
static void writes_headers_of_megabytes(void **state)
{
    (void)state;
    enum { N = 100 };
    char name[16];
    pg__h5_out *h = fresh();
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "names%d", i);
        assert_ok(put_text(h, name, 64512, NULL));
    }
    save(h);
    assert_int_equal(read_by_us(), 1);
    const hid_t f = reopen(H5F_ACC_RDWR), s = H5Screate(H5S_SCALAR);
    H5O_info_t info;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof name, "more%d", i);
        assert_true(H5Aclose(H5Acreate2(f, name, H5T_IEEE_F64LE, s, H5P_DEFAULT, H5P_DEFAULT)) >=
                    0);
        (void)snprintf(name, sizeof name, "names%d", i * 5);
        assert_true(H5Adelete(f, name) >= 0);
    }
    assert_true(H5Oget_info2(f, &info, H5O_INFO_ALL) >= 0);
    assert_int_equal(info.num_attrs, N);
    H5Sclose(s), H5Fclose(f);
    assert_int_equal(read_by_us(), 1);
}

static void has_a_limit_of_attributes(void **state)
{
    (void)state;
    char name[16];
    pg_err err = {0};
    pg__h5_out *h = fresh();
    pg__h5_attr a = {.name = name, .type = i8, .n_elems = 1, .raw = "x"};
    for (int i = 0; i < 65000; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_ok(pg__h5_out_attr(h, "", &a, NULL));
    }
    (void)snprintf(name, sizeof name, "last");
    assert_fails(PG_E_FORMAT, pg__h5_out_attr(h, "", &a, &err), &err);
    assert_non_null(strstr(err.msg, "too many attributes"));
    pg__h5_out_free(h);
}

/* One is longer than a collection of the global heap, others fill several, some are empty. */
static void writes_texts_of_all_lengths(void **state)
{
    (void)state;
    enum { N = 300, LONG = 10000000 };
    char *texts[N], *got[N] = {0};
    pg__h5_out *h = fresh();
    for (size_t i = 0; i < N; i++) {
        const size_t n = i == 7 ? LONG : i % 4080;
        texts[i] = calloc(n + 1, 1);
        memset(texts[i], (int)('a' + i % 26), n);
    }
    const pg__h5_attr list = {.name = "weight_names",
                              .type = {.cls = PG_H5_STR_VLEN},
                              .rank = 1,
                              .dims = {N},
                              .n_elems = N,
                              .strs = (const char **)(void *)texts};
    assert_ok(pg__h5_out_attr(h, "", &list, NULL));
    save(h);
    assert_int_equal(read_by_us(), 1);
    const hid_t f = reopen(H5F_ACC_RDWR), a = H5Aopen(f, "weight_names", H5P_DEFAULT);
    const hid_t t = H5Aget_type(a), s = H5Aget_space(a);
    assert_true(H5Aread(a, t, got) >= 0);
    for (size_t i = 0; i < N; i++)
        assert_string_equal(got[i], texts[i]);
    got[0][0] = 0; /* written once more, from the last to the first: what was there is freed */
    assert_true(H5Awrite(a, t, got) >= 0);
    H5Dvlen_reclaim(t, s, H5P_DEFAULT, got);
    H5Sclose(s), H5Tclose(t), H5Aclose(a), H5Fclose(f);
    assert_int_equal(read_by_us(), 1);
    for (size_t i = 0; i < N; i++)
        free(texts[i]);
}

/* ---- datasets -------------------------------------------------------------------------------- */

static void packs_datasets_at_multiples_of_their_elements(void **state)
{
    (void)state;
    static const pg__h5_dtype f64 = {.cls = PG_H5_NUMBER, .dtype = PG_F64, .size = 8};
    size_t id;
    pg__h5_out *h = fresh();
    for (int i = 0; i < 3; i++)
        assert_ok(pg__h5_out_dataset(h, (const char *[]){"a", "b", "c"}[i], &f32, 1,
                                     (uint64_t[]){3}, &id, NULL));
    assert_ok(pg__h5_out_dataset(h, "d", &i8, 0, NULL, &id, NULL));
    assert_ok(pg__h5_out_dataset(h, "e", &f64, 0, NULL, &id, NULL));
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_int_equal(pg__h5_out_offset(h, 1), pg__h5_out_offset(h, 0) + 12);
    assert_int_equal(pg__h5_out_offset(h, 2), pg__h5_out_offset(h, 0) + 24);
    assert_int_equal(pg__h5_out_offset(h, 3), pg__h5_out_offset(h, 0) + 36);
    assert_int_equal(pg__h5_out_offset(h, 4) % 8, 0);
    assert_int_equal(pg__h5_out_bytes(h), pg__h5_out_offset(h, 4) + 8);
    pg__h5_out_free(h);
}

static void says_when_a_file_is_too_large(void **state)
{
    (void)state;
    size_t id;
    pg_err err = {0};
    pg__h5_out *h = fresh();
    for (int i = 0; i < 2; i++)
        assert_ok(pg__h5_out_dataset(h, i ? "a" : "b", &i8, 1, (uint64_t[]){UINT64_C(5) << 60}, &id,
                                     NULL));
    assert_fails(PG_E_LIMIT, pg__h5_out_finish(h, &err), &err);
    pg__h5_out_free(h);
}

static int make_path(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

PG_TEST_MAIN_WITH(make_path, remove_path, cmocka_unit_test(finds_every_link_of_a_group),
                  cmocka_unit_test(libhdf5_adds_and_deletes_links),
                  cmocka_unit_test(tells_names_apart_by_their_last_bit),
                  cmocka_unit_test(refuses_a_name_twice),
                  cmocka_unit_test(fills_a_message_to_its_last_byte),
                  cmocka_unit_test(writes_headers_of_megabytes),
                  cmocka_unit_test(has_a_limit_of_attributes),
                  cmocka_unit_test(writes_texts_of_all_lengths),
                  cmocka_unit_test(packs_datasets_at_multiples_of_their_elements),
                  cmocka_unit_test(says_when_a_file_is_too_large))
