/* fuzz_h5_writer.c - bytes make a tree of groups, datasets and attributes, which our writer and
 * libhdf5 make alike. Both refuse the same steps. Our reader finds the same in both files, libhdf5
 * reads the same from both, down to how the datasets were created, and goes on with ours: it adds
 * and deletes objects, and our reader passes the result. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/h5/h5.h"
#include "format/h5/h5_write_type.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MOST_STEPS 64
#define MOST_PATH  40
#define MOST_ELEMS 64

static void require(int holds)
{
    if (!holds)
        abort();
}

typedef struct bytes {
    const uint8_t *p, *end;
} bytes;

static uint8_t take(bytes *b)
{
    return (uint8_t)(b->p < b->end ? *b->p++ : 0);
}

typedef struct image {
    uint8_t *p;
    size_t n;
} image;

/* ---- libhdf5 ---- */

typedef struct oracle {
    hid_t file, lcpl, gcpl, dcpl;
} oracle;

static hid_t in_memory(const void *p, size_t n)
{
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(fapl, 1 << 16, 0);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
    if (p)
        require(H5Pset_file_image(fapl, (void *)(uintptr_t)p, n) >= 0);
    return fapl;
}

/* How our writer makes objects. Owns the file. */
static oracle on_file(hid_t file)
{
    const oracle o = {.file = file,
                      .lcpl = H5Pcreate(H5P_LINK_CREATE),
                      .gcpl = H5Pcreate(H5P_GROUP_CREATE),
                      .dcpl = H5Pcreate(H5P_DATASET_CREATE)};
    require(file >= 0);
    H5Pset_obj_track_times(o.gcpl, 0);
    H5Pset_obj_track_times(o.dcpl, 0);
    H5Pset_create_intermediate_group(o.lcpl, 1);
    H5Pset_layout(o.dcpl, H5D_CONTIGUOUS);
    H5Pset_alloc_time(o.dcpl, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(o.dcpl, H5D_FILL_TIME_NEVER);
    return o;
}

static hid_t open_image(const image *im, unsigned flags)
{
    const hid_t fapl = in_memory(im->p, im->n), f = H5Fopen("ours", flags, fapl);
    require(f >= 0);
    H5Pclose(fapl);
    return f;
}

static hid_t new_file(void)
{
    const hid_t fapl = in_memory(NULL, 0),
                f = H5Fcreate("oracle", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    H5Pclose(fapl);
    return f;
}

static void end(oracle *o)
{
    H5Fclose(o->file), H5Pclose(o->lcpl), H5Pclose(o->gcpl), H5Pclose(o->dcpl);
}

static hid_t space_of(uint32_t rank, const uint64_t *dims)
{
    hsize_t d[PG_MAX_RANK] = {0};
    for (uint32_t i = 0; rank != PG_H5_NULL && i < rank; i++)
        d[i] = dims[i];
    return rank == PG_H5_NULL ? H5Screate(H5S_NULL)
           : rank == 0        ? H5Screate(H5S_SCALAR)
                              : H5Screate_simple((int)rank, d, NULL);
}

static int make_group(const oracle *o, const char *path)
{
    hid_t g = *path ? H5Gcreate2(o->file, path, o->lcpl, o->gcpl, H5P_DEFAULT) : -1;
    if (g < 0)
        g = H5Gopen2(o->file, *path ? path : ".", H5P_DEFAULT);
    return g >= 0 && H5Gclose(g) >= 0;
}

static int make_attr(const oracle *o, const char *path, const pg__h5_attr *a, const void *data)
{
    const hid_t on = H5Oopen(o->file, *path ? path : ".", H5P_DEFAULT);
    const hid_t type = pg__h5_type_new(&a->type), space = space_of(a->rank, a->dims);
    const hid_t attr = on < 0 ? -1 : H5Acreate2(on, a->name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    const int made =
        attr >= 0 && (a->n_elems == 0 || a->rank == PG_H5_NULL || H5Awrite(attr, type, data) >= 0);
    if (attr >= 0)
        H5Aclose(attr);
    if (on >= 0)
        H5Oclose(on);
    H5Sclose(space), H5Tclose(type);
    return made;
}

static uint8_t value_at(size_t dataset, size_t off)
{
    return (uint8_t)(dataset * 89 + off * 7 + (off >> 8));
}

static int make_dataset(const oracle *o, const char *path, const pg__h5_dtype *t, uint32_t rank,
                        const uint64_t *dims, size_t number)
{
    static uint8_t values[MOST_ELEMS * 8];
    const hid_t type = pg__h5_type_new(t), space = space_of(rank, dims);
    const hid_t d = H5Dcreate2(o->file, path, type, space, o->lcpl, o->dcpl, H5P_DEFAULT);
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = value_at(number, i);
    if (d >= 0 && H5Sget_simple_extent_npoints(space) > 0)
        require(H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    if (d >= 0)
        H5Dclose(d);
    H5Sclose(space), H5Tclose(type);
    return d >= 0;
}

/* ---- the steps ---- */

/* Both files, and what they hold so far. */
typedef struct pair {
    pg__h5_out *ours;
    oracle theirs;
    size_t n_bytes[MOST_STEPS * 256]; /* of each dataset */
    size_t n;
    char last[MOST_PATH + 1]; /* the path of the last step */
} pair;

/* Both did it, or both refused it: with a reason of one line. */
static void agree(pg_status st, const pg_err *err, int made)
{
    require((st == PG_OK) == (made != 0));
    require(st == PG_OK || (err->code == st && err->msg[0] && !strchr(err->msg, '\n')));
}

/* Mostly letters, so that names meet each other; below the last object, or beside it. */
static void take_path(bytes *b, pair *p, char *out)
{
    static const char usual[] = "ab0_:/.-";
    size_t i = take(b) % 3 ? 0 : strlen(p->last);
    memcpy(out, p->last, i);
    if (i && i < MOST_PATH)
        out[i++] = '/';
    for (size_t n = i + take(b) % 8; i < n && i < MOST_PATH && b->p < b->end; i++) {
        const uint8_t c = take(b);
        out[i] = c < 240 ? usual[c % (sizeof usual - 1)] : (char)take(b);
        out[i] = out[i] ? out[i] : 'z';
    }
    out[i] = '\0';
    memcpy(p->last, out, i + 1);
}

/* HDF5 would go another way than the path says; we refuse it. */
static int is_refused(const char *path)
{
    char copy[MOST_PATH + 8];
    (void)snprintf(copy, sizeof copy, "/%s/", path);
    return path[0] == '/' || strstr(copy, "/./") || strstr(copy, "/../");
}

static pg__h5_dtype take_number(bytes *b)
{
    pg__h5_dtype t = {.cls = PG_H5_NUMBER, .dtype = (pg_dtype)(take(b) % (PG_BOOL + 1))};
    t.big_endian = take(b) & 1;
    if (t.dtype == PG_F8_E4M3 || t.dtype == PG_F8_E5M2)
        t.dtype = PG_U8;
    t.size = (uint32_t)pg_dtype_bytes(t.dtype);
    return t;
}

/* Number of elements, at most MOST_ELEMS. */
static uint64_t take_dims(bytes *b, uint32_t *rank, uint64_t *dims)
{
    uint64_t n = 1;
    *rank = take(b) % 5;
    for (uint32_t i = 0; i < *rank; i++) {
        dims[i] = take(b) % 5;
        if (n * dims[i] > MOST_ELEMS)
            dims[i] = 1;
        n *= dims[i];
    }
    return n;
}

static void add_dataset(bytes *b, pair *p, const char *path)
{
    pg_err err = {0};
    uint64_t dims[PG_MAX_RANK] = {0};
    uint32_t rank;
    size_t id = SIZE_MAX;
    const pg__h5_dtype t = take_number(b);
    const uint64_t n = take_dims(b, &rank, dims);
    const pg_status st = pg__h5_out_dataset(p->ours, path, &t, rank, dims, &id, &err);
    agree(st, &err, make_dataset(&p->theirs, path, &t, rank, dims, p->n));
    require(st != PG_OK || id == p->n);
    if (st == PG_OK)
        p->n_bytes[p->n++] = (size_t)n * t.size;
}

static void add_attr(bytes *b, pair *p, const char *path)
{
    static const char *const texts[] = {"", "a", "kernel:0", "eight ch", "a text of some length"};
    static char raw[MOST_ELEMS * 32];
    static const char *strs[MOST_ELEMS];
    char name[8];
    pg_err err = {0};
    pg__h5_attr a = {.name = name, .type = take_number(b)};
    const uint8_t kind = take(b);
    (void)snprintf(name, sizeof name, "%.*s", take(b) % 4, "nnnn");
    if (kind % 3)
        a.type.cls = kind % 3 == 1 ? PG_H5_STR_FIXED : PG_H5_STR_VLEN;
    a.type.utf8 = kind >> 2 & 1;
    a.type.pad = (kind >> 3) % 3;
    if (kind % 3 == 1)
        a.type.size = 1 + kind % 32;
    a.n_elems = take_dims(b, &a.rank, a.dims);
    if (kind >= 250)
        a.rank = PG_H5_NULL, a.n_elems = 0;
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (char)('a' + i % 26);
    if (a.type.cls == PG_H5_NUMBER && a.type.dtype == PG_BOOL)
        memset(raw, 1, sizeof raw);
    for (size_t i = 0; i < a.n_elems; i++)
        strs[i] = texts[(kind + i) % (sizeof texts / sizeof *texts)];
    a.raw = a.type.cls == PG_H5_STR_VLEN ? NULL : raw;
    a.strs = a.type.cls == PG_H5_STR_VLEN ? strs : NULL;
    const pg_status st = pg__h5_out_attr(p->ours, path, &a, &err);
    agree(st, &err, make_attr(&p->theirs, path, &a, a.raw ? a.raw : (const void *)strs));
}

/* Many links of one group: a B-tree of several levels. */
static void add_many(bytes *b, pair *p, const char *path)
{
    static const pg__h5_dtype i8 = {.cls = PG_H5_NUMBER, .dtype = PG_I8, .size = 1};
    char full[MOST_PATH + 8];
    const unsigned n = take(b);
    for (unsigned i = 0; i < n; i++) {
        size_t id;
        pg_err err = {0};
        (void)snprintf(full, sizeof full, "%s%s%u", path, *path ? "/" : "", i * 7919 % 1000);
        const pg_status st = pg__h5_out_dataset(p->ours, full, &i8, 0, NULL, &id, &err);
        agree(st, &err, make_dataset(&p->theirs, full, &i8, 0, NULL, p->n));
        if (st == PG_OK)
            p->n_bytes[p->n++] = 1;
    }
}

static void step(bytes *b, pair *p)
{
    char path[MOST_PATH + 1];
    pg_err err = {0};
    const uint8_t what = take(b);
    take_path(b, p, path);
    if (is_refused(path)) {
        require(pg__h5_out_group(p->ours, path, &err) == PG_E_FORMAT);
        p->last[0] = '\0';
    } else if (what < 60) {
        const pg_status st = pg__h5_out_group(p->ours, path, &err);
        agree(st, &err, make_group(&p->theirs, path));
    } else if (what < 150) {
        add_dataset(b, p, path);
    } else if (what < 250) {
        add_attr(b, p, path);
    } else {
        add_many(b, p, path);
    }
}

/* ---- the files ---- */

static image image_of(hid_t file)
{
    require(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
    const ssize_t n = H5Fget_file_image(file, NULL, 0);
    require(n > 0);
    image im = {malloc((size_t)n), (size_t)n};
    require(im.p && H5Fget_file_image(file, im.p, im.n) == n);
    return im;
}

static image write_ours(pair *p)
{
    pg__sink *sink = NULL;
    pg__io *io = NULL;
    require(pg__h5_out_finish(p->ours, NULL) == PG_OK);
    image im = {NULL, (size_t)pg__h5_out_bytes(p->ours)};
    require(pg__sink_open_memory(&sink, NULL) == PG_OK);
    require(pg__h5_out_flush(p->ours, sink, 512, NULL) == PG_OK);
    require(pg__sink_extend(sink, 512 + im.n, NULL) == PG_OK);
    require(pg__sink_reopen(sink, &io, NULL) == PG_OK && pg__io_size(io) == 512 + im.n);
    im.p = malloc(im.n);
    require(im.p && pg__io_read(io, 512, im.p, im.n, NULL) == PG_OK);
    for (size_t i = 0; i < p->n; i++) {
        const uint64_t off = pg__h5_out_offset(p->ours, i);
        require(p->n_bytes[i] ? off > 0 && off + p->n_bytes[i] <= im.n : off == 0);
        for (size_t k = 0; k < p->n_bytes[i]; k++) {
            require(im.p[off + k] == 0); /* nothing else is there */
            im.p[off + k] = value_at(i, k);
        }
    }
    pg__io_close(io);
    pg__sink_close(sink);
    return im;
}

static pg__h5 *read_by_us(const image *im, pg__io **io)
{
    pg__h5 *h = NULL;
    require(pg__io_open_mem(io, im->p, im->n, NULL) == PG_OK);
    require(pg__h5_open(&h, *io, NULL) == PG_OK);
    return h;
}

static void same_attr(const pg__h5_attr *a, const pg__h5_attr *b)
{
    require(a && b && a->rank == b->rank && a->n_elems == b->n_elems);
    require(a->type.cls == b->type.cls && a->type.size == b->type.size);
    require(a->type.utf8 == b->type.utf8 && a->type.pad == b->type.pad);
    require(memcmp(a->dims, b->dims, sizeof a->dims) == 0);
    for (size_t i = 0; a->strs && i < a->n_elems; i++)
        require(a->lens[i] == b->lens[i] && memcmp(a->strs[i], b->strs[i], a->lens[i]) == 0);
    if (a->raw)
        require(memcmp(a->raw, b->raw, (size_t)a->n_elems * a->type.size) == 0);
}

static void same_to_us(const image *a, const image *b)
{
    pg__io *io[2];
    pg__h5 *x = read_by_us(a, &io[0]), *y = read_by_us(b, &io[1]);
    require(pg__h5_n(x) == pg__h5_n(y) && pg__h5_trailing(x) == 0);
    for (uint32_t i = 0; i < pg__h5_n(x); i++) {
        const pg__h5_object *o = pg__h5_at(x, i), *q = pg__h5_at(y, i);
        require(strcmp(o->name, q->name) == 0 && o->kind == q->kind && o->parent == q->parent);
        require(o->n_attrs == q->n_attrs && o->remnants == 0);
        for (uint32_t k = 0; k < o->n_attrs; k++) {
            const pg__h5_attr *attr = pg__h5_attr_at(x, i, k);
            same_attr(attr, pg__h5_attr_find(y, i, attr->name));
        }
        if (o->kind == PG_H5_DATASET)
            require(o->contiguous && o->n_bytes == q->n_bytes && o->rank == q->rank &&
                    memcmp(o->dims, q->dims, sizeof o->dims) == 0 &&
                    o->type.dtype == q->type.dtype && o->type.big_endian == q->type.big_endian);
    }
    pg__h5_close(x), pg__h5_close(y);
    pg__io_close(io[0]), pg__io_close(io[1]);
}

/* The values of both are equal: of attributes, or of datasets. */
static void same_values(hid_t a, hid_t b, int attr)
{
    const hid_t t = attr ? H5Aget_type(a) : H5Dget_type(a);
    const hid_t u = attr ? H5Aget_type(b) : H5Dget_type(b);
    const hid_t s = attr ? H5Aget_space(a) : H5Dget_space(a);
    const hid_t r = attr ? H5Aget_space(b) : H5Dget_space(b);
    const size_t n = (size_t)H5Sget_simple_extent_npoints(s), size = H5Tget_size(t);
    char *x = calloc(n + 1, size), *y = calloc(n + 1, size);
    require(x && y && H5Tequal(t, u) > 0 && H5Sextent_equal(s, r) > 0);
    require((attr ? H5Aread(a, t, x) : H5Dread(a, t, H5S_ALL, H5S_ALL, H5P_DEFAULT, x)) >= 0);
    require((attr ? H5Aread(b, u, y) : H5Dread(b, u, H5S_ALL, H5S_ALL, H5P_DEFAULT, y)) >= 0);
    if (H5Tis_variable_str(t) > 0) {
        for (size_t i = 0; i < n; i++)
            require(strcmp(((char **)(void *)x)[i], ((char **)(void *)y)[i]) == 0);
        H5Dvlen_reclaim(t, s, H5P_DEFAULT, x), H5Dvlen_reclaim(u, r, H5P_DEFAULT, y);
    } else {
        require(memcmp(x, y, n * size) == 0);
    }
    free(x), free(y);
    H5Tclose(t), H5Tclose(u), H5Sclose(s), H5Sclose(r);
}

static herr_t same_attr_of(hid_t a, const char *name, const H5A_info_t *info, void *other)
{
    (void)info;
    const hid_t x = H5Aopen(a, name, H5P_DEFAULT), y = H5Aopen(*(hid_t *)other, name, H5P_DEFAULT);
    require(x >= 0 && y >= 0);
    same_values(x, y, 1);
    H5Aclose(x), H5Aclose(y);
    return 0;
}

static herr_t same_object(hid_t root, const char *name, const H5O_info_t *info, void *other)
{
    H5O_info_t of = {0};
    const hid_t a = H5Oopen(root, name, H5P_DEFAULT);
    hid_t b = H5Oopen(*(hid_t *)other, name, H5P_DEFAULT);
    require(a >= 0 && b >= 0 && H5Oget_info2(b, &of, H5O_INFO_ALL) >= 0);
    require(of.type == info->type && of.rc == info->rc && of.num_attrs == info->num_attrs);
    require(H5Aiterate2(a, H5_INDEX_NAME, H5_ITER_INC, NULL, same_attr_of, &b) >= 0);
    if (info->type == H5O_TYPE_DATASET) {
        const hid_t x = H5Dget_create_plist(a), y = H5Dget_create_plist(b);
        require(H5Pequal(x, y) > 0 && H5Dget_storage_size(a) == H5Dget_storage_size(b));
        H5Pclose(x), H5Pclose(y);
        same_values(a, b, 0);
    }
    H5Oclose(a), H5Oclose(b);
    return 0;
}

static void same_to_libhdf5(hid_t a, hid_t b)
{
    unsigned version[4], tree, leaf;
    const hid_t p = H5Fget_create_plist(a);
    require(H5Pget_version(p, &version[0], &version[1], &version[2], &version[3]) >= 0);
    require(H5Pget_sym_k(p, &tree, &leaf) >= 0 && tree == 16 && leaf == 4);
    require(version[0] + version[1] + version[2] + version[3] == 0);
    H5Pclose(p);
    require(H5Ovisit2(a, H5_INDEX_NAME, H5_ITER_INC, same_object, &b, H5O_INFO_ALL) >= 0);
    require(H5Ovisit2(b, H5_INDEX_NAME, H5_ITER_DEC, same_object, &a, H5O_INFO_ALL) >= 0);
}

/* ---- what others do with the file ---- */

typedef struct change {
    uint8_t dice;
    char doomed[64][MOST_PATH * 2];
    size_t n_doomed;
} change;

static herr_t change_object(hid_t root, const char *name, const H5O_info_t *info, void *ctx)
{
    change *c = ctx;
    const hid_t o = H5Oopen(root, name, H5P_DEFAULT), s = H5Screate(H5S_SCALAR);
    require(o >= 0);
    c->dice = (uint8_t)(c->dice * 5 + 3);
    if (info->num_attrs && c->dice & 16)
        require(H5Adelete_by_idx(o, ".", H5_INDEX_NAME, H5_ITER_INC, 0, H5P_DEFAULT) >= 0);
    if (c->dice & 32) {
        const hid_t t = H5Tcopy(H5T_C_S1);
        const char *text[] = {"grown"};
        require(H5Tset_size(t, c->dice & 64 ? 300 : H5T_VARIABLE) >= 0);
        const hid_t a = H5Acreate2(o, "grown", t, s, H5P_DEFAULT, H5P_DEFAULT);
        char fixed[300] = "grown";
        require(a >= 0 && H5Awrite(a, t, c->dice & 64 ? fixed : (const void *)text) >= 0);
        H5Aclose(a), H5Tclose(t);
    }
    if (c->dice & 128 && strcmp(name, ".") != 0 && c->n_doomed < 64)
        (void)snprintf(c->doomed[c->n_doomed++], sizeof c->doomed[0], "%s", name);
    H5Sclose(s), H5Oclose(o);
    return 0;
}

/* libhdf5 changes our file; whatever it makes of it is sound. */
static void lives_on(const image *im, uint8_t dice)
{
    const hid_t f = open_image(im, H5F_ACC_RDWR);
    oracle o = on_file(f);
    change c = {.dice = dice};
    require(H5Ovisit2(f, H5_INDEX_NAME, H5_ITER_INC, change_object, &c, H5O_INFO_ALL) >= 0);
    for (size_t i = c.n_doomed; i-- > 0;) /* what lies deeper comes first */
        require(H5Ldelete(f, c.doomed[i], H5P_DEFAULT) >= 0);
    for (size_t i = 0; i < 3 + dice % 32u; i++) {
        static const pg__h5_dtype f32 = {.cls = PG_H5_NUMBER, .dtype = PG_F32};
        char name[24];
        (void)snprintf(name, sizeof name, i % 3 ? "new/%zu" : "new%zu", i);
        require(make_dataset(&o, name, &f32, 1, (uint64_t[]){2}, i));
    }
    image grown = image_of(f);
    pg__io *io = NULL;
    pg__h5 *h = read_by_us(&grown, &io);
    require(pg__h5_find(h, 0, "new0") != PG_H5_NONE);
    pg__h5_close(h);
    pg__io_close(io);
    free(grown.p);
    end(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static pair p;
    bytes b = {.p = data, .end = data + n};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    p.n = 0;
    p.last[0] = '\0';
    p.theirs = on_file(new_file());
    require(pg__h5_out_new(&p.ours, NULL) == PG_OK);
    const uint8_t dice = take(&b);
    for (int i = 0; i < MOST_STEPS && b.p < b.end; i++)
        step(&b, &p);
    image ours = write_ours(&p), theirs = image_of(p.theirs.file);
    same_to_us(&ours, &theirs);
    const hid_t f = open_image(&ours, H5F_ACC_RDONLY);
    same_to_libhdf5(f, p.theirs.file);
    H5Fclose(f);
    lives_on(&ours, dice);
    free(ours.p), free(theirs.p);
    end(&p.theirs);
    pg__h5_out_free(p.ours);
    return 0;
}
