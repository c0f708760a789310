/* team.c - a fork and a join for every call, by one mutex and two conditions. Threads do not spin:
 * beside other programs a spinning worker only takes the core from the one it waits for. */
#include "train/team.h"

#include <pthread.h>
#include <signal.h>

#include "base/mem.h"
#include "base/try.h"

typedef struct worker {
    pg__team *team;
    size_t index;
    pthread_t thread;
    int started;
} worker;

struct pg__team {
    worker *workers;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    unsigned long round; /* of calls so far */
    size_t busy;
    int leave;
    pg__work work;
    void *arg;
};

static void *serve(void *p)
{
    worker *w = p;
    pg__team *t = w->team;
    unsigned long seen = 0;
    for (;;) {
        pthread_mutex_lock(&t->lock);
        while (t->round == seen && !t->leave)
            pthread_cond_wait(&t->begin, &t->lock);
        seen = t->round;
        const int leave = t->leave;
        pthread_mutex_unlock(&t->lock);
        if (leave)
            return NULL;
        t->work(t->arg, w->index);
        pthread_mutex_lock(&t->lock);
        if (--t->busy == 0)
            pthread_cond_signal(&t->end);
        pthread_mutex_unlock(&t->lock);
    }
}

/* Signals are the main thread's business. */
static pg_status start(worker *w, pg_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&w->thread, NULL, serve, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return pg_fail_sys(err, PG_E_IO, failed, "cannot start a thread");
    w->started = 1;
    return PG_OK;
}

pg_status pg__team_new(pg__team **out, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__team *t = pg__mem_array(1, sizeof *t);
    if (!t)
        return pg__nomem(err);
    t->n = n;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begin, NULL);
    pthread_cond_init(&t->end, NULL);
    t->workers = pg__mem_array(n, sizeof *t->workers);
    if (!t->workers)
        PG_TRY(pg__nomem(err));
    for (size_t i = 1; i < n; i++) {
        t->workers[i] = (worker){.team = t, .index = i};
        PG_TRY(start(&t->workers[i], err));
    }
    *out = t;
    t = NULL;
done:
    pg__team_free(t);
    return st;
}

void pg__team_free(pg__team *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->leave = 1;
    pthread_cond_broadcast(&t->begin);
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 1; t->workers && i < t->n; i++)
        if (t->workers[i].started)
            pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->begin);
    pthread_cond_destroy(&t->end);
    pthread_mutex_destroy(&t->lock);
    pg__mem_free(t->workers);
    pg__mem_free(t);
}

size_t pg__team_size(const pg__team *t)
{
    return t->n;
}

void pg__team_run(pg__team *t, pg__work work, void *arg)
{
    if (t->n > 1) {
        pthread_mutex_lock(&t->lock);
        t->work = work;
        t->arg = arg;
        t->busy = t->n - 1;
        t->round++;
        pthread_cond_broadcast(&t->begin);
        pthread_mutex_unlock(&t->lock);
    }
    work(arg, 0);
    if (t->n > 1) {
        pthread_mutex_lock(&t->lock);
        while (t->busy > 0)
            pthread_cond_wait(&t->end, &t->lock);
        pthread_mutex_unlock(&t->lock);
    }
}
