/* flat.h - operations on parameters, gradients and optimizer state, which are in flat memory: the
 * members of pg__backend with the same names. */
#ifndef PG_BACKEND_FLAT_H
#define PG_BACKEND_FLAT_H

#include "backend/cuda/cuda.h"

/* What a device sums in. */
pg_status pg__flat_open(pg__flat **out, pg__rt *rt, pg_err *err);
void pg__flat_close(pg__flat *f, pg__rt *rt);

pg_status pg__cuda_update(pg__dev *d, pg__optimizer_kind kind, const pg__update *u, void *w,
                          const void *g, void *const *slots, size_t n);
pg_status pg__cuda_regularise(pg__dev *d, void *g, const void *w, size_t n, double l1, double l2,
                              double *penalty);
pg_status pg__cuda_squares(pg__dev *d, const void *g, size_t n, double *sum);
pg_status pg__cuda_penalty_of_all(pg__dev *d, const pg__piece *w, size_t n, void *sum);
pg_status pg__cuda_clip_all(pg__dev *d, const pg__piece *g, size_t n, const pg__norm_limits *l,
                            double limit);
pg_status pg__cuda_clip(pg__dev *d, void *g, size_t n, double scale, double limit);
pg_status pg__cuda_blend(pg__dev *d, void *into, double keep, const void *from, double take,
                         size_t n);
pg_status pg__cuda_accumulate(pg__dev *d, void *into, const void *from, size_t n);

#endif
