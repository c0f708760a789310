/* data_npy.c - one array of NumPy (.npy), read in place. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/npy.h"
#include "train/data/data.h"

static int claims(const unsigned char *head, size_t n)
{
    return n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

pg_status pg__data_add_npy(pg_data *d, const char *key, size_t key_len, pg__io *io, pg_err *err)
{
    pg__npy h;
    pg__array a = {.key = NULL};
    pg_status st = PG_OK;
    PG_TRY(pg__npy_read_header(&h, io, err));
    if (h.rank == 0 && key) /* a number among the arrays of an archive */
        goto done;
    if (h.rank == 0)
        PG_FAIL(PG_E_MISMATCH, "is a single number, not an array of rows");
    if (h.fortran_order && h.rank > 1)
        PG_FAIL(PG_E_UNSUPPORTED, "is in Fortran order: numpy.ascontiguousarray() first");
    if (key && !(a.key = pg__mem_strndup(key, key_len)))
        PG_TRY(pg__nomem(err));
    a.dims = pg__dims_of(h.rank, h.dims);
    a.dtype = h.dtype;
    a.big_endian = h.big_endian;
    a.at = h.data_off;
    pg__array_in_io(&a, io);
    PG_TRY(pg__data_add(d, &a, err));
done:
    return st;
}

static pg_status open_npy(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err)
{
    (void)path, (void)state;
    return pg__data_add_npy(d, NULL, 0, io, err);
}

const pg__source pg__source_npy = {.name = ".npy", .claims = claims, .open = open_npy};
