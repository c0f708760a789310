/* update.c - summing and updating is one pass over the parameters, a range for each worker. What
 * needs whole variables (regularizers, norms, constraints) is divided by variable, and only done if
 * the model has it. Clipping: keras/optimizers of 2.15 and 2.3.1. */
#include "train/step/update.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/clip_real.h"
#include "train/step/all_reduce.h"
#include "train/step/devices.h"
#include "train/step/mixed.h"
#include "train/step/model_parallel.h"
#include "train/step/optimizer_shard.h"
#include "train/step/ranks.h"
#include "train/step/report.h"

typedef struct work {
    pg_trainer *t;
    size_t device, n_parts; /* where it runs, and in how many parallel parts */
    pg__flat *grads;        /* the sum on that device */
    pg__optimizer_kind kind;
    pg__update update;
    double *norms;  /* per parameter: sum of squares */
    double *scales; /* per parameter */
    pg__piece *pieces;
    double limit;   /* of each element; 0: no limit */
    double summing; /* seconds of the first worker, if sums and updates alternate */
} work;

#define GRAIN 16u   /* elements: no two threads write one cache line */
#define PIECE 8192u /* elements whose gradients, parameters and slots fit into a core's cache */

static void range_of(const work *w, size_t part, uint64_t *from, uint64_t *to)
{
    const uint64_t n = w->t->vars.offsets[w->t->vars.n_params] / GRAIN;
    *from = n * part / w->n_parts * GRAIN;
    *to = n * (part + 1) / w->n_parts * GRAIN;
}

static pg__dev *dev_of(const work *w)
{
    return w->t->devs.devices[w->device].dev;
}

/* The device of a variable: its own if variables are divided. */
static pg__dev *dev_for(const work *w, size_t i)
{
    return w->t->devs.is_split ? pg__param_dev(w->t, i) : dev_of(w);
}

/* A flat's memory for variable i from element `at` of all on. */
static void *from_element(const work *w, const pg__flat *f, size_t i, uint64_t at)
{
    return (char *)f->at[i] + (at - w->t->vars.offsets[i]) * w->t->devs.backend->real_bytes;
}

static pg_status sum_range(work *w, size_t part)
{
    pg__flat *sum;
    uint64_t from, to;
    range_of(w, part, &from, &to);
    return pg__partials_sum(w->t, from, to, &sum);
}

/* Updates what lies in [from, to) of every trained parameter. *first: where to start searching;
 * advances with `from`. */
static pg_status update_part(work *w, const pg__flat *grads, uint64_t from, uint64_t to,
                             size_t *first)
{
    pg_trainer *t = w->t;
    const pg__flat *params = pg__params_on(t, w->device), *own = pg__slots_on(t, w->device);
    pg_status st = PG_OK;
    while (*first < t->vars.n_params && t->vars.offsets[*first] + t->vars.n_elems[*first] <= from)
        ++*first;
    for (size_t i = *first; i < t->vars.n_params && t->vars.offsets[i] < to && st == PG_OK; i++) {
        const uint64_t end = t->vars.offsets[i] + t->vars.n_elems[i];
        const uint64_t lo = from > t->vars.offsets[i] ? from : t->vars.offsets[i],
                       hi = to < end ? to : end;
        void *slots[PG_MAX_SLOTS];
        if (!t->vars.trained[i] || lo >= hi)
            continue;
        for (size_t k = 0; k < PG_MAX_SLOTS; k++)
            slots[k] = own[k].mem ? from_element(w, &own[k], i, lo) : NULL;
        st = t->devs.backend->flat.update(dev_for(w, i), w->kind, &w->update,
                                          from_element(w, params, i, lo),
                                          from_element(w, grads, i, lo), slots, (size_t)(hi - lo));
    }
    return st;
}

/* Updates a part of this rank's own elements, with a sharded optimizer. */
static pg_status update_shard(work *w, size_t part)
{
    const pg_trainer *t = w->t;
    pg_status st = PG_OK;
    for (size_t b = 0; b < pg__opt_shard_n_blocks(&t->sums) && st == PG_OK; b++) {
        uint64_t from, to;
        size_t first = 0;
        pg__opt_shard_piece(t, b, pg__rank_of(t->ranks), &from, &to);
        const uint64_t n = (to - from) / GRAIN;
        to = from + n * (part + 1) / w->n_parts * GRAIN;
        from += n * part / w->n_parts * GRAIN;
        st = update_part(w, w->grads, from, to, &first);
    }
    return st;
}

static pg_status update_range(work *w, size_t part)
{
    uint64_t from, to;
    size_t first = 0;
    if (pg__is_sharded(w->t->ranks))
        return update_shard(w, part);
    range_of(w, part, &from, &to);
    return update_part(w, w->grads, from, to, &first);
}

/* If nothing needs whole variables: the sum of a piece is still in the cache when it is applied,
 * and workers meet once less. */
static pg_status sum_and_update_range(work *w, size_t part)
{
    uint64_t from, to;
    size_t first = 0;
    pg_status st = PG_OK;
    range_of(w, part, &from, &to);
    for (uint64_t at = from; at < to && st == PG_OK; at += PIECE) {
        const uint64_t end = to - at < PIECE ? to : at + PIECE;
        double clock = part == 0 ? pg__now() : 0;
        pg__flat *sum = NULL;
        st = pg__partials_sum(w->t, at, end, &sum);
        if (part == 0)
            pg__lap(&clock, &w->summing);
        if (st == PG_OK && sum)
            st = update_part(w, sum, at, end, &first);
    }
    return st;
}

/* ---- by variable ---- */

/* Calls fn for every trained variable of a part. */
static pg_status each_variable(work *w, size_t part, pg_status (*fn)(work *w, size_t i))
{
    pg_status st = PG_OK;
    for (size_t i = part; i < w->t->vars.n_params && st == PG_OK; i += w->n_parts)
        if (w->t->vars.trained[i])
            st = fn(w, i);
    return st;
}

static pg_status regularise(work *w, size_t i)
{
    pg_trainer *t = w->t;
    const pg__penalty *p = &t->vars.penalties[i];
    if (p->l1 == 0 && p->l2 == 0)
        return PG_OK;
    return t->devs.backend->flat.regularise(dev_for(w, i), w->grads->at[i],
                                            pg__params_on(t, w->device)->at[i], t->vars.n_elems[i],
                                            p->l1, p->l2, NULL);
}

static pg_status take_norm(work *w, size_t i)
{
    w->norms[i] = 0;
    return w->t->devs.backend->flat.squares(dev_for(w, i), w->grads->at[i], w->t->vars.n_elems[i],
                                            &w->norms[i]);
}

static pg_status clip(work *w, size_t i)
{
    return w->t->devs.backend->flat.clip(dev_for(w, i), w->grads->at[i], w->t->vars.n_elems[i],
                                         w->scales[i], w->limit);
}

static pg_status constrain(work *w, size_t i)
{
    pg_trainer *t = w->t;
    pg_status st = PG_OK;
    double *values = NULL;
    if (t->vars.penalties[i].constraint == PG_FREE)
        return PG_OK;
    values = pg__mem_array(t->vars.n_elems[i], sizeof *values);
    if (!values)
        return PG_E_NOMEM;
    PG_TRY(pg__param_get(t, i, values));
    pg__constrain(&t->vars.penalties[i], &t->net.built_params.params[i].shape, values);
    PG_TRY(pg__param_put(t, i, values));
done:
    pg__mem_free(values);
    return st;
}

#define BY_VARIABLE(name)                             \
    static pg_status name##_all(work *w, size_t part) \
    {                                                 \
        return each_variable(w, part, name);          \
    }
BY_VARIABLE(regularise)
BY_VARIABLE(take_norm)
BY_VARIABLE(clip)
BY_VARIABLE(constrain)

/* ---- clipping ---- */

static int clips(const pg__optimizer *o)
{
    return o->clipnorm > 0 || o->global_clipnorm > 0 || o->clipvalue > 0;
}

/* Which norm limits gradients: each variable's, or that of all together (global_clipnorm; in
 * standalone Keras clipnorm too). */
static pg__norm_limits norms_of(const pg_trainer *t)
{
    const pg__optimizer *o = &t->compiled.optimizer;
    const int standalone = t->net.rules->clip_all_together;
    return (pg__norm_limits){.each = standalone ? 0 : o->clipnorm,
                             .together =
                                 standalone && o->clipnorm > 0 ? o->clipnorm : o->global_clipnorm,
                             .both = o->legacy};
}

typedef pg_status (*part_fn)(work *w, size_t part);
typedef struct meeting {
    work *w;
    part_fn fn;
} meeting;

static void do_part(void *arg, size_t worker)
{
    const meeting *m = arg;
    pg__trace *trace = m->w->t->report.trace;
    const double clock = pg__trace_begin(trace);
    m->w->t->pool.workers[worker].st = m->fn(m->w, worker);
    pg__trace_end(trace, worker, clock, PG_TRACE_UPDATE_PART, 0, 0);
}

/* Runs all parts: in the workers, or queued on a device with its own memory by this thread. */
static pg_status meet(work *w, part_fn fn, pg_err *err)
{
    pg_trainer *t = w->t;
    if (!t->devs.backend->host_memory)
        return t->devs.is_split ? pg__with_message(t, fn(w, 0), err)
                                : pg__device_failed(&t->devs, dev_of(w), fn(w, 0), err);
    pg__thread_pool_run(t->pool.threads, do_part, &(meeting){w, fn});
    for (size_t k = 0; k < w->n_parts; k++)
        if (t->pool.workers[k].st != PG_OK)
            return pg__device_failed(&t->devs, dev_of(w), t->pool.workers[k].st, err);
    return PG_OK;
}

/* Scales gradients by their norms, then clips values to +-limit. */
static pg_status clip_by(work *w, const pg__norm_limits *l, double limit, pg_err *err)
{
    pg_trainer *t = w->t;
    const int by_norm = l->each > 0 || l->together > 0;
    pg_status st = PG_OK;
    if (!by_norm && limit <= 0)
        return PG_OK;
    if (t->devs.backend->flat.clip_all && !t->devs.is_split)
        return pg__device_failed(
            &t->devs, dev_of(w),
            t->devs.backend->flat.clip_all(dev_of(w), w->pieces, t->vars.n_params, l, limit), err);
    for (size_t i = 0; i < t->vars.n_params; i++)
        w->scales[i] = 1;
    if (by_norm) {
        PG_TRY(meet(w, take_norm_all, err));
        pg__clip_scales(l, w->norms, w->scales, t->vars.n_params);
    }
    w->limit = limit;
    PG_TRY(meet(w, clip_all, err));
done:
    return st;
}

/* Later optimizers use the first kind of clipping given; those of tf.keras to 2.10 clip values
 * before norms, standalone Keras after. */
static pg_status clip_both_ways(work *w, pg_err *err)
{
    const pg__optimizer *o = &w->t->compiled.optimizer;
    const pg__norm_limits none = {0}, norms = norms_of(w->t);
    const int by_norm = o->clipnorm > 0 || o->global_clipnorm > 0;
    const int standalone = w->t->net.rules->clip_all_together;
    pg_status st = PG_OK;
    if (!standalone && (!by_norm || o->legacy))
        PG_TRY(clip_by(w, &none, o->clipvalue, err));
    PG_TRY(clip_by(w, &norms, standalone ? o->clipvalue : 0, err));
done:
    return st;
}

/* The pieces of a flat, per variable. */
static pg__piece *pieces_of(const pg__trainer_vars *vars, const pg__flat *f)
{
    pg__piece *p = pg__mem_array(vars->n_params, sizeof *p);
    for (size_t i = 0; p && i < vars->n_params; i++)
        p[i] = (pg__piece){.p = f->at[i],
                           .n = vars->n_elems[i],
                           .l1 = vars->penalties[i].l1,
                           .l2 = vars->penalties[i].l2};
    return p;
}

static pg_status clip_gradients(work *w, pg_err *err)
{
    const pg_trainer *t = w->t;
    pg_status st = PG_OK;
    w->norms = pg__mem_array(t->vars.n_params, sizeof *w->norms);
    w->scales = pg__mem_array(t->vars.n_params, sizeof *w->scales);
    w->pieces = pieces_of(&t->vars, w->grads);
    if (!w->norms || !w->scales || !w->pieces)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < t->vars.n_params; i++)
        if (!t->vars.trained[i])
            w->pieces[i].p = NULL;
    PG_TRY(clip_both_ways(w, err));
done:
    pg__mem_free(w->norms);
    pg__mem_free(w->scales);
    pg__mem_free(w->pieces);
    return st;
}

/* ---- all of it ---- */

/* Does what needs whole variables, then the update; constraints come after. */
static pg_status update_variables(work *w, pg_err *err)
{
    pg_trainer *t = w->t;
    pg_status st = PG_OK;
    if (t->vars.has_regularizers)
        PG_TRY(meet(w, regularise_all, err));
    if (clips(&t->compiled.optimizer))
        PG_TRY(clip_gradients(w, err));
    PG_TRY(meet(w, update_range, err));
done:
    return st;
}

/* Updates each variable on its device, if they are divided; `meet` visits all. */
static pg_status update_parts(work *w, pg_err *err)
{
    pg_trainer *t = w->t;
    double clock = pg__now();
    pg_status st = PG_OK;
    PG_TRY(update_variables(w, err));
    pg__lap(&clock, &t->report.spent.update);
    if (pg__is_sharded(t->ranks)) {
        PG_TRY(pg__opt_shard_gather(t, &t->vars.params, "the weights", err));
        t->vars.grads = pg__opt_shard_whole_sums(&t->compiled) ? t->vars.grads : NULL;
        pg__lap(&clock, &t->report.spent.exchange);
    }
    if (t->vars.has_constraints)
        PG_TRY(meet(w, constrain_all, err));
    pg__lap(&clock, &t->report.spent.update);
done:
    return st;
}

static pg_status update_in_turn(work *w, pg_err *err)
{
    pg_trainer *t = w->t;
    double clock = pg__now();
    pg_status st = PG_OK;
    PG_TRY(meet(w, sum_range, err));
    pg__lap(&clock, &t->report.spent.reduce);
    st = update_parts(w, err);
done:
    return st;
}

static pg_status update_at_once(work *w, pg_err *err)
{
    double clock = pg__now(), all = 0;
    const pg_status st = meet(w, sum_and_update_range, err);
    pg__lap(&clock, &all);
    w->t->report.spent.reduce += w->summing;
    w->t->report.spent.update += all - w->summing;
    return st;
}

/* Sums within this process, then over all. */
static pg_status sum_ranks(work *w, pg_err *err)
{
    pg_trainer *t = w->t;
    double clock = pg__now();
    pg_status st = PG_OK;
    if (!t->sums.plan.overlaps)
        PG_TRY(meet(w, sum_range, err));
    pg__lap(&clock, &t->report.spent.reduce);
    PG_TRY(pg__ranks_sum(t, &w->grads, err));
    pg__lap(&clock, &t->report.spent.exchange);
done:
    return st;
}

/* Looks in the gradients before they change weights. NaN of any lane shows in the sum over ranks;
 * in a rank's own elements, if it concerns these. */
static pg_status look_for_nan(pg_trainer *t, pg_err *err)
{
    int finite = 1;
    pg_status st = PG_OK;
    if (t->ranks) {
        PG_TRY(pg__with_message(t, pg__grads_finite(t, t->devs.dev, t->vars.grads, &finite), err));
        t->loop.nan_found = !finite;
        return pg__is_sharded(t->ranks) ? pg__ranks_any(t, &t->loop.nan_found, err) : PG_OK;
    }
    for (size_t k = 0; k < t->pool.n_threads; k++) {
        const pg__worker *by = &t->pool.workers[k];
        for (size_t i = 0; i < by->n_partials && finite; i++)
            if (by->partials[i].grads)
                PG_TRY(pg__with_message(
                    t, pg__grads_finite(t, by->dev, by->partials[i].grads, &finite), err));
    }
    t->loop.nan_found = !finite;
done:
    return st;
}

static int needs_variables(const pg_trainer *t)
{
    return t->vars.has_regularizers || t->vars.has_constraints || clips(&t->compiled.optimizer);
}

/* Every device applies the same updates to its copy, from the same sum; its own thread queues them
 * while the sum may still be on its way. */
static void update_device(void *arg, size_t worker)
{
    work *w = arg;
    pg__worker *by = &w->t->pool.workers[worker];
    by->err = (pg_err){0};
    by->st = PG_OK;
    if (pg__speaks_for_device(w->t, worker))
        by->st = update_variables(&w[by->device], &by->err);
}

static pg_status update_devices(const work *of_all, pg_err *err)
{
    pg_trainer *t = of_all->t;
    work *of = pg__mem_array(t->devs.n_devices, sizeof *of);
    double clock = pg__now();
    pg_status st = PG_OK;
    if (!of)
        return pg__nomem(err);
    for (size_t d = 0; d < t->devs.n_devices; d++) {
        of[d] = *of_all;
        of[d].device = d;
        of[d].grads = t->devs.devices[d].sum;
    }
    pg__thread_pool_run(t->pool.threads, update_device, of);
    PG_TRY(pg__first_failure(&t->pool, err));
    pg__lap(&clock, &t->report.spent.update);
    PG_TRY(pg__all_reduce_wait(t, err));
    if (t->vars.has_constraints) /* on the first; the others are mirrored */
        PG_TRY(meet(&of[0], constrain_all, err));
    PG_TRY(pg__devices_settle(&t->devs, err));
done:
    pg__mem_free(of);
    return st;
}

/* On GPUs. This process may have no lane with rows; then other processes do. */
static pg_status sum_devices(pg_trainer *t, pg__flat **out, pg_err *err)
{
    const double clock = pg__trace_begin(t->report.trace);
    pg_status st = PG_OK;
    if (!pg__partials_any(&t->pool) && t->sums.facts.n_ranks == 1)
        return PG_OK;
    if (t->sums.plan.way == PG_SUM_PLACED)
        return pg__with_message(t, pg__partials_sum(t, 0, t->vars.offsets[t->vars.n_params], out),
                                err);
    PG_TRY(pg__all_reduce(t, err));
    if (t->loop.stops_on_nan || clock > 0)
        PG_TRY(pg__all_reduce_wait(t, err));
    *out = t->devs.devices[0].sum;
    if (t->devs.n_devices > 1 || t->sums.facts.n_ranks > 1)
        pg__trace_end_on(t->report.trace, PG_TRACE_EXCHANGE,
                         &(pg__trace_event){.began = clock,
                                            .what = PG_TRACE_BUCKET,
                                            .b = t->vars.offsets[t->vars.n_params] *
                                                 t->devs.backend->real_bytes});
done:
    return st;
}

/* w->grads: where the sum lies or, in one process on CPUs, will lie; NULL: no rows. */
static pg_status sum_gradients(work *w, pg_err *err)
{
    pg_trainer *t = w->t;
    double clock = pg__now();
    pg_status st = PG_OK;
    switch (t->sums.plan.way) {
    case PG_SUM_LANES: return pg__partials_sum(t, 0, 0, &w->grads);
    case PG_SUM_RANKS_TREE:
    case PG_SUM_RANKS_FACTORS:
    case PG_SUM_RANKS_BUCKETS:
        PG_TRY(pg__partials_sum(t, 0, 0, &w->grads));
        return sum_ranks(w, err);
    default: PG_TRY(sum_devices(t, &w->grads, err));
    }
    pg__lap(&clock, &t->report.spent.reduce);
done:
    return st;
}

static pg_status apply(work *w, pg_err *err)
{
    switch (w->t->sums.plan.way) {
    case PG_SUM_LANES:
        return needs_variables(w->t) ? update_in_turn(w, err) : update_at_once(w, err);
    case PG_SUM_PLACED:
    case PG_SUM_RANKS_TREE:
    case PG_SUM_RANKS_FACTORS:
    case PG_SUM_RANKS_BUCKETS: return update_parts(w, err);
    default: return update_devices(w, err);
    }
}

pg_status pg__trainer_update(pg_trainer *t, pg_err *err)
{
    work w = {.t = t,
              .n_parts = t->devs.backend->host_memory ? t->pool.n_threads : 1,
              .kind = pg__optimizer_kind_of(&t->compiled.optimizer)};
    double clock = pg__trace_begin(t->report.trace);
    int skips = 0;
    pg_status st = PG_OK;
    t->compiled.scale.skipped = 0;
    PG_TRY(sum_gradients(&w, err));
    pg__trace_end(t->report.trace, 0, clock, PG_TRACE_SUM, 0, 0);
    clock = pg__trace_begin(t->report.trace);
    t->vars.grads = w.grads;
    if (!w.grads || t->loop.is_trial)
        goto done;
    if (t->loop.stops_on_nan && !pg__loss_scale_skips(t)) /* loss scaling skips such a step */
        PG_TRY(look_for_nan(t, err));
    if (t->loop.nan_found)
        goto done;
    PG_TRY(pg__loss_scale_settle(t, &skips, err));
    if (skips) {
        t->vars.grads = NULL;
        goto done;
    }
    w.update = pg__optimizer_step(&t->compiled.optimizer);
    PG_TRY(apply(&w, err));
    pg__trace_end(t->report.trace, 0, clock, PG_TRACE_UPDATE, 0, 0);
done:
    return st;
}

pg_status pg__trainer_penalty(pg_trainer *t, double *penalty, pg_err *err)
{
    pg__piece *pieces = NULL;
    pg_status st = PG_OK;
    if (!t->vars.has_regularizers)
        return PG_OK;
    if (t->devs.backend->flat.penalty_of_all && !t->devs.is_split) {
        if (!t->vars.penalty)
            PG_TRY(t->devs.backend->alloc(t->devs.dev, &t->vars.penalty, sizeof *penalty, err));
        pieces = pieces_of(&t->vars, &t->vars.params);
        if (!pieces)
            PG_TRY(pg__nomem(err));
        st = t->devs.backend->flat.penalty_of_all(t->devs.dev, pieces, t->vars.n_params,
                                                  t->vars.penalty);
    }
    for (size_t i = 0; !pieces && i < t->vars.n_params && st == PG_OK; i++)
        if (t->vars.penalties[i].l1 != 0 || t->vars.penalties[i].l2 != 0)
            st = t->devs.backend->flat.regularise(pg__param_dev(t, i), NULL, t->vars.params.at[i],
                                                  t->vars.n_elems[i], t->vars.penalties[i].l1,
                                                  t->vars.penalties[i].l2, penalty);
    st = pg__with_message(t, st, err);
done:
    pg__mem_free(pieces);
    return st;
}

pg_status pg__trainer_penalty_read(pg_trainer *t, double *penalty, pg_err *err)
{
    if (!t->vars.penalty)
        return PG_OK;
    return pg__device_failed(
        &t->devs, t->devs.dev,
        t->devs.backend->get(t->devs.dev, penalty, t->vars.penalty, sizeof *penalty), err);
}
