/* exchange.c - sums over devices. The tree of lanes.h goes from device to device, so that its
 * result does not depend on them; a group (NCCL) sums in an order of its own, and faster. */
#include "train/exchange.h"

#include "base/mem.h"
#include "base/try.h"
#include "train/devices.h"

#define PATIENCE 300 /* seconds that a device waits for the others */

/* ---- by a group ---- */

typedef struct exchange {
    pg_trainer *t;
    pg__flat **sums;
} exchange;

/* The first worker of a device speaks for it. */
static int speaks_for_device(const pg_trainer *t, size_t worker)
{
    return t->workers[worker].dev == t->devices[t->workers[worker].device].dev;
}

static void take_part(void *arg, size_t worker)
{
    const exchange *x = arg;
    pg_trainer *t = x->t;
    pg__worker *w = &t->workers[worker];
    w->st = PG_OK;
    w->err = (pg_err){0};
    if (speaks_for_device(t, worker))
        w->st = t->backend->group_sum(t->group, w->device, w->dev, x->sums[w->device]->mem,
                                      (size_t)t->offsets[t->n_params], PATIENCE, &w->err);
}

/* A device without rows brings zeros. */
static pg_status sum_locally(pg_trainer *t, pg__flat **sums)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < t->n_devices; d++) {
        PG_TRY(pg__partials_sum_on(t, d, &sums[d]));
        if (sums[d])
            continue;
        sums[d] = &t->devices[d].incoming;
        PG_TRY(pg__flat_fill(t, sums[d], 0));
    }
done:
    return st;
}

static pg_status by_group(pg_trainer *t, pg__flat **sums, pg_err *err)
{
    exchange x = {t, sums};
    pg_status st = PG_OK;
    PG_TRY(pg__device_failed(t, t->dev, sum_locally(t, sums), err));
    pg__team_run(t->team, take_part, &x);
    for (size_t k = 0; k < t->n_threads; k++)
        if (t->workers[k].st != PG_OK) {
            if (err)
                *err = t->workers[k].err;
            return t->workers[k].st;
        }
done:
    return st;
}

/* ---- by copies ---- */

static pg_status by_copies(pg_trainer *t, pg__flat **sums, pg_err *err)
{
    const uint64_t n = t->offsets[t->n_params];
    pg__flat *sum = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__device_failed(t, t->dev, pg__partials_sum(t, 0, n, &sum), err));
    for (size_t d = 0; d < t->n_devices; d++) {
        pg__dev *dev = t->devices[d].dev;
        PG_TRY(pg__flat_on(t, d, sum, 0, n, &sums[d], err));
        if (sums[d] != sum) /* before the update there changes it */
            PG_TRY(pg__device_failed(t, dev, t->backend->sync(dev), err));
    }
done:
    return st;
}

pg_status pg__exchange(pg_trainer *t, pg__flat **sums, pg_err *err)
{
    return t->group && !t->is_trial ? by_group(t, sums, err) : by_copies(t, sums, err);
}
