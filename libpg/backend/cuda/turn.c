/* turn.c - see turn.h. */
#include "backend/cuda/turn.h"

#include "backend/cuda/walk.h"

pgk_turn pg__turn_of(uint64_t n_down, uint64_t n_across, uint64_t step_down, uint64_t step_across)
{
    return (pgk_turn){.n_down = n_down,
                      .n_across = n_across,
                      .step_down = step_down,
                      .step_across = step_across,
                      .tiles_down = pg__div_of((n_down + PGK_TILE - 1) / PGK_TILE),
                      .tiles_across = pg__div_of((n_across + PGK_TILE - 1) / PGK_TILE)};
}

uint64_t pg__turn_n(const pgk_turn *a)
{
    uint64_t n = a->tiles_down.by * a->tiles_across.by * PGK_TILE * PGK_TILE;
    for (uint32_t k = 0; k < a->others.rank; k++)
        n *= a->others.axis[k].n.by;
    return n;
}

pg_status pg__turn(pg__dev *d, pgk_real from, pgk_real to, uint64_t rows, uint64_t cols)
{
    pgk_turn a = pg__turn_of(rows, cols, cols, rows);
    a.x = from;
    a.y = to;
    return PG_LAUNCH(d, turn, &a, pg__turn_n(&a));
}
