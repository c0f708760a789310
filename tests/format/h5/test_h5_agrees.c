/* libhdf5 is the oracle of our reader: every HDF5 file below testdata, and files of layouts that
 * Keras does not write, must have the same objects, attributes, types, shapes and bytes in both. */
#include "pg_test.h"

#include <ftw.h>

#include "base/limits.h"
#include "format/h5_image.h"

/* The pieces in which ours reads: odd, so that they cross rows, chunks and elements. */
#define PIECE 1021

/* ---- types */

static int class_of(hid_t t, pg_dtype *dtype)
{
    const size_t size = H5Tget_size(t);
    switch (H5Tget_class(t)) {
    case H5T_STRING: return H5Tis_variable_str(t) > 0 ? PG_H5_STR_VLEN : PG_H5_STR_FIXED;
    case H5T_INTEGER: {
        static const pg_dtype u[] = {[1] = PG_U8, [2] = PG_U16, [4] = PG_U32, [8] = PG_U64};
        static const pg_dtype i[] = {[1] = PG_I8, [2] = PG_I16, [4] = PG_I32, [8] = PG_I64};
        *dtype = H5Tget_sign(t) == H5T_SGN_2 ? i[size] : u[size];
        break;
    }
    case H5T_FLOAT:
        *dtype = size == 8                ? PG_F64
                 : size == 4              ? PG_F32
                 : H5Tget_ebias(t) == 127 ? PG_BF16
                                          : PG_F16;
        break;
    case H5T_ENUM: *dtype = PG_BOOL; break;
    case H5T_OPAQUE: *dtype = PG_BF16; break;
    default: fail_msg("a type of class %d", H5Tget_class(t));
    }
    return PG_H5_NUMBER;
}

static void same_type(const pg__h5_dtype *t, hid_t want)
{
    pg_dtype dtype = t->dtype;
    assert_int_equal(t->cls, class_of(want, &dtype));
    if (t->cls != PG_H5_STR_VLEN)
        assert_int_equal(t->size, H5Tget_size(want));
    assert_int_equal(t->dtype, dtype);
    if (t->cls == PG_H5_NUMBER && t->size > 1 && H5Tget_class(want) != H5T_OPAQUE)
        assert_int_equal(t->big_endian, H5Tget_order(want) == H5T_ORDER_BE);
    if (t->cls != PG_H5_NUMBER) {
        assert_int_equal(t->utf8, H5Tget_cset(want));
        assert_int_equal(t->pad, H5Tget_strpad(want));
    }
}

static void same_shape(uint32_t rank, const uint64_t *dims, hid_t space)
{
    hsize_t want[32] = {0};
    if (H5Sget_simple_extent_type(space) == H5S_NULL) {
        assert_int_equal(rank, PG_H5_NULL);
        return;
    }
    assert_int_equal(rank, H5Sget_simple_extent_dims(space, want, NULL));
    for (uint32_t i = 0; i < rank; i++)
        assert_int_equal(dims[i], want[i]);
}

/* ---- attributes and data */

static size_t n_passed; /* values of the file that ours does not read */

static void same_strings(const pg__h5_attr *a, const char *const *want)
{
    for (size_t i = 0; i < a->n_elems; i++) {
        const char *s = want[i] ? want[i] : "";
        assert_string_equal(a->strs[i], s);
        assert_int_equal(a->lens[i], strlen(s));
    }
}

/* Fixed strings through libhdf5's conversion to null-terminated ones of one byte more. */
static void same_fixed(const pg__h5_attr *a, hid_t attr)
{
    const size_t size = a->type.size + 1;
    const hid_t mem = image_string(size, a->type.utf8, 0);
    char *buf = calloc((size_t)a->n_elems, size);
    assert_true(H5Aread(attr, mem, buf) >= 0);
    for (size_t i = 0; i < a->n_elems; i++)
        assert_string_equal(a->strs[i], buf + i * size);
    free(buf);
    H5Tclose(mem);
}

static void same_attr(const pg__h5_attr *a, hid_t obj)
{
    const hid_t attr = H5Aopen(obj, a->name, H5P_DEFAULT);
    assert_true(attr >= 0);
    const hid_t type = H5Aget_type(attr), space = H5Aget_space(attr);
    same_type(&a->type, type);
    same_shape(a->rank, a->dims, space);
    assert_int_equal(a->n_elems, H5Sget_simple_extent_npoints(space));
    if (a->n_elems) {
        void *buf = calloc((size_t)a->n_elems, H5Tget_size(type));
        assert_true(H5Aread(attr, type, buf) >= 0);
        if (a->type.cls == PG_H5_STR_VLEN) {
            same_strings(a, buf);
            H5Dvlen_reclaim(type, space, H5P_DEFAULT, buf);
        } else {
            assert_memory_equal(a->raw, buf, a->n_elems * a->type.size);
        }
        free(buf);
        if (a->type.cls == PG_H5_STR_FIXED)
            same_fixed(a, attr);
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attr);
}

static void same_data(pg__h5 *h, uint32_t obj, hid_t d)
{
    const pg__h5_object *o = pg__h5_at(h, obj);
    const hid_t type = H5Dget_type(d), space = H5Dget_space(d);
    same_shape(o->rank, o->dims, space);
    if (o->type.cls == PG_H5_OTHER) {
        n_passed++;
        H5Sclose(space);
        H5Tclose(type);
        return;
    }
    same_type(&o->type, type);
    assert_int_equal(o->n_bytes, (uint64_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(type));
    uint8_t *want = calloc((size_t)o->n_bytes + 1, 1), *got = calloc((size_t)o->n_bytes + 1, 1);
    assert_true(H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, want) >= 0);
    for (uint64_t off = 0; off < o->n_bytes; off += PIECE) {
        const uint64_t left = o->n_bytes - off;
        assert_ok(pg__h5_read(h, obj, off, got + off, left < PIECE ? (size_t)left : PIECE, NULL));
    }
    assert_memory_equal(got, want, (size_t)o->n_bytes);
    free(want);
    free(got);
    H5Sclose(space);
    H5Tclose(type);
}

/* ---- objects */

/* Depth-first number that the next object should have; children as libhdf5 lists them by name. */
static void same_object(pg__h5 *h, uint32_t obj, hid_t id, uint32_t *next)
{
    const pg__h5_object *o = pg__h5_at(h, obj);
    H5O_info_t info;
    H5G_info_t group;
    assert_int_equal(obj, (*next)++);
    assert_true(H5Oget_info(id, &info) >= 0);
    assert_int_equal(o->addr, info.addr);
    assert_true(o->n_attrs <= info.num_attrs);
    n_passed += (size_t)info.num_attrs - o->n_attrs;
    for (uint32_t k = 0; k < o->n_attrs; k++)
        same_attr(pg__h5_attr_at(h, obj, k), id);
    assert_int_equal(o->kind, info.type == H5O_TYPE_GROUP ? PG_H5_GROUP : PG_H5_DATASET);
    if (o->kind == PG_H5_DATASET) {
        same_data(h, obj, id);
        return;
    }
    assert_true(H5Gget_info(id, &group) >= 0);
    assert_int_equal(o->n_children, group.nlinks);
    for (uint32_t k = 0; k < o->n_children; k++) {
        static char name[PG_LIMIT_NAME_BYTES + 1];
        const uint32_t child = pg__h5_child(h, obj, k);
        assert_true(H5Lget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, k, name, sizeof name,
                                       H5P_DEFAULT) > 0);
        assert_string_equal(pg__h5_at(h, child)->name, name);
        assert_int_equal(pg__h5_at(h, child)->parent, obj);
        if (strcmp(name, "..")) /* never matches: it would mean something else to others */
            assert_int_equal(pg__h5_find(h, obj, name), child);
        const hid_t c = H5Oopen(id, name, H5P_DEFAULT);
        assert_true(c >= 0);
        same_object(h, child, c, next);
        H5Oclose(c);
    }
}

typedef pg_status (*opener)(pg__h5 **h, pg__io *io, pg_err *err);

/* libhdf5 and ours both open the image, or both refuse it. Returns whether they opened it. */
static int agree(image im, const char *label, opener open)
{
    pg__h5 *h = NULL;
    pg_err err = {0};
    uint32_t next = 0;
    const char *names[PG_H5_UNREAD];
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* refusals are expected */
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(fapl, 4096, 0);
    H5Pset_file_image(fapl, im.p, im.n);
    const hid_t f = im.n ? H5Fopen("image", H5F_ACC_RDONLY, fapl) : -1;
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, im.p, im.n, NULL));
    const pg_status st = open(&h, io, &err);
    pg__io_close(io);
    H5Pclose(fapl);
    if ((f >= 0) != (st == PG_OK))
        fail_msg("%s: libhdf5 %s it, ours says %s", label, f >= 0 ? "opens" : "refuses", err.msg);
    if (f < 0)
        return 0;
    const hid_t root = H5Oopen(f, "/", H5P_DEFAULT);
    n_passed = 0;
    same_object(h, 0, root, &next);
    assert_int_equal(next, pg__h5_n(h));
    assert_int_equal(n_passed, pg__h5_unread(h, names));
    H5Oclose(root);
    H5Fclose(f);
    pg__h5_close(h);
    return 1;
}

static size_t n_agreed, n_refused;

static int one_file(const char *path, const struct stat *sb, int kind, struct FTW *ftw)
{
    static const char *const suffixes[] = {".h5", ".hdf5", ".keras"};
    (void)sb;
    const char *dot = strrchr(path + ftw->base, '.');
    int wanted = 0;
    for (size_t i = 0; i < 3; i++)
        wanted |= dot && !strcmp(dot, suffixes[i]);
    if (kind != FTW_F || !wanted)
        return 0;
    const image im = image_load(path);
    if (agree(im, path, pg__h5_open))
        n_agreed++;
    else
        n_refused++;
    free(im.p);
    return 0;
}

static void agrees_on_every_file_of_testdata(void **state)
{
    (void)state;
    assert_int_equal(nftw(pg_testdata, one_file, 16, FTW_PHYS), 0);
    printf("%zu files read alike, %zu refused by both\n", n_agreed, n_refused);
    assert_true(n_agreed > 200);
    assert_true(n_refused >= 5);
}

/* ---- layouts that testdata has not */

static void agree_on(hid_t f, const char *label)
{
    const image im = image_end(f);
    if (!agree(im, label, pg__h5_open))
        fail_msg("%s: both refuse it", label);
    free(im.p);
}

static void agrees_on_types_and_byte_orders(void **state)
{
    (void)state;
    for (int latest = 0; latest < 2; latest++) {
        const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE,
                               H5T_STD_I8LE,   H5T_STD_U8LE,   H5T_STD_I16BE,  H5T_STD_U16LE,
                               H5T_STD_I32LE,  H5T_STD_U32BE,  H5T_STD_I64LE,  H5T_STD_U64BE};
        const hid_t f = image_begin(latest), half = H5Tcopy(H5T_IEEE_F32LE);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            char path[16];
            snprintf(path, sizeof path, "g%zu/d%zu", i / 6, i);
            image_dataset(f, path, types[i], 2, (hsize_t[]){3, 5}, H5P_DEFAULT, 1);
            image_attr(f, path, "one", types[i], -1, "12345678");
            image_attr(f, path, "none", types[i], 0, NULL);
        }
        H5Tset_fields(half, 15, 10, 5, 0, 10);
        H5Tset_precision(half, 16);
        H5Tset_size(half, 2);
        H5Tset_ebias(half, 15);
        image_dataset(f, "g2/half", half, 1, (hsize_t[]){7}, H5P_DEFAULT, 1);
        H5Tset_fields(half, 15, 7, 8, 0, 7);
        H5Tset_ebias(half, 127);
        image_dataset(f, "g2/brain", half, 1, (hsize_t[]){7}, H5P_DEFAULT, 1);
        H5Tclose(half);
        image_dataset(f, "g3/scalar", H5T_IEEE_F32LE, 0, NULL, H5P_DEFAULT, 1);
        image_dataset(f, "g3/empty", H5T_IEEE_F32LE, 2, (hsize_t[]){0, 4}, H5P_DEFAULT, 1);
        agree_on(f, latest ? "types, latest" : "types");
    }
}

static void agrees_on_bool_and_bfloat16(void **state)
{
    (void)state;
    for (int latest = 0; latest < 2; latest++) {
        const hid_t f = image_begin(latest);
        const hid_t b = H5Tenum_create(H5T_STD_I8LE), o = H5Tcreate(H5T_OPAQUE, 2);
        H5Tset_tag(o, "");
        H5Tenum_insert(b, "FALSE", &(int8_t){0});
        H5Tenum_insert(b, "TRUE", &(int8_t){1});
        image_attr(f, "/", "flags", b, 3, "\1\0\1");
        image_attr(f, "/", "brains", o, 2, "\x80\x3f\0\0");
        image_dataset(f, "flags", b, 1, (hsize_t[]){0}, H5P_DEFAULT, 0);
        image_dataset(f, "brains", o, 1, (hsize_t[]){0}, H5P_DEFAULT, 0);
        H5Tclose(b);
        H5Tclose(o);
        agree_on(f, latest ? "bool and bfloat16, latest" : "bool and bfloat16");
    }
}

static void agrees_on_strings(void **state)
{
    (void)state;
    const char *texts[] = {"a", "", "caf\xc3\xa9", NULL, "a much longer text than the others"};
    for (int latest = 0; latest < 2; latest++) {
        const hid_t f = image_begin(latest);
        for (int i = 0; i < (latest ? 3 : 6); i++) { /* beyond eight attributes it turns dense */
            char name[16];
            const hid_t fixed = image_string(4, i & 1, i / 2);
            const hid_t vlen = image_string(H5T_VARIABLE, i & 1, 0);
            snprintf(name, sizeof name, "f%d", i);
            image_attr(f, "/", name, fixed, 4,
                       i / 2 == 2 ? "ab  c   abcd    " : "ab\0\0c\0\0\0abc\0\0\0\0");
            snprintf(name, sizeof name, "v%d", i);
            image_attr(f, "/", name, vlen, 5, texts);
            H5Tclose(fixed);
            H5Tclose(vlen);
        }
        const hid_t null = H5Screate(H5S_NULL);
        const hid_t a = H5Acreate2(f, "nothing", H5T_IEEE_F32LE, null, H5P_DEFAULT, H5P_DEFAULT);
        H5Aclose(a);
        H5Sclose(null);
        agree_on(f, latest ? "strings, latest" : "strings");
    }
}

/* Chunks of every kind of edge, filters in every combination, more than one B-tree level. */
static void agrees_on_chunks_and_filters(void **state)
{
    (void)state;
    const hid_t f = image_begin(0);
    for (int filters = 0; filters < 8; filters++)
        for (int rank = 1; rank <= 4; rank++) {
            char path[32];
            const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
            H5Pset_chunk(dcpl, rank, (hsize_t[]){3, 2, 2, 3});
            if (filters & 1)
                H5Pset_shuffle(dcpl);
            if (filters & 2)
                H5Pset_deflate(dcpl, 6);
            if (filters & 4)
                H5Pset_fletcher32(dcpl);
            snprintf(path, sizeof path, "f%d/r%d", filters, rank);
            image_dataset(f, path, filters & 1 ? H5T_STD_I64BE : H5T_STD_I16LE, rank,
                          (hsize_t[]){7, 5, 4, 3}, dcpl, 1);
            H5Pclose(dcpl);
        }
    const hid_t turned = H5Pcreate(H5P_DATASET_CREATE); /* deflate behind the checksum */
    H5Pset_chunk(turned, 2, (hsize_t[]){3, 2});
    H5Pset_fletcher32(turned);
    H5Pset_deflate(turned, 6);
    image_dataset(f, "turned", H5T_STD_I32LE, 2, (hsize_t[]){7, 5}, turned, 1);
    H5Pclose(turned);
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 2, (hsize_t[]){3, 7});
    image_dataset(f, "many", H5T_STD_I32LE, 2, (hsize_t[]){500, 300}, dcpl, 1);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){5});
    image_dataset(f, "none", H5T_STD_I32LE, 1, (hsize_t[]){0}, dcpl, 1);
    H5Pset_layout(dcpl, H5D_COMPACT);
    image_dataset(f, "compact", H5T_STD_I32LE, 1, (hsize_t[]){100}, dcpl, 1);
    H5Pclose(dcpl);
    agree_on(f, "chunks");
}

/* Addresses and lengths of 4 bytes: all bits set is no address then, too. */
static void agrees_on_narrow_addresses_and_lengths(void **state)
{
    (void)state;
    const char *text = "a string";
    for (int i = 1; i < 4; i++) {
        const hid_t fcpl = H5Pcreate(H5P_FILE_CREATE), dcpl = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_sizes(fcpl, i & 1 ? 4 : 8, i & 2 ? 4 : 8);
        const hid_t f = image_begin_with(fcpl, 0), vlen = image_string(H5T_VARIABLE, 0, 0);
        H5Pset_chunk(dcpl, 2, (hsize_t[]){3, 2});
        image_dataset(f, "g/d", H5T_STD_I32LE, 2, (hsize_t[]){7, 5}, H5P_DEFAULT, 1);
        image_dataset(f, "g/chunks", H5T_STD_I32LE, 2, (hsize_t[]){7, 5}, dcpl, 1);
        image_attr(f, "g", "text", vlen, -1, &text);
        image_attr(f, "g", "more text", vlen, -1, &text);
        H5Tclose(vlen);
        H5Pclose(dcpl);
        H5Pclose(fcpl);
        agree_on(f, i == 1 ? "4, 8" : i == 2 ? "8, 4" : "4, 4");
    }
}

static void agrees_on_chunks_and_filters_of_hdf5_18(void **state)
{
    (void)state;
    const hid_t f = image_begin_18();
    for (int filters = 0; filters < 8; filters++) {
        char path[32];
        const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_chunk(dcpl, 2, (hsize_t[]){3, 2});
        if (filters & 1)
            H5Pset_shuffle(dcpl);
        if (filters & 2)
            H5Pset_deflate(dcpl, 6);
        if (filters & 4)
            H5Pset_fletcher32(dcpl);
        snprintf(path, sizeof path, "d%d", filters);
        image_dataset(f, path, H5T_STD_I32LE, 2, (hsize_t[]){7, 5}, dcpl, 1);
        H5Pclose(dcpl);
    }
    agree_on(f, "chunks of 1.8");
}

/* A filter that may be left out is, when it gains nothing: the chunk says so. */
static void agrees_on_chunks_without_their_filter(void **state)
{
    (void)state;
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){4});
    H5Pset_shuffle(dcpl);
    H5Pset_deflate(dcpl, 6);
    image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){8}, dcpl, 1);
    const hid_t d = H5Dopen2(f, "d", H5P_DEFAULT);
    assert_true(H5Dwrite_chunk(d, H5P_DEFAULT, 3, (hsize_t[]){4}, 16, "0123456789abcdef") >= 0);
    H5Dclose(d);
    H5Pclose(dcpl);
    agree_on(f, "skipped filters");
}

/* Groups large enough for inner nodes, holes after deletions, long and odd names. */
static void agrees_on_large_groups(void **state)
{
    (void)state;
    char path[600], longest[400];
    const hid_t f = image_begin(0);
    for (int i = 0; i < 3000; i++) {
        snprintf(path, sizeof path, "big/%d", (i * 7919) % 3000);
        H5Gclose(image_group(f, path));
    }
    for (int i = 0; i < 3000; i += 3) {
        snprintf(path, sizeof path, "big/%d", i);
        assert_true(H5Ldelete(f, path, H5P_DEFAULT) >= 0);
    }
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    snprintf(path, sizeof path, "odd/%s", longest);
    H5Gclose(image_group(f, path));
    H5Gclose(image_group(f, "odd/.."));
    H5Gclose(image_group(f, "odd/ "));
    H5Gclose(image_group(f, "odd/caf\xc3\xa9"));
    H5Gclose(image_group(f, "odd/\xff\x01"));
    for (int i = 0; i < 300; i++) { /* continuation blocks */
        snprintf(path, sizeof path, "attribute number %d", i);
        image_attr(f, "odd", path, H5T_STD_I32LE, -1, &i);
    }
    for (int i = 0; i < 300; i += 2) {
        snprintf(path, sizeof path, "attribute number %d", i);
        assert_true(H5Adelete_by_name(f, "odd", path, H5P_DEFAULT) >= 0);
    }
    agree_on(f, "large groups");
}

static void agrees_on_hard_links_and_new_groups(void **state)
{
    (void)state;
    const hid_t f = image_begin(1);
    image_dataset(f, "z", H5T_STD_I32LE, 1, (hsize_t[]){3}, H5P_DEFAULT, 1);
    image_attr(f, "z", "x", H5T_STD_I32LE, -1, &(int){7});
    H5Gclose(image_group(f, "b/c"));
    assert_true(H5Lcreate_hard(f, "z", f, "a", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_hard(f, "z", f, "b/c/again", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    agree_on(f, "new groups");
}

/* ---- what only libhdf5 covers */

static void expect_agreement_if_trusted(hid_t f, const char *label)
{
    const image im = image_end(f);
    pg__h5 *h = NULL;
    pg__io *io = NULL;
    pg_err err = {0};
    assert_fails(PG_E_UNSUPPORTED, image_open(&h, im, &err), &err);
    assert_string_equal(err.hint, "");
    assert_ok(pg__io_open_mem(&io, im.p, im.n, NULL));
    assert_fails(PG_E_UNSUPPORTED, pg__h5_open_or_trust(&h, io, 0, &err), &err);
    assert_non_null(strstr(err.hint, "--trust-input"));
    assert_ok(pg__h5_open_or_trust(&h, io, 1, &err));
    pg__h5_close(h);
    pg__io_close(io);
    if (!agree(im, label, pg__h5_open_trusted))
        fail_msg("%s: both refuse it", label);
    free(im.p);
}

static void agrees_if_trusted_on_dense_storage(void **state)
{
    (void)state;
    const char *text = "variable";
    const hid_t f = image_begin(1), vlen = image_string(H5T_VARIABLE, 1, 0);
    const hid_t fixed = image_string(8, 0, 1);
    for (int i = 0; i < 40; i++) {
        char path[32];
        snprintf(path, sizeof path, "g/d%d", i);
        image_dataset(f, path, H5T_IEEE_F32BE, 2, (hsize_t[]){2, 3}, H5P_DEFAULT, 1);
        image_attr(f, "g", path,
                   i % 3 == 0   ? vlen
                   : i % 3 == 1 ? fixed
                                : H5T_STD_I64LE,
                   1, i % 3 == 0 ? (const void *)&text : "fixed\0\0");
    }
    H5Lcreate_hard(f, "g/d3", f, "again", H5P_DEFAULT, H5P_DEFAULT);
    H5Tclose(vlen);
    H5Tclose(fixed);
    expect_agreement_if_trusted(f, "dense storage");
}

static void agrees_if_trusted_on_every_chunk_index(void **state)
{
    (void)state;
    const hid_t f = image_begin(1);
    for (int filters = 0; filters < 8; filters++)
        for (int index = 0; index < 4; index++) { /* single, fixed, extensible, B-tree 2 */
            char path[32];
            const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
            const hsize_t dims[] = {7, 5}, chunk[] = {index ? 3 : 7, index ? 2 : 5};
            const hsize_t most[] = {index > 1 ? H5S_UNLIMITED : 7, index > 2 ? H5S_UNLIMITED : 5};
            const hid_t space = H5Screate_simple(2, dims, most);
            int values[35];
            for (int i = 0; i < 35; i++)
                values[i] = i * i;
            H5Pset_chunk(dcpl, 2, chunk);
            if (filters & 1)
                H5Pset_shuffle(dcpl);
            if (filters & 2)
                H5Pset_deflate(dcpl, 6);
            if (filters & 4)
                H5Pset_fletcher32(dcpl);
            snprintf(path, sizeof path, "f%di%d", filters, index);
            const hid_t d =
                H5Dcreate2(f, path, H5T_STD_I32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
            assert_true(H5Dwrite(d, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
            H5Dclose(d);
            H5Sclose(space);
            H5Pclose(dcpl);
        }
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(dcpl, H5D_COMPACT);
    image_dataset(f, "compact", H5T_STD_I32LE, 1, (hsize_t[]){10}, dcpl, 1);
    H5Pclose(dcpl);
    image_dataset(f, "empty", H5T_STD_I32LE, 1, (hsize_t[]){0}, H5P_DEFAULT, 0);
    expect_agreement_if_trusted(f, "chunk indexes");
}

static void refuses_the_same_even_if_trusted(void **state)
{
    (void)state;
    static const char *const words[] = {"x: soft link to \"/g\" is not followed",
                                        "x: external link to \"secret.h5\" is not followed",
                                        "x: external storage",
                                        "x: virtual dataset",
                                        "x: filter 5 (nbit)",
                                        "g/x: loop",
                                        "x: declares 12 bytes, 0 are stored",
                                        "x: 0 of its 3 chunks"};
    for (int i = 0; i < 8; i++) {
        pg__h5 *h = NULL;
        pg__io *io = NULL;
        pg_err err = {0};
        const hid_t f = image_begin(1), dcpl = H5Pcreate(H5P_DATASET_CREATE);
        const hid_t three = image_space(1, (hsize_t[]){3});
        H5Gclose(image_group(f, "g"));
        if (i == 0)
            H5Lcreate_soft("/g", f, "x", H5P_DEFAULT, H5P_DEFAULT);
        else if (i == 1)
            H5Lcreate_external("secret.h5", "/g", f, "x", H5P_DEFAULT, H5P_DEFAULT);
        else if (i == 2)
            H5Pset_external(dcpl, "secret.txt", 0, 12);
        else if (i == 3)
            H5Pset_virtual(dcpl, three, "secret.h5", "s", three);
        else if (i == 5)
            H5Lcreate_hard(f, "/", f, "g/x", H5P_DEFAULT, H5P_DEFAULT);
        if (i == 4 || i == 7)
            H5Pset_chunk(dcpl, 1, (hsize_t[]){1});
        if (i == 4)
            H5Pset_nbit(dcpl);
        if (i == 7)
            H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_INCR);
        if ((i > 1 && i < 5) || i > 5)
            image_dataset(f, "x", H5T_STD_I32LE, 1, (hsize_t[]){3}, dcpl, 0);
        H5Sclose(three);
        H5Pclose(dcpl);
        const image im = image_end(f);
        assert_ok(pg__io_open_mem(&io, im.p, im.n, NULL));
        if (pg__h5_open_trusted(&h, io, &err) == PG_OK || !strstr(err.msg, words[i]))
            fail_msg("%s: %s", words[i], err.msg);
        pg__io_close(io);
        free(im.p);
    }
}

static void refuses_damage_even_if_trusted(void **state)
{
    (void)state;
    pg__h5 *h = NULL;
    pg__io *io = NULL;
    pg_err err = {0};
    const image im = image_end(image_keras());
    assert_ok(pg__io_open_mem(&io, im.p, im.n - 1, NULL));
    assert_fails(PG_E_FORMAT, pg__h5_open_or_trust(&h, io, 1, &err), &err); /* not asked */
    assert_non_null(strstr(err.msg, "truncated: holds"));
    assert_fails(PG_E_FORMAT, pg__h5_open_trusted(&h, io, &err), &err);
    assert_non_null(strstr(err.msg, "the HDF5 library cannot open the file: "));
    pg__io_close(io);
    free(im.p);
}

PG_TEST_MAIN(cmocka_unit_test(agrees_on_every_file_of_testdata),
             cmocka_unit_test(agrees_on_types_and_byte_orders),
             cmocka_unit_test(agrees_on_bool_and_bfloat16), cmocka_unit_test(agrees_on_strings),
             cmocka_unit_test(agrees_on_chunks_and_filters),
             cmocka_unit_test(agrees_on_narrow_addresses_and_lengths),
             cmocka_unit_test(agrees_on_chunks_and_filters_of_hdf5_18),
             cmocka_unit_test(agrees_on_chunks_without_their_filter),
             cmocka_unit_test(agrees_on_large_groups),
             cmocka_unit_test(agrees_on_hard_links_and_new_groups),
             cmocka_unit_test(agrees_if_trusted_on_dense_storage),
             cmocka_unit_test(agrees_if_trusted_on_every_chunk_index),
             cmocka_unit_test(refuses_the_same_even_if_trusted),
             cmocka_unit_test(refuses_damage_even_if_trusted))
