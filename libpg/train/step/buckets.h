/* buckets.h - sums over devices during the backward pass: the flat gradient in ranges, each summed
 * as soon as it is complete. */
#ifndef PG_TRAIN_STEP_BUCKETS_H
#define PG_TRAIN_STEP_BUCKETS_H

#include "train/step/jobs.h"

/* Runs a lane's program forward and backward and queues the sums of its gradients, which must be
 * joined (all_reduce.h) before anything reads them. */
pg_status pg__buckets_run(pg_trainer *t, pg__worker *w, const pg__job *job, pg_err *err);

/* Queues the sums of all lanes once their backward passes are over. */
pg_status pg__buckets_follow(pg__step *s, pg_err *err);

/* Cuts the flat gradient of t: t->sums.buckets. */
void pg__buckets_cut(pg_trainer *t);
/* The same as if for other devices than the trainer's. */
void pg__buckets_cut_for(pg_trainer *t, int on_cpus);

/* Per bucket, the number of a program's calls after which it is complete; never decreases. */
void pg__buckets_ends(const pg__sums *sums, const pg__program *p, size_t ends[PG_MAX_BUCKETS]);

#endif
