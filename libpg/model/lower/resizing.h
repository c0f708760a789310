/* resizing.h - what layers that give images of a certain size share; images are (rows, height,
 * width, channels). */
#ifndef PG_MODEL_LOWER_RESIZING_H
#define PG_MODEL_LOWER_RESIZING_H

#include "model/lower/resample.h"

/* config.height and config.width; PG_E_MISMATCH if the size of x is not known. */
pg_status pg__image_size(uint64_t out[2], pg__lowering *lw, const pg__layer *l, pg__val x,
                         pg_err *err);

/* The part of x that begins at `first`. */
pg_status pg__lower_window(pg__lowering *lw, pg__val x, const uint64_t first[2],
                           const uint64_t size[2], pg__val *out, pg_err *err);

/* The largest part in the middle of x with the proportions of the size, made as large as that. */
pg_status pg__lower_smart_resize(pg__lowering *lw, pg__resample how, pg__val x,
                                 const uint64_t size[2], pg__val *out, pg_err *err);

#endif
