/* compare_values.h - two tensors of one shape, element by element. */
#ifndef PG_WRAP_COMPARE_COMPARE_VALUES_H
#define PG_WRAP_COMPARE_COMPARE_VALUES_H

#include "pg/compare.h"

typedef struct pg__operand {
    pg_store *s;
    size_t tensor;    /* as store_impl.h numbers them */
    const char *path; /* for messages */
} pg__operand;

/* Fills the numbers of *row and its kind. buf: 2 * PG_COPY_BYTES. */
pg_status pg__compare_values(pg_compare_row *row, pg__operand a, pg__operand b,
                             const pg_compare_opts *o, unsigned char *buf, pg_err *err);

/* Reads from any tensor of a store in this machine's byte order; messages start with the path. */
pg_status pg__operand_read(pg__operand t, uint64_t off, void *buf, size_t n, pg_err *err);

/* NaN among n elements of a float type at p. */
uint64_t pg__count_nan(const unsigned char *p, size_t n, pg_dtype dtype);

#endif
