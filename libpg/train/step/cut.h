/* cut.h - between step.c and cut.c: a batch as jobs, kept for the next one of as many rows. */
#ifndef PG_TRAIN_STEP_CUT_H
#define PG_TRAIN_STEP_CUT_H

#include "train/step/jobs.h"

/* *out, which the trainer owns: the batch's jobs with their programs, reset as if never run. After
 * an error in the step call pg__steps_drop(): its state is undefined. */
pg_status pg__step_cut(pg__step **out, pg_trainer *t, const pg__batch *b, pg__pass pass,
                       pg_err *err);

#endif
