/* k_columns.h - sums over rows, column by column, in an order that depends only on the shape; and
 * adding numbers to every row. */
#ifndef PG_BACKEND_K_COLUMNS_H
#define PG_BACKEND_K_COLUMNS_H

#include "backend/cuda/pgk.h"

/* part[i] = x[i] + x[i + stride] + ... below n: with a stride of several rows each part is of one
 * column, and neighbours read neighbours however short a row is. */
typedef struct pgk_columns_part {
    pgk_real x, part;
    uint64_t n, stride;
} pgk_columns_part;

PGK_FN void pgk_columns_part_at(const pgk_columns_part *a, uint64_t i)
{
    float sum = 0;
    for (uint64_t k = i; k < a->n; k += a->stride)
        sum += pgk_get(a->x, k);
    pgk_set(a->part, i, sum);
}

/* Row r: y[r] = the sum of column r of `rows` rows of n. */
typedef struct pgk_columns_join {
    pgk_real part, y;
    uint64_t rows, n;
} pgk_columns_join;

PGK_FN void pgk_columns_join_row(const pgk_columns_join *a, uint64_t r)
{
    PGK_SUM(sum, k, a->rows, pgk_get(a->part, k * a->n + r));
    PGK_EACH(i, 1)
    pgk_set(a->y, r + i, sum);
}

/* y[i] += bias of its column */
typedef struct pgk_add_bias {
    pgk_real bias, y;
    uint64_t n; /* columns */
} pgk_add_bias;

PGK_FN void pgk_add_bias_at(const pgk_add_bias *a, uint64_t i)
{
    pgk_set(a->y, i, pgk_get(a->y, i) + pgk_get(a->bias, i % a->n));
}

#endif
