/* fit_trace.c - pg_fit_opts.trace: which steps of a run are traced, and when the file is written.
 * That is right after the last of these steps, so that a rank that is lost later takes nothing with
 * it; if one is lost before, rank 0 writes what it has itself. */
#include "base/try.h"
#include "train/fit/fit_impl.h"
#include "train/step/step.h"

#define FIRST 3u /* by default: the first steps allocate memory and build programs */
#define STEPS 5u

typedef pg__fit_run run;

static uint64_t steps_of_run(const run *r)
{
    const size_t before = r->opts->initial_epoch;
    uint64_t n = 0;
    return __builtin_mul_overflow(r->what.n_batches, r->what.n_epochs - before, &n) ? UINT64_MAX
                                                                                    : n;
}

pg_status pg__fit_trace_open(run *r, pg_err *err)
{
    const pg_fit_opts *o = r->opts;
    const uint64_t n = steps_of_run(r), first = o->trace_first, last = o->trace_last;
    pg__traced *of = &r->traced;
    pg_status st = PG_OK;
    if (!o->trace)
        return PG_OK;
    of->path = o->trace;
    of->first = first > 0 ? first : n < FIRST ? 1 : FIRST;
    of->last = last > 0 ? last : of->first + STEPS - 1;
    if (of->last < of->first)
        PG_FAIL(PG_E_ARG, "trace: its last step, %zu, comes before its first, %zu",
                (size_t)of->last, (size_t)of->first);
    if (of->first > n)
        PG_FAIL(PG_E_ARG, "trace: it begins with step %zu, but the run has %zu", (size_t)of->first,
                (size_t)n);
    if (pg__rank_of(r->t->ranks) == 0)
        PG_TRY(pg__traced_check(o->trace, err));
    PG_TRY(pg__trace_new(&r->t->report.trace, r->t->pool.n_threads, err));
done:
    return st;
}

void pg__fit_trace_close(run *r)
{
    pg__trace_free(r->t->report.trace);
    r->t->report.trace = NULL;
}

pg_status pg__fit_trace_before(run *r, pg_err *err)
{
    if (++r->n_steps != r->traced.first || !r->t->report.trace)
        return PG_OK;
    r->traced.origin = pg__now();
    r->is_tracing = 1;
    return pg__traced_start(r->t, &r->traced.clock, err);
}

/* A file that cannot be written does not end the run. */
static pg_status report(run *r, const pg_err *why, pg_err *err)
{
    const pg__traced *of = &r->traced;
    if (why->code != PG_OK) {
        if (r->fit.missing == PG_OK) {
            r->fit.missing = why->code;
            r->fit.why = *why;
        }
        return pg__fit_event(&r->fit, PG_EVENT_WARNING, of->path, err, "trace: %s", why->msg);
    }
    if (of->n_lost > 0)
        return pg__fit_event(&r->fit, PG_EVENT_WARNING, of->path, err,
                             "%s lacks %zu events: a thread has room for %zu; trace fewer steps",
                             PG_SHOW(of->path), (size_t)of->n_lost, PG_TRACE_MOST);
    return pg__fit_event(&r->fit, PG_EVENT_NOTE, of->path, err,
                         "steps %zu to %zu are in %s, which ui.perfetto.dev opens",
                         (size_t)of->first, (size_t)of->last, PG_SHOW(of->path));
}

static pg_status finish(run *r, pg_err *err)
{
    pg_err why = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__traced_write(r->t, &r->traced, &why, err));
    r->is_tracing = 0;
    if (pg__rank_of(r->t->ranks) == 0)
        PG_TRY(report(r, &why, err));
done:
    return st;
}

pg_status pg__fit_trace_after(run *r, pg_err *err)
{
    return r->is_tracing && r->n_steps == r->traced.last ? finish(r, err) : PG_OK;
}

pg_status pg__fit_trace_end(run *r, pg_err *err)
{
    if (r->is_tracing) {
        r->traced.last = r->n_steps;
        return finish(r, err);
    }
    if (r->t->report.trace && r->n_steps < r->traced.first && pg__rank_of(r->t->ranks) == 0)
        return pg__fit_event(&r->fit, PG_EVENT_WARNING, NULL, err,
                             "nothing was traced: training ended before step %zu",
                             (size_t)r->traced.first);
    return PG_OK;
}

void pg__fit_trace_cancel(run *r)
{
    pg_err ignored = {0};
    (void)pg__fit_trace_end(r, &ignored);
}

void pg__fit_trace_fail(run *r, pg_err *err)
{
    pg_err why = {0}, ignored = {0};
    if (!r->is_tracing || pg__rank_of(r->t->ranks) > 0)
        return;
    r->traced.last = r->n_steps;
    r->traced.is_alone = 1;
    if (pg__traced_write(r->t, &r->traced, &why, &ignored) == PG_OK && why.code == PG_OK)
        pg_err_detail(err, "what %s did until then is in %s",
                      r->t->ranks ? "rank 0" : "this process", PG_SHOW(r->traced.path));
}
