/* walk.h - makes what k_index.h describes. */
#ifndef PG_BACKEND_WALK_H
#define PG_BACKEND_WALK_H

#include "backend/cuda/k_index.h"
#include "pg/err.h"

pgk_div pg__div_of(uint64_t by);
/* channels: units of them. PG_E_UNSUPPORTED: an image has 2^31 units or more. */
pg_status pg__image_of(pgk_image *out, const uint32_t cells[3], uint32_t channels, int wide,
                       pg_err *err);
/* A size as images have it; what is too large becomes the largest, which no image has. */
static inline uint32_t pg__size_of(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Elements from index to index of each axis. */
void pg__steps_of(uint64_t step[PG_MAX_RANK], const pg__dims *s);

/* Axes of one array, from the first to the last, with the steps that two others take along them. */
typedef struct pg__axes {
    uint32_t rank;
    uint64_t n[PG_MAX_RANK], step[2][PG_MAX_RANK];
} pg__axes;

void pg__axes_add(pg__axes *a, uint64_t n, uint64_t step0, uint64_t step1);
/* Neighbours that can be taken as one become one; axes of size 1 go. */
pgk_walk pg__walk_of(const pg__axes *a);
/* `whole` element by element, beside two arrays (the second may be NULL) that repeat along its axes
 * as pg__strides() says. */
pgk_walk pg__walk_along(const pg__dims *whole, const pg__dims *a, const pg__dims *b);

/* Where all that is next to one another in both arrays comes in fours: the walk in units of four.
 */
int pg__walk_widen(pgk_walk *w);

#endif
