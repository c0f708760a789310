/* profile.h - where the time of steps goes, operation by operation.
 *
 * Every worker counts for itself: rows by leaf and kind of operation. On CPUs the time is that of
 * its thread, so that what else the machine does is not counted; a GPU is waited for after each
 * operation. */
#ifndef PG_TRAIN_EXEC_PROFILE_H
#define PG_TRAIN_EXEC_PROFILE_H

#include "backend/backend.h"
#include "ops/cost.h"

/* One of a worker's array: per leaf, per kind of operation. */
typedef struct pg__profile {
    uint64_t calls;
    double seconds, flops, bytes;
} pg__profile;

/* Seconds, for differences. */
double pg__profile_clock(const pg__backend *b);
void pg__profile_add(pg__profile *p, uint32_t leaf, uint32_t kind, double seconds, pg__cost w);

#endif
