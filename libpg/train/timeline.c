/* timeline.c - a lane runs from bucket to bucket, as where sums are queued in between. */
#include "train/timeline.h"

#include "base/try.h"
#include "train/buckets.h"
#include "train/record.h"
#include "train/report.h"

typedef struct watch {
    pg_trainer *t;
    pg__worker *w;
    double *at;
} watch;

/* What was queued on a device is done then. */
static pg_status look(void *arg, size_t k)
{
    const watch *l = arg;
    const pg_status st = l->t->backend->host_memory ? PG_OK : l->t->backend->sync(l->w->dev);
    l->at[k] = pg__now();
    return st;
}

pg_status pg__timeline_run(const pg__step *s, const pg__job *job, pg__worker *w)
{
    pg_trainer *t = s->t;
    watch l = {t, w, t->timeline->lanes[(size_t)(job - s->jobs) % s->n_lanes]};
    size_t ends[PG_MAX_BUCKETS];
    pg_status st = PG_OK;
    pg__buckets_ends(t, job->program, ends);
    const pg__stops stops = {t->n_buckets, ends, look, &l};
    PG_TRY(pg__record_run(t, w, job->program, &job->frame.f, &stops));
    PG_TRY(look(&l, PG_MAX_BUCKETS));
done:
    return st;
}
