/* k_move.h - moves elements: repeated, cut, padded, joined, axes reordered. Where they move in
 * fours, indices and sizes count units of four (pgk_read()). */
#ifndef PG_BACKEND_K_MOVE_H
#define PG_BACKEND_K_MOVE_H

#include "backend/cuda/k_index.h"

/* Where the last axis of both is the same, or repeats. */
typedef struct pgk_gather {
    pgk_real x, y;
    pgk_walk from;
    int wide;
} pgk_gather;

PGK_FN void pgk_gather_at(const pgk_gather *a, uint64_t i)
{
    float v[4];
    pgk_read(a->x, pgk_walk_at(&a->from, i), a->wide, v);
    pgk_write(a->y, i, a->wide, v);
}

/* Zeros around, or cells cut off: axis 0 is the last one. */
typedef struct pgk_edge {
    pgk_div n;      /* of y */
    int64_t before; /* cells of y in front of x's first one */
    uint64_t had;   /* of x */
    uint64_t step;
} pgk_edge;

typedef struct pgk_pad {
    pgk_real x, y;
    int wide;
    uint32_t rank;
    pgk_edge axis[PG_MAX_RANK];
} pgk_pad;

PGK_FN void pgk_pad_at(const pgk_pad *a, uint64_t i)
{
    uint64_t from = 0, rest = i;
    int inside = 1;
    float v[4] = {0, 0, 0, 0};
    for (uint32_t k = 0; k < a->rank; k++) {
        const pgk_edge *e = &a->axis[k];
        const uint64_t at = pgk_take(e->n, &rest) - (uint64_t)e->before; /* below 0: huge */
        inside &= at < e->had;
        from += at * e->step;
    }
    if (inside)
        pgk_read(a->x, from, a->wide, v);
    pgk_write(a->y, i, a->wide, v);
}

/* Blocks of up to PGK_PIECES arrays, one after the other; a row of y has one block of each. The
 * joined part may be only a part of y's rows. */
#define PGK_PIECES 8u

typedef struct pgk_join {
    pgk_real y, x[PGK_PIECES];
    uint64_t begin[PGK_PIECES + 1]; /* of each in the part; past the last one: the part's size */
    uint64_t first, row;            /* where the part begins in y, and from row to row */
    pgk_div n;                      /* of the part */
    int wide;
} pgk_join;

PGK_FN void pgk_join_at(const pgk_join *a, uint64_t i)
{
    uint64_t row = i;
    const uint64_t at = pgk_take(a->n, &row);
    unsigned k = 0;
    float v[4];
    while (at >= a->begin[k + 1])
        k++;
    pgk_read(a->x[k], row * (a->begin[k + 1] - a->begin[k]) + at - a->begin[k], a->wide, v);
    pgk_write(a->y, row * a->row + a->first + at, a->wide, v);
}

#endif
