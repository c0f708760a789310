/* predict.c - a pass over data in inference mode: predictions or evaluation. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/model/logs.h"
#include "train/model/prefetch.h"
#include "train/model/ranks_data.h"
#include "train/model/rows_at_once.h"
#include "train/step/step.h"

typedef struct pass {
    pg_trainer *t;
    const pg_predict_opts *opts;
    pg__feed feed;
    size_t batch_size;
    pg__batch_order *order;
    pg__prefetch *ahead;
    pg__totals totals;
    const pg__program *program; /* for some number of rows */
    size_t n_batches;           /* so far */
    size_t n_warm;              /* rows of the profiled batches; 0: none yet */
    int is_cold;                /* the current batch is profiled, and its number of rows differs */
    pg__dims *shapes;           /* of the inputs, before the pass */
} pass;

/* For independent rows: a smaller batch would leave workers idle, a larger one exceed their caches.
 */
static size_t suitable(const pg_trainer *t, size_t batch_size)
{
    const size_t n_workers = t->pool.cut.n_lanes ? t->pool.cut.n_lanes
                             : t->ranks          ? pg__all_lanes(t)
                                                 : t->pool.cut.n_workers;
    const size_t most = n_workers * pg__rows_at_once(t);
    batch_size = batch_size < n_workers ? n_workers : batch_size;
    return most > 0 && most < batch_size ? most : batch_size;
}

static pg_status open_pass(pass *p, pg_data *data, pg__feed_use use, pg__pass kind, pg_err *err)
{
    pg_trainer *t = p->t;
    pg_status st = PG_OK;
    t->loop.in_int8 = t->net.quantizes && !p->opts->unquantized;
    PG_TRY(pg__shapes_begin(t, &p->shapes, err));
    PG_TRY(pg__feed_bind(t, data, use, err));
    PG_TRY(pg__feed_open(&p->feed, t, data, use, err));
    PG_TRY(pg__feed_fit_inputs(&p->feed, t, err));
    PG_TRY(pg__feed_batch_size(t, p->opts->batch_size, &p->batch_size, err));
    if (p->opts->steps == 0)
        PG_TRY(pg__feed_divides(&p->feed, p->batch_size, "steps", err));
    if (kind == PG_PREDICTS && p->opts->steps == 0 && !pg__feed_is_fixed(t) && !t->net.steps_first)
        p->batch_size = suitable(t, p->batch_size);
    if (p->batch_size > p->feed.n_rows && !pg__feed_is_fixed(t))
        p->batch_size = (size_t)p->feed.n_rows;
    PG_TRY(pg__feed_program(t, p->batch_size, kind, &p->program, err));
    PG_TRY(pg__feed_fit(&p->feed, p->program, err));
    if (kind == PG_TESTS)
        PG_TRY(pg__metrics_resolve(t, p->program, err));
    PG_TRY(pg__totals_alloc(t, &p->totals, err));
    const pg__batch_order_opts order = {.n_val = p->feed.n_rows,
                                        .batch_size = p->batch_size,
                                        .epochs = 1,
                                        .val_steps = p->opts->steps,
                                        .whole_only = pg__feed_is_fixed(t)};
    PG_TRY(pg__batch_order_new(&p->order, &order, err));
done:
    return st;
}

/* If one rank cannot open the data, all fail. */
static pg_status begin_pass(pass *p, pg_data *data, pg__feed_use use, pg__pass kind, pg_err *err)
{
    pg_status st = PG_OK;
    pg__ranks_begin_call(p->t, p->opts->cancel);
    PG_TRY(pg__ranks_agree(p->t->ranks, open_pass(p, data, use, kind, err), err));
    PG_TRY(pg__ranks_same_data(p->t, &p->feed, err));
    PG_TRY(pg__prefetch_new(&p->ahead, p->order, NULL, &p->feed, p->batch_size, err));
    if (p->opts->profile)
        PG_TRY(pg__profile_start(p->t, kind, err));
done:
    return st;
}

static void close_pass(pass *p)
{
    if (p->opts->profile)
        pg__profile_end(&p->t->report);
    pg__prefetch_free(p->ahead);
    pg__batch_order_free(p->order);
    pg__totals_free(&p->totals);
    pg__feed_close(&p->feed);
    pg__shapes_end(p->t, &p->shapes);
    p->t->loop.in_int8 = 0;
}

/* The next batch, or *out NULL. */
static pg_status next_batch(pass *p, const pg__batch **out, pg_err *err)
{
    pg__turn turn;
    if (pg__must_stop(p->t->ranks, p->opts->cancel))
        return pg_fail(err, PG_E_CANCELLED, "interrupted");
    const pg_status st = pg__prefetch_next(p->ahead, out, &turn, err);
    if (!p->opts->profile || st != PG_OK || !*out)
        return st;
    if (p->n_batches == 1)
        pg__profile_clear(p->t);
    p->is_cold = turn.n_rows != p->n_warm && (p->n_batches > 0 || turn.is_last);
    p->n_warm = turn.n_rows;
    p->n_batches++;
    return PG_OK;
}

/* A step that allocates and first touches memory and compiles programs. It is not counted and
 * changes nothing persistent, so later steps are unaffected. */
static pg_status warm_up(pass *p, const pg__batch *batch, pg__pass kind, void *const *rows,
                         pg_err *err)
{
    pg__totals totals = {0};
    pg_status st = pg__totals_alloc(p->t, &totals, err);
    pg__profile_end(&p->t->report);
    p->t->loop.is_trial = 1;
    if (st == PG_OK)
        st = pg__trainer_step(p->t, batch, kind, rows, &totals, err);
    p->t->loop.is_trial = 0;
    pg__profile_resume(&p->t->report);
    pg__totals_free(&totals);
    return st;
}

/* rows: room for predictions, or NULL. */
static pg_status make_step(pass *p, const pg__batch *batch, pg__pass kind, void *const *rows,
                           pg_err *err)
{
    pg_status st = PG_OK;
    if (p->is_cold)
        PG_TRY(warm_up(p, batch, kind, rows, err));
    PG_TRY(pg__trainer_step(p->t, batch, kind, rows, &p->totals, err));
done:
    return st;
}

/* ---- evaluation ---- */

pg_status pg_evaluate(pg_trainer *t, pg_data *data, const pg_predict_opts *opts, pg_logs *out,
                      pg_err *err)
{
    static const pg_predict_opts defaults = {0};
    pass p = {.t = t, .opts = opts ? opts : &defaults};
    const pg__batch *batch = NULL;
    pg__logs logs = {.n = 0};
    size_t n_losses = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < t->net.n_outputs; k++)
        n_losses += (size_t)t->compiled.objectives[k].has_loss;
    if (n_losses == 0)
        PG_FAIL(PG_E_ARG, "no loss given");
    PG_TRY(begin_pass(&p, data, PG_FOR_EVALUATION, PG_TESTS, err));
    PG_TRY(pg__logs_open(&logs, t, 0, err));
    for (;;) {
        PG_TRY(next_batch(&p, &batch, err));
        if (!batch)
            break;
        PG_TRY(make_step(&p, batch, PG_TESTS, NULL, err));
    }
    pg__logs_fill(t, logs.values, &p.totals);
    pg__logs_close(&t->loop.evaluated);
    t->loop.evaluated = logs;
    logs = (pg__logs){.n = 0};
    *out = (pg_logs){t->loop.evaluated.shown, t->loop.evaluated.values, t->loop.evaluated.n};
done:
    pg__logs_close(&logs);
    close_pass(&p);
    return pg__ranks_fail(t->ranks, pg__with_message(t, st, err), err);
}

/* ---- predictions ---- */

typedef struct outputs {
    pg_weight *what; /* for all rows */
    void **rows;     /* for one batch */
    size_t *row_bytes;
    size_t n;
} outputs;

static pg_status describe(outputs *o, const pass *p, uint64_t n_rows, pg_err *err)
{
    const pg_trainer *t = p->t;
    const pg__lowered *m = pg__program_model(p->program);
    o->n = t->net.n_outputs;
    o->what = pg__mem_array(o->n, sizeof *o->what);
    o->rows = pg__mem_array(o->n, sizeof *o->rows);
    o->row_bytes = pg__mem_array(o->n, sizeof *o->row_bytes);
    if (!o->what || !o->rows || !o->row_bytes)
        return pg__nomem(err);
    for (size_t k = 0; k < o->n; k++) {
        const pg__value *v = &m->tape.values[m->outputs[k]];
        pg__dims row = v->shape;
        pg_weight *w = &o->what[k];
        row.d[0] = 1;
        *w = (pg_weight){.name = t->net.output_names[k],
                         .layer = k,
                         .dtype = v->elem == PG_ELEM_INT             ? PG_I32
                                  : t->devs.backend->real_bytes == 8 ? PG_F64
                                                                     : PG_F32,
                         .rank = v->shape.rank};
        memcpy(w->dims, v->shape.d, v->shape.rank * sizeof *w->dims);
        w->dims[0] = n_rows;
        o->row_bytes[k] = (size_t)pg__dims_elems(&row) * pg_dtype_bytes(w->dtype);
        if (__builtin_mul_overflow(n_rows, (uint64_t)o->row_bytes[k], &w->n_bytes))
            return pg_fail(err, PG_E_LIMIT, "predictions are larger than any file");
        o->rows[k] = pg__mem_array(p->batch_size, o->row_bytes[k]);
        if (!o->rows[k])
            return pg__nomem(err);
    }
    return PG_OK;
}

static void free_outputs(outputs *o)
{
    for (size_t k = 0; o->rows && k < o->n; k++)
        pg__mem_free(o->rows[k]);
    pg__mem_free(o->rows);
    pg__mem_free(o->what);
    pg__mem_free(o->row_bytes);
}

/* Rows of a pass: all, or those of the requested steps. */
static uint64_t rows_of_pass(const pass *p)
{
    const uint64_t n = p->feed.n_rows, asked = (uint64_t)p->opts->steps * p->batch_size;
    return p->opts->steps > 0 && asked < n ? asked : n;
}

pg_status pg_predict(pg_trainer *t, pg_data *data, const pg_predict_opts *opts,
                     const pg_predictions *to, pg_err *err)
{
    static const pg_predict_opts defaults = {0};
    pass p = {.t = t, .opts = opts ? opts : &defaults};
    const pg__batch *batch = NULL;
    outputs o = {.n = 0};
    const int is_first = pg__rank_of(t->ranks) == 0;
    uint64_t first = 0;
    pg_status st = PG_OK;
    PG_TRY(begin_pass(&p, data, PG_FOR_PREDICTION, PG_PREDICTS, err));
    PG_TRY(describe(&o, &p, rows_of_pass(&p), err));
    if (to->begin && is_first)
        PG_TRY(to->begin(to->user, o.what, o.n, err));
    for (;;) {
        PG_TRY(next_batch(&p, &batch, err));
        if (!batch)
            break;
        PG_TRY(make_step(&p, batch, PG_PREDICTS, o.rows, err));
        for (size_t k = 0; k < o.n; k++) {
            PG_TRY(pg__ranks_rows(t, batch, o.rows[k], o.row_bytes[k], err));
            if (is_first)
                PG_TRY(to->rows(to->user, k, first, (size_t)batch->n_rows, o.rows[k], err));
        }
        first += batch->n_rows;
    }
done:
    free_outputs(&o);
    close_pass(&p);
    return pg__ranks_fail(t->ranks, pg__with_message(t, st, err), err);
}
