/* timeline.h - when the lanes of a step leave the buckets of their gradients behind. */
#ifndef PG_TRAIN_STEP_TIMELINE_H
#define PG_TRAIN_STEP_TIMELINE_H

#include "train/step/jobs.h"

/* Of a lane, by the clock; all 0: it was not looked at, as where lanes meet. */
typedef struct pg__lane_times {
    double begin, end, left[PG_MAX_BUCKETS]; /* left: bucket k is behind it */
} pg__lane_times;
typedef struct pg__timeline {
    pg__lane_times *lanes;
} pg__timeline;

/* In place of a lane's run, where t->report.timeline is there. */
pg_status pg__timeline_run(const pg__step *s, const pg__job *job, pg__worker *w);

#endif
