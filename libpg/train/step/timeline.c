/* timeline.c - runs a lane from bucket to bucket, as if sums were queued in between. */
#include "train/step/timeline.h"

#include "base/try.h"
#include "train/step/buckets.h"
#include "train/step/graph_capture.h"
#include "train/step/report.h"

typedef struct looking {
    pg_trainer *t;
    pg__worker *w;
    pg__lane_times *times;
} looking;

/* The time at which everything queued on the device is done. */
static pg_status look(const looking *l, double *at)
{
    const pg_status st =
        l->t->devs.backend->host_memory ? PG_OK : l->t->devs.backend->sync(l->w->dev);
    *at = pg__now();
    return st;
}

static pg_status bucket_complete(void *arg, size_t k)
{
    const looking *l = arg;
    return look(l, &l->times->left[k]);
}

pg_status pg__timeline_run(const pg__step *s, const pg__job *job, pg__worker *w)
{
    pg_trainer *t = s->t;
    pg__lane_times *times = &t->report.timeline->lanes[(size_t)(job - s->jobs) % s->n_lanes];
    looking l = {t, w, times};
    size_t ends[PG_MAX_BUCKETS];
    pg_status st = PG_OK;
    pg__buckets_ends(&t->sums, job->program, ends);
    const pg__stops stops = {t->sums.n_buckets, ends, bucket_complete, &l};
    PG_TRY(look(&l, &times->begin));
    PG_TRY(pg__graph_capture_run(&t->devs, w, job->program, &job->frame.f, &stops));
    PG_TRY(look(&l, &times->end));
done:
    return st;
}
