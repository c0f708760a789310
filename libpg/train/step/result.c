/* result.c - losses and metrics of a run: fetched from the device and summed in double. */
#include "train/step/result.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"

/* ---- from a device ---- */

static const void *landed(const pg__landing *l, const void *from)
{
    for (size_t i = 0; i < l->n_landed; i++)
        if (l->landed[i].from == from)
            return l->mem + l->landed[i].at;
    return from;
}

static pg_status wait_for(pg__landing *l, pg__dev *dev, const void *from, size_t n, pg_err *err)
{
    const size_t at =
        l->n_landed ? l->landed[l->n_landed - 1].at + l->landed[l->n_landed - 1].n : 0;
    if (landed(l, from) != from)
        return PG_OK;
    if (pg__mem_grow(&l->landed, &l->cap_landed, l->n_landed + 1, sizeof *l->landed))
        return pg__nomem(err);
    l->landed[l->n_landed++] = (struct pg__landed){dev, from, at, (n + 7) / 8 * 8};
    return PG_OK;
}

static int is_measured(const pg__trainer_compiled *compiled, size_t k)
{
    for (size_t i = 0; i < compiled->n_metrics; i++)
        if (compiled->metrics[i].output == k)
            return 1;
    return 0;
}

static size_t bytes_of(const pg__trainer_devs *devs, const pg__value *v)
{
    return (size_t)pg__dims_elems(&v->shape) * (pg__elem_bytes(v->elem, devs->backend->real_bytes));
}

static pg_status list_results(const pg_trainer *t, pg__landing *l, const pg__program *p,
                              const pg__frame *f, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    pg_status st = PG_OK;
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        const pg__value *loss = pg__program_loss_value(p, k), *mask = pg__program_mask_value(p, k);
        if (loss)
            PG_TRY(wait_for(l, f->dev, pg__program_loss(p, f, k), bytes_of(&t->devs, loss), err));
        if (!is_measured(&t->compiled, k))
            continue;
        PG_TRY(wait_for(l, pg__program_prediction_dev(p, f, k), pg__program_prediction(p, f, k),
                        bytes_of(&t->devs, &m->tape.values[m->outputs[k]]), err));
        if (mask && t->net.rules->metrics_see_mask)
            PG_TRY(wait_for(l, f->dev, pg__program_mask(p, f, k), bytes_of(&t->devs, mask), err));
        if (pg__program_logits_value(p, k))
            PG_TRY(wait_for(l, f->dev, pg__program_logits(p, f, k),
                            bytes_of(&t->devs, pg__program_logits_value(p, k)), err));
    }
    for (size_t i = 0; i < m->n_activities; i++)
        PG_TRY(
            wait_for(l, f->dev, pg__program_activity(p, f, i), t->devs.backend->real_bytes, err));
done:
    return st;
}

pg_status pg__result_fetch(pg_trainer *t, pg__landing *l, const pg__program *p, const pg__frame *f,
                           pg_err *err)
{
    const pg__backend *b = t->devs.backend;
    pg_status st = PG_OK;
    l->n_landed = 0;
    l->dev = f->dev;
    if (b->host_memory)
        return PG_OK;
    PG_TRY(list_results(t, l, p, f, err));
    const struct pg__landed *last = l->n_landed ? &l->landed[l->n_landed - 1] : NULL;
    if (last && last->at + last->n > l->n_bytes) {
        b->host_free(l->dev, l->mem);
        l->mem = NULL;
        l->n_bytes = 0;
        void *mem = NULL;
        PG_TRY(b->host_alloc(l->dev, &mem, last->at + last->n, err));
        l->mem = mem;
        l->n_bytes = last->at + last->n;
    }
    for (size_t i = 0; i < l->n_landed; i++)
        PG_TRY(b->fetch(l->landed[i].dev, l->mem + l->landed[i].at, l->landed[i].from,
                        l->landed[i].n));
done:
    return st;
}

void pg__landing_free(const pg__trainer_devs *devs, pg__landing *l)
{
    if (l->mem)
        devs->backend->host_free(l->dev, l->mem);
    pg__mem_free(l->landed);
    *l = (pg__landing){0};
}

/* ---- and added up ---- */

/* n elements as doubles, in fresh memory; from the results or, with l NULL, from the batch. */
static pg_status as_doubles(pg__trainer_devs *devs, double **out, const void *from, uint64_t n,
                            pg__elem elem, const pg__landing *l, pg_err *err)
{
    const size_t bytes = pg__elem_bytes(elem, devs->backend->real_bytes);
    const void *raw = l ? landed(l, from) : from;
    double *v = pg__mem_array(n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    if (elem == PG_ELEM_INT)
        for (uint64_t i = 0; i < n; i++)
            v[i] = ((const int32_t *)raw)[i];
    else if (bytes == sizeof(double))
        memcpy(v, raw, (size_t)n * sizeof *v);
    else
        for (uint64_t i = 0; i < n; i++)
            v[i] = (double)((const float *)raw)[i];
    *out = v;
    return PG_OK;
}

/* share: the fraction of terms that their sum is divided by. A loss that is the sum of its terms is
 * recorded as their mean times their number in the batch. */
static pg_status add_losses(pg_trainer *t, const pg__program *p, const pg__frame *f,
                            const pg__landing *l, size_t k, double share, uint64_t n_rows,
                            pg__totals *totals, pg_err *err)
{
    const pg__value *v = pg__program_loss_value(p, k);
    const uint64_t n_lane = v && v->shape.rank > 0 ? v->shape.d[0] : 1; /* rows */
    double *rows = NULL;
    if (!v)
        return PG_OK;
    const uint64_t n = pg__dims_elems(&v->shape);
    const pg_status st =
        as_doubles(&t->devs, &rows, pg__program_loss(p, f, k), n, PG_ELEM_REAL, l, err);
    if (st != PG_OK)
        return st;
    const double by = t->compiled.objectives[k].loss.sums ? (double)(n / n_lane * n_rows) : 1;
    for (uint64_t i = 0; i < n; i++)
        totals->loss_sums[k] += rows[i] / share * by;
    totals->loss_counts[k] += (double)n;
    pg__mem_free(rows);
    return PG_OK;
}

/* The weight of each of n rows by the output's mask, or NULL. */
static pg_status mask_weights(pg_trainer *t, const pg__program *p, const pg__frame *f,
                              const pg__landing *l, size_t k, uint64_t n, double **out, pg_err *err)
{
    const pg__value *v = pg__program_mask_value(p, k);
    const uint64_t n_mask = v ? pg__dims_elems(&v->shape) : 0;
    double *mask = NULL;
    *out = NULL;
    if (!t->net.rules->metrics_see_mask || n_mask == 0 || n % n_mask != 0)
        return PG_OK;
    pg_status st =
        as_doubles(&t->devs, &mask, pg__program_mask(p, f, k), n_mask, PG_ELEM_REAL, l, err);
    if (st != PG_OK)
        return st;
    double *w = pg__mem_array(n, sizeof *w);
    for (uint64_t i = 0; w && i < n; i++)
        w[i] = mask[i / (n / n_mask)];
    pg__mem_free(mask);
    *out = w;
    return w ? PG_OK : pg__nomem(err);
}

static pg_status add_metrics(pg_trainer *t, const pg__program *p, const pg__frame *f,
                             const pg__landing *l, const pg__rows *rows, size_t k,
                             pg__totals *totals, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    const pg__dims *shape = &m->tape.values[m->outputs[k]].shape;
    const pg__value *target = pg__program_target(p, k);
    const uint64_t n = pg__dims_elems(shape), last = shape->d[shape->rank - 1];
    double *y = NULL, *guess = NULL, *logits = NULL, *mask = NULL, *weights = NULL;
    size_t wanted = 0, weighted = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->compiled.n_metrics; i++) {
        wanted += t->compiled.metrics[i].output == k;
        weighted += t->compiled.metrics[i].output == k && t->compiled.metrics[i].weighted;
    }
    if (wanted == 0 || !target || last == 0)
        return PG_OK;
    PG_TRY(as_doubles(&t->devs, &guess, pg__program_prediction(p, f, k), n, PG_ELEM_REAL, l, err));
    if (pg__program_logits_value(p, k))
        PG_TRY(as_doubles(&t->devs, &logits, pg__program_logits(p, f, k), n, PG_ELEM_REAL, l, err));
    PG_TRY(as_doubles(&t->devs, &y, rows->targets[k], pg__dims_elems(&target->shape), target->elem,
                      NULL, err));
    PG_TRY(mask_weights(t, p, f, l, k, n / last, &mask, err));
    if (weighted > 0 && rows->weights[k])
        PG_TRY(as_doubles(&t->devs, &weights, rows->weights[k], n / last, PG_ELEM_REAL, NULL, err));
    for (uint64_t i = 0; mask && weights && i < n / last; i++)
        weights[i] *= mask[i];
    for (size_t i = 0; i < t->compiled.n_metrics; i++)
        if (t->compiled.metrics[i].output == k)
            pg__metric_add(&t->compiled.metrics[i], totals->metrics + t->compiled.metrics[i].at, y,
                           t->compiled.metrics[i].on_logits ? logits : guess,
                           t->compiled.metrics[i].weighted && weights ? weights : mask,
                           (size_t)(n / last));
done:
    pg__mem_free(weights);
    pg__mem_free(mask);
    pg__mem_free(logits);
    pg__mem_free(guess);
    pg__mem_free(y);
    return st;
}

/* penalty_sum is multiplied by rows: if Keras does not divide by them, its mean must not either. */
static pg_status add_activities(pg_trainer *t, const pg__program *p, const pg__frame *f,
                                const pg__landing *l, uint64_t n_rows, pg__totals *totals,
                                pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    pg_status st = PG_OK;
    for (size_t i = 0; i < m->n_activities && st == PG_OK; i++) {
        double *v = NULL;
        st = as_doubles(&t->devs, &v, pg__program_activity(p, f, i), 1, PG_ELEM_REAL, l, err);
        if (st == PG_OK)
            totals->penalty_sum += *v * (t->net.rules->activity_per_row ? 1 : (double)n_rows);
        pg__mem_free(v);
    }
    return st;
}

pg_status pg__result_add(pg_trainer *t, const pg__program *p, const pg__frame *f,
                         const pg__landing *l, const pg__rows *rows, const double *shares,
                         uint64_t n_rows, pg__totals *totals, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(add_activities(t, p, f, l, n_rows, totals, err));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        PG_TRY(add_losses(t, p, f, l, k, shares[k], n_rows, totals, err));
        PG_TRY(add_metrics(t, p, f, l, rows, k, totals, err));
    }
done:
    return st;
}
