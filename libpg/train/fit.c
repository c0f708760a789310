/* fit.c - epochs and batches: what Keras' fit() does around the step. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/names.h"
#include "train/trainer.h"

#define DEFAULT_BATCH 32

/* Arrays of one set of data (training or validation), in the model's order. */
typedef struct feed {
    const pg__array **inputs, **targets, **weights; /* weights: entries may be NULL */
    uint64_t n_rows;
} feed;

typedef struct run {
    pg_trainer *t;
    pg_data *data;
    const pg_fit_opts *opts;
    const pg_callback *cb;
    feed train, val;
    int has_val;
    pg__batch batch;
    uint64_t *rows; /* of the batch */
    size_t batch_size;
    pg__totals own, epoch;
    pg__strs names;     /* of the logs, "val_" ones behind */
    double *values;     /* twice n_logs: of the batch or epoch, running or validation */
    const char **shown; /* the names as pg_logs wants them */
    size_t n_logs;      /* without "val_" */
} run;

/* ---- from keys to arrays ---- */

/* Array k of a kind: "x0", "xval0"; the layer's name; "x", "xval" for the only one. */
static const pg__array *find_array(const pg_data *d, const char *stem, size_t k, size_t n,
                                   const char *layer, int is_val)
{
    char key[64];
    const pg__array *a;
    (void)snprintf(key, sizeof key, "%s%s%zu", stem, is_val ? "val" : "", k);
    if ((a = pg__data_find(d, key)))
        return a;
    (void)snprintf(key, sizeof key, "%s%s", stem, is_val ? "val" : "");
    if (n == 1 && (a = pg__data_find(d, key)))
        return a;
    return layer && !is_val ? pg__data_find(d, layer) : NULL;
}

static pg_status need_array(const pg__array **out, const pg_data *d, const char *stem, size_t k,
                            size_t n, const char *layer, int is_val, pg_err *err)
{
    *out = find_array(d, stem, k, n, layer, is_val);
    if (*out)
        return PG_OK;
    return pg_fail(err, PG_E_MISMATCH,
                   "%s: holds no \"%s%s%zu\", which the model's %s \"%s\" needs", pg__data_path(d),
                   stem, is_val ? "val" : "", k, stem[0] == 'x' ? "input" : "output",
                   PG_SHOW(layer));
}

static pg_status check_rows(feed *f, const pg_data *d, const pg__array *a, const char *of,
                            pg_err *err)
{
    const uint64_t n = pg__array_dims(a).d[0];
    if (f->n_rows == PG_DIM_ANY)
        f->n_rows = n;
    if (f->n_rows != n)
        return pg_fail(err, PG_E_MISMATCH, "%s: \"%s\" has %llu rows, the first input %llu",
                       pg__data_path(d), PG_SHOW(of), (unsigned long long)n,
                       (unsigned long long)f->n_rows);
    return PG_OK;
}

static pg_status find_feed(run *r, feed *f, const pg_data *d, int is_val, pg_err *err)
{
    pg_trainer *t = r->t;
    pg_status st = PG_OK;
    f->n_rows = PG_DIM_ANY;
    f->inputs = pg__mem_array(t->n_inputs, sizeof *f->inputs);
    f->targets = pg__mem_array(t->n_outputs, sizeof *f->targets);
    f->weights = pg__mem_array(t->n_outputs, sizeof *f->weights);
    if (!f->inputs || !f->targets || !f->weights)
        return pg__nomem(err);
    for (size_t k = 0; k < t->n_inputs; k++) {
        PG_TRY(need_array(&f->inputs[k], d, "x", k, t->n_inputs, t->input_names[k], is_val, err));
        PG_TRY(check_rows(f, d, f->inputs[k], t->input_names[k], err));
    }
    for (size_t k = 0; k < t->n_outputs; k++) {
        if (!t->objectives[k].has_loss)
            continue;
        PG_TRY(
            need_array(&f->targets[k], d, "y", k, t->n_outputs, t->output_names[k], is_val, err));
        PG_TRY(check_rows(f, d, f->targets[k], t->output_names[k], err));
        f->weights[k] = find_array(d, "w", k, t->n_outputs, NULL, is_val);
        if (f->weights[k])
            PG_TRY(check_rows(f, d, f->weights[k], "w", err));
    }
    if (f->n_rows == 0)
        PG_FAIL(PG_E_MISMATCH, "%s: holds no rows", pg__data_path(d));
done:
    return st;
}

static void free_feed(feed *f)
{
    pg__mem_free(f->inputs);
    pg__mem_free(f->targets);
    pg__mem_free(f->weights);
}

/* Unknown dimensions are the data's; known ones must be equal. */
static pg_status fit_inputs(run *r, pg_err *err)
{
    for (size_t k = 0; k < r->t->n_inputs; k++) {
        pg__dims *want = &r->t->input_dims[k];
        const pg__dims have = pg__array_dims(r->train.inputs[k]);
        int same = want->rank == have.rank;
        for (uint32_t i = 1; same && i < have.rank; i++)
            same = want->d[i] == PG_DIM_ANY || want->d[i] == have.d[i];
        if (!same)
            return pg_fail(err, PG_E_MISMATCH, "%s: \"x%zu\" is %s, model input \"%s\" wants %s",
                           pg__data_path(r->data), k, PG_SHAPE(&have),
                           PG_SHOW(r->t->input_names[k]), PG_SHAPE(want));
        for (uint32_t i = 1; i < have.rank; i++)
            want->d[i] = have.d[i];
    }
    return PG_OK;
}

/* ---- batches ---- */

static pg_status alloc_batch(run *r, const pg__program *p, pg_err *err)
{
    const pg_trainer *t = r->t;
    const pg__lowered *m = pg__program_model(p);
    pg__batch *b = &r->batch;
    b->inputs = pg__mem_array(t->n_inputs, sizeof *b->inputs);
    b->targets = pg__mem_array(t->n_outputs, sizeof *b->targets);
    b->weights = pg__mem_array(t->n_outputs, sizeof *b->weights);
    if (!b->inputs || !b->targets || !b->weights)
        return pg__nomem(err);
    for (size_t k = 0; k < t->n_inputs; k++) {
        const uint64_t n = pg__dims_elems(&m->tape.values[m->inputs[k]].shape);
        if (!(b->inputs[k] = pg__mem_aligned((size_t)n * t->backend->real_bytes)))
            return pg__nomem(err);
    }
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *target = pg__program_target(p, k);
        if (!target)
            continue;
        const uint64_t n = pg__dims_elems(&target->shape);
        if (!(b->targets[k] = pg__mem_aligned((size_t)n * t->backend->real_bytes)))
            return pg__nomem(err);
        if (r->train.weights[k] &&
            !(b->weights[k] = pg__mem_aligned((size_t)n * t->backend->real_bytes)))
            return pg__nomem(err);
    }
    return PG_OK;
}

static void free_batch(run *r)
{
    for (size_t k = 0; r->batch.inputs && k < r->t->n_inputs; k++)
        pg__mem_free(r->batch.inputs[k]);
    for (size_t k = 0; r->batch.targets && k < r->t->n_outputs; k++)
        pg__mem_free(r->batch.targets[k]);
    for (size_t k = 0; r->batch.weights && k < r->t->n_outputs; k++)
        pg__mem_free(r->batch.weights[k]);
    pg__mem_free(r->batch.inputs);
    pg__mem_free(r->batch.targets);
    pg__mem_free(r->batch.weights);
}

static pg__cast cast_of(const pg_trainer *t, pg__elem elem)
{
    if (elem == PG__INT)
        return PG__AS_I32;
    return t->backend->real_bytes == sizeof(double) ? PG__AS_F64 : PG__AS_F32;
}

/* Targets have the prediction's shape, or one class for each of its rows. */
static pg_status check_target(const run *r, const feed *f, size_t k, const pg__value *want,
                              pg_err *err)
{
    const pg__dims have = pg__array_dims(f->targets[k]);
    pg__dims bare = have;
    if (want->elem == PG__INT && bare.rank == want->shape.rank + 1 && bare.d[bare.rank - 1] == 1)
        bare.rank--;
    bare.d[0] = want->shape.d[0];
    if (want->elem == PG__REAL && bare.rank + 1 == want->shape.rank &&
        want->shape.d[want->shape.rank - 1] == 1)
        bare.d[bare.rank++] = 1;
    if (pg__dims_equal(&bare, &want->shape))
        return PG_OK;
    return pg_fail(err, PG_E_MISMATCH, "%s: target of \"%s\" is %s, the model gives %s%s",
                   pg__data_path(r->data), PG_SHOW(r->t->output_names[k]), PG_SHAPE(&have),
                   PG_SHAPE(&want->shape), want->elem == PG__INT ? " classes" : "");
}

static pg_status read_batch(run *r, const feed *f, const pg__program *p, size_t n, pg_err *err)
{
    const pg_trainer *t = r->t;
    const pg__lowered *m = pg__program_model(p);
    pg_status st = PG_OK;
    r->batch.n_rows = n;
    for (size_t k = 0; k < t->n_inputs; k++)
        PG_TRY(pg__array_read(f->inputs[k], r->rows, n,
                              cast_of(t, m->tape.values[m->inputs[k]].elem), r->batch.inputs[k],
                              err));
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *target = pg__program_target(p, k);
        if (!target)
            continue;
        PG_TRY(check_target(r, f, k, target, err));
        PG_TRY(pg__array_read(f->targets[k], r->rows, n, cast_of(t, target->elem),
                              r->batch.targets[k], err));
        if (f->weights[k])
            PG_TRY(pg__array_read(f->weights[k], r->rows, n, cast_of(t, PG__REAL),
                                  r->batch.weights[k], err));
    }
done:
    if (st != PG_OK)
        pg_err_prefix(err, pg__data_path(r->data));
    return st;
}

/* ---- logs ---- */

/* "loss", with several outputs one for each, then the metrics. */
static pg_status name_logs(run *r, pg_err *err)
{
    const pg_trainer *t = r->t;
    pg_status st = PG_OK;
    for (int val = 0; val <= r->has_val; val++) {
        const char *prefix = val ? "val_" : "";
        PG_TRY(pg__strs_printf(&r->names, err, "%sloss", prefix));
        for (size_t k = 0; t->n_outputs > 1 && k < t->n_outputs; k++)
            if (t->objectives[k].has_loss)
                PG_TRY(pg__strs_printf(&r->names, err, "%s%s_loss", prefix, t->output_names[k]));
        for (size_t i = 0; i < t->n_metrics; i++)
            PG_TRY(pg__strs_printf(&r->names, err, "%s%s", prefix, t->metrics[i].name));
    }
    r->n_logs = r->names.n / (r->has_val ? 2 : 1);
    r->values = pg__mem_array(2 * r->n_logs, sizeof *r->values);
    r->shown = pg__mem_array(r->names.n, sizeof *r->shown);
    if (!r->values || !r->shown)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < r->names.n; i++)
        r->shown[i] = r->names.v[i];
done:
    return st;
}

static void fill_logs(const run *r, double *values, const pg__totals *totals)
{
    const pg_trainer *t = r->t;
    size_t n = 0;
    values[n++] = pg__total_loss(t, totals);
    for (size_t k = 0; t->n_outputs > 1 && k < t->n_outputs; k++)
        if (t->objectives[k].has_loss)
            values[n++] = totals->loss_sums[k] / totals->loss_counts[k];
    for (size_t i = 0; i < t->n_metrics; i++)
        values[n++] = totals->metrics[i].sum / totals->metrics[i].count;
}

/* Metrics are resolved by what they compare. "OUT=accuracy" or "accuracy" for every output. */
static pg_status add_metric(pg_trainer *t, const pg__program *p, size_t k, const char *name,
                            size_t len, size_t at, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    const pg__dims *shape = &m->tape.values[m->outputs[k]].shape;
    const pg__value *target = pg__program_target(p, k);
    pg__metric *metric = &t->metrics[at];
    pg__str text = {0};
    pg_status st = PG_OK;
    metric->output = k;
    PG_TRY(pg__metric_of(metric, name, len, target->elem == PG__INT,
                         (size_t)shape->d[shape->rank - 1], t->rules, err));
    if (t->n_outputs > 1)
        PG_TRY(pg__str_printf(&text, err, "%s_", t->output_names[k]));
    if (t->rules->acc_short && pg__same_name(name, len, "accuracy"))
        PG_TRY(pg__str_puts(&text, "acc", err));
    else
        PG_TRY(pg__str_add(&text, name, len, err));
    metric->name = text.s;
    text.s = NULL;
    t->n_metrics = at + 1;
done:
    pg__str_fini(&text);
    return st;
}

static pg_status resolve_metrics(pg_trainer *t, const pg__program *p, pg_err *err)
{
    size_t n = 1, at = 0;
    pg_status st = PG_OK;
    if (!t->metric_text || t->metrics)
        return PG_OK;
    for (const char *c = t->metric_text; *c; c++)
        n += *c == ',';
    t->metrics = pg__mem_array(n * t->n_outputs, sizeof *t->metrics);
    if (!t->metrics)
        return pg__nomem(err);
    for (size_t k = 0; k < t->n_outputs; k++)
        for (const char *s = t->metric_text; *s != '\0';) {
            const size_t len = strcspn(s, ",");
            const char *equals = memchr(s, '=', len);
            const char *name = equals ? equals + 1 : s;
            const char *of = t->output_names[k];
            const int mine = !equals || (strlen(of) == (size_t)(equals - s) &&
                                         strncmp(of, s, (size_t)(equals - s)) == 0);
            if (mine && t->objectives[k].has_loss)
                PG_TRY(add_metric(t, p, k, name, len - (size_t)(name - s), at++, err));
            s += len + (s[len] == ',');
        }
done:
    return st;
}

/* ---- epochs ---- */

/* Rows at .. at + n of the order of this epoch. */
static void pick_rows(run *r, uint64_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r->rows[i] = at + i;
}

static pg_status run_batches(run *r, const feed *f, int training, pg_err *err)
{
    const pg__program *p = NULL;
    size_t batch = 0;
    pg_status st = PG_OK;
    pg__totals_clear(r->t, &r->epoch);
    for (uint64_t at = 0; at < f->n_rows; at += r->batch_size, batch++) {
        const uint64_t left = f->n_rows - at;
        const size_t n = left < r->batch_size ? (size_t)left : r->batch_size;
        PG_TRY(pg__trainer_program(r->t, n, training, &p, err));
        pick_rows(r, at, n);
        PG_TRY(read_batch(r, f, p, n, err));
        pg__totals_clear(r->t, &r->own);
        PG_TRY(pg__trainer_step(r->t, &r->batch, training, &r->own, err));
        pg__totals_add(r->t, &r->epoch, &r->own);
        if (training && r->cb && r->cb->batch_end) {
            double *running = r->values + r->n_logs; /* the validation's place is free now */
            fill_logs(r, r->values, &r->own);
            fill_logs(r, running, &r->epoch);
            PG_TRY(r->cb->batch_end(r->cb->user, batch, &(pg_logs){r->shown, r->values, r->n_logs},
                                    &(pg_logs){r->shown, running, r->n_logs}, err));
        }
    }
done:
    return st;
}

static pg_status run_epoch(run *r, size_t epoch, pg_err *err)
{
    pg_status st = PG_OK;
    if (r->cb && r->cb->epoch_begin)
        PG_TRY(r->cb->epoch_begin(r->cb->user, epoch, err));
    PG_TRY(run_batches(r, &r->train, 1, err));
    fill_logs(r, r->values, &r->epoch);
    if (r->has_val) {
        PG_TRY(run_batches(r, &r->val, 0, err));
        fill_logs(r, r->values + r->n_logs, &r->epoch);
    }
    if (r->cb && r->cb->epoch_end)
        PG_TRY(
            r->cb->epoch_end(r->cb->user, epoch, &(pg_logs){r->shown, r->values, r->names.n}, err));
done:
    return st;
}

pg_status pg_fit(pg_trainer *t, pg_data *data, const pg_fit_opts *opts, const pg_callback *cb,
                 pg_err *err)
{
    run r = {.t = t,
             .data = data,
             .opts = opts,
             .cb = cb,
             .has_val = opts->validation != NULL,
             .batch_size = opts->batch_size ? opts->batch_size : DEFAULT_BATCH};
    const pg__program *p = NULL;
    pg_status st = PG_OK;
    PG_TRY(find_feed(&r, &r.train, data, 0, err));
    if (r.has_val)
        PG_TRY(find_feed(&r, &r.val, opts->validation,
                         pg__data_find(opts->validation, "xval0") != NULL, err));
    PG_TRY(fit_inputs(&r, err));
    if (r.batch_size > r.train.n_rows && r.batch_size > r.val.n_rows)
        r.batch_size = (size_t)(r.train.n_rows > r.val.n_rows ? r.train.n_rows : r.val.n_rows);
    PG_TRY(pg__trainer_program(t, r.batch_size, 1, &p, err));
    PG_TRY(resolve_metrics(t, p, err));
    PG_TRY(alloc_batch(&r, p, err));
    PG_TRY(pg__totals_alloc(t, &r.own, err));
    PG_TRY(pg__totals_alloc(t, &r.epoch, err));
    PG_TRY(name_logs(&r, err));
    r.rows = pg__mem_array(r.batch_size, sizeof *r.rows);
    if (!r.rows)
        PG_TRY(pg__nomem(err));
    for (size_t epoch = 0; epoch < (opts->epochs ? opts->epochs : 1); epoch++)
        PG_TRY(run_epoch(&r, epoch, err));
done:
    pg__mem_free(r.rows);
    pg__mem_free(r.values);
    pg__mem_free(r.shown);
    pg__strs_fini(&r.names);
    pg__totals_free(&r.own);
    pg__totals_free(&r.epoch);
    free_batch(&r);
    free_feed(&r.train);
    free_feed(&r.val);
    return st;
}
