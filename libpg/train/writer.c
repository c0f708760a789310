/* writer.c - one thread, one place for a job. Whoever gives a job waits until the one before is
 * done and told, so there is nothing to queue and nothing to run out of. */
#include "train/writer.h"

#include <pthread.h>
#include <signal.h>

#include "base/mem.h"
#include "base/try.h"

struct pg__writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int has_thread, leave; /* this and the following under the lock */
    enum { IDLE, IN_WORK, DONE } state;
    pg__job job;
    pg_status st; /* of a job that is done */
    pg_err why;
};

static void work(pg__writer *w)
{
    w->why = (pg_err){0};
    w->st = w->job.work(w->job.ctx, &w->why);
}

static void *serve(void *arg)
{
    pg__writer *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->leave) {
        if (w->state != IN_WORK) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        work(w);
        pthread_mutex_lock(&w->lock);
        w->state = DONE;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

pg_status pg__writer_new(pg__writer **out, pg_err *err)
{
    sigset_t all, before;
    pg__writer *w = pg__mem_array(1, sizeof *w);
    if (!w)
        return pg__nomem(err);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    sigfillset(&all); /* signals are the main thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    w->has_thread = pthread_create(&w->thread, NULL, serve, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *out = w;
    return PG_OK;
}

/* Tells of a job that is done. wait: until it is. */
static pg_status settle(pg__writer *w, int wait, pg_err *err)
{
    pg_status st = PG_OK;
    pthread_mutex_lock(&w->lock);
    while (wait && w->state == IN_WORK)
        pthread_cond_wait(&w->changed, &w->lock);
    const int tells = w->state == DONE;
    if (tells)
        w->state = IDLE;
    pthread_mutex_unlock(&w->lock);
    if (!tells)
        return PG_OK;
    const pg__job job = w->job;
    if (job.done)
        st = job.done(job.ctx, w->st, &w->why, err);
    if (job.free)
        job.free(job.ctx);
    return st;
}

pg_status pg__writer_poll(pg__writer *w, pg_err *err)
{
    return settle(w, 0, err);
}

pg_status pg__writer_wait(pg__writer *w, pg_err *err)
{
    return settle(w, 1, err);
}

pg_status pg__writer_give(pg__writer *w, const pg__job *job, pg_err *err)
{
    const pg_status st = settle(w, 1, err);
    if (st != PG_OK) {
        if (job->free)
            job->free(job->ctx);
        return st;
    }
    pthread_mutex_lock(&w->lock);
    w->job = *job;
    w->state = IN_WORK;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->has_thread)
        return PG_OK;
    work(w);
    w->state = DONE;
    return settle(w, 0, err);
}

void pg__writer_free(pg__writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    while (w->state == IN_WORK)
        pthread_cond_wait(&w->changed, &w->lock);
    w->leave = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->has_thread)
        pthread_join(w->thread, NULL);
    if (w->state == DONE && w->job.free)
        w->job.free(w->job.ctx);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    pg__mem_free(w);
}
