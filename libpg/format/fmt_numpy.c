/* fmt_numpy.c - reads NumPy's files: an array alone (.npy), named after its file, and archives of
 * arrays (.npz), named after their members. There are no layers. npy.c reads headers; arrays of
 * Python objects are pickles and are refused. (numpy/lib/format.py, numpy/lib/npyio.py.) */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/format.h"
#include "format/npy.h"
#include "io/zip.h"
#include "store/strided.h"

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6u
#define SUFFIX      ".npy"

/* A compressed member is unpacked only as far as its header goes: usually less than the first
 * guess. */
#define LOOK_BYTES ((size_t)4 << 10)
#define MOST_BYTES (PG_LIMIT_NPY_HEADER + 12)

typedef struct array {
    pg__strided view;
    uint64_t data_off; /* in the file or the member */
} array;

typedef struct numpy {
    pg__io *io;
    pg__zip *zip; /* NULL: one array */
    array *list;
    size_t n;
    pg__slab slab;
} numpy;

static int is_npy(const uint8_t *head, size_t n)
{
    return n >= MAGIC_BYTES && memcmp(head, MAGIC, MAGIC_BYTES) == 0;
}

static int probe(const uint8_t *head, size_t n)
{
    return (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) || is_npy(head, n);
}

/* ---- data ---- */

static void close_data(void *ctx)
{
    numpy *f = ctx;
    if (!f)
        return;
    pg__zip_close(f->zip);
    pg__io_close(f->io);
    pg__slab_fini(&f->slab);
    pg__mem_free(f->list);
    pg__mem_free(f);
}

static pg_status fetch(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const numpy *f = ctx;
    off += f->list[tensor].data_off;
    return f->zip ? pg__zip_read(f->zip, tensor, off, buf, n, err)
                  : pg__io_read(f->io, off, buf, n, err);
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    numpy *f = ctx;
    return pg__strided_read(&f->slab, &f->list[tensor].view, tensor, fetch, f, off, buf, n, err);
}

/* ---- opening ---- */

/* Where the elements are; in Fortran order the first index runs fastest. */
static pg__strided view_of(const pg__npy *h)
{
    uint64_t step = 1;
    pg__strided v = {.size = pg_dtype_bytes(h->dtype), .rank = h->rank};
    v.n_source = h->n_bytes / v.size;
    for (uint32_t i = 0; i < h->rank; i++) {
        const uint32_t k = h->fortran_order ? i : h->rank - 1 - i;
        v.dims[k] = h->dims[k];
        v.strides[k] = step;
        step *= h->dims[k] ? h->dims[k] : 1;
    }
    return v;
}

/* Adds the array with header h as the next weight of s, array i of f. */
static pg_status add(pg_store *s, numpy *f, size_t i, const pg__npy *h, const char *name,
                     pg_err *err)
{
    f->list[i] = (array){.view = view_of(h), .data_off = h->data_off};
    pg__tensor_desc d = {.name = name,
                         .dtype = h->dtype,
                         .big_endian = h->big_endian,
                         .rank = h->rank,
                         .dims = h->dims};
    if (!f->zip && pg__strided_is_plain(&f->list[i].view))
        d.extent = (pg__extent){f->io, h->data_off};
    return pg__store_add_weight(s, &d, err);
}

/* The file's name without folder and suffix. */
static pg_status stem_of(char **out, const char *path, pg_err *err)
{
    const char *slash = path ? strrchr(path, '/') : NULL, *base = slash ? slash + 1 : path;
    const size_t n = base ? strlen(base) : 0, k = strlen(SUFFIX);
    if (n > k && strcmp(base + n - k, SUFFIX) == 0)
        *out = pg__mem_strndup(base, n - k);
    else
        *out = pg__mem_strdup(n ? base : "array");
    return *out ? PG_OK : pg__nomem(err);
}

static pg_status open_npy(pg_store *s, numpy *f, const char *path, pg_err *err)
{
    pg__npy h = {0};
    char *name = NULL;
    pg_status st = PG_OK;
    f->list = pg__mem_array(1, sizeof *f->list);
    if (!f->list)
        return pg__nomem(err);
    PG_TRY(pg__npy_read_header(&h, f->io, err));
    PG_TRY(stem_of(&name, path, err));
    PG_TRY(add(s, f, 0, &h, name, err));
done:
    pg__mem_free(name);
    return st;
}

/* The header of a compressed member, whose first n bytes are unpacked. */
static pg_status read_packed(pg__npy *h, const numpy *f, size_t i, size_t n, pg_err *err)
{
    const pg__zip_member *m = pg__zip_at(f->zip, i);
    pg__io *io = NULL;
    pg_status st = PG_OK;
    n = m->n < n ? (size_t)m->n : n;
    unsigned char *head = pg__mem_array(n, 1);
    if (!head)
        return pg__nomem(err);
    PG_TRY(pg__zip_peek(f->zip, i, head, n, err));
    PG_TRY(pg__io_open_mem(&io, head, n, err));
    PG_TRY(pg__npy_read_head(h, io, m->n, err));
done:
    pg__io_close(io);
    pg__mem_free(head);
    return st;
}

static pg_status read_member(pg__npy *h, const numpy *f, size_t i, pg_err *err)
{
    const pg__zip_member *m = pg__zip_at(f->zip, i);
    pg__io *io = NULL;
    pg_status st = PG_OK;
    if (m->deflated) {
        st = read_packed(h, f, i, LOOK_BYTES, err);
        return st == PG_E_FORMAT && m->n > LOOK_BYTES ? read_packed(h, f, i, MOST_BYTES, err) : st;
    }
    PG_TRY(pg__io_open_window(&io, f->io, m->data_off, m->n, err));
    PG_TRY(pg__npy_read_header(h, io, err));
done:
    pg__io_close(io);
    return st;
}

/* Length of the array's name in a member's, 0 if it is not an array. */
static size_t name_bytes(const char *member)
{
    const size_t n = strlen(member), k = strlen(SUFFIX);
    return n > k && strcmp(member + n - k, SUFFIX) == 0 ? n - k : 0;
}

static pg_status add_member(pg_store *s, numpy *f, size_t i, pg_err *err)
{
    const char *member = pg__zip_at(f->zip, i)->name;
    pg__npy h = {0};
    char *name = pg__mem_strndup(member, name_bytes(member));
    if (!name)
        return pg__nomem(err);
    pg_status st = read_member(&h, f, i, err);
    if (st == PG_OK)
        st = add(s, f, i, &h, name, err);
    else if (err && strncmp(err->msg, PG_SHOW(member), strlen(PG_SHOW(member))) != 0)
        pg_err_prefix(err, PG_SHOW(member));
    pg__mem_free(name);
    return st;
}

static pg_status open_npz(pg_store *s, numpy *f, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__zip_open(&f->zip, f->io, err));
    const size_t n = pg__zip_n(f->zip);
    for (size_t i = 0; i < n; i++)
        if (!name_bytes(pg__zip_at(f->zip, i)->name))
            PG_FAIL(PG_E_UNKNOWN, "a ZIP archive, but not one of NumPy");
    if (n == 0)
        PG_FAIL(PG_E_UNKNOWN, "an empty ZIP archive");
    f->list = pg__mem_array(n, sizeof *f->list);
    if (!f->list) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        PG_TRY(add_member(s, f, i, err));
done:
    return st;
}

static pg_status open_numpy(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                            pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data};
    uint8_t head[MAGIC_BYTES] = {0};
    const size_t n = pg__io_size(io) < sizeof head ? (size_t)pg__io_size(io) : sizeof head;
    pg_store *s = NULL;
    numpy *f = NULL;
    pg_status st = PG_OK;
    (void)opts;
    PG_TRY(pg__io_read(io, 0, head, n, err));
    f = pg__mem_array(1, sizeof *f);
    if (!f) {
        st = pg__nomem(err);
        goto done;
    }
    f->io = pg__io_ref(io);
    PG_TRY(pg__store_new(&s, is_npy(head, n) ? "npy" : "npz", NULL, NULL, err));
    PG_TRY(is_npy(head, n) ? open_npy(s, f, path, err) : open_npz(s, f, err));
    pg__store_own(s, &data, f);
    f = NULL;
    *out = s;
    s = NULL;
done:
    close_data(f);
    pg_store_close(s);
    return st;
}

const pg__format pg__fmt_numpy = {
    .name = "npy",
    .words = "npy\0npz\0",
    .probe = probe,
    .open = open_numpy,
    .suffixes = ".npy\0.npz\0",
};
