/* profiled.c - which steps are profiled, and the rows that a caller gets. */
#include "train/step/profiled.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"

static size_t n_rows(const pg__trainer_net *net)
{
    return net->leaves.n * PG_N_OPS;
}

pg_status pg__profile_start(pg_trainer *t, pg__pass pass, pg_err *err)
{
    pg__profile_drop(t);
    for (size_t w = 0; w < t->pool.n_threads; w++) {
        t->pool.workers[w].profile = pg__mem_array(n_rows(&t->net), sizeof(pg__profile));
        if (!t->pool.workers[w].profile)
            return pg__nomem(err);
    }
    t->report.profiled_pass = pass;
    t->report.is_profiling = 1;
    return PG_OK;
}

void pg__profile_end(pg__trainer_report *report)
{
    report->is_profiling = 0;
}

void pg__profile_resume(pg__trainer_report *report)
{
    report->is_profiling = 1;
}

void pg__profile_drop(pg_trainer *t)
{
    t->report.is_profiling = 0;
    for (size_t w = 0; t->pool.workers && w < t->pool.n_threads; w++) {
        pg__mem_free(t->pool.workers[w].profile);
        t->pool.workers[w].profile = NULL;
    }
}

void pg__profile_clear(pg_trainer *t)
{
    for (size_t w = 0; w < t->pool.n_threads; w++)
        if (t->pool.workers[w].profile)
            memset(t->pool.workers[w].profile, 0, n_rows(&t->net) * sizeof(pg__profile));
}

pg__profile *pg__profile_of(const pg__trainer_report *report, const pg__worker *w, pg__pass pass)
{
    return report->is_profiling && report->profiled_pass == pass ? w->profile : NULL;
}

static int slower_first(const void *a, const void *b)
{
    const pg_op_profile *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

/* Training work outside of operations, done by all workers at once. */
static size_t add_rest(const pg_trainer *t, pg_op_profile *out)
{
    const double n = (double)t->pool.n_threads;
    const uint64_t calls = t->report.spent.n_steps > 0 ? t->report.spent.n_steps - 1 : 0;
    const pg_op_profile rest[] = {
        {.op = "optimizer", .calls = calls, .seconds = t->report.spent.update * n},
        {.op = "all-reduce", .calls = calls, .seconds = t->report.spent.reduce * n},
        {.op = "input", .calls = calls, .seconds = t->report.spent.input * n}};
    size_t k = 0;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i].seconds > 0)
            out[k++] = rest[i];
    return k;
}

static pg_op_profile sum_of(const pg_trainer *t, size_t i)
{
    pg_op_profile r = {.layer = t->net.leaves.v[i / PG_N_OPS].layer->name,
                       .op = pg__op_of((pg__op_kind)(i % PG_N_OPS))->name};
    for (size_t w = 0; w < t->pool.n_threads; w++) {
        const pg__profile *from = &t->pool.workers[w].profile[i];
        r.calls += from->calls;
        r.seconds += from->seconds;
        r.flops += from->flops;
        r.bytes += from->bytes;
    }
    return r;
}

pg_status pg_trainer_profile(pg_trainer *t, const pg_op_profile **rows, size_t *n_out, pg_err *err)
{
    size_t n = 3;
    if (!t->pool.workers[0].profile)
        return pg_fail(err, PG_E_ARG, "this trainer has not profiled anything");
    for (size_t i = 0; i < n_rows(&t->net); i++)
        n += sum_of(t, i).calls > 0;
    pg_op_profile *out = pg__mem_array(n, sizeof *out);
    if (!out)
        return pg__nomem(err);
    n = t->report.profiled_pass == PG_TRAINS ? add_rest(t, out) : 0;
    for (size_t i = 0; i < n_rows(&t->net); i++) {
        const pg_op_profile r = sum_of(t, i);
        if (r.calls > 0)
            out[n++] = r;
    }
    qsort(out, n, sizeof *out, slower_first);
    pg__mem_free(t->report.profiled);
    *rows = t->report.profiled = out;
    *n_out = n;
    return PG_OK;
}
