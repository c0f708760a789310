/* timeline.h - when the lanes of a step leave the buckets of their gradients behind. */
#ifndef PG_TRAIN_TIMELINE_H
#define PG_TRAIN_TIMELINE_H

#include "train/jobs.h"

/* Of a lane: the end of each bucket, by the clock, and last that of the lane; 0: it was not looked
 * at, as where lanes meet. */
typedef double pg__lane_times[PG_MAX_BUCKETS + 1];
typedef struct pg__timeline {
    pg__lane_times *lanes;
} pg__timeline;

/* In place of a lane's run, where t->timeline is there. */
pg_status pg__timeline_run(const pg__step *s, const pg__job *job, pg__worker *w);

#endif
