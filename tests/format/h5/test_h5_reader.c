/* The strict reader: what it hands out, and what it refuses although it is legal, by which name.
 * For damaged files see test_h5_damage.c. */
#include "pg_test.h"

#include "base/limits.h"
#include "format/h5_image.h"

/* ---- what comes out */

static void numbers_objects_depth_first(void **state)
{
    (void)state;
    static const char *const paths[] = {"/",
                                        "dense",
                                        "dense/dense",
                                        BIAS,
                                        KERNEL,
                                        "dense_1",
                                        "dense_1/dense_1",
                                        "dense_1/dense_1/bias:0",
                                        "dense_1/dense_1/kernel:0"};
    const image im = keras();
    pg__h5 *h = opened(im);
    char path[64];
    assert_int_equal(pg__h5_n(h), sizeof paths / sizeof *paths);
    for (uint32_t i = 0; i < pg__h5_n(h); i++) {
        assert_string_equal(pg__h5_path(h, i, path, sizeof path), paths[i]);
        assert_int_equal(pg__h5_at(h, i)->parent == PG_H5_NONE, i == 0);
    }
    assert_null(pg__h5_at(h, pg__h5_n(h)));
    assert_int_equal(pg__h5_child(h, 0, 1), 5);
    assert_int_equal(pg__h5_child(h, 0, 2), PG_H5_NONE);
    assert_int_equal(pg__h5_child(h, 99, 0), PG_H5_NONE);
    pg__h5_close(h);
    free(im.p);
}

static void finds_objects_by_path(void **state)
{
    (void)state;
    static const char *const nowhere[] = {
        "",   "/",       "/dense",   "dens",    "dense_",    "dense_1/x", ".",
        "..", "dense/.", "dense/..", BIAS "/x", "dense///x", "dense/./",  "//dense/bias"};
    const image im = keras();
    pg__h5 *h = opened(im);
    assert_int_equal(pg__h5_find(h, 0, "dense"), 1);
    assert_int_equal(pg__h5_find(h, 0, KERNEL), 4);
    assert_int_equal(pg__h5_find(h, 1, "dense/bias:0"), 3);
    assert_int_equal(pg__h5_find(h, 0, "dense//"), 1);
    assert_int_equal(pg__h5_find(h, 0, "dense/dense//bias:0/"), 3);
    assert_int_equal(pg__h5_find(h, 99, "dense"), PG_H5_NONE);
    assert_int_equal(pg__h5_find(h, 1u << 30, "dense"), PG_H5_NONE);
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++)
        assert_int_equal(pg__h5_find(h, 0, nowhere[i]), PG_H5_NONE);
    pg__h5_close(h);
    free(im.p);
}

static void takes_paths_for_equal_that_differ_in_idle_slashes(void **state)
{
    (void)state;
    static const char *const equal[][2] = {
        {"a", "a/"}, {"a//", "a"}, {"a/b", "a///b//"}, {"", "/"}};
    static const char *const less[][2] = {{"a/", "a/b"}, {"a", "b//"}, {"", "a/"}, {"a//a", "a/b"}};
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        assert_int_equal(pg__h5_path_compare(equal[i][0], equal[i][1]), 0);
        assert_true(pg__h5_path_compare(less[i][0], less[i][1]) < 0);
        assert_true(pg__h5_path_compare(less[i][1], less[i][0]) > 0);
    }
}

static void finds_each_of_many_children_but_none_by_two_dots(void **state)
{
    (void)state;
    char path[16];
    const hid_t f = image_begin(0);
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "g/%d", i * i);
        H5Gclose(image_group(f, path));
    }
    H5Gclose(image_group(f, "g/.."));
    H5Gclose(image_group(f, "g/.a"));
    H5Gclose(image_group(f, "g/b."));
    H5Gclose(image_group(f, "g/..c"));
    const image im = image_end(f);
    pg__h5 *h = opened(im);
    for (uint32_t k = 0; k < 24; k++) {
        const uint32_t obj = pg__h5_child(h, 1, k);
        const char *name = pg__h5_at(h, obj)->name;
        assert_int_equal(pg__h5_find(h, 1, name), strcmp(name, "..") ? obj : PG_H5_NONE);
    }
    pg__h5_close(h);
    free(im.p);
}

static void decodes_attributes(void **state)
{
    (void)state;
    const image im = keras();
    pg__h5 *h = opened(im);
    const pg__h5_attr *a = pg__h5_attr_find(h, 0, "layer_names");
    assert_non_null(a);
    assert_int_equal(a->type.cls, PG_H5_STR_FIXED);
    assert_int_equal(a->rank, 1);
    assert_int_equal(a->n_elems, 2);
    assert_string_equal(a->strs[0], "dense");
    assert_int_equal(a->lens[0], 5);
    assert_string_equal(a->strs[1], "dense_1"); /* fills its field, no NUL in the file */
    a = pg__h5_attr_find(h, 0, "keras_version");
    assert_int_equal(a->type.cls, PG_H5_STR_VLEN);
    assert_int_equal(a->rank, 0);
    assert_string_equal(a->strs[0], "2.2.4");
    assert_ptr_equal(pg__h5_attr_at(h, 0, 1), a);
    assert_null(pg__h5_attr_find(h, 0, "backend"));
    assert_null(pg__h5_attr_at(h, 0, 2));
    assert_null(pg__h5_attr_at(h, 99, 0));
    pg__h5_close(h);
    free(im.p);
}

static void reads_any_part_of_a_dataset(void **state)
{
    (void)state;
    pg_err err = {0};
    const image im = keras();
    pg__h5 *h = opened(im);
    const uint32_t obj = pg__h5_find(h, 0, KERNEL);
    const pg__h5_object *o = pg__h5_at(h, obj);
    float got[12];
    assert_int_equal(o->n_bytes, sizeof got);
    assert_true(o->contiguous);
    assert_ok(pg__h5_read(h, obj, 0, got, sizeof got, NULL));
    for (int i = 0; i < 12; i++)
        assert_true(got[i] == (float)i);
    assert_memory_equal(im.p + o->off_bytes, got, sizeof got);
    assert_ok(pg__h5_read(h, obj, 20, got, 8, NULL));
    assert_true(got[0] == 5 && got[1] == 6);
    assert_ok(pg__h5_read(h, obj, 48, got, 0, NULL));
    assert_fails(PG_E_ARG, pg__h5_read(h, obj, 45, got, 4, &err), &err);
    assert_fails(PG_E_ARG, pg__h5_read(h, obj, UINT64_MAX, got, 4, &err), &err);
    assert_fails(PG_E_ARG, pg__h5_read(h, 0, 0, got, 0, &err), &err);
    assert_fails(PG_E_ARG, pg__h5_read(h, 1u << 30, 0, got, 0, &err), &err);
    pg__h5_close(h);
    free(im.p);
}

/* Every start and length of a row-major tensor over chunks with ragged edges. */
static void reads_any_part_of_a_chunked_dataset(void **state)
{
    (void)state;
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 3, (hsize_t[]){2, 2, 3});
    H5Pset_shuffle(dcpl);
    H5Pset_deflate(dcpl, 9);
    image_dataset(f, "d", H5T_STD_I16LE, 3, (hsize_t[]){3, 3, 4}, dcpl, 1);
    H5Pclose(dcpl);
    const image im = image_end(f);
    pg__h5 *h = opened(im);
    uint8_t want[72], got[72];
    for (size_t i = 0; i < 36; i++) {
        want[2 * i] = (uint8_t)i;
        want[2 * i + 1] = 0;
    }
    assert_false(pg__h5_at(h, 1)->contiguous);
    for (size_t off = 0; off < sizeof want; off++)
        for (size_t n = 0; off + n <= sizeof want; n++) {
            memset(got, 0xAA, sizeof got);
            assert_ok(pg__h5_read(h, 1, off, got, n, NULL));
            assert_memory_equal(got, want + off, n);
        }
    pg__h5_close(h);
    free(im.p);
}

static void gives_a_dataset_both_its_names(void **state)
{
    (void)state;
    const hid_t f = image_keras();
    H5Lcreate_hard(f, KERNEL, f, "dense/copy", H5P_DEFAULT, H5P_DEFAULT);
    const image im = image_end(f);
    pg__h5 *h = opened(im);
    const pg__h5_object *a = pg__h5_at(h, pg__h5_find(h, 0, KERNEL));
    const pg__h5_object *b = pg__h5_at(h, pg__h5_find(h, 0, "dense/copy"));
    assert_string_equal(b->name, "copy");
    assert_int_equal(b->parent, 1);
    assert_int_equal(a->addr, b->addr);
    assert_int_equal(a->off_bytes, b->off_bytes);
    pg__h5_close(h);
    free(im.p);
}

static void shows_hostile_names_escaped_and_long_paths_from_their_end(void **state)
{
    (void)state;
    char path[400], shown[60];
    const hid_t f = image_begin(0);
    memset(path, 'p', sizeof path);
    memcpy(path + 300, "/dense/kernel:0", 16);
    H5Gclose(image_group(f, "a\x1b]0;owned\n"));
    H5Gclose(image_group(f, path));
    const image im = image_end(f);
    pg__h5 *h = opened(im);
    assert_string_equal(pg__h5_path(h, 1, shown, sizeof shown), "a\\x1b]0;owned\\x0a");
    assert_string_equal(pg__h5_path(h, 4, shown, sizeof shown), ".../dense/kernel:0");
    for (size_t cap = 0; cap < sizeof shown; cap++) {
        memset(shown, 'x', sizeof shown);
        pg__h5_path(h, 4, shown, cap);
        assert_true(cap == 0 || memchr(shown, 0, cap));
        for (size_t i = cap; i < sizeof shown; i++)
            assert_int_equal(shown[i], 'x');
    }
    pg__h5_close(h);
    free(im.p);
}

/* Escapes are longer than what they stand for. */
static void keeps_to_the_buffer_whatever_a_path_needs(void **state)
{
    (void)state;
    char shown[120];
    const hid_t f = image_begin(0);
    H5Gclose(image_group(f, "\1\1\1\1\1\1/\2\2\2/\3\3\3\3\3\3\3\3\3\3\3/\4\4/\5\5\5\5\5\5\5"));
    const image im = image_end(f);
    pg__h5 *h = opened(im);
    for (uint32_t obj = 0; obj < 6; obj++)
        for (size_t cap = 0; cap < sizeof shown; cap++) {
            memset(shown, 'x', sizeof shown);
            pg__h5_path(h, obj, shown, cap);
            assert_true(cap == 0 || memchr(shown, 0, cap));
            for (size_t i = cap; i < sizeof shown; i++)
                assert_int_equal(shown[i], 'x');
        }
    assert_string_equal(pg__h5_path(h, PG_H5_NONE, shown, sizeof shown), "/");
    pg__h5_close(h);
    free(im.p);
}

static void skips_a_user_block_and_what_trails(void **state)
{
    (void)state;
    const image im = keras();
    for (int told = 0; told < 2; told++) /* moved by a tool that knows, or by cat */
        for (size_t block = 512; block <= 4096; block *= 2) {
            const size_t n_tail = 777;
            image moved = {.n = block + im.n + n_tail};
            moved.p = calloc(moved.n, 1);
            memcpy(moved.p + block, im.p, im.n);
            if (told) {
                const uint64_t base = block, end = block + im.n;
                memcpy(moved.p + block + 24, &base, 8);
                memcpy(moved.p + block + 40, &end, 8);
            }
            pg__h5 *h = opened(moved);
            float got[4];
            assert_int_equal(pg__h5_user_block(h), block);
            assert_int_equal(pg__h5_trailing(h), n_tail);
            assert_ok(pg__h5_read(h, pg__h5_find(h, 0, BIAS), 0, got, sizeof got, NULL));
            assert_true(got[3] == 3);
            pg__h5_close(h);
            free(moved.p);
        }
    free(im.p);
}

/* ---- legal, but not what a weight file may hold */

static void make_external_link(hid_t f)
{
    H5Ldelete(f, "dense", H5P_DEFAULT);
    H5Lcreate_external("secret.h5", "/g", f, "dense", H5P_DEFAULT, H5P_DEFAULT);
}

static void make_soft_link(hid_t f)
{
    H5Lcreate_soft("/dense_1", f, "dense/soft", H5P_DEFAULT, H5P_DEFAULT);
}

static void replace_kernel(hid_t f, hid_t type, hid_t dcpl, int rank, const hsize_t *dims,
                           int write)
{
    H5Ldelete(f, KERNEL, H5P_DEFAULT);
    image_dataset(f, KERNEL, type, rank, dims, dcpl, write);
}

static void make_external_storage(hid_t f)
{
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(dcpl, "secret.txt", 0, 48);
    replace_kernel(f, H5T_IEEE_F32LE, dcpl, 1, (hsize_t[]){12}, 0);
    H5Pclose(dcpl);
}

static void make_virtual(hid_t f)
{
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), s = image_space(1, (hsize_t[]){12});
    H5Pset_virtual(dcpl, s, "secret.h5", "s", s);
    replace_kernel(f, H5T_IEEE_F32LE, dcpl, 1, (hsize_t[]){12}, 0);
    H5Sclose(s);
    H5Pclose(dcpl);
}

static void chunked_kernel(hid_t f, hid_t type, hsize_t dim, hsize_t chunk, H5Z_filter_t filter)
{
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, &chunk);
    if (filter == H5Z_FILTER_SCALEOFFSET)
        H5Pset_scaleoffset(dcpl, H5Z_SO_INT, 0);
    else if (filter == H5Z_FILTER_NBIT)
        H5Pset_nbit(dcpl);
    else if (filter == H5Z_FILTER_DEFLATE)
        H5Pset_deflate(dcpl, 9);
    replace_kernel(f, type, dcpl, 1, &dim, filter != H5Z_FILTER_DEFLATE && filter >= 0);
    H5Pclose(dcpl);
}

static void make_nbit(hid_t f)
{
    chunked_kernel(f, H5T_IEEE_F32LE, 12, 12, H5Z_FILTER_NBIT);
}

static void make_scaleoffset(hid_t f)
{
    chunked_kernel(f, H5T_STD_I32LE, 12, 12, H5Z_FILTER_SCALEOFFSET);
}

static void make_no_chunks(hid_t f)
{
    chunked_kernel(f, H5T_IEEE_F64LE, (hsize_t)1 << 50, 1024, H5Z_FILTER_DEFLATE);
}

static void make_half_the_chunks(hid_t f)
{
    chunked_kernel(f, H5T_STD_I32LE, 8, 2, -1);
    const hid_t d = H5Dopen2(f, KERNEL, H5P_DEFAULT);
    for (hsize_t at = 0; at < 8; at += 4)
        H5Dwrite_chunk(d, H5P_DEFAULT, 0, &at, 8, "01234567");
    H5Dclose(d);
}

static void make_wide_chunks(hid_t f)
{
    chunked_kernel(f, H5T_IEEE_F32LE, (hsize_t)1 << 29, (hsize_t)1 << 29, H5Z_FILTER_DEFLATE);
}

static void make_bomb(hid_t f)
{
    chunked_kernel(f, H5T_IEEE_F32LE, 1 << 20, 1 << 20, H5Z_FILTER_DEFLATE);
    const hid_t d = H5Dopen2(f, KERNEL, H5P_DEFAULT);
    H5Dwrite_chunk(d, H5P_DEFAULT, 0, (hsize_t[]){0}, 48, KERNEL KERNEL KERNEL);
    H5Dclose(d);
}

static void make_unwritten(hid_t f)
{
    replace_kernel(f, H5T_IEEE_F32LE, H5P_DEFAULT, 1, (hsize_t[]){(hsize_t)1 << 50}, 0);
}

static void kernel_of(hid_t f, hid_t type)
{
    replace_kernel(f, type, H5P_DEFAULT, 1, (hsize_t[]){2}, 0);
    H5Tclose(type);
}

static void make_compound(hid_t f)
{
    const hid_t t = H5Tcreate(H5T_COMPOUND, 8);
    H5Tinsert(t, "r", 0, H5T_IEEE_F32LE);
    H5Tinsert(t, "i", 4, H5T_IEEE_F32LE);
    kernel_of(f, t);
}

static void make_sequence(hid_t f)
{
    kernel_of(f, H5Tvlen_create(H5T_IEEE_F32LE));
}

static void make_reference(hid_t f)
{
    kernel_of(f, H5Tcopy(H5T_STD_REF_OBJ));
}

static void make_opaque(hid_t f)
{
    kernel_of(f, H5Tcreate(H5T_OPAQUE, 8));
}

static void make_tagged_opaque(hid_t f)
{
    const hid_t t = H5Tcreate(H5T_OPAQUE, 2);
    H5Tset_tag(t, "pixel");
    kernel_of(f, t);
}

static void make_enum(hid_t f)
{
    const hid_t t = H5Tenum_create(H5T_STD_I8LE);
    H5Tenum_insert(t, "RED", &(int8_t){0});
    H5Tenum_insert(t, "BLUE", &(int8_t){1});
    kernel_of(f, t);
}

static void make_strings(hid_t f)
{
    kernel_of(f, image_string(5, 0, 1));
}

static hid_t odd_float(void)
{
    const hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(t, 31, 20, 11, 0, 20);
    H5Tset_ebias(t, 1023);
    return t;
}

static void make_odd_float(hid_t f)
{
    kernel_of(f, odd_float());
}

static void make_odd_integer(hid_t f)
{
    const hid_t t = H5Tcopy(H5T_STD_I32LE);
    H5Tset_precision(t, 24);
    kernel_of(f, t);
}

static void make_nine_dimensions(hid_t f)
{
    replace_kernel(f, H5T_IEEE_F32LE, H5P_DEFAULT, 9, (hsize_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, 1);
}

static void make_null_space(hid_t f)
{
    const hid_t s = H5Screate(H5S_NULL);
    H5Dclose(H5Dcreate2(f, "dense/null", H5T_IEEE_F32LE, s, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(s);
}

static void make_committed(hid_t f)
{
    const hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    H5Tcommit2(f, "type", t, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Tclose(t);
}

static void make_shared_type(hid_t f)
{
    const hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    H5Tcommit2(f, "zzz", t, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    replace_kernel(f, t, H5P_DEFAULT, 1, (hsize_t[]){2}, 1);
    H5Tclose(t);
}

static void make_loop(hid_t f)
{
    H5Lcreate_hard(f, "/", f, "dense/up", H5P_DEFAULT, H5P_DEFAULT);
}

static void make_lattice(hid_t f)
{
    hid_t g = image_group(f, "dag");
    for (int i = 0; i < 28; i++) {
        const hid_t next = image_group(g, "a");
        H5Lcreate_hard(g, "a", g, "b", H5P_DEFAULT, H5P_DEFAULT);
        H5Gclose(g);
        g = next;
    }
    H5Gclose(g);
}

static void make_deep(hid_t f)
{
    hid_t g = image_group(f, "deep");
    for (int i = 0; i < 70; i++) {
        const hid_t next = image_group(g, "d");
        H5Gclose(g);
        g = next;
    }
    H5Gclose(g);
}

static void make_attribute_sequence(hid_t f)
{
    const hid_t t = H5Tvlen_create(H5T_STD_I8LE);
    image_attr(f, "dense", "seq", t, 0, NULL);
    H5Tclose(t);
}

static void make_dense_links(hid_t f)
{
    const hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_link_phase_change(gcpl, 0, 0);
    H5Pset_link_creation_order(gcpl, H5P_CRT_ORDER_TRACKED);
    const hid_t g = H5Gcreate2(f, "many", H5P_DEFAULT, gcpl, H5P_DEFAULT);
    H5Gclose(image_group(g, "a"));
    H5Gclose(g);
    H5Pclose(gcpl);
}

static void make_dense_attributes(hid_t f)
{
    const hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_attr_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_phase_change(gcpl, 0, 0);
    H5Gclose(H5Gcreate2(f, "many", H5P_DEFAULT, gcpl, H5P_DEFAULT));
    image_attr(f, "many", "a", H5T_STD_I8LE, -1, "1");
    H5Pclose(gcpl);
}

static void refuses_by_name_what_a_weight_file_may_not_hold(void **state)
{
    (void)state;
    static const struct {
        void (*make)(hid_t f);
        pg_status code;
        const char *words;
    } cases[] = {
        {make_external_link, PG_E_FORMAT, "dense: external link to \"secret.h5\" is not followed"},
        {make_soft_link, PG_E_FORMAT, "dense/soft: soft link to \"/dense_1\" is not followed"},
        {make_external_storage, PG_E_FORMAT, KERNEL ": external storage"},
        {make_virtual, PG_E_FORMAT, KERNEL ": virtual dataset"},
        {make_nbit, PG_E_UNSUPPORTED, KERNEL ": filter 5 (nbit)"},
        {make_scaleoffset, PG_E_UNSUPPORTED, KERNEL ": filter 6 (scaleoffset)"},
        {make_no_chunks, PG_E_FORMAT, KERNEL ": 0 of its 1,099,511,627,776 chunks are stored"},
        {make_half_the_chunks, PG_E_FORMAT, KERNEL ": 2 of its 4 chunks are stored"},
        {make_wide_chunks, PG_E_LIMIT, KERNEL ": chunks of more than 1,073,741,824 bytes"},
        {make_bomb, PG_E_LIMIT, KERNEL ": chunk of 4,194,304 bytes cannot fit in 48 stored ones"},
        {make_unwritten, PG_E_FORMAT,
         KERNEL ": declares 4,503,599,627,370,496 bytes, 0 are stored"},
        {make_nine_dimensions, PG_E_LIMIT, KERNEL ": 9 dimensions"},
        {make_null_space, PG_E_UNSUPPORTED, "dense/null: dataset without a shape"},
        {make_committed, PG_E_UNSUPPORTED, "type: committed datatype"},
        {make_shared_type, PG_E_UNSUPPORTED, KERNEL ": shared object header message"},
        {make_loop, PG_E_FORMAT, "dense/up: loop"},
        {make_lattice, PG_E_UNSUPPORTED, "b: group with two names"},
        {make_deep, PG_E_LIMIT, "groups are nested more than 64 deep"},
        {make_dense_links, PG_E_UNSUPPORTED, "many: links in dense storage"},
        {make_dense_attributes, PG_E_UNSUPPORTED, "many: attributes in dense storage"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hid_t f = image_keras();
        cases[i].make(f);
        refused(image_end(f), cases[i].words, cases[i].code, cases[i].words);
    }
}

static void passes_over_types_that_no_weight_has(void **state)
{
    (void)state;
    static const struct {
        void (*make)(hid_t f);
        const char *words;
    } cases[] = {
        {make_compound, KERNEL ": compound type"},
        {make_sequence, KERNEL ": variable-length sequence type"},
        {make_reference, KERNEL ": reference type"},
        {make_opaque, KERNEL ": opaque type of 8 bytes"},
        {make_tagged_opaque, KERNEL ": opaque type of 2 bytes"},
        {make_enum, KERNEL ": enum type"},
        {make_strings, KERNEL ": dataset of string type"},
        {make_odd_float, KERNEL ": float type of 4 bytes is not IEEE"},
        {make_odd_integer, KERNEL ": integer type of 24 bits in 4 bytes"},
    };
    const char *names[PG_H5_UNREAD];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hid_t f = image_keras();
        cases[i].make(f);
        const image im = image_end(f);
        pg__h5 *h = opened(im);
        const pg__h5_object *o = pg__h5_at(h, pg__h5_find(h, 0, KERNEL));
        assert_int_equal(o->type.cls, PG_H5_OTHER);
        assert_int_equal(o->dims[0], 2);
        assert_non_null(strstr(o->type.unread, cases[i].words));
        assert_int_equal(pg__h5_unread(h, names), 1);
        assert_string_equal(names[0], KERNEL);
        assert_null(names[1]);
        pg__h5_close(h);
        free(im.p);
    }
}

/* libhdf5 1.10 follows a null pointer where values that its header should hold are missing. */
static void what_it_passes_over_must_be_there_for_libhdf5(void **state)
{
    (void)state;
    const char *names[PG_H5_UNREAD];
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE), t = odd_float();
    H5Pset_layout(dcpl, H5D_COMPACT);
    image_dataset(f, "d", t, 1, (hsize_t[]){6}, dcpl, 1);
    H5Tclose(t);
    H5Pclose(dcpl);
    const image im = image_end(f);
    pg__h5 *h = opened(im);
    pg_err err = {0};
    assert_int_equal(pg__h5_unread(h, names), 1);
    pg__h5_close(h);
    static const char message[] = "\10\0\x20\0\0\0\0\0\3\0\x18"; /* layout 3, compact, 24 bytes */
    unsigned char *layout = memmem(im.p, im.n, message, sizeof message);
    assert_non_null(layout);
    layout[10] = 0;
    assert_fails(PG_E_FORMAT, image_open(&h, im, &err), &err);
    assert_string_equal(err.msg, "d: declares 24 bytes, 0 are stored");
    free(im.p);
}

static void passes_over_attributes_that_no_weight_has(void **state)
{
    (void)state;
    const char *names[PG_H5_UNREAD];
    const hid_t f = image_keras();
    make_attribute_sequence(f);
    const image im = image_end(f);
    pg__h5 *h = opened(im);
    const uint32_t dense = pg__h5_find(h, 0, "dense");
    assert_int_equal(pg__h5_at(h, dense)->n_attrs, 1);
    assert_non_null(pg__h5_attr_find(h, dense, "weight_names"));
    assert_null(pg__h5_attr_find(h, dense, "seq"));
    assert_int_equal(pg__h5_unread(h, names), 1);
    assert_string_equal(names[0], "dense@seq");
    pg__h5_close(h);
    free(im.p);
}

/* HDF5 before 1.8 left "open for writing" in files that it had closed. */
static void leaves_the_flags_of_old_files_alone(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 8; flags++) {
        const image im = keras();
        im.p[20] = (uint8_t)flags;
        pg__h5_close(opened(im));
        free(im.p);
    }
}

static void refuses_a_filter_by_number_without_looking_for_it(void **state)
{
    (void)state;
    const hid_t f = image_keras();
    chunked_kernel(f, H5T_IEEE_F32LE, 0, 12, H5Z_FILTER_DEFLATE);
    const image im = image_end(f);
    uint8_t *p = memmem(im.p, im.n, "deflate", 8);
    assert_non_null(p);
    p[-8] = 0x01; /* 32001, a plug-in's number */
    p[-7] = 0x7D;
    refused(im, "plug-in", PG_E_UNSUPPORTED, KERNEL ": filter 32001 is not supported");
}

static void names_where_links_of_new_groups_lead(void **state)
{
    (void)state;
    char target[400], words[440];
    for (int i = 0; i < 3; i++) {
        const hid_t f = image_begin(1);
        memset(target, 't', sizeof target);
        target[i == 0 ? 2 : i == 1 ? 40 : sizeof target - 1] = 0;
        if (i == 1)
            H5Lcreate_external(target, "/g", f, "l", H5P_DEFAULT, H5P_DEFAULT);
        else
            H5Lcreate_soft(target, f, "l", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_soft("m", f, "m", H5P_DEFAULT, H5P_DEFAULT); /* right behind it in the file */
        target[100] = 0;                                       /* what is shown of it at least */
        snprintf(words, sizeof words, "l: %s link to \"%s%s", i == 1 ? "external" : "soft", target,
                 i < 2 ? "\" is not followed" : "");
        const image im = image_end(f);
        pg__h5 *h = NULL;
        pg_err err = {0};
        assert_fails(PG_E_FORMAT, image_open(&h, im, &err), &err);
        if (strncmp(err.msg, words, strlen(words)) != 0)
            fail_msg("%s, not %s...", err.msg, words);
        free(im.p);
    }
}

static void refuses_newer_chunk_indexes(void **state)
{
    (void)state;
    const hid_t f = image_begin(1), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){4});
    image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){12}, dcpl, 1);
    H5Pclose(dcpl);
    refused(image_end(f), "index", PG_E_UNSUPPORTED,
            "d: chunk index of a newer kind (fixed array)");
}

/* ---- damage in the data itself shows when it is read */

static void finds_damaged_chunks_when_they_are_read(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        const char *bytes;
        pg_status code;
        const char *words;
    } cases[] = {
        {8, "\x78\x9c\xff\xff\xff\xff\xff\xff", PG_E_FORMAT, "d: compressed data is damaged"},
        {11, "\x78\x9c\x4b\x4c\x4c\x04\x00\x02\x49\x01\x24", PG_E_FORMAT,
         "d: compressed data expands"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg_err err = {0};
        char got[48];
        const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_chunk(dcpl, 1, (hsize_t[]){12});
        H5Pset_deflate(dcpl, 9);
        image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){12}, dcpl, 0);
        const hid_t d = H5Dopen2(f, "d", H5P_DEFAULT);
        H5Dwrite_chunk(d, H5P_DEFAULT, 0, (hsize_t[]){0}, cases[i].n, cases[i].bytes);
        H5Dclose(d);
        H5Pclose(dcpl);
        const image im = image_end(f);
        pg__h5 *h = opened(im);
        for (int again = 0; again < 2; again++) { /* not taken for decoded after a failure */
            assert_fails(cases[i].code, pg__h5_read(h, 1, 0, got, sizeof got, &err), &err);
            assert_non_null(strstr(err.msg, cases[i].words));
        }
        pg__h5_close(h);
        free(im.p);
    }
}

/* Two chunks of four int32 behind filters, written as they are stored. */
static pg__h5 *two_chunks(image *im, int fletcher_first, const void *a, size_t n_a, unsigned mask,
                          const void *b, size_t n_b)
{
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){4});
    if (fletcher_first)
        H5Pset_fletcher32(dcpl);
    H5Pset_deflate(dcpl, 9);
    if (!fletcher_first)
        H5Pset_fletcher32(dcpl);
    image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){8}, dcpl, 0);
    const hid_t d = H5Dopen2(f, "d", H5P_DEFAULT);
    assert_true(H5Dwrite_chunk(d, H5P_DEFAULT, mask, (hsize_t[]){0}, n_a, a) >= 0);
    assert_true(H5Dwrite_chunk(d, H5P_DEFAULT, 3, (hsize_t[]){4}, n_b, b) >= 0);
    H5Dclose(d);
    H5Pclose(dcpl);
    *im = image_end(f);
    return opened(*im);
}

static void finds_a_chunk_that_is_too_short_for_its_checksum(void **state)
{
    (void)state;
    image im;
    char got[32];
    pg_err err = {0};
    pg__h5 *h = two_chunks(&im, 0, "abc", 3, 0, "0123456789abcdef", 16);
    assert_fails(PG_E_FORMAT, pg__h5_read(h, 1, 0, got, sizeof got, &err), &err);
    assert_string_equal(err.msg, "d: chunk without its checksum");
    assert_ok(pg__h5_read(h, 1, 16, got, 16, NULL));
    assert_memory_equal(got, "0123456789abcdef", 16);
    pg__h5_close(h);
    free(im.p);
}

/* Deflate behind a checksum yields four bytes more, unless the chunk left the checksum out. */
static void reads_a_chunk_that_left_out_its_checksum(void **state)
{
    (void)state;
    static const char stored[] = "\x78\x01\x01\x10\x00\xef\xff"
                                 "0123456789abcdef\x1f\x6b\x04\x63";
    image im;
    char got[32];
    pg__h5 *h = two_chunks(&im, 1, stored, 27, 1, "ABCDEFGHIJKLMNOP", 16);
    assert_ok(pg__h5_read(h, 1, 0, got, sizeof got, NULL));
    assert_memory_equal(got, "0123456789abcdefABCDEFGHIJKLMNOP", 32);
    pg__h5_close(h);
    free(im.p);
}

static void notices_every_changed_byte_under_fletcher32(void **state)
{
    (void)state;
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){12});
    H5Pset_fletcher32(dcpl);
    image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){12}, dcpl, 1);
    const hid_t d = H5Dopen2(f, "d", H5P_DEFAULT);
    haddr_t at = 0;
    hsize_t n = 0;
    unsigned mask;
    const hid_t space = H5Dget_space(d);
    assert_true(H5Dget_chunk_info(d, space, 0, (hsize_t[]){0}, &mask, &at, &n) >= 0);
    H5Sclose(space);
    H5Dclose(d);
    H5Pclose(dcpl);
    const image im = image_end(f);
    assert_int_equal(n, 52);
    for (size_t i = 0; i < n; i++) {
        pg_err err = {0};
        char got[48];
        im.p[at + i] ^= 0x40;
        pg__h5 *h = opened(im);
        assert_fails(PG_E_FORMAT, pg__h5_read(h, 1, 0, got, sizeof got, &err), &err);
        assert_non_null(strstr(err.msg, "d: wrong checksum (fletcher32)"));
        pg__h5_close(h);
        im.p[at + i] ^= 0x40;
    }
    free(im.p);
}

static void reads_a_genuine_file(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/negative/gan_weights.h5", pg_testdata);
    const image im = image_load(path);
    pg__h5 *h = opened(im);
    const uint32_t obj = pg__h5_find(h, 0, "sequential_1/dense_1/kernel:0");
    assert_int_not_equal(obj, PG_H5_NONE);
    assert_int_equal(pg__h5_at(h, obj)->type.dtype, PG_F32);
    assert_string_equal(pg__h5_attr_find(h, 0, "layer_names")->strs[0], "sequential_1");
    assert_string_equal(pg__h5_attr_find(h, 0, "backend")->strs[0], "tensorflow");
    pg__h5_close(h);
    free(im.p);
}

PG_TEST_MAIN(cmocka_unit_test(reads_a_genuine_file), cmocka_unit_test(numbers_objects_depth_first),
             cmocka_unit_test(finds_objects_by_path),
             cmocka_unit_test(takes_paths_for_equal_that_differ_in_idle_slashes),
             cmocka_unit_test(decodes_attributes), cmocka_unit_test(reads_any_part_of_a_dataset),
             cmocka_unit_test(reads_any_part_of_a_chunked_dataset),
             cmocka_unit_test(gives_a_dataset_both_its_names),
             cmocka_unit_test(shows_hostile_names_escaped_and_long_paths_from_their_end),
             cmocka_unit_test(skips_a_user_block_and_what_trails),
             cmocka_unit_test(refuses_by_name_what_a_weight_file_may_not_hold),
             cmocka_unit_test(passes_over_types_that_no_weight_has),
             cmocka_unit_test(what_it_passes_over_must_be_there_for_libhdf5),
             cmocka_unit_test(passes_over_attributes_that_no_weight_has),
             cmocka_unit_test(leaves_the_flags_of_old_files_alone),
             cmocka_unit_test(refuses_a_filter_by_number_without_looking_for_it),
             cmocka_unit_test(refuses_newer_chunk_indexes),
             cmocka_unit_test(finds_damaged_chunks_when_they_are_read),
             cmocka_unit_test(finds_each_of_many_children_but_none_by_two_dots),
             cmocka_unit_test(keeps_to_the_buffer_whatever_a_path_needs),
             cmocka_unit_test(names_where_links_of_new_groups_lead),
             cmocka_unit_test(finds_a_chunk_that_is_too_short_for_its_checksum),
             cmocka_unit_test(reads_a_chunk_that_left_out_its_checksum),
             cmocka_unit_test(notices_every_changed_byte_under_fletcher32))
