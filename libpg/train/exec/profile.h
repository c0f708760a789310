/* profile.h - where the time of steps goes, operation by operation.
 *
 * Every worker counts for itself: rows by leaf and kind of operation. On CPUs the time is that of
 * its thread, so that what else the machine does is not counted; a GPU is waited for after each
 * operation. */
#ifndef PG_TRAIN_EXEC_PROFILE_H
#define PG_TRAIN_EXEC_PROFILE_H

#include "backend/backend.h"
#include "ops/cost.h"
#include "train/model/trainer.h"

typedef struct pg__profile pg__profile; /* of one worker */

/* Seconds, for differences. */
double pg__profile_clock(const pg__backend *b);
void pg__profile_add(pg__profile *p, uint32_t leaf, uint32_t kind, double seconds, pg__cost w);

/* Counting steps of this kind begins, from zero, in all workers of t; it ends, and what was counted
 * stays; or goes. Before the first step's numbers are of any use they are cleared: memory is
 * touched for the first time there. */
pg_status pg__profile_start(pg_trainer *t, pg__pass pass, pg_err *err);
void pg__profile_end(pg_trainer *t);
void pg__profile_resume(pg_trainer *t); /* after its end: goes on from what was counted */
void pg__profile_drop(pg_trainer *t);
void pg__profile_clear(pg_trainer *t);

/* What w counts in, in such a step, or NULL. */
pg__profile *pg__profile_of(const pg_trainer *t, const pg__worker *w, pg__pass pass);

#endif
