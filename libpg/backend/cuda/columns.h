/* columns.h - sums over the rows of a matrix: gradients of biases. */
#ifndef PG_BACKEND_COLUMNS_H
#define PG_BACKEND_COLUMNS_H

#include "backend/cuda/cuda.h"

typedef struct pg__columns {
    uint64_t rows, n, parts;
    size_t at; /* in scratch: partial sums */
} pg__columns;

pg__columns pg__columns_new(uint64_t rows, uint64_t n, pg__needs *needs);
/* sums[j] = the sum of column j; as many floats. */
pg_status pg__columns_run(pg__dev *d, const pg__columns *c, pgk_real x, void *sums, void *scratch);

/* As pg__columns_new(): the caller has made `parts` rows of partial sums in the first place. */
pg_status pg__columns_join(pg__dev *d, const pg__columns *c, void *sums, void *scratch);
/* Parts of sums over `rows` rows, so that parts * n threads fill a GPU. */
uint64_t pg__columns_parts(uint64_t rows, uint64_t n);

#endif
