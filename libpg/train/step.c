/* step.c - one batch: forward pass, losses and metrics, gradients, update. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/trainer.h"

static pg_status grow(pg_trainer *t, void **mem, uint64_t had, uint64_t n, pg_err *err)
{
    void *more = NULL;
    if (n <= had && *mem)
        return PG_OK;
    const pg_status st = t->backend->alloc(t->dev, &more, (size_t)n, err);
    if (st != PG_OK)
        return st;
    t->backend->free(t->dev, *mem);
    *mem = more;
    return PG_OK;
}

pg_status pg__trainer_program(pg_trainer *t, uint64_t n_rows, int training, const pg__program **out,
                              pg_err *err)
{
    const pg__program_opts opts = {.lower = {.graph = t->graph,
                                             .leaves = &t->leaves,
                                             .rules = t->rules,
                                             .n_rows = n_rows,
                                             .inputs = t->input_dims,
                                             .training = training},
                                   .objectives = t->objectives,
                                   .from_probabilities = t->from_probabilities,
                                   .backend = t->backend,
                                   .dev = t->dev};
    pg__program *p = NULL;
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_built; i++)
        if (t->built[i].n_rows == n_rows && t->built[i].training == training) {
            *out = t->built[i].program;
            return PG_OK;
        }
    PG_TRY(pg__program_new(&p, &opts, err));
    PG_TRY(grow(t, &t->arena, t->arena_bytes, pg__program_arena_bytes(p), err));
    if (pg__program_arena_bytes(p) > t->arena_bytes)
        t->arena_bytes = pg__program_arena_bytes(p);
    PG_TRY(grow(t, &t->scratch, t->scratch_bytes, pg__program_scratch_bytes(p), err));
    if (pg__program_scratch_bytes(p) > t->scratch_bytes)
        t->scratch_bytes = pg__program_scratch_bytes(p);
    if (pg__mem_grow(&t->built, &t->cap_built, t->n_built + 1, sizeof *t->built))
        PG_TRY(pg__nomem(err));
    t->built[t->n_built++] = (pg__built){n_rows, training, p};
    *out = p;
    p = NULL;
done:
    pg__program_free(p);
    return st;
}

/* ---- what a run tells ---- */

/* n elements of the device as doubles, fresh memory. */
static pg_status as_doubles(pg_trainer *t, double **out, const void *from, uint64_t n,
                            pg__elem elem, int on_device, pg_err *err)
{
    const size_t bytes = elem == PG__INT ? sizeof(int32_t) : t->backend->real_bytes;
    double *v = pg__mem_array(n, sizeof *v);
    void *raw = pg__mem_array(n, bytes);
    pg_status st = PG_OK;
    if (!v || !raw)
        PG_TRY(pg__nomem(err));
    if (on_device)
        PG_TRY(t->backend->get(t->dev, raw, from, (size_t)n * bytes));
    else
        memcpy(raw, from, (size_t)n * bytes);
    for (uint64_t i = 0; i < n; i++)
        v[i] = elem == PG__INT           ? ((const int32_t *)raw)[i]
               : bytes == sizeof(double) ? ((const double *)raw)[i]
                                         : (double)((const float *)raw)[i];
    *out = v;
    v = NULL;
done:
    pg__mem_free(raw);
    pg__mem_free(v);
    return st;
}

static pg_status add_losses(pg_trainer *t, const pg__program *p, const pg__frame *f, size_t k,
                            pg__totals *totals, pg_err *err)
{
    const pg__value *v = pg__program_loss_value(p, k);
    double *rows = NULL;
    if (!v)
        return PG_OK;
    const uint64_t n = pg__dims_elems(&v->shape);
    const pg_status st = as_doubles(t, &rows, pg__program_loss(p, f, k), n, PG__REAL, 1, err);
    if (st != PG_OK)
        return st;
    for (uint64_t i = 0; i < n; i++)
        totals->loss_sums[k] += rows[i];
    totals->loss_counts[k] += (double)n;
    pg__mem_free(rows);
    return PG_OK;
}

static pg_status add_metrics(pg_trainer *t, const pg__program *p, const pg__frame *f, size_t k,
                             const pg__batch *b, pg__totals *totals, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    const pg__dims *shape = &m->tape.values[m->outputs[k]].shape;
    const pg__value *target = pg__program_target(p, k);
    const uint64_t n = pg__dims_elems(shape), last = shape->d[shape->rank - 1];
    double *y = NULL, *guess = NULL;
    size_t wanted = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_metrics; i++)
        wanted += t->metrics[i].output == k;
    if (wanted == 0 || !target || last == 0)
        return PG_OK;
    PG_TRY(as_doubles(t, &guess, pg__program_prediction(p, f, k), n, PG__REAL, 1, err));
    PG_TRY(as_doubles(t, &y, b->targets[k], pg__dims_elems(&target->shape), target->elem, 0, err));
    for (size_t i = 0; i < t->n_metrics; i++)
        if (t->metrics[i].output == k)
            pg__metric_add(&t->metrics[i], &totals->metrics[i], y, target->elem == PG__INT, guess,
                           (size_t)(n / last), (size_t)last);
done:
    pg__mem_free(guess);
    pg__mem_free(y);
    return st;
}

double pg__total_loss(const pg_trainer *t, const pg__totals *totals)
{
    double loss = 0;
    for (size_t k = 0; k < t->n_outputs; k++)
        if (totals->loss_counts[k] > 0)
            loss += t->loss_weights[k] * totals->loss_sums[k] / totals->loss_counts[k];
    return loss;
}

/* ---- the step ---- */

static pg_status update(pg_trainer *t, pg_err *err)
{
    const pg__optimiser_kind kind = pg__optimiser_kind_of(&t->optimiser);
    const pg__update u = pg__optimiser_step(&t->optimiser);
    pg_status st = PG_OK;
    (void)err;
    for (size_t i = 0; i < t->n_params; i++) {
        void *slots[PG_MAX_SLOTS];
        for (size_t s = 0; s < PG_MAX_SLOTS; s++)
            slots[s] = t->slots[s].at ? t->slots[s].at[i] : NULL;
        if (t->trained[i])
            PG_TRY(t->backend->update(t->dev, kind, &u, t->params.at[i], t->grads.at[i], slots,
                                      t->n_elems[i]));
    }
done:
    return st;
}

/* Gradient of the batch's loss by one row's: weight / number of rows, as the device holds it. */
static pg_status make_seeds(pg_trainer *t, const pg__program *p, double *mem, const void **seeds)
{
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *v = pg__program_loss_value(p, k);
        const double seed = v ? t->loss_weights[k] / (double)pg__dims_elems(&v->shape) : 0;
        const float rounded = (float)seed;
        if (t->backend->real_bytes == sizeof seed)
            memcpy(&mem[k], &seed, sizeof seed);
        else
            memcpy(&mem[k], &rounded, sizeof rounded);
        seeds[k] = &mem[k];
    }
    return PG_OK;
}

pg_status pg__trainer_step(pg_trainer *t, const pg__batch *b, int training, pg__totals *totals,
                           pg_err *err)
{
    const pg__program *p = NULL;
    const void **seeds = pg__mem_array(t->n_outputs, sizeof *seeds);
    double *seed_mem = pg__mem_array(t->n_outputs, sizeof *seed_mem);
    pg_status st = PG_OK;
    if (!seeds || !seed_mem)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__trainer_program(t, b->n_rows, training, &p, err));
    PG_TRY(make_seeds(t, p, seed_mem, seeds));
    const pg__frame f = {.inputs = (const void *const *)b->inputs,
                         .targets = (const void *const *)b->targets,
                         .weights = (const void *const *)b->weights,
                         .params = t->params.at,
                         .grads = training ? t->grads.at : NULL,
                         .seeds = seeds,
                         .arena = t->arena,
                         .scratch = t->scratch};
    PG_TRY(pg__program_run(p, &f));
    for (size_t k = 0; k < t->n_outputs; k++) {
        PG_TRY(add_losses(t, p, &f, k, totals, err));
        PG_TRY(add_metrics(t, p, &f, k, b, totals, err));
    }
    t->has_gradients = training;
    if (training)
        PG_TRY(update(t, err));
done:
    pg__mem_free(seed_mem);
    pg__mem_free(seeds);
    return st;
}
