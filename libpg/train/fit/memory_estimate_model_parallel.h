/* memory_estimate_model_parallel.h - the memory estimate of a model whose layers lie on several
 * devices. */
#ifndef PG_TRAIN_FIT_MEMORY_ESTIMATE_MODEL_PARALLEL_H
#define PG_TRAIN_FIT_MEMORY_ESTIMATE_MODEL_PARALLEL_H

#include "train/fit/memory_estimate.h"

/* Fills f for t->devs.is_split; n_flats: sums of gradients kept at once. */
pg_status pg__memory_estimate_mp(pg_forecast *f, pg_trainer *t, size_t batch_size, uint64_t n_flats,
                                 size_t n_programs, pg_err *err);

/* Does it fit on every device, leaving 1 / spare of the memory free (0: nothing)? */
int pg__memory_estimate_fits(const pg_forecast *f, uint64_t spare);

/* The largest batch by the memory that grows with it, on the tightest device. */
size_t pg__memory_estimate_grows(const pg_forecast *f);

/* PG_E_NOMEM: names the first device without enough memory. */
pg_status pg__memory_estimate_refuse(const pg_forecast *f, pg_err *err);

#endif
