/* npy.h - the header of NumPy's .npy files (format versions 1.0 to 3.0).
 *
 * Source: numpy.lib.format's module documentation: "\x93NUMPY", major, minor, length of the header
 * (u16 in 1.0, u32 later, little-endian), then a Python dict literal with the keys descr,
 * fortran_order and shape, padded with spaces and ended by a newline. Only that literal is parsed;
 * nothing is evaluated, and a pickle ("|O") is refused by name. */
#ifndef PG_FORMAT_NPY_H
#define PG_FORMAT_NPY_H

#include "base/str.h"
#include "io/io.h"
#include "pg/store.h"

typedef struct pg__npy {
    pg_dtype dtype;
    int void2; /* descr '<V2' or '|V2': bfloat16 as numpy writes it without ml_dtypes */
    int big_endian;
    int fortran_order;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    uint64_t n_bytes;  /* of the data */
    uint64_t data_off; /* from the start of the io */
} pg__npy;

/* Parses and checks the header at the start of io, and that exactly the data follow it.
 * PG_E_FORMAT, PG_E_LIMIT; PG_E_UNSUPPORTED names descr. Messages do not name the file. */
pg_status pg__npy_read_header(pg__npy *out, pg__io *io, pg_err *err);

/* The same if io holds only the beginning of a file of `size` bytes. */
pg_status pg__npy_read_head(pg__npy *out, pg__io *io, uint64_t size, pg_err *err);

/* Appends a version 1.0 header (2.0 if it is too long) that ends, so that the data begins, at
 * `phase` modulo `align` bytes of the file; align is a power of two, at least 64 (numpy's
 * padding). */
pg_status pg__npy_add_header(pg__str *out, pg_dtype dtype, int big_endian, uint32_t rank,
                             const uint64_t *dims, uint64_t align, uint64_t phase, pg_err *err);

#endif
