/* ranks_step.h - between step.c, jobs.c and ranks_step.c: what ranks tell each other within a step.
 */
#ifndef PG_TRAIN_STEP_RANKS_STEP_H
#define PG_TRAIN_STEP_RANKS_STEP_H

#include "train/step/jobs.h"
#include "train/step/ranks.h"

/* Sums of all ranks' masks, per output; of losses and metrics, in place of jobs' own. */
pg_status pg__ranks_masks(pg_trainer *t, pg__mask_sum *sums, pg_err *err);
pg_status pg__ranks_totals(pg__step *s, pg_err *err);
/* What replicas found for the moving averages of a part, each rank's in order, into the averages.
 */
pg_status pg__ranks_averages(pg__step *s, pg_err *err);
/* What stateful layers keep, to rank 0, who writes it down. */
pg_status pg__ranks_states(pg__step *s, pg_err *err);
/* What lanes brought to a meeting. */
pg_status pg__ranks_board(pg__step *s, size_t meeting, pg_err *err);

/* ranks_sum.c: before lanes are run; a lane whose gradients are summed while it is. */
pg_status pg__sums_begin(pg__step *s, pg_err *err);
pg_status pg__sums_run(const pg__step *s, const pg__job *job);

#endif
