/* product.h - the matrix products of layers, by our own kernels or by oneDNN, whichever is faster
 * for the shape. */
#ifndef PG_BACKEND_CPU_PRODUCT_H
#define PG_BACKEND_CPU_PRODUCT_H

#include "backend/cpu/pointwise.h"

typedef enum pg__product_kind {
    PG_ROWS,        /* c[m x n] = a[m x k] w[k x n] (+ bias) */
    PG_ROWS_TURNED, /* c[m x n] = a[m x k] w', of w[n x k] */
    PG_COLUMNS      /* c[k x n] = a' w, of a[m x k] and w[m x n] */
} pg__product_kind;

typedef struct pg__product {
    pg__product_kind kind;
    size_t m, n, k;
    int across;               /* few rows by a large w, which is not packed */
    const pg__pointwise *own; /* NULL: oneDNN's */
    pg__range range;          /* of c; set by the caller, for PG_ROWS that are `always` our own */
    float *sums; /* += the rows of w; set by the caller, for PG_COLUMNS that are our own; or NULL */
} pg__product;

/* cells: rows of a for each row of the batch. always: use our kernel even if it is not faster. If
 * rows of c are rows of a, the choice does not depend on m: the batch may be cut into lanes
 * anywhere. */
pg__product pg__product_of(pg__product_kind kind, size_t m, size_t cells, size_t n, size_t k,
                           pg__isa isa, int always, pg__numbers numbers);

/* Bytes made of w beforehand; 0: none. */
size_t pg__product_packed_bytes(const pg__product *p);
void pg__product_pack(const pg__product *p, const float *w, float *packed);

size_t pg__product_scratch_bytes(const pg__product *p);

/* w is not read if it was packed. bias may be NULL, and is for PG_ROWS_TURNED. plus: added to c,
 * for PG_ROWS that are `always` our own; else NULL. */
void pg__product_run(const pg__product *p, const float *a, const float *w, const float *packed,
                     const float *bias, const float *plus, float *c, float *scratch);

#endif
