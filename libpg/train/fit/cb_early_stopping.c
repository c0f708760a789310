/* cb_early_stopping.c - Keras' EarlyStopping. Source: keras/src/callbacks.py (2.15.0) and
 * callbacks/early_stopping.py (3.6.0), which differ: Keras 3 knows whether more of a metric is
 * better, and restores the best weights at the end of every run, stopped or not.
 *
 * Weights are restored at the very end, as in Keras 3: 2.15 restores at once, so that a checkpoint
 * of the last epoch holds other weights than its name says. */
#include <math.h>
#include <string.h>

#include "base/real.h"
#include "base/str.h"
#include "base/try.h"
#include "train/fit/monitor.h"
#include "train/step/step.h"

typedef struct stopper {
    pg__monitor monitor;
    double min_delta, baseline; /* baseline NAN: none */
    size_t patience, start_from_epoch;
    int restores, always; /* always: even if nothing stopped the run */
    double best;          /* from here on: state */
    size_t best_epoch, wait;
    int stopped;           /* by this callback */
    pg__snapshot *weights; /* NULL: none yet */
} stopper;

static int goes_up(const char *name)
{
    return pg__ends_with(name, "acc") || pg__ends_with(name, "accuracy") ||
           pg__ends_with(name, "auc");
}

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    stopper *e = self;
    int verbose = 0;
    pg_status st = PG_OK;
    e->baseline = NAN;
    e->always = f->t->net.rules->keras3;
    PG_TRY(pg__monitor_open(&e->monitor, "EarlyStopping", f, s,
                            f->t->net.rules->keras3 ? pg__is_score : goes_up, err));
    PG_TRY(pg__settings_real(s, "min_delta", &e->min_delta, err));
    PG_TRY(pg__settings_count(s, "patience", &e->patience, err));
    PG_TRY(pg__settings_real(s, "baseline", &e->baseline, err));
    PG_TRY(pg__settings_flag(s, "restore_best_weights", &e->restores, err));
    PG_TRY(pg__settings_count(s, "start_from_epoch", &e->start_from_epoch, err));
    PG_TRY(pg__settings_flag(s, "verbose", &verbose, err)); /* it always reports */
    e->min_delta = fabs(e->min_delta);
    if (e->restores)
        f->n_held += pg__snapshot_bytes(f->t, 0);
    e->best = e->monitor.up ? -INFINITY : INFINITY;
done:
    return st;
}

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    const stopper *e = self;
    return f->resumed ? PG_OK : pg__monitor_note(&e->monitor, f, err);
}

/* ---- the best weights ---- */

static pg_status remember(stopper *e, pg__fit *f, pg_err *err)
{
    if (!e->restores)
        return PG_OK;
    pg__snapshot_drop(e->weights);
    e->weights = NULL;
    return pg__snapshot_take(&e->weights, f->t, 0, err);
}

static pg_status restore(stopper *e, pg__fit *f, pg_err *err)
{
    const pg_status st = pg__snapshot_restore(e->weights, f->t, err);
    pg__snapshot_drop(e->weights);
    e->weights = NULL;
    return st;
}

/* ---- epochs ---- */

static int is_better(const stopper *e, double now, double than)
{
    return e->monitor.up ? now - e->min_delta > than : now + e->min_delta < than;
}

static pg_status stop(stopper *e, pg__fit *f, pg_err *err)
{
    f->stops = 1;
    e->stopped = 1;
    return pg__fit_event(f, PG_EVENT_STOP, NULL, err,
                         "early stop (%zu epoch%s without improvement); best epoch %zu%s", e->wait,
                         e->wait == 1 ? "" : "s", e->best_epoch + 1, e->weights ? " restored" : "");
}

static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    stopper *e = self;
    double now;
    pg_status st = PG_OK;
    if (!pg__monitor_get(&e->monitor, logs, &now) || f->epoch < e->start_from_epoch)
        return PG_OK;
    e->wait++;
    if (is_better(e, now, e->best)) {
        e->best = now;
        e->best_epoch = f->epoch;
        PG_TRY(remember(e, f, err));
        if (isnan(e->baseline) || is_better(e, now, e->baseline))
            e->wait = 0;
        goto done;
    }
    if (e->restores && !e->weights) { /* the first ones, in case there is never any progress */
        PG_TRY(remember(e, f, err));
        e->best_epoch = f->epoch;
    }
    if (e->wait >= e->patience && f->epoch > 0)
        PG_TRY(stop(e, f, err));
done:
    return st;
}

static pg_status train_end(void *self, pg__fit *f, pg_err *err)
{
    stopper *e = self;
    const size_t best = e->best_epoch;
    pg_status st = PG_OK;
    if (!e->weights || !(e->always || e->stopped))
        return PG_OK;
    PG_TRY(restore(e, f, err));
    if (!e->stopped)
        st = pg__fit_event(f, PG_EVENT_NOTE, NULL, err, "EarlyStopping: best epoch %zu restored",
                           best + 1);
done:
    return st;
}

/* ---- state ---- */

static void keep_weights(stopper *e, pg__fit *f, pg__archive *a)
{
    int has = e->weights != NULL;
    uint64_t n = has ? e->weights->n_bytes : 0;
    pg__archive_int(a, &has);
    pg__archive_u64(a, &n);
    if (!has || a->st != PG_OK)
        return;
    if (!a->writes && !e->weights)
        a->st = pg__snapshot_take(&e->weights, f->t, 0, NULL);
    if (a->st == PG_OK && n != e->weights->n_bytes)
        a->st = PG_E_FORMAT;
    if (a->st == PG_OK)
        pg__archive_bytes(a, e->weights->params, (size_t)n);
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    stopper *e = self;
    pg__archive_real(a, &e->best);
    pg__archive_size(a, &e->best_epoch);
    pg__archive_size(a, &e->wait);
    pg__archive_int(a, &e->stopped);
    keep_weights(e, f, a);
}

static pg_status recall(const void *self, pg__str *out, pg_err *err)
{
    const stopper *e = self;
    if (!isfinite(e->best))
        return PG_OK;
    return pg__str_printf(out, err, "best %s %s (epoch %zu), patience %zu of %zu", e->monitor.name,
                          PG_REAL32(e->best), e->best_epoch + 1, e->wait, e->patience);
}

static void close(void *self, pg__fit *f)
{
    stopper *e = self;
    (void)f;
    pg__snapshot_drop(e->weights);
    pg__monitor_fini(&e->monitor);
}

const pg__cb_type pg__cb_early_stopping = {.name = "EarlyStopping",
                                           .n_bytes = sizeof(stopper),
                                           .open = open,
                                           .train_begin = train_begin,
                                           .epoch_end = epoch_end,
                                           .train_end = train_end,
                                           .keep = keep,
                                           .recall = recall,
                                           .close = close};
