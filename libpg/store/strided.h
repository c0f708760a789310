/* strided.h - tensors whose elements are not in row-major order in their file: transposed views,
 * slices, Fortran order. They are read in slabs, so memory does not grow with them. */
#ifndef PG_STORE_STRIDED_H
#define PG_STORE_STRIDED_H

#include "pg/store.h"

typedef struct pg__strided {
    size_t size; /* bytes of an element */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK], strides[PG_MAX_RANK]; /* strides in elements */
    uint64_t first;                                   /* the element with index 0, ..., 0 */
    uint64_t n_source;                                /* elements in the source */
} pg__strided;

/* State kept between reads; starts as {0}. */
typedef struct pg__slab {
    unsigned char *buf; /* row-major bytes off ... off + n of `tensor` */
    uint64_t off;
    size_t n, cap, tensor;
    unsigned char *window; /* bytes of the source */
    uint64_t window_off;
    size_t window_n;
} pg__slab;

void pg__slab_fini(pg__slab *s);

/* Reads bytes of a tensor's source. */
typedef pg_status (*pg__fetch)(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                               pg_err *err);

/* PG_E_FORMAT if an element lies outside the source. */
pg_status pg__strided_check(const pg__strided *v, pg_err *err);

/* 1 if the elements follow each other in row-major order from `first` on. */
int pg__strided_is_plain(const pg__strided *v);

/* n bytes of the row-major data from byte off on. The range must lie in the tensor. */
pg_status pg__strided_read(pg__slab *s, const pg__strided *v, size_t tensor, pg__fetch fetch,
                           void *ctx, uint64_t off, void *buf, size_t n, pg_err *err);

#endif
