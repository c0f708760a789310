/* all_reduce.c - sums over devices, as the plan says (sum_plan.h). The tree of lanes.h goes from
 * device to device, so that its result does not depend on them; a group (NCCL) is faster, but sums
 * in an order of its own: during the backward pass if it can (buckets.h), else after it. */
#include "train/step/all_reduce.h"

#include "base/mem.h"
#include "base/try.h"
#include "train/step/devices.h"
#include "train/step/ranks_devices.h"

/* ---- by a group ---- */

int pg__speaks_for_device(const pg_trainer *t, size_t worker)
{
    return t->pool.workers[worker].dev == t->devs.devices[t->pool.workers[worker].device].dev;
}

pg_status pg__first_failure(const pg__trainer_pool *pool, pg_err *err)
{
    for (size_t k = 0; k < pool->n_threads; k++)
        if (pool->workers[k].st != PG_OK) {
            if (err)
                *err = pool->workers[k].err;
            return pool->workers[k].st;
        }
    return PG_OK;
}

static pg_status sum_flat(const pg_trainer *t, const pg__worker *w)
{
    pg_status st = PG_OK;
    PG_TRY(t->devs.backend->group.sum(t->sums.group, w->device, w->dev,
                                      t->devs.devices[w->device].sum->mem,
                                      (size_t)t->vars.offsets[t->vars.n_params]));
    PG_TRY(t->devs.backend->group.join(t->sums.group, w->device, w->dev));
done:
    return st;
}

static void take_part(void *arg, size_t worker)
{
    pg_trainer *t = arg;
    pg__worker *w = &t->pool.workers[worker];
    w->err = (pg_err){0};
    w->st = pg__speaks_for_device(t, worker) ? sum_flat(t, w) : PG_OK;
    w->st = pg__device_failed(&t->devs, w->dev, w->st, &w->err);
}

/* A device without rows brings zeros. */
static pg_status sum_locally(pg_trainer *t)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < t->devs.n_devices; d++) {
        pg__device *on = &t->devs.devices[d];
        PG_TRY(pg__partials_sum_on(t, d, &on->sum));
        if (on->sum)
            continue;
        on->sum = &on->incoming;
        PG_TRY(pg__flat_fill(t, on->sum, 0));
    }
done:
    return st;
}

static pg_status by_group(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__device_failed(&t->devs, t->devs.dev, sum_locally(t), err));
    t->sums.is_summing = 1;
    pg__thread_pool_run(t->pool.threads, take_part, t);
    PG_TRY(pg__first_failure(&t->pool, err));
done:
    return st;
}

/* The sums were queued during the backward pass, moving averages among them. */
static void join_buckets(void *arg, size_t worker)
{
    pg_trainer *t = arg;
    pg__worker *w = &t->pool.workers[worker];
    pg_status st = PG_OK;
    w->err = (pg_err){0};
    PG_TRY(pg__partials_sum_on(t, w->device, &t->devs.devices[w->device].sum));
    PG_TRY(t->devs.backend->group.join(t->sums.group, w->device, w->dev));
    PG_TRY(pg__averages_take(t, w->device));
done:
    w->st = pg__device_failed(&t->devs, w->dev, st, &w->err);
}

static pg_status by_buckets(pg_trainer *t, pg_err *err)
{
    pg__thread_pool_run(t->pool.threads, join_buckets, t);
    t->loop.n_moves++;
    return pg__first_failure(&t->pool, err);
}

static void wait_patiently(void *arg, size_t worker)
{
    pg_trainer *t = arg;
    pg__worker *w = &t->pool.workers[worker];
    w->err = (pg_err){0};
    w->st = PG_OK;
    const pg__timeout timeout = pg__ranks_timeout(t->ranks);
    if (pg__speaks_for_device(t, worker))
        w->st = t->devs.backend->group.wait(t->sums.group, w->device, &timeout, &w->err);
}

pg_status pg__all_reduce_wait(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    if (!t->sums.is_summing)
        return PG_OK;
    pg__thread_pool_run(t->pool.threads, wait_patiently, t);
    PG_TRY(pg__first_failure(&t->pool, err));
    t->sums.is_summing = 0;
done:
    return st;
}

void pg__all_reduce_drop(pg_trainer *t)
{
    if (t->sums.is_summing)
        t->devs.backend->group.drop(t->sums.group);
    t->sums.is_summing = 0;
}

/* ---- by copies ---- */

static pg_status by_copies(pg_trainer *t, pg_err *err)
{
    const uint64_t n = t->vars.offsets[t->vars.n_params];
    pg__flat *sum = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__device_failed(&t->devs, t->devs.dev, pg__partials_sum(t, 0, n, &sum), err));
    if (t->sums.plan.way == PG_SUM_HOSTS)
        PG_TRY(pg__ranks_sum_hosts(t, &sum, err));
    t->devs.devices[0].sum = sum;
    for (size_t d = 0; sum && d < t->devs.n_devices; d++) {
        pg__dev *dev = t->devs.devices[d].dev;
        PG_TRY(pg__flat_on(&t->devs, d, sum, 0, n, &t->devs.devices[d].sum, err));
        if (t->devs.devices[d].sum != sum) /* before the update changes it there */
            PG_TRY(pg__device_failed(&t->devs, dev, t->devs.backend->sync(dev), err));
    }
done:
    return st;
}

pg_status pg__all_reduce(pg_trainer *t, pg_err *err)
{
    switch (t->sums.plan.way) {
    case PG_SUM_GROUP: return by_group(t, err);
    case PG_SUM_GROUP_BUCKETS: return by_buckets(t, err);
    default: return by_copies(t, err);
    }
}
