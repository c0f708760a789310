/* update_rules.h - declares what optimisers.def names. */
#ifndef PG_OPS_UPDATE_RULES_H
#define PG_OPS_UPDATE_RULES_H

#include "ops/optimiser.h"

#define PG_OPTIMISER(name, slots)                                                             \
    void pg__update_##name##_f32(const pg__update *u, void *w, const void *g, void *const *s, \
                                 size_t n);                                                   \
    void pg__update_##name##_f64(const pg__update *u, void *w, const void *g, void *const *s, \
                                 size_t n);
#include "ops/optimisers.def"
#undef PG_OPTIMISER

#endif
