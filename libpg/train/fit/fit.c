/* fit.c - epochs and batches: what Keras' fit() does around the step. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/fit/alone.h"
#include "train/fit/fit_impl.h"
#include "train/fit/memory_estimate.h"
#include "train/model/model.h"
#include "train/step/step.h"

typedef pg__fit_run run;

/* ---- epochs ---- */

static pg_status begin_pass(run *r, const pg__turn *turn, pg_err *err)
{
    pg_status st = PG_OK;
    pg__totals_clear(r->t, &r->pass);
    if (r->opts->reset_states)
        PG_TRY(pg__states_reset(r->t, err));
    if (turn->validation)
        return pg__calls_test_begin(&r->fit, err);
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
    if (turn->validation)
        PG_TRY(pg__calls_test_end(&r->fit, err));
    if (!turn->ends_epoch)
        return PG_OK;
    const pg_logs logs = pg__logs_epoch(&r->logs, turn->validation, pg__fit_rate(&r->fit));
    r->n_finished++;
    if (r->cb && r->cb->epoch_end)
        PG_TRY(r->cb->epoch_end(r->cb->user, turn->epoch, &logs, err));
    if (r->opts->stop && *r->opts->stop)
        r->fit.stops = 1;
    PG_TRY(pg__calls_epoch_end(&r->fit, &logs, err));
done:
    return st;
}

static pg_status end_batch(run *r, size_t batch, pg_err *err)
{
    const size_t n = r->logs.n;
    double *running = r->logs.values + n; /* the room for validation is free now */
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
    PG_TRY(pg__ranks_where(r->t->ranks, where, err));
    st = pg_fail(err, PG_E_NO, "loss is NaN since epoch %zu, batch %zu; stopped%s%s",
                 turn->epoch + 1, turn->batch + 1, where[0] ? "; first in " : "", where);
    st = pg__ranks_agree(r->t->ranks, st, err);
done:
    return st;
}

static pg_status check_loss(run *r, const pg__batch *batch, const pg__turn *turn, pg_err *err)
{
    if (!turn->validation && r->fit.terminates_on_nan &&
        (r->t->loop.nan_found || !isfinite(pg__total_loss(r->t, &r->own))))
        return stop_at_nan(r, batch, turn, err);
    return PG_OK;
}

/* Stops the run, after saving its state if it has a resume file. */
static pg_status stop_here(run *r, const pg__turn *turn, pg_err *err)
{
    const char *file = r->fit.resume_file;
    char where[96];
    pg_status st = PG_OK;
    snprintf(where, sizeof where, "interrupted in epoch %zu, after %sbatch %zu", turn->epoch + 1,
             turn->validation ? "validation " : "", turn->batch + 1);
    if (!file || pg__rank_of(r->t->ranks) > 0)
        PG_FAIL(PG_E_CANCELLED, "%s", where);
    PG_TRY(pg__resume_save(&r->resume, PG_RESUME_AT_STOP, err));
    if (r->resume.failed)
        PG_FAIL(PG_E_CANCELLED, "%s; its state could not be saved: %s", where, r->resume.why.msg);
    st = pg_fail(err, PG_E_CANCELLED, "%s; saved %s", where, PG_SHOW(file));
    pg_err_do(err, PG_DO_RESUME, file);
done:
    return st;
}

/* Rank 0 has finished reading the others' optimizer state, for which they wait; not if nothing is
 * ever written. */
static pg_status meet_writer(run *r, pg_status st, pg_err *err)
{
    pg_err unheard = {0};
    if ((st != PG_OK && st != PG_E_CANCELLED) || !r->meets_writer)
        return st;
    const pg_status met = pg__opt_shard_serve(r->t, st == PG_OK ? err : &unheard);
    return st == PG_OK ? met : st;
}

/* Between two steps: reports finished writes, saves if it is time, decides whether to go on. */
static pg_status take_own_stock(run *r, const pg__turn *turn, pg_err *err)
{
    pg_status st = PG_OK;
    r->next = pg__point_after(turn);
    PG_TRY(pg__writer_poll(r->fit.writer, err));
    if (pg__must_stop(r->t->ranks, r->opts->cancel))
        PG_TRY(stop_here(r, turn, err));
    if (pg__rank_of(r->t->ranks) == 0 && pg__resume_is_due(&r->resume))
        PG_TRY(pg__resume_save(&r->resume, PG_RESUME_BETWEEN, err));
done:
    pg__snapshot_drop(r->fit.snapshot);
    r->fit.snapshot = NULL;
    return st;
}

static pg_status take_stock(run *r, const pg__turn *turn, pg_err *err)
{
    const int writes = pg__rank_of(r->t->ranks) == 0;
    pg_status st = writes ? PG_OK : meet_writer(r, PG_OK, err);
    if (st == PG_OK)
        st = take_own_stock(r, turn, err);
    return writes ? meet_writer(r, st, err) : st;
}

/* With float16 the first loss scales are trials, so skipped steps are no cause for concern. */
static pg_status report_skipped(run *r, const pg__turn *turn, pg_err *err)
{
    const pg__loss_scale *s = &r->t->compiled.scale;
    if (!s->skipped || turn->validation)
        return PG_OK;
    return pg__fit_event(
        &r->fit, PG_EVENT_SKIPPED, NULL, err,
        "batch %zu: gradients overflowed float16; weights unchanged; loss scale now %.0f",
        turn->batch + 1, s->now);
}

static pg_status run_step(run *r, const pg__batch *batch, const pg__turn *turn, pg_err *err)
{
    const pg__pass pass = turn->validation ? PG_TESTS : PG_TRAINS;
    const double clock = pg__now(), traced = pg__trace_begin(r->t->report.trace);
    pg_status st = PG_OK;
    PG_TRY(pg__trainer_step(r->t, batch, pass, NULL, &r->own, err));
    pg__totals_add(r->t, &r->pass, &r->own);
    if (turn->validation) {
        pg__trace_end(r->t->report.trace, 0, traced, PG_TRACE_VALIDATION, (uint32_t)turn->batch + 1,
                      batch->n_rows);
        return PG_OK;
    }
    pg__trace_end(r->t->report.trace, 0, traced, PG_TRACE_STEP, (uint32_t)r->n_steps,
                  batch->n_rows);
    pg__spent_step(r->t, clock, batch->n_rows);
done:
    return st;
}

static pg_status run_batch(run *r, const pg__batch *batch, const pg__turn *turn, pg_err *err)
{
    pg_status st = PG_OK;
    r->fit.epoch = turn->epoch;
    r->fit.batch = turn->batch;
    if (turn->batch == 0)
        PG_TRY(begin_pass(r, turn, err));
    pg__totals_clear(r->t, &r->own);
    if (!turn->validation)
        PG_TRY(pg__fit_trace_before(r, err));
    PG_TRY(run_step(r, batch, turn, err));
    const double after = pg__trace_begin(r->t->report.trace);
    PG_TRY(check_loss(r, batch, turn, err));
    PG_TRY(report_skipped(r, turn, err));
    if (!turn->validation)
        PG_TRY(end_batch(r, turn->batch, err));
    if (turn->is_last)
        PG_TRY(end_pass(r, turn, err));
    st = take_stock(r, turn, err);
    pg__trace_end(r->t->report.trace, 0, after, PG_TRACE_AFTER, 0, 0);
    if (st == PG_E_CANCELLED && pg__must_stop(r->t->ranks, r->opts->cancel))
        pg__fit_trace_cancel(r);
    PG_TRY(st);
    if (!turn->validation)
        PG_TRY(pg__fit_trace_after(r, err));
done:
    return st;
}

static pg_status run_batches(run *r, pg_err *err)
{
    const pg__batch *batch = NULL;
    pg__turn turn = {.ends_epoch = 1};
    pg_status st = PG_OK;
    while (!(r->fit.stops && turn.ends_epoch)) {
        double clock = pg__now(); /* time spent by others between steps does not count */
        const double traced = pg__trace_begin(r->t->report.trace);
        PG_TRY(pg__prefetch_next(r->ahead, &batch, &turn, err));
        pg__trace_end(r->t->report.trace, 0, traced, PG_TRACE_WAIT_FOR_DATA, 0, 0);
        if (!batch)
            break;
        if (!turn.validation)
            pg__lap(&clock, &r->t->report.spent.input);
        PG_TRY(run_batch(r, batch, &turn, err));
    }
done:
    return st;
}

/* ---- going on ---- */

static void keep_totals(const pg_trainer *t, pg__totals *totals, pg__archive *a)
{
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        pg__archive_real(a, &totals->loss_sums[k]);
        pg__archive_real(a, &totals->loss_counts[k]);
        pg__archive_real(a, &totals->batch_losses[k]);
    }
    for (size_t i = 0; i < t->compiled.n_metric_state; i++)
        pg__archive_real(a, &totals->metrics[i]);
    pg__archive_real(a, &totals->penalty_sum);
    pg__archive_u64(a, &totals->n_rows);
    pg__archive_u64(a, &totals->n_batches);
}

/* During validation the logs hold the results of training. */
void pg__fit_keep(void *user, pg__archive *a)
{
    run *r = user;
    pg__archive_size(a, &r->next.epoch);
    pg__archive_size(a, &r->next.batch);
    pg__archive_int(a, &r->next.in_validation);
    keep_totals(r->t, &r->pass, a);
    for (size_t i = 0; i < r->logs.n; i++)
        pg__archive_real(a, &r->logs.values[i]);
}

static pg_status report_place(run *r, pg_err *err)
{
    const size_t epoch = r->next.epoch + 1, batch = r->next.batch + 1;
    pg__str text = {0};
    pg_status st = PG_OK;
    if (r->fit.stops || r->next.epoch >= r->what.n_epochs)
        PG_TRY(pg__str_printf(&text, err, "finished already, after epoch %zu", r->next.epoch));
    else if (r->next.in_validation)
        PG_TRY(pg__str_printf(&text, err, "epoch %zu, validation step %zu", epoch, batch));
    else if (batch > 1)
        PG_TRY(pg__str_printf(&text, err, "epoch %zu, step %zu", epoch, batch));
    else
        PG_TRY(pg__str_printf(&text, err, "epoch %zu", epoch));
    PG_TRY(pg__calls_recall(&r->fit, &text, err));
    PG_TRY(pg__fit_event(&r->fit, PG_EVENT_RESUME, r->fit.resume_file, err, "%s", text.s));
done:
    pg__str_fini(&text);
    return st;
}

static pg_status resume_run(run *r, pg_err *err)
{
    pg_status st = PG_OK;
    int found = 0;
    if (!r->fit.resume)
        return PG_OK;
    st = pg__resume_load(&r->resume, &found, err);
    PG_TRY(pg__ranks_agree(r->t->ranks, st, err));
    PG_TRY(pg__ranks_found(r->t->ranks, r->fit.resume_file, found, r->resume.mark, err));
    if (!found)
        return PG_OK;
    pg__batch_order_seek(r->order, &r->next);
    r->fit.resumed = 1;
    r->fit.first_epoch = r->fit.epoch = r->next.epoch;
    PG_TRY(report_place(r, err));
done:
    return st;
}

/* ---- beginning and end ---- */

/* Rank 0 may be about to write state that is sharded over the others; they cannot know, so ask. */
static pg_status ask_for_meetings(run *r, pg_err *err)
{
    int writes = r->fit.resume_file != NULL;
    pg_status st = PG_OK;
    if (!pg__is_sharded(r->t->ranks))
        return PG_OK;
    for (size_t i = 0; i < r->fit.n_calls; i++)
        writes |= r->fit.calls[i].type->writes;
    PG_TRY(pg__ranks_any(r->t, &writes, err));
    r->meets_writer = writes;
done:
    return st;
}

/* Rank 0 writes the state. If only an interruption would write it, runs may share a folder. A
 * missing required file is reported by the code that opens it. */
static pg_status lock_state(run *r, pg_err *err)
{
    const pg__fit *f = &r->fit;
    const int makes_folder = f->resume != 1;
    if (!f->resume_file || pg__rank_of(r->t->ranks) > 0 || (!f->resume && !pg__fit_keeps(r)))
        return PG_OK;
    return pg__resume_lock_take(&r->lock, f->resume_file, makes_folder, err);
}

/* A replica has batch size / replicas rows, rounded down, and the last one gets the rest; lanes
 * that are not tied to replicas are divided evenly. */
static pg_status note_idle(run *r, pg_err *err)
{
    const pg_trainer *t = r->t;
    const size_t rows = t->loop.part_rows ? (size_t)t->loop.part_rows : r->batch_size;
    if (rows >= r->what.n_devices || pg__rank_of(t->ranks) > 0 ||
        (t->pool.cut.n_lanes && !t->pool.cut.by_replica))
        return PG_OK;
    return pg__fit_event(
        &r->fit, PG_EVENT_NOTE, NULL, err,
        "a batch of %zu is too small for %zu devices: the last one computes all of "
        "it",
        rows, r->what.n_devices);
}

/* In a resumed epoch, callbacks have seen epoch_begin already, the program has not. */
static pg_status begin_training(run *r, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__writer_new(&r->fit.writer, pg__is_sharded(r->t->ranks),
                          err)); /* sharded slots must be read between steps */
    pg__writer_trace(r->fit.writer, r->t->report.trace);
    if (r->cb && r->cb->train_begin)
        PG_TRY(r->cb->train_begin(r->cb->user, &r->what, err));
    PG_TRY(note_idle(r, err));
    PG_TRY(ask_for_meetings(r, err));
    PG_TRY(resume_run(r, err));
    PG_TRY(pg__ranks_agree(r->t->ranks, pg__calls_train_begin(&r->fit, err), err));
    PG_TRY(pg__prefetch_new(&r->ahead, r->order, &r->train, r->has_val ? &r->val : NULL,
                            r->batch_size, err));
    if ((r->next.batch > 0 || r->next.in_validation) && r->cb && r->cb->epoch_begin)
        PG_TRY(r->cb->epoch_begin(r->cb->user, r->next.epoch, err));
done:
    return st;
}

/* Names the file to be written after the last state, which records it. */
static pg_status name_output(run *r, pg_err *err)
{
    r->t->loop.state = pg__mem_strdup(r->fit.resume_file);
    r->t->loop.output = pg__mem_strdup(r->opts->output);
    return r->t->loop.state && r->t->loop.output ? PG_OK : pg__nomem(err);
}

static void forget_output(pg_trainer *t)
{
    pg__mem_free(t->loop.state);
    pg__mem_free(t->loop.output);
    t->loop.state = t->loop.output = NULL;
}

/* Saves the last state of a finished run, or fails if a requested file is missing. */
static pg_status end_resume(run *r, pg_err *err)
{
    pg__fit *f = &r->fit;
    pg_status st = PG_OK;
    PG_TRY(pg__writer_wait(f->writer, err));
    if (pg__rank_of(r->t->ranks) > 0)
        goto done;
    if (f->resume_ends) {
        pg__resume_remove(&r->resume);
        goto done;
    }
    if (f->resume_file && (r->resume.has_saved || r->resume.failed || f->resumed))
        PG_TRY(pg__resume_save(&r->resume, PG_RESUME_AT_END, err));
    if (f->resume_file && r->opts->output && r->resume.has_saved && !r->resume.failed)
        PG_TRY(name_output(r, err));
    if (r->resume.failed && f->missing == PG_OK) {
        f->missing = PG_E_IO;
        f->why = r->resume.why;
    }
done:
    return st;
}

static pg_status end_training(run *r, double began, pg_err *err)
{
    pg_fit_report report = pg__report_of(&r->t->report, began);
    pg_status st = PG_OK;
    report.n_epochs = r->n_finished;
    PG_TRY(pg__ranks_shares(r->t, &report, err));
    PG_TRY(pg__fit_trace_end(r, err));
    pg__prefetch_free(r->ahead);
    r->ahead = NULL;
    PG_TRY(pg__average_finish(r->t, err));
    PG_TRY(pg__calls_train_end(&r->fit, err));
    PG_TRY(end_resume(r, err));
    PG_TRY(meet_writer(r, PG_OK, err));
    if (r->opts->measure_alone && !r->t->ranks && r->t->pool.cut.n_replicas > 1 &&
        report.rows_per_second > 0)
        PG_TRY(pg__measure_alone(r->t, &r->train, r->batch_size, &report.alone, err));
    if (r->cb && r->cb->train_end)
        r->cb->train_end(r->cb->user, &report);
    if (r->fit.missing != PG_OK && err)
        *err = r->fit.why;
    r->has_ended = 1;
    st = r->fit.missing;
done:
    return st;
}

/* Finds errors that would stop training at its first batch. */
static pg_status try_first_rows(const run *r, const pg__feed *f, pg_err *err)
{
    pg__batch b = {.n_rows = 0};
    const size_t n = f->n_rows < r->batch_size ? (size_t)f->n_rows : r->batch_size;
    const pg_status st = pg__feed_read_first(f, n, &b, err);
    pg__batch_free(&b, r->t);
    return st;
}

pg_status pg_fit_forecast(pg_forecast *out, pg_trainer *t, pg_data *data, const pg_fit_opts *opts,
                          pg_err *err)
{
    run r = {.t = t,
             .data = data,
             .opts = opts,
             .has_val = opts->validation != NULL || opts->validation_split != 0};
    pg_status st = PG_OK;
    PG_TRY(pg__with_message(t, pg__fit_open(&r, err), err));
    *out = r.forecast;
    PG_TRY(try_first_rows(&r, &r.train, err));
    if (r.has_val)
        PG_TRY(try_first_rows(&r, &r.val, err));
done:
    pg__fit_close(&r);
    return st;
}

static pg_status open_run(run *r, pg_err *err)
{
    const pg_status st = pg__fit_open(r, err);
    return st == PG_OK ? pg__memory_estimate_check(r->t, &r->forecast, err) : st;
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
    pg__ranks_begin_call(t, opts->cancel);
    forget_output(t);
    PG_TRY(pg__ranks_agree(t->ranks, open_run(&r, err), err));
    PG_TRY(pg__ranks_same_run(t, opts, err));
    PG_TRY(pg__ranks_same_data(t, &r.train, err));
    if (r.has_val)
        PG_TRY(pg__ranks_same_data(t, &r.val, err));
    PG_TRY(pg__ranks_agree(t->ranks, lock_state(&r, err), err));
    PG_TRY(begin_training(&r, err));
    PG_TRY(run_batches(&r, err));
    PG_TRY(end_training(&r, began, err));
done:
    st = pg__with_message(t, st, err);
    if (st != PG_OK)
        pg__fit_trace_fail(&r, err);
    if (!r.has_ended) /* else only a file of rank 0 is missing: training succeeded */
        st = pg__ranks_fail(t->ranks, st, err);
    if (st != PG_OK && r.fit.writer)
        (void)pg__writer_wait(r.fit.writer, NULL); /* reports the files being written */
    pg__fit_close(&r);
    return st;
}
