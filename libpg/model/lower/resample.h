/* resample.h - resizes images: the weights of the old cells in each new cell, axis by axis. */
#ifndef PG_MODEL_LOWER_RESAMPLE_H
#define PG_MODEL_LOWER_RESAMPLE_H

#include "model/lower/lower.h"

typedef enum pg__resample {
    PG_NEAREST,
    PG_BILINEAR,
    PG_BICUBIC,
    PG_AREA,
    PG_LANCZOS3,
    PG_LANCZOS5,
    PG_GAUSSIAN,
    PG_MITCHELLCUBIC
} pg__resample;

/* config.interpolation; if absent, fallback. PG_E_UNSUPPORTED, with the known names, for others. */
pg_status pg__config_resample(pg__resample *out, const pg__layer *l, pg__resample fallback,
                              pg_err *err);

/* out[i * to + k]: the share of cell i of `from` in cell k of `to`. */
void pg__resample_weights(double *out, pg__resample how, size_t from, size_t to);

/* x (rows, height, width, channels) resized to that size. */
pg_status pg__lower_resample(pg__lowering *lw, pg__resample how, pg__val x, const uint64_t size[2],
                             pg__val *out, pg_err *err);

#endif
