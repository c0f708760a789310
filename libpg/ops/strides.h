/* strides.h - walks several arrays of up to PG_MAX_RANK dimensions together, row by row of the last
 * axis: for operations that repeat, reorder or cut axes. */
#ifndef PG_OPS_STRIDES_H
#define PG_OPS_STRIDES_H

#include <stddef.h>

#include "ops/op.h"

/* The distance, in elements, between neighbouring indices of an axis of `whole` in an array shaped
 * as `part`, whose axes are aligned at the last; 0 if part repeats. */
static inline void pg__strides(size_t stride[PG_MAX_RANK], const pg__dims *whole,
                               const pg__dims *part)
{
    size_t step = 1;
    for (uint32_t i = 0; i < whole->rank; i++) {
        const uint32_t at = whole->rank - 1 - i;
        const uint64_t d = i < part->rank ? part->d[part->rank - 1 - i] : 1;
        stride[at] = d == 1 ? 0 : step;
        step *= (size_t)d;
    }
}

/* Rows of the last axis. */
static inline size_t pg__n_rows(const pg__dims *s)
{
    size_t n = 1;
    for (uint32_t i = 0; i + 1 < s->rank; i++)
        n *= (size_t)s->d[i];
    return s->rank > 0 && s->d[s->rank - 1] == 0 ? 0 : n;
}

/* Goes to the next row: `at` counts through all axes but the last, and each offset follows its
 * strides. */
typedef struct pg__rowwalk {
    size_t at[PG_MAX_RANK];
    size_t off[2], stride[2][PG_MAX_RANK];
} pg__rowwalk;

static inline void pg__rowwalk_next(pg__rowwalk *w, const pg__dims *s)
{
    for (uint32_t i = s->rank > 0 ? s->rank - 1 : 0; i-- > 0;) {
        w->off[0] += w->stride[0][i];
        w->off[1] += w->stride[1][i];
        if (++w->at[i] < s->d[i])
            return;
        w->off[0] -= w->at[i] * w->stride[0][i];
        w->off[1] -= w->at[i] * w->stride[1][i];
        w->at[i] = 0;
    }
}

#endif
