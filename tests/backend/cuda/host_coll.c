/* host_coll.c - coll.h without a GPU: see host.h. Ranks meet when their queues come to it; one that
 * waits alone longer than FAKE_CUDA_PATIENCE seconds (10) is given up. The rank FAKE_CUDA_ABSENT
 * never comes. */
#include "host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cuda/coll.h"
#include "backend/cuda/pgk.h"

struct pg__coll {
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t met;
    size_t n_here, n_meetings;
    float **p; /* by rank, of those who are here */
    pg__rt **rt;
    int broken, dropped;
};

pg_status pg__coll_new(pg__coll **out, pg__rt *const *streams, size_t n, pg_err *err)
{
    if (pg__fake_fails("coll_new"))
        return pg_fail(err, PG_E_UNSUPPORTED, "coll_new: failure that was ordered");
    pg__coll *c = calloc(1, sizeof *c);
    if (!c || !(c->p = calloc(n, sizeof *c->p)) || !(c->rt = calloc(n, sizeof *c->rt)))
        abort();
    memcpy(c->rt, streams, n * sizeof(pg__rt *));
    c->n = n;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->met, NULL);
    *out = c;
    return PG_OK;
}

void pg__coll_free(pg__coll *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->met);
    free(c->p);
    free(c->rt);
    free(c);
}

typedef struct visit {
    pg__coll *c;
    size_t rank, root;
    int sums;
    float *p;
} visit;

/* By the rank that comes last, in the order of ranks. */
static void exchange(const visit *v, uint64_t n)
{
    float **p = v->c->p;
    for (uint64_t i = 0; i < n; i++) {
        float all = v->sums ? p[0][i] : p[v->root][i];
        for (size_t r = 1; v->sums && r < v->c->n; r++)
            all += p[r][i];
        for (size_t r = 0; r < v->c->n; r++)
            p[r][i] = all;
    }
}

static void meet(const void *args, uint64_t n)
{
    const visit *v = args;
    pg__coll *c = v->c;
    const char *patience = getenv("FAKE_CUDA_PATIENCE"), *absent = getenv("FAKE_CUDA_ABSENT");
    struct timespec until;
    if (absent && strtoul(absent, NULL, 10) == v->rank)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += patience ? atoi(patience) : 10;
    pthread_mutex_lock(&c->lock);
    c->p[v->rank] = pgk_host_memory(v->p);
    if (c->broken) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    if (++c->n_here == c->n) {
        exchange(v, n);
        c->n_here = 0;
        c->n_meetings++;
        pthread_cond_broadcast(&c->met);
    } else {
        const size_t before = c->n_meetings;
        while (c->n_meetings == before && !c->broken)
            if (pthread_cond_timedwait(&c->met, &c->lock, &until) == ETIMEDOUT)
                c->broken = 1;
        pthread_cond_broadcast(&c->met);
    }
    pthread_mutex_unlock(&c->lock);
}

static pg_status queue_visit(const char *name, const visit *v, size_t n, pg_err *err)
{
    pthread_mutex_lock(&v->c->lock);
    const int dropped = v->c->dropped;
    pthread_mutex_unlock(&v->c->lock);
    if (dropped)
        return pg_fail(err, PG_E_DEVICE, "cuda:%zu: NCCL was given up before", v->rank);
    return pg__fake_queue(pg__rt_stream(v->c->rt[v->rank]), name, meet, v, sizeof *v, n) == 0
               ? PG_OK
               : pg_fail(err, PG_E_DEVICE, "%s: failure that was ordered", name);
}

pg_status pg__coll_sum(pg__coll *c, size_t rank, float *p, size_t n, pg_err *err)
{
    return queue_visit("coll_sum", &(visit){.c = c, .rank = rank, .sums = 1, .p = p}, n, err);
}

pg_status pg__coll_broadcast(pg__coll *c, size_t rank, float *p, size_t n, size_t root, pg_err *err)
{
    return queue_visit("coll_broadcast", &(visit){.c = c, .rank = rank, .root = root, .p = p}, n,
                       err);
}

pg_status pg__coll_check(pg__coll *c, size_t rank, double timeout, pg_err *err)
{
    pg_status st = pg__rt_sync(c->rt[rank], err);
    pthread_mutex_lock(&c->lock);
    if (st == PG_OK && c->broken)
        st = pg_fail(err, PG_E_DEVICE, "cuda:%zu waited %.0f seconds for another GPU", rank,
                     timeout);
    pthread_mutex_unlock(&c->lock);
    return st;
}

void pg__coll_drop(pg__coll *c)
{
    pthread_mutex_lock(&c->lock);
    c->broken = c->dropped = 1;
    pthread_cond_broadcast(&c->met);
    pthread_mutex_unlock(&c->lock);
}
