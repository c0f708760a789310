/* k_binary.h - sums, products and the like of two operands, element by element of the result. */
#ifndef PG_BACKEND_K_BINARY_H
#define PG_BACKEND_K_BINARY_H

#include "backend/cuda/k_index.h"
#include "ops/binary_real.h"

typedef struct pgk_add {
    pgk_real a, b, sum;
} pgk_add;

PGK_FN void pgk_add_at(const pgk_add *a, uint64_t i)
{
    pgk_set(a->sum, i, pgk_get(a->a, i) + pgk_get(a->b, i));
}

typedef struct pgk_affine {
    pgk_real x, y;
    float scale, offset;
} pgk_affine;

PGK_FN void pgk_affine_at(const pgk_affine *a, uint64_t i)
{
    pgk_set(a->y, i, a->scale * pgk_get(a->x, i) + a->offset);
}

typedef struct pgk_binary {
    pgk_real a, b, y;
    pgk_walk from; /* to a and b */
    pg__binary_kind kind;
} pgk_binary;

PGK_FN void pgk_binary_at(const pgk_binary *a, uint64_t i)
{
    const pgk_places p = pgk_walk_to(&a->from, i);
    pgk_set(a->y, i, pg__combine(a->kind, pgk_get(a->a, p.at[0]), pgk_get(a->b, p.at[1])));
}

typedef struct pgk_binary_pick {
    pgk_real a, b, dy, da, db;
    pgk_walk from; /* to a and b */
    pg__binary_kind kind;
} pgk_binary_pick;

PGK_FN void pgk_binary_pick_at(const pgk_binary_pick *a, uint64_t i)
{
    const pgk_places p = pgk_walk_to(&a->from, i);
    const float dy = pgk_get(a->dy, i);
    const int first = pg__picks_first(a->kind, pgk_get(a->a, p.at[0]), pgk_get(a->b, p.at[1]));
    if (a->da.p)
        pgk_set(a->da, i, first ? dy : 0);
    if (a->db.p)
        pgk_set(a->db, i, first ? 0 : dy);
}

#endif
