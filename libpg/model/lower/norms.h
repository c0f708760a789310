/* norms.h - what the layers that normalise each row by itself share. */
#ifndef PG_MODEL_LOWER_NORMS_H
#define PG_MODEL_LOWER_NORMS_H

#include "model/lower/lower.h"

/* config.axis as a set of axes, the last where absent; PG_E_FORMAT if the input does not have them.
 */
pg_status pg__norm_axes(unsigned *out, const pg__layer *l, uint32_t rank, pg_err *err);

/* LayerNormalization that was asked for "rms_scaling". */
pg_status pg__lower_rms_scaling(pg__lowering *lw, const pg__layer *l, pg__val x, pg__results *out,
                                pg_err *err);

#endif
