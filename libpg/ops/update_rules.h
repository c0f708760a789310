/* update_rules.h - declares what optimizers.def names. */
#ifndef PG_OPS_UPDATE_RULES_H
#define PG_OPS_UPDATE_RULES_H

#include "ops/optimizer.h"

#define PG_OPTIMIZER(name, slots)                                                             \
    void pg__update_##name##_f32(const pg__update *u, void *w, const void *g, void *const *s, \
                                 size_t n);                                                   \
    void pg__update_##name##_f64(const pg__update *u, void *w, const void *g, void *const *s, \
                                 size_t n);
#include "ops/optimizers.def"
#undef PG_OPTIMIZER

#endif
