/* k_flat.h - what is done to flat memory: sums of gradients, updates. */
#ifndef PG_BACKEND_K_FLAT_H
#define PG_BACKEND_K_FLAT_H

#include "backend/cuda/pgk.h"

/* into += from */
typedef struct pgk_accumulate {
    pgk_real into, from;
} pgk_accumulate;

PGK_FN void pgk_accumulate_at(const pgk_accumulate *a, uint64_t i)
{
    pgk_set(a->into, i, pgk_get(a->into, i) + pgk_get(a->from, i));
}

#endif
