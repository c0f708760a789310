/* k_normal.h - normally distributed numbers; see ref_normal.c. */
#ifndef PG_BACKEND_K_NORMAL_H
#define PG_BACKEND_K_NORMAL_H

#include "backend/cuda/pgk.h"
#include "base/philox.h"

typedef struct pgk_normal {
    pgk_real step, y;
    uint64_t n;
    uint64_t row; /* numbers that are drawn for a row of the batch */
    uint32_t stream;
} pgk_normal;

PGK_FN uint64_t pgk_normal_step(const pgk_normal *a, pg__step_slot low)
{
    return (uint32_t)pgk_int(a->step, low) | (uint64_t)(uint32_t)pgk_int(a->step, low + 1) << 32;
}

/* Two of the four numbers that are drawn at once: pair i of those that the result needs, of which
 * the first and the last may belong to other slices in part. */
PGK_FN void pgk_normal_at(const pgk_normal *a, uint64_t i)
{
    const uint64_t first = pgk_normal_step(a, PG_STEP_ROW) * a->row, front = first % 2;
    const uint64_t count = pgk_normal_step(a, PG_STEP_COUNT), from = first - front + 2 * i;
    const pg__random r = pg__philox_at(pgk_normal_step(a, PG_STEP_SEED), from, (uint32_t)count,
                                       a->stream ^ (uint32_t)(count >> 32) << 24);
    const uint32_t one = from % 4 == 0 ? r.v[0] : r.v[2], two = from % 4 == 0 ? r.v[1] : r.v[3];
    const float angle = (float)(two >> 8) * (0x1p-24f * 6.2831853f);
    const float length = sqrtf(-2 * logf((float)((one >> 8) + 1) * 0x1p-24f));
    const uint64_t at = 2 * i - front; /* in front of the first: huge */
    if (at < a->n)
        pgk_set(a->y, at, length * cosf(angle));
    if (at + 1 < a->n)
        pgk_set(a->y, at + 1, length * sinf(angle));
}

#endif
