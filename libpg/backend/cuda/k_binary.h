/* k_binary.h - sums, products and the like of two operands, element by element of the result. */
#ifndef PG_BACKEND_K_BINARY_H
#define PG_BACKEND_K_BINARY_H

#include "backend/cuda/k_index.h"
#include "ops/binary_real.h"

/* ---- where nothing repeats: four elements to a thread ---- */

typedef struct pgk_add {
    pgk_real a, b, sum;
    uint64_t n;
} pgk_add;

PGK_FN void pgk_add_at(const pgk_add *a, uint64_t i)
{
    float x[4], y[4];
    pgk_get4(a->a, i, a->n, x);
    pgk_get4(a->b, i, a->n, y);
    PGK_EACH_OF_4(k)
    x[k] += y[k];
    pgk_set4(a->sum, i, a->n, x);
}

typedef struct pgk_affine {
    pgk_real x, y;
    uint64_t n;
    float scale, offset;
} pgk_affine;

PGK_FN void pgk_affine_at(const pgk_affine *a, uint64_t i)
{
    float x[4];
    pgk_get4(a->x, i, a->n, x);
    PGK_EACH_OF_4(k)
    x[k] = a->scale * x[k] + a->offset;
    pgk_set4(a->y, i, a->n, x);
}

typedef struct pgk_binary_alike {
    pgk_real a, b, y;
    uint64_t n;
    pg__binary_kind kind;
} pgk_binary_alike;

PGK_FN void pgk_binary_alike_at(const pgk_binary_alike *a, uint64_t i)
{
    float x[4], y[4];
    pgk_get4(a->a, i, a->n, x);
    pgk_get4(a->b, i, a->n, y);
    PGK_EACH_OF_4(k)
    x[k] = pg__combine(a->kind, x[k], y[k]);
    pgk_set4(a->y, i, a->n, x);
}

/* ---- where an operand may repeat ---- */

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
