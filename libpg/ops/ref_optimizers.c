/* ref_optimizers.c - the update rules of update_real.h over all numbers. */
#include "ops/update_real.h"

#define PG_OPTIMIZER(name, n_slots)                                    \
    void PG_UPDATE(name)(PG_UPDATE_ARGS)                               \
    {                                                                  \
        const pg__rates r = pg__rates_of(u);                           \
        real *const s[PG_MAX_SLOTS] = {n_slots > 0 ? slots[0] : NULL,  \
                                       n_slots > 1 ? slots[1] : NULL,  \
                                       n_slots > 2 ? slots[2] : NULL}; \
        for (size_t i = 0; r.shrink != 0 && i < n; i++)                \
            pg__step_before(&r, i, w_);                                \
        for (size_t i = 0; i < n; i++)                                 \
            pg__step_##name(&r, i, w_, g_, s);                         \
        for (size_t i = 0; slots[PG_SLOT_AVERAGE] && i < n; i++)       \
            pg__step_after(&r, i, w_, slots[PG_SLOT_AVERAGE]);         \
    }
#include "ops/optimizers.def"
#undef PG_OPTIMIZER
