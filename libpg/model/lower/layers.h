/* layers.h - declares what layers.def names: pg__vars_<family>() and pg__lower_<lowering>(). */
#ifndef PG_MODEL_LOWER_LAYERS_H
#define PG_MODEL_LOWER_LAYERS_H

#include "model/lower/lower.h"
#include "model/lower/vars.h"

#define PG_LAYER(class_name, family, outputs, lowering)                                           \
    pg_status pg__vars_##family(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err); \
    pg_status pg__lower_##lowering(pg__lowering *lw, const pg__layer *l, const pg__val *in,       \
                                   size_t n_in, pg__results *out, pg_err *err);
#define PG_UNTRAINED(class_name, family, outputs, why) \
    pg_status pg__vars_##family(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err);
#include "model/layers.def"
#undef PG_UNTRAINED
#undef PG_LAYER

#endif
