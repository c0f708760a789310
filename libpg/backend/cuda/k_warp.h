/* k_warp.h - random numbers for each row, and images whose cells they move: a thread for each
 * number of the result. See ref_warp.c. */
#ifndef PG_BACKEND_K_WARP_H
#define PG_BACKEND_K_WARP_H

#include "backend/cuda/k_index.h"
#include "base/philox.h"
#include "ops/warp_geo.h"

typedef struct pgk_uniform {
    pgk_real step, y;
    uint64_t row; /* numbers that are drawn for a row of the batch; 0 where all rows share them */
    uint32_t columns, stream;
    float low[PG_MAX_DRAWN], high[PG_MAX_DRAWN];
} pgk_uniform;

PGK_FN uint64_t pgk_uniform_step(const pgk_uniform *a, pg__step_slot low)
{
    return (uint32_t)pgk_int(a->step, low) | (uint64_t)(uint32_t)pgk_int(a->step, low + 1) << 32;
}

PGK_FN void pgk_uniform_at(const pgk_uniform *a, uint64_t i)
{
    const uint64_t count = pgk_uniform_step(a, PG_STEP_COUNT);
    const uint64_t at = pgk_uniform_step(a, PG_STEP_ROW) * a->row + i;
    const float u = pg__uniform(pgk_uniform_step(a, PG_STEP_SEED), at, (uint32_t)count,
                                a->stream ^ (uint32_t)(count >> 32) << 24);
    const int second = a->columns > 1 && i % a->columns == 1;
    const float low = second ? a->low[1] : a->low[0], high = second ? a->high[1] : a->high[0];
    pgk_set(a->y, i, low + u * (high - low));
}

typedef struct pgk_warp {
    pgk_real x, drawn, y;
    pgk_image image; /* of y */
    uint32_t from[2], channels, columns;
    int shared; /* all rows are moved alike */
    pg__warp_attrs attrs;
} pgk_warp;

PGK_FN void pgk_warp_at(const pgk_warp *a, uint64_t i)
{
    const pgk_pixel p = pgk_pixel_of(&a->image, i);
    const uint64_t drawn = a->shared ? 0 : p.row * a->columns;
    const pg__warp_matrix m = pg__warp_matrix_of(&a->attrs, a->from, pgk_get(a->drawn, drawn),
                                                 pgk_get(a->drawn, drawn + a->columns - 1));
    const float to_x = (float)p.at[2], to_y = (float)p.at[1];
    const pg__warp_cells h =
        pg__warp_cells_at(&a->attrs, m.m[0] * to_x + m.m[1] * to_y + m.m[2], a->from[1]);
    const pg__warp_cells v =
        pg__warp_cells_at(&a->attrs, m.m[3] * to_x + m.m[4] * to_y + m.m[5], a->from[0]);
    float sum = 0;
    PGK_UNROLL
    for (unsigned k = 0; k < 4; k++) {
        const float share = v.share[k / 2] * h.share[k % 2];
        const int64_t row = v.at[k / 2], column = h.at[k % 2];
        const uint64_t cell = (p.row * a->from[0] + (uint64_t)row) * a->from[1] + (uint64_t)column;
        if (share != 0)
            sum += share * (row >= 0 && column >= 0 ? pgk_get(a->x, cell * a->channels + p.channel)
                                                    : (float)a->attrs.value);
    }
    pgk_set(a->y, i, sum);
}

#endif
