/* data.c - training data in .npz archives. Stored members are read in place; compressed ones are
 * inflated once into an unlinked temporary file, so that memory does not grow with the data. */
#include "train/data.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/npy.h"
#include "io/zip.h"
#include "store/values.h"

struct pg__array {
    char *key;
    const char *path; /* of the file, for messages */
    pg__io *io;
    pg__npy header;
    uint64_t row_elems;
    size_t row_bytes;
};

struct pg_data {
    char *path;
    pg__array *arrays;
    size_t n_arrays, cap_arrays;
};

void pg_data_close(pg_data *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_arrays; i++) {
        pg__mem_free(d->arrays[i].key);
        pg__io_close(d->arrays[i].io);
    }
    pg__mem_free(d->arrays);
    pg__mem_free(d->path);
    pg__mem_free(d);
}

/* Takes over io. */
static pg_status add_array(pg_data *d, const char *key, size_t key_len, pg__io *io, pg_err *err)
{
    pg__array a = {.path = d->path, .io = io, .row_elems = 1};
    pg_status st = PG_OK;
    a.key = pg__mem_strndup(key, key_len);
    if (!a.key || pg__mem_grow(&d->arrays, &d->cap_arrays, d->n_arrays + 1, sizeof *d->arrays))
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__npy_read_header(&a.header, io, err));
    if (a.header.rank == 0) /* a number is no training data */
        goto done;
    if (a.header.fortran_order || a.header.big_endian)
        PG_FAIL(PG_E_UNSUPPORTED, "%s",
                a.header.big_endian ? "is big-endian: astype('<f4') first"
                                    : "is in Fortran order: numpy.ascontiguousarray() first");
    for (uint32_t i = 1; i < a.header.rank; i++)
        a.row_elems *= a.header.dims[i]; /* below header.n_bytes, which was checked */
    a.row_bytes = (size_t)(a.row_elems * pg_dtype_bytes(a.header.dtype));
    d->arrays[d->n_arrays++] = a;
    return PG_OK;
done:
    if (st != PG_OK && a.key)
        pg_err_prefix(err, PG_SHOW(a.key));
    pg__mem_free(a.key);
    pg__io_close(io);
    return st;
}

static pg_status open_npz(pg_data *d, pg__io *io, pg_err *err)
{
    static const char suffix[] = ".npy";
    pg__zip *zip = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__zip_open(&zip, io, err));
    for (size_t i = 0; i < pg__zip_n(zip); i++) {
        const pg__zip_member *m = pg__zip_at(zip, i);
        const size_t n = strlen(m->name);
        pg__io *member = NULL;
        if (n <= strlen(suffix) || strcmp(m->name + n - strlen(suffix), suffix) != 0)
            continue;
        PG_TRY(pg__zip_open_member(zip, i, &member, err));
        PG_TRY(add_array(d, m->name, n - strlen(suffix), member, err));
    }
    if (d->n_arrays == 0)
        PG_FAIL(PG_E_FORMAT, "holds no arrays");
done:
    pg__zip_close(zip);
    return st;
}

pg_status pg_data_open(pg_data **out, const char *path, pg_err *err)
{
    pg__io *io = NULL;
    pg_status st = PG_OK;
    pg_data *d = pg__mem_array(1, sizeof *d);
    if (!d || !(d->path = pg__mem_strdup(path)))
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_open(&io, path, err));
    st = open_npz(d, io, err);
    if (st != PG_OK) {
        pg_err_prefix(err, path);
        goto done;
    }
    *out = d;
    d = NULL;
done:
    pg__io_close(io);
    pg_data_close(d);
    return st;
}

const char *pg__data_path(const pg_data *d)
{
    return d->path;
}

const pg__array *pg__data_find(const pg_data *d, const char *key)
{
    for (size_t i = 0; i < d->n_arrays; i++)
        if (strcmp(d->arrays[i].key, key) == 0)
            return &d->arrays[i];
    return NULL;
}

pg__dims pg__array_dims(const pg__array *a)
{
    return pg__dims_of(a->header.rank, a->header.dims);
}

pg_dtype pg__array_dtype(const pg__array *a)
{
    return a->header.dtype;
}

static pg_status cast_values(const pg__array *a, const unsigned char *from, size_t n, pg__cast cast,
                             void *dst, pg_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const double v = pg__value_at(from + i * pg_dtype_bytes(a->header.dtype), a->header.dtype);
        if (cast == PG__AS_F32)
            ((float *)dst)[i] = (float)v;
        else if (cast == PG__AS_F64)
            ((double *)dst)[i] = v;
        else if (v != floor(v) || fabs(v) > INT32_MAX)
            return pg_fail(err, PG_E_MISMATCH, "%s: %s: %g where a class or an id is needed",
                           a->path, PG_SHOW(a->key), v);
        else
            ((int32_t *)dst)[i] = (int32_t)v;
    }
    return PG_OK;
}

/* Rows that follow each other are read at once, and without a copy where no cast is needed. */
pg_status pg__array_read(const pg__array *a, const uint64_t *rows, size_t n, pg__cast cast,
                         void *dst, pg_err *err)
{
    const size_t to_bytes = (size_t)a->row_elems * (cast == PG__AS_F64 ? 8 : 4);
    const int same = (cast == PG__AS_F32 && a->header.dtype == PG_F32) ||
                     (cast == PG__AS_F64 && a->header.dtype == PG_F64) ||
                     (cast == PG__AS_I32 && a->header.dtype == PG_I32);
    pg_status st = PG_OK;
    unsigned char *raw = same ? NULL : pg__mem_array(n, a->row_bytes);
    if (!same && !raw)
        return pg__nomem(err);
    for (size_t i = 0, run; i < n; i += run) {
        unsigned char *to = same ? (unsigned char *)dst + i * to_bytes : raw + i * a->row_bytes;
        run = 1;
        while (i + run < n && rows[i + run] == rows[i] + run)
            run++;
        st = pg__io_read(a->io, a->header.data_off + rows[i] * a->row_bytes, to,
                         run * a->row_bytes, err);
        if (st != PG_OK) {
            pg_err_prefix(err, a->path);
            goto done;
        }
    }
    if (!same)
        PG_TRY(cast_values(a, raw, n * (size_t)a->row_elems, cast, dst, err));
done:
    pg__mem_free(raw);
    return st;
}
