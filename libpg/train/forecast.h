/* forecast.h - how much memory a run will need, by planning without allocating. */
#ifndef PG_TRAIN_FORECAST_H
#define PG_TRAIN_FORECAST_H

#include "train/trainer.h"

/* For batches of so many rows, n_buffers of them in memory, and n_copied bytes of a snapshot. The
 * programs that such a batch needs
 * are compiled, which the run would do anyway. */
pg_status pg__forecast_of(pg_forecast *out, pg_trainer *t, size_t batch_size, size_t n_buffers,
                          uint64_t n_copied, pg_err *err);

/* PG_E_NOMEM where that is more than there is, with the largest batch that fits. */
pg_status pg__forecast_check(pg_trainer *t, const pg_forecast *f, pg_err *err);

#endif
