/* fit_open.c - everything that a run checks and prepares before its first batch. */
#include <math.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/fit/fit_impl.h"
#include "train/fit/memory_estimate.h"
#include "train/step/step.h"

typedef pg__fit_run run;

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
    PG_TRY(pg__feed_bind(r->t, r->data, PG_FOR_TRAINING, err));
    PG_TRY(pg__feed_open(&r->train, r->t, r->data, PG_FOR_TRAINING, err));
    PG_TRY(pg__feed_fit_inputs(&r->train, r->t, err));
    if (!r->has_val)
        return pg__data_mention_unused(r->data, err);
    if (val != r->data)
        PG_TRY(pg__feed_bind(r->t, val, PG_FOR_VALIDATION, err));
    PG_TRY(pg__feed_open(&r->val, r->t, val, o->validation ? PG_FOR_VALIDATION : PG_FOR_TRAINING,
                         err));
    PG_TRY(pg__feed_fit_inputs(&r->val, r->t, err));
    PG_TRY(pg__folder_same_classes(r->data, val, err));
    PG_TRY(pg__data_mention_unused(val, err));
    if (!o->validation)
        PG_TRY(split_validation(r, o->validation_split, err));
done:
    return st;
}

static pg_status plan_course(run *r, pg_err *err)
{
    const pg_fit_opts *o = r->opts;
    const int shuffled = !o->no_shuffle && r->t->net.built_params.n_states == 0;
    const pg__batch_order_opts opts = {.n_train = r->train.n_rows,
                                       .n_val = r->has_val ? r->val.n_rows : 0,
                                       .batch_size = r->batch_size,
                                       .epochs = o->epochs ? o->epochs : 1,
                                       .first_epoch = o->initial_epoch,
                                       .steps = o->steps_per_epoch,
                                       .val_steps = o->validation_steps,
                                       .val_every = o->validation_freq,
                                       .shuffling = !shuffled            ? PG_SHUFFLE_NONE
                                                    : o->shuffle_batches ? PG_SHUFFLE_BATCHES
                                                                         : PG_SHUFFLE_ROWS,
                                       .seed = o->seed,
                                       .whole_only = pg__feed_is_fixed(r->t)};
    return pg__batch_order_new(&r->order, &opts, err);
}

/* A batch is at most as large as the data, unless its size is fixed. */
static pg_status size_batches(run *r, pg_err *err)
{
    const pg_fit_opts *o = r->opts;
    const uint64_t most = r->train.n_rows > r->val.n_rows ? r->train.n_rows : r->val.n_rows;
    pg_status st = PG_OK;
    PG_TRY(pg__feed_batch_size(r->t, o->batch_size, &r->batch_size, err));
    r->t->loop.part_rows = o->accumulate > 1 ? r->batch_size : 0;
    if (__builtin_mul_overflow(r->batch_size, o->accumulate > 1 ? o->accumulate : 1,
                               &r->batch_size))
        PG_FAIL(PG_E_ARG, "accumulate: %zu batches are more rows than can be counted",
                o->accumulate);
    if (r->batch_size > most && !pg__feed_is_fixed(r->t))
        r->batch_size = (size_t)most;
    if (o->steps_per_epoch == 0)
        PG_TRY(pg__feed_divides(&r->train, r->batch_size, "steps_per_epoch", err));
    if (r->has_val && o->validation_steps == 0)
        PG_TRY(pg__feed_divides(&r->val, r->batch_size, "validation_steps", err));
done:
    return st;
}

static pg_status open_calls(run *r, pg_err *err)
{
    pg__fit *f = &r->fit;
    *f = (pg__fit){.t = r->t,
                   .opts = r->opts,
                   .run = &r->what,
                   .data_path = pg__data_path(r->data),
                   .resume = r->opts->resume,
                   .resume_every = r->opts->resume_every,
                   .names = r->logs.shown,
                   .n_names = r->logs.names.n,
                   .rate_name = pg__rate_name(r->t),
                   .terminates_on_nan = r->opts->terminate_on_nan,
                   .first_epoch = r->opts->initial_epoch,
                   .cb = r->cb};
    pg_status st = PG_OK;
    if (r->opts->resume_file) {
        f->resume_file = pg__mem_strdup(r->opts->resume_file);
        if (!f->resume_file)
            PG_TRY(pg__nomem(err));
    }
    PG_TRY(pg__calls_open(f, err));
    r->t->loop.stops_on_nan = f->terminates_on_nan;
    if (f->resume && !f->resume_file)
        PG_FAIL(PG_E_ARG, "resume: no resume_file given");
done:
    return st;
}

static void describe(run *r)
{
    r->what = pg__run_of(r->t);
    r->what.batch_size = r->batch_size;
    r->what.n_batches = pg__batch_order_steps(r->order);
    r->what.n_epochs = r->opts->epochs ? r->opts->epochs : 1;
    r->what.n_train = r->train.n_rows;
    r->what.n_val = r->val.n_rows;
}

/* Keeps callbacks from evaluating with the data that the next batch comes from. */
static void hold_data(run *r, int holds)
{
    pg__data_hold(r->data, holds);
    if (r->opts->validation && r->opts->validation != r->data)
        pg__data_hold(r->opts->validation, holds);
    r->holds = holds;
}

int pg__fit_keeps(const run *r)
{
    const pg__fit *f = &r->fit;
    return f->resume_file && (f->resume_every > 0 || f->n_copied > 0);
}

/* Bytes of the snapshots that files are written from. Saving on interruption alone copies only once
 * everything else is freed. */
static uint64_t copied(const run *r)
{
    const pg__fit *f = &r->fit;
    const uint64_t whole = pg__fit_keeps(r) ? pg__snapshot_bytes(r->t, 1) : 0;
    return (whole > f->n_copied ? whole : f->n_copied) + f->n_held;
}

/* For whole batches, and for the remainder at the end. */
static size_t n_programs(const run *r)
{
    const size_t n = r->train.n_rows % r->batch_size ? 2 : 1;
    return r->has_val ? n + (r->val.n_rows % r->batch_size ? 2 : 1) : n;
}

/* Opens the data and allocates everything whose size depends on the batch. */
static pg_status prepare(run *r, pg_err *err)
{
    const pg__program *p = NULL;
    pg_status st = PG_OK;
    PG_TRY(open_feeds(r, err));
    hold_data(r, 1);
    PG_TRY(size_batches(r, err));
    PG_TRY(pg__feed_program(r->t, r->batch_size, PG_TRAINS, &p, err));
    PG_TRY(pg__feed_fit(&r->train, p, err));
    PG_TRY(pg__feed_hint_scale(&r->train, r->data, err));
    if (r->opts->class_weight)
        PG_TRY(pg__feed_weigh_classes(&r->train, r->opts->class_weight, err));
    if (r->has_val)
        PG_TRY(pg__feed_fit(&r->val, p, err));
    PG_TRY(pg__metrics_resolve(r->t, p, err));
    PG_TRY(pg__totals_alloc(r->t, &r->own, err));
    PG_TRY(pg__totals_alloc(r->t, &r->pass, err));
    PG_TRY(pg__logs_open(&r->logs, r->t, r->has_val, err));
    PG_TRY(plan_course(r, err));
    describe(r);
    PG_TRY(pg__fit_trace_open(r, err));
    PG_TRY(open_calls(r, err));
    if (r->fit.resume_file || r->t->ranks)
        r->fit.data_crc = pg__feed_mark(&r->train);
    r->resume.run = r;
    r->resume.keep = pg__fit_keep;
    PG_TRY(pg__resume_open(&r->resume, &r->fit, err));
    const pg__beside beside = {PG_PREFETCH_BATCHES, n_programs(r), copied(r)};
    PG_TRY(pg__memory_estimate_of(&r->forecast, r->t, r->batch_size, &beside, err));
done:
    return st;
}

void pg__fit_close(run *r)
{
    pg__prefetch_free(r->ahead);
    if (r->holds)
        hold_data(r, 0);
    pg__writer_free(r->fit.writer); /* its jobs use the callbacks */
    pg__calls_close(&r->fit);
    pg__snapshot_drop(r->fit.snapshot);
    pg__snapshot_forget(r->t);
    pg__mem_free(r->fit.resume_file);
    pg__resume_close(&r->resume);
    pg__resume_lock_release(&r->lock);
    pg__batch_order_free(r->order);
    pg__logs_close(&r->logs);
    pg__totals_free(&r->own);
    pg__totals_free(&r->pass);
    pg__feed_close(&r->train);
    pg__feed_close(&r->val);
    pg__fit_trace_close(r);
    r->t->loop.part_rows = 0;
    pg__shapes_end(r->t, &r->shapes);
}

pg_status pg__fit_open(run *r, pg_err *err)
{
    pg_trainer *t = r->t;
    size_t n_losses = 0;
    for (size_t k = 0; k < t->net.n_outputs; k++)
        n_losses += (size_t)t->compiled.objectives[k].has_loss;
    if (n_losses == 0) {
        (void)pg_fail(err, PG_E_ARG, "no loss given");
        pg_err_set(err, "loss", "categorical_crossentropy");
        return PG_E_ARG;
    }
    if (r->opts->validation && r->opts->validation_split != 0)
        return pg_fail(err, PG_E_ARG, "both validation data and a validation split are given");
    if (r->opts->initial_epoch >= (r->opts->epochs ? r->opts->epochs : 1))
        return pg_fail(err, PG_E_ARG,
                       "the initial epoch %zu is not below the number of epochs, %zu",
                       r->opts->initial_epoch, r->opts->epochs ? r->opts->epochs : 1);
    if (pg__spectral_check(&t->net, err) != PG_OK)
        return PG_E_UNSUPPORTED;
    t->loop.seed = r->opts->seed;
    t->report.spent = (pg__spent){0};
    t->loop.nan_found = 0;
    pg__profile_drop(t);
    const pg_status st = r->opts->profile ? pg__profile_start(t, PG_TRAINS, err) : PG_OK;
    return st == PG_OK ? prepare(r, err) : st;
}
