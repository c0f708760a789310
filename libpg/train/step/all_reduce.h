/* all_reduce.h - the sum of all lanes' gradients, brought to every device. */
#ifndef PG_TRAIN_STEP_ALL_REDUCE_H
#define PG_TRAIN_STEP_ALL_REDUCE_H

#include "train/step/trainer.h"

/* Brings it to t->devs.devices[d].sum, in device d's memory, for work queued there, by the plan of
 * the step (sum_plan.h), which must be one of those for GPUs. */
pg_status pg__all_reduce(pg_trainer *t, pg_err *err);

/* Waits until the sums are there; PG_E_DEVICE if a device makes the others wait too long. Call it
 * before the host waits for anything queued after them. */
pg_status pg__all_reduce_wait(pg_trainer *t, pg_err *err);

/* After a failure: devices stop waiting for each other. */
void pg__all_reduce_drop(pg_trainer *t);

/* Is it the first worker of its device? That one acts for the device. */
int pg__speaks_for_device(const pg_trainer *t, size_t worker);
/* The first failure in a pg__thread_pool_run() whose function set st and err of its workers. */
pg_status pg__first_failure(const pg__trainer_pool *pool, pg_err *err);

#endif
