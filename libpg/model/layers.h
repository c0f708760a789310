/* layers.h - declares pg__vars_<family>() for every family of layers.def. */
#ifndef PG_MODEL_LAYERS_H
#define PG_MODEL_LAYERS_H

#include "model/vars.h"

#define PG_LAYER(class_name, family, outputs) \
    pg_status pg__vars_##family(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err);
#include "model/layers.def"
#undef PG_LAYER

#endif
