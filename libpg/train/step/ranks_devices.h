/* ranks_devices.h - GPUs of several processes (ranks.h): all of them are one group (NCCL), whose
 * first messages go the way of all that ranks tell each other. Where nobody may sum in an order of
 * his own (deterministic), or on GPUs (cpu_merge), each rank's sum goes through the memory of its
 * host. */
#ifndef PG_TRAIN_STEP_RANKS_DEVICES_H
#define PG_TRAIN_STEP_RANKS_DEVICES_H

#include "train/step/ranks.h"

/* Is it GPUs that these are names of? */
int pg__are_gpus(const char *devices);

/* Of the n GPUs of this machine, which all were asked for: *first up to *end are this rank's. */
pg_status pg__ranks_gpus(const pg_trainer *t, size_t n, size_t *first, size_t *end, pg_err *err);

/* t->sums.group, of all ranks' devices, once these are dealt; stays NULL where sums go over hosts.
 */
pg_status pg__ranks_group(pg_trainer *t, pg_err *err);

/* How long a device waits for others, of this process or another. */
pg__patience pg__ranks_patience(const struct pg__ranks *ranks);

/* A step failed: where that is since another rank is gone or does not come, *err says so, and the
 * status is PG_E_PEER. */
pg_status pg__ranks_blame(struct pg__ranks *ranks, pg_status st, pg_err *err);

/* The sum over ranks of what each has in a flat of its first device with rows, through the memory
 * of the hosts. *sum NULL: none; afterwards: no rank has any. */
pg_status pg__ranks_sum_hosts(pg_trainer *t, pg__flat **sum, pg_err *err);

#endif
