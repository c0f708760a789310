/* k_softmax.h - softmax row by row, the largest argument taken off first. */
#ifndef PG_BACKEND_K_SOFTMAX_H
#define PG_BACKEND_K_SOFTMAX_H

#include "backend/cuda/pgk.h"

typedef struct pgk_softmax {
    pgk_real x, y;
    uint64_t n; /* of a row */
} pgk_softmax;

PGK_FN void pgk_softmax_row(const pgk_softmax *a, uint64_t r)
{
    const uint64_t at = r * a->n;
    PGK_MAX(top, i, a->n, pgk_get(a->x, at + i));
    PGK_SUM(sum, i, a->n, expf(pgk_get(a->x, at + i) - top));
    PGK_EACH(i, a->n)
        pgk_set(a->y, at + i, expf(pgk_get(a->x, at + i) - top) / sum);
}

/* dx = y (dy - sum(dy y)) */
typedef struct pgk_softmax_grad {
    pgk_real y, dy, dx;
    uint64_t n;
} pgk_softmax_grad;

PGK_FN void pgk_softmax_grad_row(const pgk_softmax_grad *a, uint64_t r)
{
    const uint64_t at = r * a->n;
    PGK_SUM(dot, i, a->n, pgk_get(a->dy, at + i) * pgk_get(a->y, at + i));
    PGK_EACH(i, a->n)
        pgk_set(a->dx, at + i, pgk_get(a->y, at + i) * (pgk_get(a->dy, at + i) - dot));
}

#endif
