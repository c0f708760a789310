/* thread_pool.c - a fork and a join for every call, and barriers in between. A waiting thread spins
 * for some tens of microseconds and then sleeps: if other programs run too, a spinning thread may
 * only take the core from the thread it waits for. */
#include "train/exec/thread_pool.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/try.h"

typedef struct worker {
    pg__thread_pool *pool;
    size_t index;
    pthread_t thread;
    int started;
} worker;

struct pg__thread_pool {
    worker *workers;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    pg__count round;   /* number of calls so far */
    pg__count ended;   /* workers that have finished, summed over calls */
    pg__count arrived; /* arrivals at barriers, summed */
    _Atomic int leave;
    pg__work work;
    void *arg;
};

/* Reads of a count before a thread sleeps: some tens of microseconds, as long as waking it would
 * take. */
#define LOOKS 4000

static void pause_a_moment(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void pg__thread_pool_await(pg__thread_pool *t, const pg__count *count, size_t want)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(count, memory_order_acquire) >= want)
            return;
        pause_a_moment();
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load_explicit(count, memory_order_acquire) < want)
        pthread_cond_wait(&t->moved, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* Under the lock, so that no thread reads the count before and sleeps after. */
static void wake(pg__thread_pool *t)
{
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

void pg__thread_pool_raise(pg__thread_pool *t, pg__count *count, size_t to)
{
    atomic_store_explicit(count, to, memory_order_release);
    wake(t);
}

void pg__thread_pool_add(pg__thread_pool *t, pg__count *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_acq_rel);
    wake(t);
}

void pg__thread_pool_barrier(pg__thread_pool *t)
{
    if (t->n == 1)
        return;
    const size_t mine = atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel);
    const size_t all = (mine / t->n + 1) * t->n;
    if (mine + 1 == all)
        wake(t);
    else
        pg__thread_pool_await(t, &t->arrived, all);
}

static void *serve(void *p)
{
    worker *w = p;
    pg__thread_pool *t = w->pool;
    for (size_t round = 1;; round++) {
        pg__thread_pool_await(t, &t->round, round);
        if (t->leave)
            return NULL;
        t->work(t->arg, w->index);
        const size_t ended = atomic_fetch_add_explicit(&t->ended, 1, memory_order_acq_rel) + 1;
        if (ended == round * (t->n - 1))
            wake(t);
    }
}

static pg_status start(worker *w, pg_err *err)
{
    const int failed = pg__thread_begin(&w->thread, serve, w);
    if (failed)
        return pg_fail_sys(err, PG_E_IO, failed, "cannot start a thread");
    w->started = 1;
    return PG_OK;
}

pg_status pg__thread_pool_new(pg__thread_pool **out, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__thread_pool *t = pg__mem_array(1, sizeof *t);
    if (!t)
        return pg__nomem(err);
    t->n = n;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->moved, NULL);
    t->workers = pg__mem_array(n, sizeof *t->workers);
    if (!t->workers)
        PG_TRY(pg__nomem(err));
    for (size_t i = 1; i < n; i++) {
        t->workers[i] = (worker){.pool = t, .index = i};
        PG_TRY(start(&t->workers[i], err));
    }
    *out = t;
    t = NULL;
done:
    pg__thread_pool_free(t);
    return st;
}

void pg__thread_pool_free(pg__thread_pool *t)
{
    if (!t)
        return;
    t->leave = 1;
    pg__thread_pool_raise(t, &t->round, t->round + 1);
    for (size_t i = 1; t->workers && i < t->n; i++)
        if (t->workers[i].started)
            pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->moved);
    pthread_mutex_destroy(&t->lock);
    pg__mem_free(t->workers);
    pg__mem_free(t);
}

size_t pg__thread_pool_size(const pg__thread_pool *t)
{
    return t->n;
}

void pg__thread_pool_run(pg__thread_pool *t, pg__work work, void *arg)
{
    const size_t round = t->round + 1;
    t->work = work;
    t->arg = arg;
    if (t->n > 1)
        pg__thread_pool_raise(t, &t->round, round);
    work(arg, 0);
    if (t->n > 1)
        pg__thread_pool_await(t, &t->ended, round * (t->n - 1));
}
