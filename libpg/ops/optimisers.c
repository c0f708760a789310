/* optimisers.c - the table of update rules. */
#include "ops/optimiser.h"

#include "ops/update_rules.h"

static const pg__optimiser_type types[PG__N_OPTIMISERS] = {
#define PG_OPTIMISER(name, slots) {#name, slots, pg__update_##name##_f32, pg__update_##name##_f64},
#include "ops/optimisers.def"
#undef PG_OPTIMISER
};

const pg__optimiser_type *pg__optimiser_of(pg__optimiser_kind kind)
{
    return &types[kind];
}
