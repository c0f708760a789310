/* cb_reduce_lr_on_plateau.c - Keras' ReduceLROnPlateau. Source: keras/src/callbacks.py (2.15.0).
 * The product is computed in double and set as float32. */
#include <math.h>
#include <string.h>

#include "base/real.h"
#include "base/try.h"
#include "train/fit/monitor.h"

typedef struct plateau {
    pg__monitor monitor;
    double factor, min_delta, min_lr;
    size_t patience, cooldown;
    double best; /* from here on: state */
    size_t wait, cooling;
} plateau;

static int goes_up(const char *name)
{
    return strstr(name, "acc") != NULL;
}

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    plateau *p = self;
    int verbose = 0;
    pg_status st = PG_OK;
    p->factor = 0.1;
    p->min_delta = 1e-4;
    p->patience = 10;
    PG_TRY(pg__monitor_open(&p->monitor, "ReduceLROnPlateau", f, s, goes_up, err));
    PG_TRY(pg__settings_real(s, "factor", &p->factor, err));
    PG_TRY(pg__settings_count(s, "patience", &p->patience, err));
    PG_TRY(pg__settings_real(s, "epsilon", &p->min_delta, err)); /* its name in older Keras */
    PG_TRY(pg__settings_real(s, "min_delta", &p->min_delta, err));
    PG_TRY(pg__settings_count(s, "cooldown", &p->cooldown, err));
    PG_TRY(pg__settings_real(s, "min_lr", &p->min_lr, err));
    PG_TRY(pg__settings_flag(s, "verbose", &verbose, err)); /* it always reports */
    if (!(p->factor < 1) || p->factor < 0)
        PG_FAIL(PG_E_ARG, "ReduceLROnPlateau: factor is %s; it must lie between 0 and 1",
                PG_REAL(p->factor));
    if (f->t->compiled.optimizer.schedule)
        PG_FAIL(PG_E_ARG, "ReduceLROnPlateau: the learning rate is already set by %s",
                pg__schedule_name(f->t->compiled.optimizer.schedule));
    p->best = p->monitor.up ? -INFINITY : INFINITY;
done:
    return st;
}

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    const plateau *p = self;
    return f->resumed ? PG_OK : pg__monitor_note(&p->monitor, f, err);
}

static pg_status reduce(plateau *p, pg__fit *f, pg_err *err)
{
    const double old = pg__fit_rate(f);
    double rate = old * p->factor;
    pg_status st = PG_OK;
    if (!(old > (double)(float)p->min_lr))
        return PG_OK;
    rate = rate > p->min_lr ? rate : p->min_lr;
    PG_TRY(pg__fit_set_rate(f, rate, err));
    st = pg__fit_event(f, PG_EVENT_RATE, NULL, err,
                       "%s did not improve for %zu epoch%s; learning rate %s → %s", p->monitor.name,
                       p->wait, p->wait == 1 ? "" : "s", PG_REAL32(old), PG_REAL32(rate));
    p->cooling = p->cooldown;
    p->wait = 0;
done:
    return st;
}

static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    plateau *p = self;
    double now;
    if (!pg__monitor_get(&p->monitor, logs, &now))
        return PG_OK;
    if (p->cooling > 0) {
        p->cooling--;
        p->wait = 0;
    }
    if (p->monitor.up ? now > p->best + p->min_delta : now < p->best - p->min_delta) {
        p->best = now;
        p->wait = 0;
    } else if (p->cooling == 0 && ++p->wait >= p->patience) {
        return reduce(p, f, err);
    }
    return PG_OK;
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    plateau *p = self;
    (void)f;
    pg__archive_real(a, &p->best);
    pg__archive_size(a, &p->wait);
    pg__archive_size(a, &p->cooling);
}

static pg_status recall(const void *self, pg__str *out, pg_err *err)
{
    const plateau *p = self;
    return pg__str_printf(out, err, "learning rate's patience %zu of %zu", p->wait, p->patience);
}

static void close(void *self, pg__fit *f)
{
    plateau *p = self;
    (void)f;
    pg__monitor_fini(&p->monitor);
}

const pg__cb_type pg__cb_reduce_lr_on_plateau = {.name = "ReduceLROnPlateau",
                                                 .n_bytes = sizeof(plateau),
                                                 .open = open,
                                                 .train_begin = train_begin,
                                                 .epoch_end = epoch_end,
                                                 .keep = keep,
                                                 .recall = recall,
                                                 .close = close};
