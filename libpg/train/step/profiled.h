/* profiled.h - profiles of a trainer's steps: which steps are counted, and what was found. */
#ifndef PG_TRAIN_STEP_PROFILED_H
#define PG_TRAIN_STEP_PROFILED_H

#include "train/exec/exec.h"
#include "train/step/trainer.h"

/* Counting steps of this kind begins, from zero, in all workers of t; it ends, and what was counted
 * stays; or goes. Before the first step's numbers are of any use they are cleared: memory is
 * touched for the first time there. */
pg_status pg__profile_start(pg_trainer *t, pg__pass pass, pg_err *err);
void pg__profile_end(pg__trainer_report *report);
void pg__profile_resume(
    pg__trainer_report *report); /* after its end: goes on from what was counted */
void pg__profile_drop(pg_trainer *t);
void pg__profile_clear(pg_trainer *t);

/* What w counts in, in such a step, or NULL. */
pg__profile *pg__profile_of(const pg__trainer_report *report, const pg__worker *w, pg__pass pass);

#endif
