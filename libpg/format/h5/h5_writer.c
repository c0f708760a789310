/* h5_writer.c - writes new HDF5 files as Keras' h5py would, through libhdf5 over h5_memory.c.
 *
 * Layout (FORMATS.md: "HDF5 as written"): superblock 0, old groups, version 1 object headers,
 * contiguous datasets. Datasets get their space when they are created (early allocation, no fill
 * value), which only moves the end of the file: libhdf5 never sees their bytes, and their offsets
 * are known at once. */
#include "format/h5/h5_writer.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/h5/h5_session.h"
#include "format/h5/h5_write_type.h"
#include "format/h5/h5_writer_impl.h"
#include "store/values.h"

/* What Keras leaves of the 64 KiB of an object header message for one list of names. */
#define NAMES_BYTES 64512u
/* Each variable-length string takes 16 bytes there; with 4092 of them HDF5 refuses the
 * attribute. */
#define VLEN_BYTES 16u
#define VLEN_NAMES 4092u

/* The only way in which a failure of libhdf5 is reported: the object, the action, libhdf5's first
 * reason. */
pg_status pg__h5_out_fail(const pg__h5_out *h, const char *path, const char *what, pg_err *err)
{
    char reason[160];
    if (h->mem.unread.code != PG_OK) { /* libhdf5 only passed this error on */
        if (err)
            *err = h->mem.unread;
        return h->mem.unread.code;
    }
    if (pg__h5_reason(reason, sizeof reason) || h->mem.failed)
        return pg__nomem(err);
    return pg_fail(err, PG_E_FORMAT, "%s: HDF5 cannot %s: %s", *path ? PG_SHOW(path) : "/", what,
                   reason);
}

/* "a/b/c" without ".", which HDF5 would skip, and not "/a". "" is the root; HDF5 takes "a//b/" for
 * "a/b". */
pg_status pg__h5_out_check_path(const char *path, pg_err *err)
{
    for (const char *p = path; *p; p += strspn(p, "/")) {
        const size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return pg_fail(err, PG_E_FORMAT, "%s: no name that HDF5 can hold", PG_SHOW(path));
        p += n;
    }
    return PG_OK;
}

/* From 2 KiB (the default) for small files up to 1 MiB: a twentieth of the metadata, so that little
 * of the last block is wasted. */
static hsize_t block_size(size_t n_objects)
{
    hsize_t size = 2048;
    while (size < (1u << 20) && size / 32 < n_objects)
        size *= 2;
    return size;
}

/* How much of its metadata libhdf5 caches: little, because most is never needed again and is in
 * memory anyway; but all of what grows (the names of a large group), because otherwise every new
 * object would read and write it once more. 20,000 tensors take a sixth less time than with the
 * default settings. */
static int keep_metadata(hid_t fapl)
{
    H5AC_cache_config_t c = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    if (H5Pget_mdc_config(fapl, &c) < 0)
        return -1;
    c.set_initial_size = 1;
    c.initial_size = c.min_size = 512u << 10;
    c.incr_mode = H5C_incr__off;
    c.decr_mode = H5C_decr__off;
    c.flash_incr_mode = H5C_flash_incr__add_space;
    c.flash_multiple = 2;
    c.flash_threshold = 0.25;
    return H5Pset_mdc_config(fapl, &c);
}

static int open_lists(pg__h5_out *h, size_t n_objects)
{
    h->fapl = H5Pcreate(H5P_FILE_ACCESS);
    h->lcpl = H5Pcreate(H5P_LINK_CREATE);
    h->gcpl = H5Pcreate(H5P_GROUP_CREATE);
    h->dcpl = H5Pcreate(H5P_DATASET_CREATE);
    if (h->fapl < 0 || h->lcpl < 0 || h->gcpl < 0 || h->dcpl < 0)
        return -1;
    h->driver = pg__h5_memory_attach(&h->mem, h->fapl);
    if (h->driver < 0 ||
        H5Pset_libver_bounds(h->fapl, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) < 0 ||
        H5Pset_fclose_degree(h->fapl, H5F_CLOSE_STRONG) < 0 ||
        H5Pset_meta_block_size(h->fapl, block_size(n_objects)) < 0 || keep_metadata(h->fapl) < 0)
        return -1;
#if H5_VERSION_GE(1, 12, 0) && defined H5VL_NATIVE
    if (H5Pset_vol(h->fapl, H5VL_NATIVE, NULL) < 0) /* regardless of HDF5_VOL_CONNECTOR */
        return -1;
#endif
    if (H5Pset_create_intermediate_group(h->lcpl, 1) < 0 || H5Pset_obj_track_times(h->gcpl, 0) < 0)
        return -1;
    return H5Pset_obj_track_times(h->dcpl, 0) < 0 || H5Pset_layout(h->dcpl, H5D_CONTIGUOUS) < 0 ||
           H5Pset_alloc_time(h->dcpl, H5D_ALLOC_TIME_EARLY) < 0 ||
           H5Pset_fill_time(h->dcpl, H5D_FILL_TIME_NEVER) < 0;
}

pg_status pg__h5_out_setup(pg__h5_out **out, size_t n_objects, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_out *h = pg__mem_array(1, sizeof *h);
    if (!h)
        return pg__nomem(err);
    h->driver = h->file = h->root = h->fapl = h->lcpl = h->gcpl = h->dcpl = h->object = -1;
    *out = h;
    pg__h5_enter();
    if (open_lists(h, n_objects))
        st = pg__h5_out_fail(h, "file", "be set up", err);
    pg__h5_leave();
    return st;
}

pg_status pg__h5_out_new(pg__h5_out **out, size_t n_objects, pg_err *err)
{
    hid_t fcpl = -1;
    pg__h5_out *h = NULL;
    pg_status st = pg__h5_out_setup(&h, n_objects, err);
    if (st != PG_OK) {
        pg__h5_out_free(h);
        return st;
    }
    pg__h5_enter();
    fcpl = H5Pcreate(H5P_FILE_CREATE);
    if (fcpl >= 0 && H5Pset_obj_track_times(fcpl, 0) >= 0)
        h->root = h->file = H5Fcreate("libpg", H5F_ACC_TRUNC, fcpl, h->fapl);
    if (h->file < 0 || h->mem.failed)
        st = pg__h5_out_fail(h, "file", "create it", err);
    if (fcpl >= 0)
        (void)H5Pclose(fcpl);
    pg__h5_leave();
    if (st == PG_OK)
        *out = h;
    else
        pg__h5_out_free(h);
    return st;
}

static void close_object(pg__h5_out *h)
{
    if (h->object >= 0)
        (void)H5Oclose(h->object);
    h->object = -1;
    pg__mem_free(h->object_path);
    h->object_path = NULL;
}

/* Closes everything of libhdf5; the memory stays. Returns -1 if the file could not be closed. */
static int close_all(pg__h5_out *h)
{
    int bad = 0;
    close_object(h);
    if (h->root >= 0 && h->root != h->file)
        (void)H5Gclose(h->root);
    if (h->file >= 0)
        bad = H5Fclose(h->file) < 0;
    const hid_t lists[] = {h->fapl, h->lcpl, h->gcpl, h->dcpl};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i] >= 0)
            (void)H5Pclose(lists[i]);
    if (h->driver >= 0)
        (void)H5FDunregister(h->driver);
    h->driver = h->file = h->root = h->fapl = h->lcpl = h->gcpl = h->dcpl = -1;
    return -bad;
}

void pg__h5_out_free(pg__h5_out *h)
{
    if (!h)
        return;
    pg__h5_enter();
    (void)close_all(h);
    pg__h5_leave();
    pg__h5_memory_fini(&h->mem);
    pg__mem_free(h->ext);
    pg__mem_free(h);
}

static pg_status keep_object(pg__h5_out *h, hid_t object, const char *path, pg_err *err)
{
    close_object(h);
    h->object = object;
    h->object_path = pg__mem_strdup(path);
    return h->object_path ? PG_OK : pg__nomem(err);
}

/* Opens the object at path and keeps it open: attributes of one object follow each other. */
static pg_status open_object(pg__h5_out *h, const char *path, pg_err *err)
{
    if (h->object >= 0 && h->object_path && strcmp(h->object_path, path) == 0)
        return PG_OK;
    const hid_t object = H5Oopen(h->root, *path ? path : ".", H5P_DEFAULT);
    return object < 0 ? pg__h5_out_fail(h, path, "open it", err)
                      : keep_object(h, object, path, err);
}

int64_t pg__h5_out_locate(const pg__h5_out *h, const char **path)
{
    const size_t n = h->object >= 0 && h->object_path ? strlen(h->object_path) : 0;
    if (n == 0 || strncmp(*path, h->object_path, n) != 0 || (*path)[n] != '/')
        return h->root;
    *path += n;
    *path += strspn(*path, "/"); /* "a//b" goes on with "b": "/b" would begin at the root again */
    return h->object;
}

pg_status pg__h5_out_group(pg__h5_out *h, const char *path, pg_err *err)
{
    pg_status st = pg__h5_out_check_path(path, err);
    if (st != PG_OK || !*path)
        return st;
    pg__h5_enter();
    hid_t g = H5Gcreate2(h->root, path, h->lcpl, h->gcpl, H5P_DEFAULT);
    if (g < 0) { /* nearly always it is new */
        (void)H5Eclear2(H5E_DEFAULT);
        g = H5Gopen2(h->root, path, H5P_DEFAULT);
    }
    if (g >= 0)
        st = keep_object(h, g, path, err);
    if (g < 0 || h->mem.failed)
        st = pg__h5_out_fail(h, path, "create this group", err);
    pg__h5_leave();
    return st;
}

/* Fixed strings in a row, each padded with zeros to the type's size. */
static pg_status pack_strings(char **out, const pg__h5_attr *a, uint32_t size, pg_err *err)
{
    size_t n = 0;
    if (a->n_elems > SIZE_MAX || __builtin_mul_overflow((size_t)a->n_elems, (size_t)size, &n))
        return pg_fail(err, PG_E_LIMIT, "%s: the list is too long", PG_SHOW(a->name));
    char *packed = pg__mem_array(n, 1);
    if (!packed)
        return pg__nomem(err);
    for (size_t i = 0; i < a->n_elems; i++) {
        const size_t len = a->lens ? a->lens[i] : strlen(a->strs[i]);
        memcpy(packed + i * size, a->strs[i], len < size ? len : size);
    }
    *out = packed;
    return PG_OK;
}

/* For libhdf5 a variable-length string ends at its first NUL; a string with embedded NULs is not
 * cut silently. */
static pg_status check_nuls(const pg__h5_attr *a, pg_err *err)
{
    for (size_t i = 0; a->lens && i < a->n_elems; i++)
        if (strlen(a->strs[i]) != a->lens[i])
            return pg_fail(err, PG_E_UNSUPPORTED, "%s: a string with a NUL inside",
                           PG_SHOW(a->name));
    return PG_OK;
}

static uint32_t longest(const pg__h5_attr *a)
{
    size_t most = 1;
    for (size_t i = 0; i < a->n_elems; i++) {
        const size_t len = a->lens ? a->lens[i] : strlen(a->strs[i]);
        most = len > most ? len : most;
    }
    return most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
}

static hid_t make_space(uint32_t rank, const uint64_t *dims)
{
    hsize_t d[PG_MAX_RANK] = {0};
    if (rank == PG_H5_NULL)
        return H5Screate(H5S_NULL);
    if (rank == 0)
        return H5Screate(H5S_SCALAR);
    for (uint32_t i = 0; i < rank; i++)
        d[i] = dims[i];
    return H5Screate_simple((int)rank, d, NULL);
}

static pg_status write_attr(pg__h5_out *h, const char *path, const pg__h5_attr *a,
                            const pg__h5_dtype *type, const void *data, pg_err *err)
{
    pg_status st = PG_OK;
    hid_t space = -1, attr = -1;
    char what[200];
    const hid_t t = pg__h5_type_new(type);
    (void)snprintf(what, sizeof what, "write attribute %s", PG_SHOW(a->name));
    PG_TRY(open_object(h, path, err));
    space = make_space(a->rank, a->dims);
    if (t >= 0 && space >= 0)
        attr = H5Acreate2(h->object, a->name, t, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attr < 0 || (a->n_elems && a->rank != PG_H5_NULL && H5Awrite(attr, t, data) < 0) ||
        h->mem.failed)
        st = pg__h5_out_fail(h, path, what, err);
done:
    if (attr >= 0)
        (void)H5Aclose(attr);
    if (space >= 0)
        (void)H5Sclose(space);
    if (t >= 0)
        (void)H5Tclose(t);
    return st;
}

pg_status pg__h5_out_attr(pg__h5_out *h, const char *path, const pg__h5_attr *attr, pg_err *err)
{
    pg_status st = PG_OK;
    char *packed = NULL;
    const void *data = attr->raw;
    pg__h5_dtype type = attr->type;
    if (attr->rank != PG_H5_NULL && attr->rank > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%s: %u dimensions", PG_SHOW(attr->name), attr->rank);
    if (type.cls == PG_H5_STR_FIXED && !data) {
        if (type.size == 0)
            type.size = longest(attr);
        PG_TRY(pack_strings(&packed, attr, type.size, err));
        data = packed;
    } else if (type.cls == PG_H5_STR_VLEN) {
        PG_TRY(check_nuls(attr, err));
        data = attr->strs;
    }
    pg__h5_enter();
    st = write_attr(h, path, attr, &type, data, err);
    pg__h5_leave();
done:
    pg__mem_free(packed);
    return st;
}

/* Keras' rule: the smallest number of nearly equal parts of which none exceeds NAMES_BYTES,
 * counting each name with the width of the longest. 1: the list stays whole. */
static pg_status count_parts(size_t *out, const char *attr, size_t n, size_t width, pg_err *err)
{
    if (width > NAMES_BYTES)
        return pg_fail(err, PG_E_LIMIT, "%s: a name of %zu bytes, at most %u fit", attr, width,
                       NAMES_BYTES);
    const size_t per_part = NAMES_BYTES / width;
    *out = n / per_part + (n % per_part != 0);
    return PG_OK;
}

static pg_status write_part(pg__h5_out *h, const char *path, const char *name,
                            const char *const *names, size_t n, const pg__h5_dtype *type,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const char **strs = pg__mem_array(n, sizeof *strs);
    if (!strs)
        return pg__nomem(err);
    memcpy(strs, names, n * sizeof *strs);
    const pg__h5_attr a = {
        .name = name, .type = *type, .rank = 1, .dims = {n}, .n_elems = n, .strs = strs};
    st = pg__h5_out_attr(h, path, &a, err);
    pg__mem_free(strs);
    return st;
}

pg_status pg__h5_out_names(pg__h5_out *h, const char *path, const char *attr,
                           const char *const *names, size_t n, pg__h5_class like, pg_err *err)
{
    pg_status st = PG_OK;
    size_t width = 1, parts = 1;
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(names[i]);
        width = len > width ? len : width;
    }
    if (n == 0) { /* numpy's empty list: float64 */
        const pg__h5_attr a = {
            .name = attr, .type = {.cls = PG_H5_NUMBER, .dtype = PG_F64}, .rank = 1};
        return pg__h5_out_attr(h, path, &a, err);
    }
    PG_TRY(count_parts(&parts, attr, n, width, err));
    if (parts == 1 && like == PG_H5_STR_VLEN && n >= VLEN_NAMES)
        PG_TRY(count_parts(&parts, attr, n, width > VLEN_BYTES ? width : VLEN_BYTES, err));
    const pg__h5_dtype vlen = {.cls = PG_H5_STR_VLEN, .pad = 0};
    const pg__h5_dtype fixed = {.cls = PG_H5_STR_FIXED, .pad = 1, .size = (uint32_t)width};
    if (parts == 1) {
        st = write_part(h, path, attr, names, n, like == PG_H5_STR_VLEN ? &vlen : &fixed, err);
        goto done;
    }
    for (size_t k = 0; k < parts; k++) { /* numpy.array_split: the first n % parts get one more */
        char name[64];
        const size_t count = n / parts + (k < n % parts);
        (void)snprintf(name, sizeof name, "%s%zu", attr, k);
        PG_TRY(write_part(h, path, name, names, count, &fixed, err));
        names += count;
    }
done:
    return st;
}

/* Space of a dataset; PG_E_LIMIT if the size overflows. */
static pg_status data_bytes(uint64_t *out, const char *path, const pg__h5_dtype *type,
                            uint32_t rank, const uint64_t *dims, pg_err *err)
{
    uint64_t n = pg_dtype_bytes(type->dtype);
    int bad = rank > PG_MAX_RANK;
    for (uint32_t i = 0; i < rank && !bad; i++)
        bad = __builtin_mul_overflow(n, dims[i], &n) || n > INT64_MAX;
    if (bad)
        return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(path));
    *out = n;
    return PG_OK;
}

static pg_status create_dataset(pg__h5_out *h, const char *path, const pg__h5_dtype *type,
                                uint32_t rank, const uint64_t *dims, pg__h5_placed *e, pg_err *err)
{
    pg_status st = PG_OK;
    hid_t d = -1;
    const char *name = path;
    const hid_t t = pg__h5_type_new(type), space = make_space(rank, dims);
    const hid_t from = pg__h5_out_locate(h, &name);
    if (t >= 0 && space >= 0)
        d = H5Dcreate2(from, name, t, space, h->lcpl, h->dcpl, H5P_DEFAULT);
    if (d >= 0 && e->n > 0)
        e->off = H5Dget_offset(d);
    if (d < 0 || e->off == HADDR_UNDEF || h->mem.failed)
        st = pg__h5_out_fail(h, path, "create this dataset", err);
    if (d >= 0)
        (void)H5Dclose(d);
    if (space >= 0)
        (void)H5Sclose(space);
    if (t >= 0)
        (void)H5Tclose(t);
    return st;
}

pg_status pg__h5_out_dataset(pg__h5_out *h, const char *path, const pg__h5_dtype *type,
                             uint32_t rank, const uint64_t *dims, size_t *id, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_placed e = {0};
    if (type->cls != PG_H5_NUMBER)
        return pg_fail(err, PG_E_ARG, "%s: datasets hold numbers", PG_SHOW(path));
    if (pg__dtype_is_float8(type->dtype))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: Keras and h5py read no %s; safetensors holds it",
                       PG_SHOW(path), pg_dtype_name(type->dtype));
    PG_TRY(pg__h5_out_check_path(path, err));
    PG_TRY(data_bytes(&e.n, path, type, rank, dims, err));
    if (pg__mem_grow(&h->ext, &h->cap_ext, h->n_ext + 1, sizeof *h->ext)) {
        st = pg__nomem(err);
        goto done;
    }
    pg__h5_enter();
    st = create_dataset(h, path, type, rank, dims, &e, err);
    pg__h5_leave();
    if (st == PG_OK) {
        *id = h->n_ext;
        h->ext[h->n_ext++] = e;
    }
done:
    return st;
}

pg_status pg__h5_out_finish(pg__h5_out *h, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_enter();
    if (close_all(h) || h->mem.failed)
        st = pg__h5_out_fail(h, "file", "close it", err);
    pg__h5_leave();
    h->bytes = h->mem.end;
    pg__h5_memory_sort(&h->mem);
    return st;
}

uint64_t pg__h5_out_bytes(const pg__h5_out *h)
{
    return h->bytes;
}

uint64_t pg__h5_out_offset(const pg__h5_out *h, size_t id)
{
    return id < h->n_ext ? h->ext[id].off : 0;
}

/* Collects neighbouring bytes, so that the sink gets few and large writes. */
typedef struct gather {
    pg__sink *sink;
    uint64_t off; /* where buf[0] goes */
    size_t n;
    unsigned char *buf; /* PG_COPY_BYTES */
} gather;

static pg_status put(gather *g, uint64_t off, const unsigned char *p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (g->n && (off != g->off + g->n || n > PG_COPY_BYTES - g->n)) {
        PG_TRY(pg__sink_write(g->sink, g->off, g->buf, g->n, err));
        g->n = 0;
    }
    if (g->n == 0)
        g->off = off;
    if (n)
        memcpy(g->buf + g->n, p, n);
    g->n += n;
done:
    return st;
}

static int by_offset(const void *a, const void *b)
{
    const uint64_t x = ((const pg__h5_placed *)a)->off, y = ((const pg__h5_placed *)b)->off;
    return x < y ? -1 : x > y;
}

/* Writes the page except for what datasets occupy: their bytes may be in place already. sorted[*at]
 * is the first extent that ends after the page's start. */
static pg_status put_page(gather *g, const pg__h5_page *page, const pg__h5_placed *sorted,
                          size_t n_ext, size_t *at, uint64_t base, uint64_t end, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t pos = page->no * PG_H5_PAGE;
    const uint64_t start = pos, stop = pos + PG_H5_PAGE < end ? pos + PG_H5_PAGE : end;
    while (*at < n_ext && sorted[*at].off + sorted[*at].n <= pos)
        ++*at;
    for (size_t k = *at; pos < stop; k++) {
        const uint64_t next = k < n_ext && sorted[k].off < stop ? sorted[k].off : stop;
        if (next > pos)
            PG_TRY(put(g, base + pos, page->bytes + (pos - start), (size_t)(next - pos), err));
        pos = next < stop ? sorted[k].off + sorted[k].n : stop;
    }
done:
    return st;
}

pg_status pg__h5_out_flush(pg__h5_out *h, pg__sink *sink, uint64_t base, pg_err *err)
{
    static const unsigned char zero = 0;
    pg_status st = PG_OK;
    size_t n = 0, at = 0;
    pg__h5_placed *sorted = pg__mem_array(h->n_ext, sizeof *sorted);
    gather g = {.sink = sink, .buf = pg__mem_array(PG_COPY_BYTES, 1)};
    if (!sorted || !g.buf) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < h->n_ext; i++)
        if (h->ext[i].n)
            sorted[n++] = h->ext[i];
    if (n)
        qsort(sorted, n, sizeof *sorted, by_offset);
    for (size_t i = 0; i < h->mem.n_pages; i++)
        PG_TRY(put_page(&g, &h->mem.pages[i], sorted, n, &at, base, h->bytes, err));
    const uint64_t last_page = h->mem.n_pages ? h->mem.pages[h->mem.n_pages - 1].no + 1 : 0;
    const uint64_t last_data = n ? sorted[n - 1].off + sorted[n - 1].n : 0;
    if (h->bytes > last_page * PG_H5_PAGE && h->bytes > last_data) /* space that nobody wrote to */
        PG_TRY(put(&g, base + h->bytes - 1, &zero, 1, err));
    if (g.n)
        PG_TRY(pg__sink_write(sink, g.off, g.buf, g.n, err));
done:
    pg__mem_free(g.buf);
    pg__mem_free(sorted);
    return st;
}
