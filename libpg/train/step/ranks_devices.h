/* ranks_devices.h - GPUs of several processes (ranks.h): all of them form one group (NCCL), set up
 * through the ranks' own connection. If NCCL's order of summing is not allowed (deterministic), or
 * summing on GPUs not wanted (cpu_merge), each rank's sum goes through host memory. */
#ifndef PG_TRAIN_STEP_RANKS_DEVICES_H
#define PG_TRAIN_STEP_RANKS_DEVICES_H

#include "train/step/ranks.h"

/* Do these names mean GPUs? */
int pg__are_gpus(const char *devices);

/* Of this machine's n GPUs, all of which were asked for, [*first, *end) are this rank's. */
pg_status pg__ranks_gpus(const pg_trainer *t, size_t n, size_t *first, size_t *end, pg_err *err);

/* Creates t->sums.group of all ranks' devices once these are assigned; NULL if sums go through
 * hosts. */
pg_status pg__ranks_group(pg_trainer *t, pg_err *err);

/* How long a device waits for others, of this process or another. */
pg__timeout pg__ranks_timeout(const struct pg__ranks *ranks);

/* After a failed step: if another rank is gone or does not arrive, *err says so, and the status is
 * PG_E_PEER. */
pg_status pg__ranks_blame(struct pg__ranks *ranks, pg_status st, pg_err *err);

/* Sums over ranks, through host memory, a flat of each rank's first device with rows. *sum NULL:
 * this rank has no rows; afterwards: no rank has. */
pg_status pg__ranks_sum_hosts(pg_trainer *t, pg__flat **sum, pg_err *err);

#endif
