/* profile.h - where the time of training steps goes, operation by operation.
 *
 * Every worker counts for itself: rows by leaf and kind of operation. On CPUs the time is that of
 * its thread, so that what else the machine does is not counted; a GPU is waited for after each
 * operation. */
#ifndef PG_TRAIN_PROFILE_H
#define PG_TRAIN_PROFILE_H

#include "backend/backend.h"
#include "ops/cost.h"

struct pg_trainer;
typedef struct pg__profile pg__profile; /* of one worker */

/* Seconds, for differences. */
double pg__profile_clock(const pg__backend *b);
void pg__profile_add(pg__profile *p, uint32_t leaf, uint32_t kind, double seconds, pg__cost w);

/* Counting begins, from zero, in all workers of t; it ends. Before the first step's numbers are of
 * any use they are cleared: memory is touched for the first time there. */
pg_status pg__profile_start(struct pg_trainer *t, pg_err *err);
void pg__profile_stop(struct pg_trainer *t);
void pg__profile_clear(struct pg_trainer *t);

#endif
