/* k_turn.h - another axis becomes the last one: transposes, and kernels of convolutions, which
 * stand in memory by filters as Keras has them and by channels as cuDNN wants them. */
#ifndef PG_BACKEND_K_TURN_H
#define PG_BACKEND_K_TURN_H

#include "backend/cuda/k_index.h"

/* Planes of `down`, which lie together in y, and `across`, which do in x, are turned in tiles of
 * 8 x 8: 32 bytes are read from a place and 32 are written to one, which is what the GPU moves at a
 * time. Indices count through the tiles' elements (turn.h: how many there are). */
#define PGK_TILE 8u

typedef struct pgk_turn {
    pgk_real x, y;
    uint64_t n_down, n_across;
    uint64_t step_down, step_across; /* in x; in y */
    pgk_div tiles_down, tiles_across;
    pgk_walk others; /* from plane to plane, in x and y */
} pgk_turn;

PGK_FN void pgk_turn_at(const pgk_turn *a, uint64_t i)
{
    uint64_t tile = i / (PGK_TILE * PGK_TILE);
    const uint64_t down = pgk_take(a->tiles_down, &tile) * PGK_TILE + i % PGK_TILE;
    const uint64_t across = pgk_take(a->tiles_across, &tile) * PGK_TILE + i / PGK_TILE % PGK_TILE;
    const pgk_places p = pgk_walk_to(&a->others, tile);
    if (down < a->n_down && across < a->n_across)
        pgk_set(a->y, p.at[1] + across * a->step_across + down,
                pgk_get(a->x, p.at[0] + down * a->step_down + across));
}

/* y = x in another type */
typedef struct pgk_retype {
    pgk_real x, y;
} pgk_retype;

PGK_FN void pgk_retype_at(const pgk_retype *a, uint64_t i)
{
    pgk_set(a->y, i, pgk_get(a->x, i));
}

#endif
