/* buckets.h - sums over devices while the backward pass goes on: the flat gradient in ranges, each
 * summed as soon as the pass has left it behind. */
#ifndef PG_TRAIN_STEP_BUCKETS_H
#define PG_TRAIN_STEP_BUCKETS_H

#include "train/step/jobs.h"

/* Runs a lane's program forward and backward and queues the sums of its gradients, which must be
 * joined (all_reduce.h) before anybody reads them. */
pg_status pg__buckets_run(pg_trainer *t, pg__worker *w, const pg__job *job, pg_err *err);

/* Queues the sums of all lanes, whose backward pass is over. */
pg_status pg__buckets_follow(pg__step *s, pg_err *err);

/* Cuts the flat gradient of t: t->sums.buckets. */
void pg__buckets_cut(pg_trainer *t);
/* As it would be with other devices than the trainer's. */
void pg__buckets_cut_for(pg_trainer *t, int on_cpus);

/* Per bucket how many calls of a program leave it behind; never fewer than for the one before. */
void pg__buckets_ends(const pg__sums *sums, const pg__program *p, size_t ends[PG_MAX_BUCKETS]);

#endif
