/* profile.h - the time of steps, operation by operation.
 *
 * Every worker counts for itself: rows by leaf and kind of operation. On CPUs it is the thread's
 * processor time, so that other load on the machine does not count; on a GPU the worker waits after
 * each operation. */
#ifndef PG_TRAIN_EXEC_PROFILE_H
#define PG_TRAIN_EXEC_PROFILE_H

#include "backend/backend.h"
#include "ops/cost.h"

/* An entry of a worker's array: per leaf, per kind of operation. */
typedef struct pg__profile {
    uint64_t calls;
    double seconds, flops, bytes;
} pg__profile;

/* A clock in seconds, from an arbitrary start. */
double pg__profile_clock(const pg__backend *b);
void pg__profile_add(pg__profile *p, uint32_t leaf, uint32_t kind, double seconds, pg__cost w);

#endif
