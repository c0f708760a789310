/* spatial.h - shared by the families of layers over images: the position of channels, padding, and
 * lists of numbers in configs. Operations take channels last; a layer with channels_first moves
 * them at its edges. Weights are the same either way. */
#ifndef PG_MODEL_LOWER_SPATIAL_H
#define PG_MODEL_LOWER_SPATIAL_H

#include "model/lower/lower.h"

/* "data_format", or "dim_ordering" of Keras 1. */
int pg__is_channels_first(const pg__layer *l);

/* config_check.c: the settings that all layers may have. PG_E_FORMAT if the name differs from the
 * entry's, "dtype" is not a type, or a flag is neither true nor false; PG_E_UNSUPPORTED if
 * "data_format" is other than channels_first, channels_last (Keras 1: th, tf) or null. */
pg_status pg__check_config(const pg__layer *l, pg_err *err);
pg_status pg__check_flags(const pg__layer *l, pg_err *err); /* the flags alone */

/* Spatial dimensions by the class name: 2 for "Conv2DTranspose", and if it names none. */
uint32_t pg__spatial_rank(const char *class_name);

/* (rows, channels, ...) to (rows, ..., channels) and back if the layer is channels_first, otherwise
 * *out = x. to_last refuses inputs without `rank` spatial dimensions: PG_E_MISMATCH. */
pg_status pg__to_channels_last(pg__lowering *lw, const pg__layer *l, uint32_t rank, pg__val x,
                               pg__val *out, pg_err *err);
pg_status pg__from_channels_last(pg__lowering *lw, const pg__layer *l, pg__val y, pg__val *out,
                                 pg_err *err);

pg_status pg__lower_transpose(pg__lowering *lw, pg__val x, const uint32_t *perm, pg__val *out,
                              pg_err *err);

typedef enum pg__padding { PG_PAD_VALID, PG_PAD_SAME, PG_PAD_CAUSAL } pg__padding;

/* "padding", or "border_mode" of Keras 1. PG_E_UNSUPPORTED for others. */
pg_status pg__config_padding(pg__padding *out, const pg__layer *l, pg_err *err);

/* Keras' "same": as many cells as steps of `stride`; an odd added cell comes last. `reach` is the
 * extent of a window. Does nothing for an unknown size. */
void pg__pad_same(uint64_t size, uint64_t reach, uint64_t stride, uint64_t *before,
                  uint64_t *after);

/* n numbers, or one for all; the fallback if the key is absent or null. */
pg_status pg__config_dims_or(uint64_t *out, size_t n, const pg__layer *l, const char *key,
                             uint64_t fallback, pg_err *err);

/* The same for numbers that may be 0, which is the fallback. */
pg_status pg__config_cells(uint64_t *out, size_t n, const pg__layer *l, const char *key,
                           pg_err *err);

/* config.key as a number; the fallback if it is absent or null. The layer is for messages. */
pg_status pg__config_num_or(double *out, const pg__layer *l, const pg__json *config,
                            const char *key, double fallback, pg_err *err);

/* A dropout rate in [0, 1); 0 if the key is absent. */
pg_status pg__config_rate(double *out, const pg__layer *l, const char *key, pg_err *err);

/* An axis below `rank`, counted from the end if negative; a list of one is accepted. */
pg_status pg__config_axis(uint32_t *out, const pg__layer *l, const char *key, int64_t fallback,
                          uint32_t rank, pg_err *err);

#endif
