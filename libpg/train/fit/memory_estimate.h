/* memory_estimate.h - how much memory a run will need, by planning without allocating. */
#ifndef PG_TRAIN_FIT_MEMORY_ESTIMATE_H
#define PG_TRAIN_FIT_MEMORY_ESTIMATE_H

#include "train/step/step.h"

/* What a run needs besides its steps. */
typedef struct pg__beside {
    size_t n_buffers;  /* batches in memory */
    size_t n_programs; /* to be compiled: for training, validation, their last batches */
    uint64_t n_copied; /* bytes of a snapshot */
} pg__beside;

/* For batches of so many rows. Compiles the programs for them, which the run would do anyway. */
pg_status pg__memory_estimate_of(pg_forecast *out, pg_trainer *t, size_t batch_size,
                                 const pg__beside *beside, pg_err *err);

/* PG_E_NOMEM if there is not enough memory; names the layer that needs most and the largest batch
 * that fits. */
pg_status pg__memory_estimate_check(pg_trainer *t, const pg_forecast *f, pg_err *err);

#endif
