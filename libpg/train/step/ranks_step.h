/* ranks_step.h - between step.c, jobs.c and ranks_step.c: what ranks exchange within a step. */
#ifndef PG_TRAIN_STEP_RANKS_STEP_H
#define PG_TRAIN_STEP_RANKS_STEP_H

#include "train/step/jobs.h"
#include "train/step/ranks.h"

/* Sums over all ranks: of masks, per output; of losses and metrics, in place of the jobs' own. */
pg_status pg__ranks_masks(pg_trainer *t, pg__mask_sum *sums, pg_err *err);
pg_status pg__ranks_totals(pg__step *s, pg_err *err);
/* Applies the statistics that replicas found in a part to the moving averages, in rank order. */
pg_status pg__ranks_averages(pg__step *s, pg_err *err);
/* Sends the states of stateful layers to rank 0, which saves them. */
pg_status pg__ranks_states(pg__step *s, pg_err *err);
/* What lanes brought to a meeting. */
pg_status pg__ranks_sync_bn(pg__step *s, size_t meeting, pg_err *err);

/* ranks_sum.c: called before lanes run; and to run a lane whose gradients are summed meanwhile. */
pg_status pg__sums_begin(pg__step *s, pg_err *err);
pg_status pg__sums_run(const pg__step *s, const pg__job *job);

#endif
