/* report.h - what a run reports: what it is going to do, and where its time went. */
#ifndef PG_TRAIN_STEP_REPORT_H
#define PG_TRAIN_STEP_REPORT_H

#include "base/clock.h"
#include "train/step/trainer.h"

/* Adds the time since *clock to *into, and restarts *clock. */
void pg__lap(double *clock, double *into);

/* Counts a training step of n rows that began then. The first step of a run does not count: it
 * allocates memory and compiles programs. */
void pg__spent_step(pg_trainer *t, double began, uint64_t n_rows);

pg_run pg__run_of(const pg_trainer *t);

/* Since `began`. */
pg_fit_report pg__report_of(const pg__trainer_report *report, double began);

#endif
