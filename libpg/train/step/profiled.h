/* profiled.h - profiles of a trainer's steps: which steps are measured, and the results. */
#ifndef PG_TRAIN_STEP_PROFILED_H
#define PG_TRAIN_STEP_PROFILED_H

#include "train/exec/exec.h"
#include "train/step/trainer.h"

/* start: begins counting steps of this kind, from zero, in all workers of t; stop: ends it and
 * keeps the counts; clear: discards them. Clear the counts after the first step, which touches
 * memory for the first time. */
pg_status pg__profile_start(pg_trainer *t, pg__pass pass, pg_err *err);
void pg__profile_end(pg__trainer_report *report);
void pg__profile_resume(pg__trainer_report *report); /* after its end: continues from its counts */
void pg__profile_drop(pg_trainer *t);
void pg__profile_clear(pg_trainer *t);

/* w's profile for such a step, or NULL. */
pg__profile *pg__profile_of(const pg__trainer_report *report, const pg__worker *w, pg__pass pass);

#endif
