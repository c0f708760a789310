/* optimizers.c - the table of update rules. */
#include "ops/optimizer.h"

#include "ops/update_rules.h"

static const pg__optimizer_type types[PG_N_OPTIMIZERS] = {
#define PG_OPTIMIZER(name, slots) {#name, slots, pg__update_##name##_f32, pg__update_##name##_f64},
#include "ops/optimizers.def"
#undef PG_OPTIMIZER
};

const pg__optimizer_type *pg__optimizer_of(pg__optimizer_kind kind)
{
    return &types[kind];
}
