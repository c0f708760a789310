/* fit.c - epochs and batches: what Keras' fit() does around the step. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/feed.h"
#include "train/names.h"
#include "train/shuffle.h"
#include "train/states.h"

#define DEFAULT_BATCH 32

typedef struct run {
    pg_trainer *t;
    pg_data *data;
    const pg_fit_opts *opts;
    const pg_callback *cb;
    pg__feed train, val;
    int has_val;
    pg__batch batch;
    uint64_t *order; /* of the training rows in this epoch */
    uint64_t *rows;  /* of the batch */
    size_t batch_size;
    pg__totals own, epoch;
    pg__strs names;     /* of the logs, "val_" ones behind */
    double *values;     /* twice n_logs: of the batch or epoch, running or validation */
    const char **shown; /* the names as pg_logs wants them */
    size_t n_logs;      /* without "val_" */
} run;

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

/* Rows at .. at + n of this epoch: shuffled for training, as they lie for validation. */
static void pick_rows(run *r, const pg__feed *f, int training, uint64_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r->rows[i] = f->first + (training && r->order ? r->order[at + i] : at + i);
}

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

static pg_status run_batches(run *r, const pg__feed *f, int training, pg_err *err)
{
    const pg__program *p = NULL;
    size_t batch = 0;
    pg_status st = PG_OK;
    pg__totals_clear(r->t, &r->epoch);
    for (uint64_t at = 0; at < f->n_rows; at += r->batch_size, batch++) {
        const uint64_t left = f->n_rows - at;
        const size_t n = left < r->batch_size ? (size_t)left : r->batch_size;
        PG_TRY(pg__trainer_program(r->t, n, training, &p, err));
        pick_rows(r, f, training, at, n);
        PG_TRY(pg__feed_read(f, p, r->rows, n, &r->batch, err));
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

static pg_status reset_states(run *r, pg_err *err)
{
    return r->opts->reset_states ? pg__states_reset(r->t, err) : PG_OK;
}

static pg_status run_epoch(run *r, size_t epoch, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(reset_states(r, err));
    if (r->order)
        pg__shuffle(r->order, r->train.n_rows, r->opts->seed, epoch);
    if (r->cb && r->cb->epoch_begin)
        PG_TRY(r->cb->epoch_begin(r->cb->user, epoch, err));
    PG_TRY(run_batches(r, &r->train, 1, err));
    fill_logs(r, r->values, &r->epoch);
    if (r->has_val) {
        PG_TRY(reset_states(r, err));
        PG_TRY(run_batches(r, &r->val, 0, err));
        fill_logs(r, r->values + r->n_logs, &r->epoch);
    }
    if (r->cb && r->cb->epoch_end)
        PG_TRY(
            r->cb->epoch_end(r->cb->user, epoch, &(pg_logs){r->shown, r->values, r->names.n}, err));
done:
    return st;
}

/* Finds the data and everything that is as large as a batch. */
static pg_status prepare(run *r, pg_err *err)
{
    const pg_fit_opts *o = r->opts;
    const pg__program *p = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__feed_open(&r->train, r->t, r->data, 0, err));
    if (r->has_val)
        PG_TRY(pg__feed_open(&r->val, r->t, o->validation ? o->validation : r->data,
                             o->validation != NULL, err));
    if (r->has_val && !o->validation)
        PG_TRY(split_validation(r, o->validation_split, err));
    PG_TRY(pg__feed_fit_inputs(&r->train, r->t, err));
    r->batch_size = o->batch_size ? o->batch_size : DEFAULT_BATCH;
    if (r->batch_size > r->train.n_rows && r->batch_size > r->val.n_rows)
        r->batch_size = (size_t)(r->train.n_rows > r->val.n_rows ? r->train.n_rows : r->val.n_rows);
    PG_TRY(pg__trainer_program(r->t, r->batch_size, 1, &p, err));
    PG_TRY(resolve_metrics(r->t, p, err));
    PG_TRY(pg__batch_alloc(&r->batch, &r->train, p, err));
    PG_TRY(pg__totals_alloc(r->t, &r->own, err));
    PG_TRY(pg__totals_alloc(r->t, &r->epoch, err));
    PG_TRY(name_logs(r, err));
    r->rows = pg__mem_array(r->batch_size, sizeof *r->rows);
    const int shuffled = !o->no_shuffle && r->t->built_params.n_states == 0;
    r->order = shuffled ? pg__mem_array(r->train.n_rows, sizeof *r->order) : NULL;
    if (!r->rows || (shuffled && !r->order))
        PG_TRY(pg__nomem(err));
done:
    return st;
}

static void clean_up(run *r)
{
    pg__mem_free(r->order);
    pg__mem_free(r->rows);
    pg__mem_free(r->values);
    pg__mem_free(r->shown);
    pg__strs_fini(&r->names);
    pg__totals_free(&r->own);
    pg__totals_free(&r->epoch);
    pg__batch_free(&r->batch, r->t);
    pg__feed_close(&r->train);
    pg__feed_close(&r->val);
}

pg_status pg_fit(pg_trainer *t, pg_data *data, const pg_fit_opts *opts, const pg_callback *cb,
                 pg_err *err)
{
    run r = {.t = t,
             .data = data,
             .opts = opts,
             .cb = cb,
             .has_val = opts->validation != NULL || opts->validation_split != 0};
    pg_status st = PG_OK;
    t->seed = opts->seed;
    PG_TRY(prepare(&r, err));
    for (size_t epoch = 0; epoch < (opts->epochs ? opts->epochs : 1); epoch++)
        PG_TRY(run_epoch(&r, epoch, err));
done:
    clean_up(&r);
    return st;
}
