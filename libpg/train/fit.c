/* fit.c - epochs and batches: what Keras' fit() does around the step. */
#include <math.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/ahead.h"
#include "train/alone.h"
#include "train/callback.h"
#include "train/forecast.h"
#include "train/logs.h"
#include "train/report.h"
#include "train/states.h"

typedef struct run {
    pg_trainer *t;
    pg_data *data;
    const pg_fit_opts *opts;
    const pg_callback *cb;
    pg__fit fit; /* the same, as callbacks see it */
    pg_run what;
    size_t n_epochs; /* finished */
    pg__feed train, val;
    int has_val;
    size_t batch_size;
    pg__course *course;
    pg__ahead *ahead;
    pg__totals own, pass;
    pg_forecast forecast;
    pg__logs logs;
    pg__dims *shapes; /* of the inputs, before the run */
} run;

/* ---- epochs ---- */

static pg_status begin_pass(run *r, const pg__turn *turn, pg_err *err)
{
    pg_status st = PG_OK;
    pg__totals_clear(r->t, &r->pass);
    if (r->opts->reset_states)
        PG_TRY(pg__states_reset(r->t, err));
    if (turn->validation)
        return PG_OK;
    if (r->cb && r->cb->epoch_begin)
        PG_TRY(r->cb->epoch_begin(r->cb->user, turn->epoch, err));
    PG_TRY(pg__calls_epoch_begin(&r->fit, err));
done:
    return st;
}

static pg_status end_pass(run *r, const pg__turn *turn, pg_err *err)
{
    const size_t n = r->logs.n;
    pg_status st = PG_OK;
    pg__logs_fill(r->t, r->logs.values + (turn->validation ? n : 0), &r->pass);
    if (!turn->ends_epoch)
        return PG_OK;
    const pg_logs logs = pg__logs_epoch(&r->logs, turn->validation, pg__fit_rate(&r->fit));
    r->n_epochs++;
    if (r->cb && r->cb->epoch_end)
        PG_TRY(r->cb->epoch_end(r->cb->user, turn->epoch, &logs, err));
    PG_TRY(pg__calls_epoch_end(&r->fit, &logs, err));
done:
    return st;
}

static pg_status end_batch(run *r, size_t batch, pg_err *err)
{
    const size_t n = r->logs.n;
    double *running = r->logs.values + n; /* the validation's place is free now */
    const pg_logs own = {r->logs.shown, r->logs.values, n}, mean = {r->logs.shown, running, n};
    pg_status st = PG_OK;
    if (r->fit.n_calls == 0 && !(r->cb && r->cb->batch_end))
        return PG_OK;
    pg__logs_fill(r->t, r->logs.values, &r->own);
    pg__logs_fill(r->t, running, &r->pass);
    if (r->cb && r->cb->batch_end)
        PG_TRY(r->cb->batch_end(r->cb->user, batch, &own, &mean, err));
    PG_TRY(pg__calls_batch_end(&r->fit, &mean, err));
done:
    return st;
}

static pg_status stop_at_nan(run *r, const pg__batch *batch, const pg__turn *turn, pg_err *err)
{
    char where[256];
    pg_status st = PG_OK;
    PG_TRY(pg__find_nan(r->t, batch, where, err));
    st = pg_fail(err, PG_E_NO, "loss is NaN since epoch %zu, batch %zu; stopped%s%s",
                 turn->epoch + 1, turn->batch + 1, where[0] ? "; first in " : "", where);
done:
    return st;
}

/* After a batch: may it go on? */
static pg_status check_batch(run *r, const pg__batch *batch, const pg__turn *turn, pg_err *err)
{
    if (r->opts->cancel && __atomic_load_n(r->opts->cancel, __ATOMIC_RELAXED))
        return pg_fail(err, PG_E_CANCELLED, "interrupted in epoch %zu, after %sbatch %zu",
                       turn->epoch + 1, turn->validation ? "validation " : "", turn->batch + 1);
    if (!turn->validation && r->fit.terminates_on_nan &&
        (r->t->nan_found || !isfinite(pg__total_loss(r->t, &r->own))))
        return stop_at_nan(r, batch, turn, err);
    return PG_OK;
}

static pg_status run_batch(run *r, const pg__batch *batch, const pg__turn *turn, pg_err *err)
{
    const pg__pass pass = turn->validation ? PG__TESTS : PG__TRAINS;
    pg_status st = PG_OK;
    r->fit.epoch = turn->epoch;
    r->fit.batch = turn->batch;
    if (turn->batch == 0)
        PG_TRY(begin_pass(r, turn, err));
    pg__totals_clear(r->t, &r->own);
    const double clock = pg__now();
    PG_TRY(pg__trainer_step(r->t, batch, pass, NULL, &r->own, err));
    pg__totals_add(r->t, &r->pass, &r->own);
    if (!turn->validation)
        pg__spent_step(r->t, clock, batch->n_rows);
    PG_TRY(check_batch(r, batch, turn, err));
    if (!turn->validation)
        PG_TRY(end_batch(r, turn->batch, err));
    if (turn->is_last)
        PG_TRY(end_pass(r, turn, err));
done:
    return st;
}

static pg_status run_batches(run *r, pg_err *err)
{
    const pg__batch *batch = NULL;
    pg__turn turn = {.ends_epoch = 0};
    pg_status st = PG_OK;
    while (!(r->fit.stops && turn.ends_epoch)) {
        double clock = pg__now(); /* what others do between the steps is not counted */
        PG_TRY(pg__ahead_next(r->ahead, &batch, &turn, err));
        if (!batch)
            break;
        if (!turn.validation)
            pg__lap(&clock, &r->t->spent.input);
        PG_TRY(run_batch(r, batch, &turn, err));
    }
done:
    return st;
}

/* ---- before the first one ---- */

/* The last rows, before any shuffling: n - floor(n (1 - share)). */
static pg_status split_validation(run *r, double share, pg_err *err)
{
    const uint64_t n = r->train.n_rows;
    const uint64_t n_train = (uint64_t)floor((double)n * (1 - share));
    if (!(share > 0 && share < 1) || n_train == 0 || n_train == n)
        return pg_fail(err, PG_E_ARG, "validation_split %g of %llu rows leaves one part empty",
                       share, (unsigned long long)n);
    r->train.n_rows = r->val.first = n_train;
    r->val.n_rows = n - n_train;
    return PG_OK;
}

static pg_status open_feeds(run *r, pg_err *err)
{
    const pg_fit_opts *o = r->opts;
    pg_data *val = o->validation ? o->validation : r->data;
    pg_status st = PG_OK;
    PG_TRY(pg__shapes_begin(r->t, &r->shapes, err));
    PG_TRY(pg__feed_bind(r->t, r->data, PG__FOR_TRAINING, err));
    PG_TRY(pg__feed_open(&r->train, r->t, r->data, PG__FOR_TRAINING, err));
    PG_TRY(pg__feed_fit_inputs(&r->train, r->t, err));
    if (!r->has_val)
        return PG_OK;
    if (val != r->data)
        PG_TRY(pg__feed_bind(r->t, val, PG__FOR_VALIDATION, err));
    PG_TRY(pg__feed_open(&r->val, r->t, val, o->validation ? PG__FOR_VALIDATION : PG__FOR_TRAINING,
                         err));
    PG_TRY(pg__feed_fit_inputs(&r->val, r->t, err));
    if (!o->validation)
        PG_TRY(split_validation(r, o->validation_split, err));
done:
    return st;
}

static pg_status plan_course(run *r, pg_err *err)
{
    const pg_fit_opts *o = r->opts;
    const int shuffled = !o->no_shuffle && r->t->built_params.n_states == 0;
    const pg__course_opts opts = {.n_train = r->train.n_rows,
                                  .n_val = r->has_val ? r->val.n_rows : 0,
                                  .batch_size = r->batch_size,
                                  .epochs = o->epochs ? o->epochs : 1,
                                  .first_epoch = o->initial_epoch,
                                  .steps = o->steps_per_epoch,
                                  .val_steps = o->validation_steps,
                                  .val_every = o->validation_freq,
                                  .shuffling = !shuffled            ? PG__SHUFFLE_NONE
                                               : o->shuffle_batches ? PG__SHUFFLE_BATCHES
                                                                    : PG__SHUFFLE_ROWS,
                                  .seed = o->seed,
                                  .whole_only = pg__feed_is_fixed(r->t)};
    return pg__course_new(&r->course, &opts, err);
}

/* A batch is not larger than the data, but where its size is fixed. */
static pg_status size_batches(run *r, pg_err *err)
{
    const pg_fit_opts *o = r->opts;
    const uint64_t most = r->train.n_rows > r->val.n_rows ? r->train.n_rows : r->val.n_rows;
    pg_status st = PG_OK;
    PG_TRY(pg__feed_batch_size(r->t, o->batch_size, &r->batch_size, err));
    r->t->part_rows = o->accumulate > 1 ? r->batch_size : 0;
    if (__builtin_mul_overflow(r->batch_size, o->accumulate > 1 ? o->accumulate : 1,
                               &r->batch_size))
        PG_FAIL(PG_E_ARG, "accumulate: %zu batches are more rows than can be counted",
                o->accumulate);
    if (r->batch_size > most && !pg__feed_is_fixed(r->t))
        r->batch_size = (size_t)most;
    if (o->steps_per_epoch == 0)
        PG_TRY(pg__feed_divides(&r->train, r->batch_size, "--steps-per-epoch", err));
    if (r->has_val && o->validation_steps == 0)
        PG_TRY(pg__feed_divides(&r->val, r->batch_size, "--validation-steps", err));
done:
    return st;
}

static pg_status open_calls(run *r, pg_err *err)
{
    pg__fit *f = &r->fit;
    *f = (pg__fit){.t = r->t,
                   .opts = r->opts,
                   .run = &r->what,
                   .names = r->logs.shown,
                   .n_names = r->logs.names.n,
                   .rate_name = pg__rate_name(r->t),
                   .terminates_on_nan = r->opts->terminate_on_nan,
                   .first_epoch = r->opts->initial_epoch,
                   .cb = r->cb};
    const pg_status st = pg__calls_open(f, err);
    r->t->stops_on_nan = f->terminates_on_nan;
    return st;
}

/* Finds the data and everything that is as large as a batch. */
static pg_status prepare(run *r, pg_err *err)
{
    const pg__program *p = NULL;
    pg_status st = PG_OK;
    PG_TRY(open_feeds(r, err));
    PG_TRY(size_batches(r, err));
    PG_TRY(pg__feed_program(r->t, r->batch_size, PG__TRAINS, &p, err));
    PG_TRY(pg__feed_fit(&r->train, p, err));
    if (r->opts->class_weight)
        PG_TRY(pg__feed_weigh_classes(&r->train, r->opts->class_weight, err));
    if (r->has_val)
        PG_TRY(pg__feed_fit(&r->val, p, err));
    PG_TRY(pg__metrics_resolve(r->t, p, err));
    PG_TRY(pg__totals_alloc(r->t, &r->own, err));
    PG_TRY(pg__totals_alloc(r->t, &r->pass, err));
    PG_TRY(pg__logs_open(&r->logs, r->t, r->has_val, err));
    PG_TRY(open_calls(r, err));
    PG_TRY(plan_course(r, err));
    PG_TRY(pg__forecast_of(&r->forecast, r->t, r->batch_size, PG__AHEAD_BATCHES, err));
done:
    return st;
}

static pg_status start_reading(run *r, pg_err *err)
{
    return pg__ahead_new(&r->ahead, r->course, &r->train, r->has_val ? &r->val : NULL,
                         r->batch_size, err);
}

static pg_status begin_training(run *r, pg_err *err)
{
    pg_status st = PG_OK;
    r->what = pg__run_of(r->t);
    r->what.batch_size = r->batch_size;
    r->what.n_batches = pg__course_steps(r->course);
    r->what.n_epochs = r->opts->epochs ? r->opts->epochs : 1;
    r->what.n_train = r->train.n_rows;
    r->what.n_val = r->val.n_rows;
    if (r->cb && r->cb->train_begin)
        PG_TRY(r->cb->train_begin(r->cb->user, &r->what, err));
    PG_TRY(pg__calls_train_begin(&r->fit, err));
done:
    return st;
}

static pg_status end_training(run *r, double began, pg_err *err)
{
    pg_fit_report report = pg__report_of(r->t, began);
    pg_status st = PG_OK;
    report.n_epochs = r->n_epochs;
    pg__ahead_free(r->ahead);
    r->ahead = NULL;
    PG_TRY(pg__calls_train_end(&r->fit, err));
    if (r->opts->measure_alone && r->t->cut.n_replicas > 1 && report.rows_per_second > 0)
        PG_TRY(pg__measure_alone(r->t, &r->train, r->batch_size, &report.alone, err));
    if (r->cb && r->cb->train_end)
        r->cb->train_end(r->cb->user, &report);
    if (r->fit.missing != PG_OK && err)
        *err = r->fit.why;
    st = r->fit.missing;
done:
    return st;
}

static void clean_up(run *r)
{
    pg__ahead_free(r->ahead);
    pg__calls_close(&r->fit);
    pg__course_free(r->course);
    pg__logs_close(&r->logs);
    pg__totals_free(&r->own);
    pg__totals_free(&r->pass);
    pg__feed_close(&r->train);
    pg__feed_close(&r->val);
    r->t->part_rows = 0;
    pg__shapes_end(r->t, &r->shapes);
}

/* Whatever can be wrong before the first batch. */
static pg_status open_run(run *r, pg_err *err)
{
    pg_trainer *t = r->t;
    size_t n_losses = 0;
    for (size_t k = 0; k < t->n_outputs; k++)
        n_losses += (size_t)t->objectives[k].has_loss;
    if (n_losses == 0) {
        (void)pg_fail(err, PG_E_ARG, "no loss given");
        pg_err_hint(err, "--loss categorical_crossentropy");
        return PG_E_ARG;
    }
    if (r->opts->validation && r->opts->validation_split != 0)
        return pg_fail(err, PG_E_ARG,
                       "validation data are given and a share of the training's too");
    if (r->opts->initial_epoch >= (r->opts->epochs ? r->opts->epochs : 1))
        return pg_fail(err, PG_E_ARG, "epochs end at %zu, which the initial epoch %zu is behind",
                       r->opts->epochs ? r->opts->epochs : 1, r->opts->initial_epoch);
    t->seed = r->opts->seed;
    t->spent = (pg__spent){0};
    t->nan_found = 0;
    return prepare(r, err);
}

pg_status pg_fit_forecast(pg_forecast *out, pg_trainer *t, pg_data *data, const pg_fit_opts *opts,
                          pg_err *err)
{
    run r = {.t = t,
             .data = data,
             .opts = opts,
             .has_val = opts->validation != NULL || opts->validation_split != 0};
    const pg_status st = open_run(&r, err);
    if (st == PG_OK)
        *out = r.forecast;
    clean_up(&r);
    return st;
}

pg_status pg_fit(pg_trainer *t, pg_data *data, const pg_fit_opts *opts, const pg_callback *cb,
                 pg_err *err)
{
    run r = {.t = t,
             .data = data,
             .opts = opts,
             .cb = cb,
             .has_val = opts->validation != NULL || opts->validation_split != 0};
    const double began = pg__now();
    pg_status st = PG_OK;
    PG_TRY(open_run(&r, err));
    PG_TRY(pg__forecast_check(t, &r.forecast, err));
    PG_TRY(start_reading(&r, err));
    PG_TRY(begin_training(&r, err));
    PG_TRY(run_batches(&r, err));
    PG_TRY(end_training(&r, began, err));
done:
    clean_up(&r);
    return st;
}
