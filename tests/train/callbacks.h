/* callbacks.h - a callback and a trainer that makes no steps: epochs are told, what it does is
 * seen. */
#ifndef CALLBACKS_H
#define CALLBACKS_H

#include <math.h>

#include "base/mem.h"
#include "pg_test.h"
#include "train/fit/callback.h"

typedef struct bench {
    pg__fit fit;
    pg_fit_opts opts;
    pg_callback cb;
    pg__settings settings;
    const pg__cb_type *type;
    void *self;
    size_t n_events;
    pg_event_kind kind; /* of the last event, and its text */
    char text[512];
} bench;

static const char *const bench_names[] = {"loss", "accuracy", "val_loss", "val_accuracy", "lr"};
#define BENCH_NAMES (sizeof bench_names / sizeof *bench_names)

static pg_status bench_hear(void *user, const pg_event *e, pg_err *err)
{
    bench *b = user;
    (void)err;
    b->n_events++;
    b->kind = e->kind;
    assert_null(strchr(e->text, '\n'));
    snprintf(b->text, sizeof b->text, "%s", e->text);
    return PG_OK;
}

static void bench_trainer(bench *b, const char *rules, const char *schedule)
{
    char model[512];
    pg_err err;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .optimizer = "sgd:lr=0.1",
                                .loss = "mse",
                                .rules = rules,
                                .schedule = schedule,
                                .threads = 1};
    memset(b, 0, sizeof *b);
    if (pg_trainer_open(&b->fit.t, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    b->cb = (pg_callback){.user = b, .event = bench_hear};
    b->fit.opts = &b->opts;
    b->fit.cb = &b->cb;
    b->fit.names = bench_names;
    b->fit.n_names = BENCH_NAMES;
    b->fit.rate_name = "lr";
}

/* Opens the callback, as "NAME:key=value" names it. */
static pg_status bench_open(bench *b, const pg__cb_type *type, const char *text, pg_err *err)
{
    pg_status st = PG_OK;
    assert_ok(pg__settings_of(&b->settings, text, err));
    b->type = type;
    b->self = pg__mem_array(1, type->n_bytes);
    st = type->open(b->self, &b->fit, &b->settings, err);
    return st == PG_OK ? pg__settings_end(&b->settings, err) : st;
}

static void bench_close_callback(bench *b)
{
    if (b->type->close)
        b->type->close(b->self, &b->fit);
    pg__mem_free(b->self);
    pg__settings_fini(&b->settings);
}

static void bench_close(bench *b)
{
    bench_close_callback(b);
    pg_trainer_close(b->fit.t);
}

static inline void bench_begin(bench *b, const pg__cb_type *type, const char *text)
{
    pg_err err;
    if (bench_open(b, type, text, &err) != PG_OK)
        fail_msg("%s: %s", text, err.msg);
    if (type->train_begin)
        assert_ok(type->train_begin(b->self, &b->fit, &err));
}

/* An epoch whose validation gave v; NAN: it had none. */
static inline void bench_epoch(bench *b, size_t epoch, double v)
{
    const double all[] = {1, 0.5, v, v, pg__fit_rate(&b->fit)};
    const double some[] = {1, 0.5, pg__fit_rate(&b->fit)};
    static const char *const names[] = {"loss", "accuracy", "lr"};
    const pg_logs logs = isnan(v) ? (pg_logs){names, some, 3} : (pg_logs){bench_names, all, 5};
    b->fit.epoch = epoch;
    if (b->type->epoch_begin)
        assert_ok(b->type->epoch_begin(b->self, &b->fit, NULL));
    if (b->type->epoch_end)
        assert_ok(b->type->epoch_end(b->self, &b->fit, &logs, NULL));
}

/* State goes through bytes into a fresh callback of the same text. */
static inline void bench_resume(bench *b, const char *text)
{
    pg__archive to = {.writes = 1};
    pg_err err;
    b->type->keep(b->self, &b->fit, &to);
    assert_ok(to.st);
    bench_close_callback(b);
    assert_ok(bench_open(b, b->type, text, &err));
    pg__archive from = {.in = (const unsigned char *)to.out.s, .n = to.out.n};
    b->type->keep(b->self, &b->fit, &from);
    assert_ok(from.st);
    assert_int_equal(from.at, from.n);
    b->fit.resumed = 1;
    if (b->type->train_begin)
        assert_ok(b->type->train_begin(b->self, &b->fit, NULL));
    for (size_t n = 0; n < to.out.n; n++) { /* less is refused, and leaks nothing */
        bench cut = *b;
        cut.settings = (pg__settings){.root = NULL};
        assert_ok(bench_open(&cut, b->type, text, &err));
        from = (pg__archive){.in = (const unsigned char *)to.out.s, .n = n};
        cut.type->keep(cut.self, &cut.fit, &from);
        assert_int_equal(from.st, PG_E_FORMAT);
        bench_close_callback(&cut);
        if (n > 100)
            n += to.out.n / 50;
    }
    pg__archive_fini(&to);
}

/* A curve that goes up and down; Keras' decisions about it are in the tests. */
static const double bench_curve[] = {1.0,  0.8,  0.81, 0.79,    0.85, 0.86, 0.7, 0.71,
                                     0.72, 0.73, 0.74, 0.69995, 0.69, 0.9,  0.9, 0.9,
                                     0.9,  0.9,  0.9,  0.9,     0.9,  0.9,  0.9};
#define BENCH_EPOCHS (sizeof bench_curve / sizeof *bench_curve)

#endif
