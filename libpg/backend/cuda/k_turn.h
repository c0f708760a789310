/* k_turn.h - a matrix turned over, perhaps into another type: kernels of convolutions, which stand
 * in memory by filters as Keras has them and by channels as cuDNN wants them. */
#ifndef PG_BACKEND_K_TURN_H
#define PG_BACKEND_K_TURN_H

#include "backend/cuda/pgk.h"

/* y[c * rows + r] = x[r * cols + c] */
typedef struct pgk_turn {
    pgk_real x, y;
    uint64_t rows, cols, tiles; /* that lie side by side: the columns, 8 at a time */
} pgk_turn;

#define PGK_TURN_ROWS 32u /* of a tile, which PGK_T threads share: they write lines of 32 */
#define PGK_TURN_COLS (PGK_T / PGK_TURN_ROWS) /* and read, together, lines of 8 */

/* How many i there are. */
static inline uint64_t pgk_turn_n(const pgk_turn *a)
{
    return (a->rows + PGK_TURN_ROWS - 1) / PGK_TURN_ROWS * a->tiles * PGK_T;
}

PGK_FN void pgk_turn_at(const pgk_turn *a, uint64_t i)
{
    const uint64_t tile = i / PGK_T, in = i % PGK_T, down = tile / a->tiles;
    const uint64_t r = down * PGK_TURN_ROWS + in % PGK_TURN_ROWS;
    const uint64_t c = (tile - down * a->tiles) * PGK_TURN_COLS + in / PGK_TURN_ROWS;
    if (r < a->rows && c < a->cols)
        pgk_set(a->y, c * a->rows + r, pgk_get(a->x, r * a->cols + c));
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
