/* callback.c - the callbacks of a run, found by their names and run in turn. */
#include "train/fit/callback.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/try.h"
#include "train/step/step.h"

#define PG_CALLBACK(name) extern const pg__cb_type pg__cb_##name;
#include "train/fit/callbacks.def"
#undef PG_CALLBACK

static const pg__cb_type *const types[] = {
#define PG_CALLBACK(name) &pg__cb_##name,
#include "train/fit/callbacks.def"
#undef PG_CALLBACK
};
#define N_TYPES (sizeof types / sizeof *types)

const char *pg_callback_class(size_t i)
{
    return i < N_TYPES ? types[i]->name : NULL;
}

static const pg__cb_type *type_of(const char *name, pg_err *err)
{
    const char *names[N_TYPES];
    for (size_t i = 0; i < N_TYPES; i++) {
        names[i] = types[i]->name;
        if (pg__same_name(name, strlen(name), names[i]))
            return types[i];
    }
    const char *near = pg__nearest(name, names, N_TYPES);
    (void)pg_fail(err, PG_E_ARG, "unknown callback \"%s\"%s%s%s", PG_SHOW(name),
                  near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    (void)pg__list_known(err, PG_E_ARG, names, N_TYPES);
    return NULL;
}

/* ---- all of them in turn ---- */

static pg_status open_call(pg__fit *f, const char *text, pg_err *err)
{
    pg__settings s = {.root = NULL};
    pg__cb *c = &f->calls[f->n_calls];
    pg_status st = PG_OK;
    PG_TRY(pg__settings_of(&s, text, err));
    c->type = type_of(s.name.s, err);
    if (!c->type) {
        st = PG_E_ARG;
        goto done;
    }
    c->self = pg__mem_array(1, c->type->n_bytes);
    if (!c->self)
        PG_TRY(pg__nomem(err));
    f->n_calls++;
    PG_TRY(c->type->open(c->self, f, &s, err));
    PG_TRY(pg__settings_end(&s, err));
done:
    pg__settings_fini(&s);
    return st;
}

pg_status pg__calls_open(pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    f->calls = pg__mem_array(f->opts->n_callbacks, sizeof *f->calls);
    if (!f->calls)
        return pg__nomem(err);
    for (size_t i = 0; i < f->opts->n_callbacks && st == PG_OK; i++)
        st = open_call(f, f->opts->callbacks[i], err);
    return st;
}

void pg__calls_close(pg__fit *f)
{
    for (size_t i = 0; i < f->n_calls; i++) {
        if (f->calls[i].type->close)
            f->calls[i].type->close(f->calls[i].self, f);
        pg__mem_free(f->calls[i].self);
    }
    pg__mem_free(f->calls);
    f->calls = NULL;
    f->n_calls = 0;
}

static int has_turn(const pg__fit *f, size_t i)
{
    return !f->calls[i].type->writes || pg__rank_of(f->t->ranks) == 0;
}

pg_status pg__calls_train_begin(pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->train_begin && has_turn(f, i))
            st = f->calls[i].type->train_begin(f->calls[i].self, f, err);
    return st;
}

pg_status pg__calls_epoch_begin(pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->epoch_begin && has_turn(f, i))
            st = f->calls[i].type->epoch_begin(f->calls[i].self, f, err);
    return st;
}

pg_status pg__calls_batch_end(pg__fit *f, const pg_logs *running, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->batch_end && has_turn(f, i))
            st = f->calls[i].type->batch_end(f->calls[i].self, f, running, err);
    return st;
}

pg_status pg__calls_test_begin(pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->test_begin && has_turn(f, i))
            st = f->calls[i].type->test_begin(f->calls[i].self, f, err);
    return st;
}

pg_status pg__calls_test_end(pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->test_end && has_turn(f, i))
            st = f->calls[i].type->test_end(f->calls[i].self, f, err);
    return st;
}

pg_status pg__calls_epoch_end(pg__fit *f, const pg_logs *logs, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->epoch_end && has_turn(f, i))
            st = f->calls[i].type->epoch_end(f->calls[i].self, f, logs, err);
    return st;
}

pg_status pg__calls_train_end(pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->train_end && has_turn(f, i))
            st = f->calls[i].type->train_end(f->calls[i].self, f, err);
    return st;
}

/* Each state follows its class name, so that other callbacks are noticed. */
void pg__calls_keep(pg__fit *f, pg__archive *a)
{
    for (size_t i = 0; i < f->n_calls && a->st == PG_OK; i++) {
        char *name = pg__mem_strdup(f->calls[i].type->name);
        if (!name)
            a->st = PG_E_NOMEM;
        pg__archive_text(a, &name);
        if (a->st == PG_OK && (!name || strcmp(name, f->calls[i].type->name) != 0))
            a->st = PG_E_FORMAT;
        pg__mem_free(name);
        if (a->st == PG_OK && f->calls[i].type->keep)
            f->calls[i].type->keep(f->calls[i].self, f, a);
    }
}

pg_status pg__calls_recall(const pg__fit *f, pg__str *out, pg_err *err)
{
    pg__str words = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; i < f->n_calls; i++) {
        if (!f->calls[i].type->recall)
            continue;
        words.n = 0;
        PG_TRY(f->calls[i].type->recall(f->calls[i].self, &words, err));
        if (words.n > 0)
            PG_TRY(pg__str_printf(out, err, "; %s", words.s));
    }
done:
    pg__str_fini(&words);
    return st;
}

/* ---- what callbacks ask the run for ---- */

pg_status pg__fit_snapshot(pg__fit *f, int with_slots, pg__snapshot **out, pg_err *err)
{
    pg_status st = PG_OK;
    with_slots |= f->resume_file != NULL; /* it will ask for them next */
    if (f->snapshot && with_slots && !f->snapshot_has_slots) {
        pg__snapshot_drop(f->snapshot);
        f->snapshot = NULL;
    }
    if (!f->snapshot)
        PG_TRY(pg__snapshot_take(&f->snapshot, f->t, with_slots, err));
    f->snapshot_has_slots = with_slots;
    *out = pg__snapshot_share(f->snapshot);
done:
    return st;
}

pg_status pg__fit_changes(pg__fit *f, pg_err *err)
{
    pg__snapshot_drop(f->snapshot);
    f->snapshot = NULL;
    return pg__opt_shard_serve(f->t, err); /* rank 0 may read the slots of the others */
}

pg_status pg__fit_check_monitor(const pg__fit *f, const char *what, const char *monitor,
                                pg_err *err)
{
    for (size_t i = 0; i < f->n_names; i++)
        if (strcmp(f->names[i], monitor) == 0)
            return PG_OK;
    const char *near = pg__nearest(monitor, f->names, f->n_names);
    int lacks_val = !near && strncmp(monitor, "val_", 4) == 0;
    for (size_t i = 0; i < f->n_names; i++)
        lacks_val &= strncmp(f->names[i], "val_", 4) != 0;
    (void)pg_fail(err, PG_E_ARG, "%s: nothing is called \"%s\"%s%s%s%s", what, PG_SHOW(monitor),
                  near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
                  lacks_val ? " without validation data" : "");
    return pg__list_known(err, PG_E_ARG, f->names, f->n_names);
}

int pg__logs_get(const pg_logs *logs, const char *name, double *out)
{
    for (size_t i = 0; i < logs->n; i++)
        if (strcmp(logs->names[i], name) == 0) {
            *out = logs->values[i];
            return 1;
        }
    return 0;
}

double pg__fit_rate(const pg__fit *f)
{
    return pg__optimizer_rate(&f->t->compiled.optimizer);
}

pg_status pg__fit_set_rate(pg__fit *f, double rate, pg_err *err)
{
    pg__optimizer *o = &f->t->compiled.optimizer;
    if (o->schedule)
        return pg_fail(err, PG_E_ARG,
                       "the learning rate is set by %s; a callback cannot set it too",
                       pg__schedule_name(o->schedule));
    o->lr = (double)(float)rate;
    return PG_OK;
}

pg_status pg__fit_event(pg__fit *f, pg_event_kind kind, const char *file, pg_err *err,
                        const char *fmt, ...)
{
    char text[1024];
    const pg_event e = {kind, f->epoch, file, text};
    pg_status st = PG_OK;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < f->n_calls && st == PG_OK; i++)
        if (f->calls[i].type->event && has_turn(f, i))
            st = f->calls[i].type->event(f->calls[i].self, f, &e, err);
    if (st == PG_OK && f->cb && f->cb->event)
        st = f->cb->event(f->cb->user, &e, err);
    return st;
}
