/* writer.c - one thread and a ring of jobs. Finished jobs wait there until the thread that gave
 * them polls, so that `done` needs no lock of its own. */
#include "train/fit/writer.h"

#include "base/mem.h"
#include "base/thread.h"
#include "base/try.h"

#define N_JOBS 8u /* of one moment; giving more waits */

typedef struct entry {
    pg__write_job job;
    unsigned long moment;
    pg_status st;
    pg_err why;
} entry;

struct pg__writer {
    pg__trace *trace; /* borrowed; or NULL */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int has_thread, leave;                        /* these and the following: under the lock */
    unsigned long given, done, reported, moments; /* jobs so far; polls so far */
    entry ring[N_JOBS];
};

static void work(const pg__writer *w, entry *e)
{
    const double began = pg__trace_begin(w->trace);
    e->why = (pg_err){0};
    e->st = e->job.work(e->job.ctx, &e->why);
    pg__trace_end_on(w->trace, PG_TRACE_WRITING,
                     &(pg__trace_event){.began = began, .what = PG_TRACE_WRITE});
}

static void *serve(void *arg)
{
    pg__writer *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->leave || w->done < w->given) {
        if (w->done == w->given) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        entry *e = &w->ring[w->done % N_JOBS];
        pthread_mutex_unlock(&w->lock);
        work(w, e);
        pthread_mutex_lock(&w->lock);
        w->done++;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

pg_status pg__writer_new(pg__writer **out, int at_once, pg_err *err)
{
    pg__writer *w = pg__mem_array(1, sizeof *w);
    if (!w)
        return pg__nomem(err);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->has_thread = !at_once && pg__thread_begin(&w->thread, serve, w) == 0;
    *out = w;
    return PG_OK;
}

void pg__writer_trace(pg__writer *w, pg__trace *trace)
{
    w->trace = trace;
}

/* Reports the next job if it is finished; waits for it if `wait`. *more: was there one? */
static pg_status report_next(pg__writer *w, int wait, int *more, pg_err *err)
{
    pg_status st = PG_OK;
    pthread_mutex_lock(&w->lock);
    while (wait && w->reported < w->given && w->done == w->reported)
        pthread_cond_wait(&w->changed, &w->lock);
    *more = w->reported < w->done;
    const entry e = *more ? w->ring[w->reported % N_JOBS] : (entry){.moment = 0};
    w->reported += (unsigned long)*more;
    pthread_mutex_unlock(&w->lock);
    if (*more && e.job.done)
        st = e.job.done(e.job.ctx, e.st, &e.why, err);
    if (*more && e.job.free)
        e.job.free(e.job.ctx);
    return st;
}

static pg_status report_all(pg__writer *w, int wait, pg_err *err)
{
    pg_status st = PG_OK;
    for (int more = 1; more && st == PG_OK;)
        st = report_next(w, wait, &more, err);
    return st;
}

pg_status pg__writer_poll(pg__writer *w, pg_err *err)
{
    w->moments++;
    return report_all(w, 0, err);
}

pg_status pg__writer_wait(pg__writer *w, pg_err *err)
{
    return report_all(w, 1, err);
}

/* Only the giving thread changes `given` and `reported`. */
static int must_wait(const pg__writer *w)
{
    return w->reported < w->given &&
           (w->ring[w->reported % N_JOBS].moment != w->moments || w->given - w->reported == N_JOBS);
}

pg_status pg__writer_give(pg__writer *w, const pg__write_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    for (int more = 1; more && st == PG_OK && must_wait(w);)
        st = report_next(w, 1, &more, err);
    if (st != PG_OK) {
        if (job->free)
            job->free(job->ctx);
        return st;
    }
    entry *e = &w->ring[w->given % N_JOBS];
    *e = (entry){.job = *job, .moment = w->moments};
    if (!w->has_thread) {
        work(w, e);
        w->done++;
    }
    pthread_mutex_lock(&w->lock);
    w->given++;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return w->has_thread ? PG_OK : report_all(w, 0, err);
}

void pg__writer_free(pg__writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->leave = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->has_thread)
        pthread_join(w->thread, NULL);
    for (; w->reported < w->given; w->reported++)
        if (w->ring[w->reported % N_JOBS].job.free)
            w->ring[w->reported % N_JOBS].job.free(w->ring[w->reported % N_JOBS].job.ctx);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    pg__mem_free(w);
}
