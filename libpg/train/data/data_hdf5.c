/* data_hdf5.c - datasets of an HDF5 file, with our own reader: contiguous datasets are read in
 * place, chunks are decoded when their rows are read. The reader caches some decoded chunks, so
 * that --shuffle=batch decodes each about once; a full shuffle of compressed data decodes a chunk
 * for almost every row. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/h5/h5.h"
#include "train/data/data.h"

typedef struct file {
    pg__h5 *h5;
    pg__io *io;
} file;

static int claims(const unsigned char *head, size_t n)
{
    return n >= 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0;
}

static pg_status read_chunks(const pg__array *a, uint64_t first, uint64_t n, void *raw, pg_err *err)
{
    const uint64_t each = pg__array_row_bytes(a);
    return pg__h5_read(a->self, (uint32_t)a->at, first * each, raw, (size_t)(n * each), err);
}

static pg_status add_dataset(pg_data *d, file *f, uint32_t obj, pg_err *err)
{
    const pg__h5_object *o = pg__h5_at(f->h5, obj);
    pg__array a = {.dims = pg__dims_of(o->rank, o->dims),
                   .dtype = o->type.dtype,
                   .big_endian = o->type.big_endian,
                   .is_flat = 1,
                   .read = read_chunks,
                   .self = f->h5,
                   .at = obj};
    if (!(a.key = pg__mem_strdup(o->name)))
        return pg__nomem(err);
    if (o->contiguous) {
        a.at = o->off_bytes;
        pg__array_in_io(&a, f->io);
    }
    return pg__data_add(d, &a, err);
}

/* Numeric datasets at the root; ignores everything else. */
static pg_status open_hdf5(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err)
{
    pg_status st = PG_OK;
    file *f = pg__mem_array(1, sizeof *f);
    (void)path;
    if (!f)
        return pg__nomem(err);
    f->io = pg__io_ref(io);
    *state = f;
    PG_TRY(pg__h5_open(&f->h5, io, err));
    const pg__h5_object *root = pg__h5_at(f->h5, 0);
    for (uint32_t k = 0; k < root->n_children; k++) {
        const pg__h5_object *o = pg__h5_at(f->h5, pg__h5_child(f->h5, 0, k));
        if (o->kind == PG_H5_DATASET && o->type.cls == PG_H5_NUMBER && o->rank > 0)
            PG_TRY(add_dataset(d, f, pg__h5_child(f->h5, 0, k), err));
        else if (o->kind == PG_H5_DATASET && o->type.cls == PG_H5_OTHER)
            PG_TRY(pg__data_add_unread(d, o->name, strlen(o->name), o->type.unread, err));
    }
done:
    return st;
}

static void close_hdf5(void *state)
{
    file *f = state;
    pg__h5_close(f->h5);
    pg__io_close(f->io);
    pg__mem_free(f);
}

const pg__source pg__source_hdf5 = {
    .name = "HDF5", .claims = claims, .open = open_hdf5, .close = close_hdf5};
