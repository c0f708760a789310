/* arena.h - places the values of a tape: one arena, in which values that are not needed at the same
 * time share memory. */
#ifndef PG_TRAIN_EXEC_ARENA_H
#define PG_TRAIN_EXEC_ARENA_H

#include "ops/op.h"

#define PG_ALIGN 64u

/* A value in the arena, and the first and last instruction of its life, inclusive. */
typedef struct pg__span_of {
    uint64_t n_bytes;
    uint32_t first, last;
    uint64_t off; /* result; a multiple of PG_ALIGN */
} pg__span_of;

/* Gives every span an offset so that spans that live at the same time do not overlap; *arena_bytes
 * is the end of the highest. Largest first, each in the smallest gap it fits. */
pg_status pg__arena_plan(pg__span_of *spans, size_t n, uint64_t *arena_bytes, pg_err *err);

#endif
