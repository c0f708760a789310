/* thread.c - one job for many items, on several threads.
 *
 * A counter hands out items. Chance decides which thread does which, so a job must keep its results
 * by item: then the outcome does not depend on the number of threads. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#ifndef PG_PORTABLE
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include "base/mem.h"

size_t pg__processors(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = cores > 0 ? (size_t)cores : 1;
#ifndef PG_PORTABLE
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) > 0)
        n = (size_t)CPU_COUNT(&mine);
#endif
    return n;
}

int pg__thread_begin(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int e = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

#if !defined(PG_PORTABLE) && defined(SYS_sched_setattr)
#define SLICE 100000 /* ns */

void pg__thread_hurry(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice, deadline, period;
    } attr = {.size = sizeof attr};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0 || attr.policy != SCHED_OTHER)
        return;
    attr.slice = SLICE;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
#else
void pg__thread_hurry(void)
{
}
#endif

size_t pg__threads(size_t wanted)
{
    const size_t n = wanted ? wanted : pg__processors();
    return n < PG_MAX_THREADS ? n : PG_MAX_THREADS;
}

typedef struct work {
    pg__item_fn job;
    void *ctx;
    size_t n_items;
    size_t next; /* atomic */
    int failed;  /* atomic */
} work;

typedef struct worker {
    work *w;
    size_t number;
    pthread_t thread;
    size_t item; /* the last one it did */
    pg_status st;
    pg_err err;
} worker;

static void *run(void *arg)
{
    worker *me = arg;
    work *w = me->w;
    while (me->st == PG_OK && !__atomic_load_n(&w->failed, __ATOMIC_RELAXED)) {
        me->item = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
        if (me->item >= w->n_items)
            break;
        me->st = w->job(w->ctx, me->number, me->item, &me->err);
    }
    if (me->st != PG_OK)
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* If a thread cannot be started, the job does without it. */
pg_status pg__parallel(size_t n_threads, size_t n_items, pg__item_fn job, void *ctx, pg_err *err)
{
    work w = {.job = job, .ctx = ctx, .n_items = n_items};
    size_t n = n_threads < n_items ? n_threads : n_items, started = 1;
    const worker *first = NULL;
    n = n < 1 ? 1 : n > PG_MAX_THREADS ? PG_MAX_THREADS : n;
    worker *v = pg__mem_array(n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        v[i] = (worker){.w = &w, .number = i};
    while (started < n && pthread_create(&v[started].thread, NULL, run, &v[started]) == 0)
        started++;
    (void)run(&v[0]);
    for (size_t i = 1; i < started; i++)
        (void)pthread_join(v[i].thread, NULL);
    for (size_t i = 0; i < started; i++)
        if (v[i].st != PG_OK && (!first || v[i].item < first->item))
            first = &v[i];
    const pg_status st = first ? first->st : PG_OK;
    if (first && err)
        *err = first->err;
    pg__mem_free(v);
    return st;
}
