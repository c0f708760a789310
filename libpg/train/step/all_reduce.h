/* all_reduce.h - the sum of all lanes' gradients, brought to every device. */
#ifndef PG_TRAIN_STEP_ALL_REDUCE_H
#define PG_TRAIN_STEP_ALL_REDUCE_H

#include "train/step/trainer.h"

/* t->devs.devices[d].sum: where device d has it, in memory of its own, for work that is queued
 * there. By the plan of the step (sum_plan.h), which is one of those for GPUs. */
pg_status pg__all_reduce(pg_trainer *t, pg_err *err);

/* Until the sums are there; a device that others wait for too long is PG_E_DEVICE. Before the host
 * waits for anything else that is queued behind them. */
pg_status pg__all_reduce_wait(pg_trainer *t, pg_err *err);

/* After a failure: devices do not wait for each other any more. */
void pg__all_reduce_drop(pg_trainer *t);

/* The first worker of a device speaks for it. */
int pg__speaks_for_device(const pg_trainer *t, size_t worker);
/* Of pg__thread_pool_run() with functions that set st and err of their workers. */
pg_status pg__first_failure(const pg__trainer_pool *pool, pg_err *err);

#endif
