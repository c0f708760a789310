/* timeline.h - when the lanes of a step complete the buckets of their gradients. */
#ifndef PG_TRAIN_STEP_TIMELINE_H
#define PG_TRAIN_STEP_TIMELINE_H

#include "train/step/jobs.h"

/* Of a lane, by the clock; all 0: not measured, for instance because lanes meet. */
typedef struct pg__lane_times {
    double begin, end, left[PG_MAX_BUCKETS]; /* left: bucket k is complete */
} pg__lane_times;
typedef struct pg__timeline {
    pg__lane_times *lanes;
} pg__timeline;

/* Replaces a lane's run if t->report.timeline is set. */
pg_status pg__timeline_run(const pg__step *s, const pg__job *job, pg__worker *w);

#endif
