/* k_dropout.h - dropout: which elements are kept, base/philox.h draws by their place in the noise
 * of the whole batch. See ref_dropout.c. */
#ifndef PG_BACKEND_K_DROPOUT_H
#define PG_BACKEND_K_DROPOUT_H

#include "backend/cuda/k_index.h"
#include "base/philox.h"

typedef struct pgk_dropout {
    pgk_real x, step, y;
    uint64_t n;
    uint64_t row; /* numbers that are drawn for a row of the batch; 0 where all rows share them */
    float rate, scale;
    uint32_t stream;
    pgk_walk noise; /* dropout_shared */
} pgk_dropout;
typedef pgk_dropout pgk_dropout_shared;

PGK_FN uint64_t pgk_step(const pgk_dropout *a, pg__step_slot low)
{
    return (uint32_t)pgk_int(a->step, low) | (uint64_t)(uint32_t)pgk_int(a->step, low + 1) << 32;
}

/* The four numbers that number `at` is one of. The high half of the step goes into the stream's
 * upper bits. */
PGK_FN pg__random pgk_draw(const pgk_dropout *a, uint64_t at)
{
    const uint64_t count = pgk_step(a, PG_STEP_COUNT);
    return pg__philox_at(pgk_step(a, PG_STEP_SEED), at, (uint32_t)count,
                         a->stream ^ (uint32_t)(count >> 32) << 24);
}

PGK_FN float pgk_dropped(const pgk_dropout *a, float x, uint32_t number)
{
    return (float)(number >> 8) * 0x1p-24f >= a->rate ? x * a->scale : 0;
}

/* Numbers come four at a time: group i of those that x's elements need. Where the rows of a slice
 * do not begin with a group, the first and the last one belong to other slices in part. */
PGK_FN void pgk_dropout_at(const pgk_dropout *a, uint64_t i)
{
    const uint64_t first = pgk_step(a, PG_STEP_ROW) * a->row, front = first % 4;
    const pg__random r = pgk_draw(a, first + 4 * i);
    float x[4];
    if (front == 0) {
        pgk_get4(a->x, i, a->n, x);
        PGK_EACH_OF_4(k)
        x[k] = pgk_dropped(a, x[k], r.v[k]);
        pgk_set4(a->y, i, a->n, x);
        return;
    }
    for (unsigned k = 0; k < 4; k++) {
        const uint64_t at = 4 * i + k - front; /* in front of the first: huge */
        if (at < a->n)
            pgk_set(a->y, at, pgk_dropped(a, pgk_get(a->x, at), r.v[k]));
    }
}

/* Where elements share numbers. */
PGK_FN void pgk_dropout_shared_at(const pgk_dropout *a, uint64_t i)
{
    const uint64_t at = pgk_step(a, PG_STEP_ROW) * a->row + pgk_walk_at(&a->noise, i);
    const pg__random r = pgk_draw(a, at);
    uint32_t number = 0;
    PGK_EACH_OF_4(k)
    number = k == at % 4 ? r.v[k] : number;
    pgk_set(a->y, i, pgk_dropped(a, pgk_get(a->x, i), number));
}

#endif
