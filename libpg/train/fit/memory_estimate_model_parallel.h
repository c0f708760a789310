/* memory_estimate_model_parallel.h - the forecast of a model whose layers lie on several devices.
 */
#ifndef PG_TRAIN_FIT_MEMORY_ESTIMATE_MODEL_PARALLEL_H
#define PG_TRAIN_FIT_MEMORY_ESTIMATE_MODEL_PARALLEL_H

#include "train/fit/memory_estimate.h"

/* Fills f for t->devs.is_split; n_flats: sums of gradients that are open at once. */
pg_status pg__memory_estimate_mp(pg_forecast *f, pg_trainer *t, size_t batch_size, uint64_t n_flats,
                                 size_t n_programs, pg_err *err);

/* Is there room on every device, with one in `spare` parts of it left (0: none)? */
int pg__memory_estimate_fits(const pg_forecast *f, uint64_t spare);

/* The largest batch by what grows with it, on the device that has least room. */
size_t pg__memory_estimate_grows(const pg_forecast *f);

/* PG_E_NOMEM: names the first device that has no room. */
pg_status pg__memory_estimate_refuse(const pg_forecast *f, pg_err *err);

#endif
