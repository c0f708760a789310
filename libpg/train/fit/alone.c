/* alone.c - the speed of one device alone: the same steps with the workers of one replica in place
 * of all, whose memory is freed meanwhile. */
#include "train/fit/alone.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/step/step.h"

#define MAX_STEPS 10
static const double max_seconds = 1;

static pg_status time_steps(pg_trainer *t, const pg__batch *b, double *each, pg_err *err)
{
    pg__totals totals = {0};
    double began = 0;
    size_t n = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__totals_alloc(t, &totals, err));
    for (; n <= (t->loop.watch ? 1 : MAX_STEPS) && (n < 2 || pg__now() - began < max_seconds);
         n++) {
        if (n == 1) /* the first step allocates memory and compiles programs */
            began = pg__now();
        pg__totals_clear(t, &totals);
        PG_TRY(pg__trainer_step(t, b, PG_TRAINS, NULL, &totals, err));
    }
    *each = (pg__now() - began) / (double)(n - 1);
done:
    pg__totals_free(&totals);
    return st;
}

/* Times steps by n_workers threads of one replica, then restores the others. *each stays 0 if the
 * trial fails; the status says whether the trainer could be restored. */
static pg_status alone(pg_trainer *t, size_t n_workers, const pg__batch *b, double *each,
                       pg_err *err)
{
    const pg__cut all = t->pool.cut;
    const pg__spent spent = t->report.spent;
    pg__ranks *ranks = t->ranks;
    pg__workers_stop(t);
    t->ranks = NULL;
    t->pool.cut.n_workers = n_workers;
    t->pool.cut.n_replicas = 1;
    t->pool.cut.first_here = t->pool.cut.n_here = 0;
    t->loop.is_trial = 1;
    if (pg__workers_start(t, NULL) != PG_OK || time_steps(t, b, each, NULL) != PG_OK)
        *each = 0;
    pg__workers_stop(t);
    t->loop.is_trial = 0;
    t->report.spent = spent;
    t->pool.cut = all;
    t->ranks = ranks;
    t->vars.grads = NULL;
    return pg__workers_start(t, err);
}

pg_status pg__measure_alone(pg_trainer *t, const pg__feed *f, size_t batch_size,
                            double *rows_per_second, pg_err *err)
{
    const pg__cut all = t->pool.cut;
    const pg__spent spent = t->report.spent;
    const double update =
        spent.n_steps > 1 ? spent.update / (double)(spent.n_steps - 1) * (double)all.n_replicas : 0;
    pg__batch b = {.n_rows = 0};
    double each = 0;
    pg_status st = PG_OK;
    batch_size = f->n_rows < batch_size ? (size_t)f->n_rows : batch_size;
    if (pg__feed_read_first(f, batch_size, &b, NULL) != PG_OK)
        goto done; /* not measured: training goes on all the same */
    PG_TRY(alone(t, all.n_workers / all.n_replicas, &b, &each, err));
    if (each > 0)
        *rows_per_second = (double)batch_size / (each + update);
done:
    pg__batch_free(&b, t);
    return st;
}

pg_status pg__find_nan(pg_trainer *t, const pg__batch *b, char out[256], pg_err *err)
{
    pg__watch watch = {.found = 0};
    pg__batch here = *b;
    double each = 0;
    pg_status st = PG_OK;
    memset(out, 0, 256);
    here.n_rows = b->n_here;
    if (t->devs.assigned.n_devices > 0 || here.n_rows == 0)
        return PG_OK;
    t->loop.watch = &watch;
    st = alone(t, 1, &here, &each, err);
    t->loop.watch = NULL;
    if (st == PG_OK && watch.found && watch.leaf < t->net.leaves.n)
        snprintf(out, 256, "%s %s",
                 watch.in_input   ? "the data, read by"
                 : watch.in_param ? "the weights of"
                                  : "the output or gradient of",
                 PG_SHOW(t->net.leaves.v[watch.leaf].layer->name));
    return st;
}
