/* step.c - one batch: every lane forward and backward by its worker, gradients summed and applied
 * by all workers, each for its range of the parameters. Workers meet twice. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/masks.h"
#include "train/result.h"
#include "train/states.h"
#include "train/update.h"

static pg_status program_of(pg_trainer *t, uint64_t n_rows, pg__pass pass, int masks_only,
                            const pg__program **out, pg_err *err)
{
    const pg__program_opts opts = {.lower = {.graph = t->graph,
                                             .leaves = &t->leaves,
                                             .rules = t->rules,
                                             .n_rows = n_rows,
                                             .inputs = t->input_dims,
                                             .training = pass == PG__TRAINS},
                                   .objectives = pass == PG__PREDICTS ? NULL : t->objectives,
                                   .from_probabilities = t->from_probabilities,
                                   .masks_only = masks_only,
                                   .backend = t->backend,
                                   .dev = t->dev};
    pg__program *p = NULL;
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_built; i++)
        if (t->built[i].n_rows == n_rows && t->built[i].pass == pass &&
            t->built[i].masks_only == masks_only) {
            *out = t->built[i].program;
            return PG_OK;
        }
    PG_TRY(pg__program_new(&p, &opts, err));
    if (pg__mem_grow(&t->built, &t->cap_built, t->n_built + 1, sizeof *t->built))
        PG_TRY(pg__nomem(err));
    t->built[t->n_built++] = (pg__built){n_rows, pass, masks_only, p, 0};
    *out = p;
    p = NULL;
done:
    pg__program_free(p);
    return st;
}

pg_status pg__trainer_program(pg_trainer *t, uint64_t n_rows, pg__pass pass,
                              const pg__program **out, pg_err *err)
{
    return program_of(t, n_rows, pass, 0, out, err);
}

/* ---- one step's work ---- */

typedef struct lane_job {
    pg__lane lane;
    const pg__program *program; /* NULL: no rows */
    const pg__program *masks;   /* NULL: none are needed beforehand */
    pg__totals totals;
    pg__mask_sum *mask_sums; /* per output */
} lane_job;

typedef struct step {
    pg_trainer *t;
    const pg__batch *batch;
    pg__pass pass;
    void *const *predictions; /* per output; NULL: they are not wanted */
    lane_job *lanes;
    size_t n_lanes;
    const void **seeds;
    double *seed_mem, *shares; /* per output */
} step;

/* The lane's rows of an array of the batch. */
static const void *rows_of(const step *s, const void *batch, const pg__dims *lane_dims,
                           pg__elem elem, uint64_t first)
{
    const size_t bytes = elem == PG__INT ? sizeof(int32_t) : s->t->backend->real_bytes;
    const uint64_t row = pg__dims_elems(lane_dims) / lane_dims->d[0];
    return batch ? (const char *)batch + first * row * bytes : NULL;
}

/* Pointers of a lane's frame: inputs, targets, weights; one block, freed by the caller. */
static pg_status bind_rows(const step *s, const lane_job *job, pg__frame *f, const void ***mem,
                           pg_err *err)
{
    const pg_trainer *t = s->t;
    const pg__lowered *m = pg__program_model(job->program);
    const void **inputs = pg__mem_array(t->n_inputs + 2 * t->n_outputs, sizeof *inputs);
    const void **targets = inputs + t->n_inputs, **weights = targets + t->n_outputs;
    *mem = inputs;
    if (!inputs)
        return pg__nomem(err);
    for (size_t k = 0; k < t->n_inputs; k++) {
        const pg__value *v = &m->tape.values[m->inputs[k]];
        inputs[k] = rows_of(s, s->batch->inputs[k], &v->shape, v->elem, job->lane.first);
    }
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *target = pg__program_target(job->program, k);
        const pg__value *loss = pg__program_loss_value(job->program, k);
        if (!target)
            continue;
        targets[k] =
            rows_of(s, s->batch->targets[k], &target->shape, target->elem, job->lane.first);
        weights[k] = rows_of(s, s->batch->weights[k], &loss->shape, PG__REAL, job->lane.first);
    }
    f->inputs = inputs;
    f->targets = targets;
    f->weights = weights;
    return PG_OK;
}

#define LOW(n)  ((int32_t)(uint32_t)(n))
#define HIGH(n) ((int32_t)(uint32_t)((n) >> 32))

/* Everything that a lane's run needs. */
typedef struct lane_frame {
    pg__frame f;
    int32_t numbers[PG__STEP_N];
    const void **rows;
    void **states;
} lane_frame;

static pg_status open_frame(lane_frame *lf, const step *s, const lane_job *job, const pg__worker *w,
                            pg_err *err)
{
    const pg_trainer *t = s->t;
    *lf = (lane_frame){.numbers = {LOW(t->seed), HIGH(t->seed), LOW(t->optimiser.iterations),
                                   HIGH(t->optimiser.iterations), LOW(job->lane.first),
                                   HIGH(job->lane.first)}};
    lf->states = pg__mem_array(t->built_params.n_states, sizeof *lf->states);
    if (!lf->states)
        return pg__nomem(err);
    pg__states_bind(t, job->lane.first, lf->states);
    lf->f = (pg__frame){.params = t->params.at,
                        .seeds = s->seeds,
                        .step = lf->numbers,
                        .states = lf->states,
                        .arena = w->arena,
                        .scratch = w->scratch};
    return bind_rows(s, job, &lf->f, &lf->rows, err);
}

static void close_frame(lane_frame *lf)
{
    pg__mem_free(lf->rows);
    pg__mem_free(lf->states);
}

/* A lane's rows, to where they belong in the batch. */
static pg_status keep_predictions(const step *s, const lane_job *job, const pg__frame *f)
{
    const pg_trainer *t = s->t;
    const pg__lowered *m = pg__program_model(job->program);
    pg_status st = PG_OK;
    for (size_t k = 0; k < t->n_outputs && st == PG_OK; k++) {
        const pg__value *v = &m->tape.values[m->outputs[k]];
        const size_t each = v->elem == PG__INT ? sizeof(int32_t) : t->backend->real_bytes;
        const size_t n = (size_t)pg__dims_elems(&v->shape) * each;
        st = t->backend->get(t->dev, (char *)s->predictions[k] + n / job->lane.n * job->lane.first,
                             pg__program_prediction(job->program, f, k), n);
    }
    return st;
}

static pg_status run_lane(const step *s, lane_job *job, size_t index, pg__worker *w, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__flat *grads = NULL;
    lane_frame lf = {.rows = NULL};
    pg_status st = PG_OK;
    if (job->program) {
        PG_TRY(open_frame(&lf, s, job, w, err));
        if (s->pass == PG__TRAINS)
            PG_TRY(pg__partials_begin(t, w, &grads, err));
        lf.f.grads = grads ? grads->at : NULL;
        PG_TRY(pg__program_run(job->program, &lf.f));
        PG_TRY(pg__states_keep(t, job->program, &lf.f, job->lane.n, err));
        PG_TRY(pg__result_add(t, job->program, &lf.f, s->shares, &job->totals, err));
        if (s->predictions)
            PG_TRY(keep_predictions(s, job, &lf.f));
    }
    if (s->pass == PG__TRAINS)
        PG_TRY(pg__partials_end(t, w, index, grads));
done:
    close_frame(&lf);
    return st;
}

static pg_status sum_masks(const step *s, lane_job *job, const pg__worker *w, pg_err *err)
{
    lane_frame lf = {.rows = NULL};
    pg_status st = PG_OK;
    PG_TRY(open_frame(&lf, s, job, w, err));
    PG_TRY(pg__masks_add(s->t, job->masks, &lf.f, job->mask_sums, err));
done:
    close_frame(&lf);
    return st;
}

static void work_on_masks(void *arg, size_t worker)
{
    step *s = arg;
    pg__worker *w = &s->t->workers[worker];
    w->st = PG_OK;
    for (size_t k = 0; k < s->n_lanes && w->st == PG_OK; k++)
        if (s->lanes[k].masks && s->lanes[k].lane.worker == worker)
            w->st = sum_masks(s, &s->lanes[k], w, &w->err);
}

static void work_on_lanes(void *arg, size_t worker)
{
    step *s = arg;
    pg__worker *w = &s->t->workers[worker];
    pg__partials_reset(w);
    w->st = PG_OK;
    for (size_t k = 0; k < s->n_lanes && w->st == PG_OK; k++)
        if (s->lanes[k].lane.worker == worker)
            w->st = run_lane(s, &s->lanes[k], k, w, &w->err);
}

static pg_status first_error(const pg_trainer *t, pg_err *err)
{
    for (size_t w = 0; w < t->cut.n_workers; w++)
        if (t->workers[w].st != PG_OK) {
            if (err)
                *err = t->workers[w].err;
            return t->workers[w].st;
        }
    return PG_OK;
}

/* ---- before and after ---- */

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

static pg_status give_memory(pg_trainer *t, pg__worker *w, const pg__program *p, pg_err *err)
{
    const uint64_t arena = pg__program_arena_bytes(p);
    const size_t scratch = pg__program_scratch_bytes(p);
    pg_status st = PG_OK;
    PG_TRY(grow(t, &w->arena, w->arena_bytes, arena, err));
    PG_TRY(grow(t, &w->scratch, w->scratch_bytes, scratch, err));
    w->arena_bytes = arena > w->arena_bytes ? arena : w->arena_bytes;
    w->scratch_bytes = scratch > w->scratch_bytes ? scratch : w->scratch_bytes;
done:
    return st;
}

/* Gradient of the batch's loss by one term's: weight / number of terms of the whole batch, or the
 * share of them that counts. */
static void make_seeds(step *s, const lane_job *job)
{
    const pg_trainer *t = s->t;
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *v = pg__program_loss_value(job->program, k);
        const uint64_t terms = v ? pg__dims_elems(&v->shape) / job->lane.n * s->batch->n_rows : 1;
        pg__mask_sum sum = {0};
        for (size_t i = 0; i < s->n_lanes; i++) {
            sum.valid += s->lanes[i].mask_sums[k].valid;
            sum.n += s->lanes[i].mask_sums[k].n;
        }
        s->shares[k] = pg__loss_share(t, &sum, s->batch->weights[k], terms);
        const double seed = t->loss_weights[k] / (double)terms / s->shares[k];
        const float rounded = (float)seed;
        if (t->backend->real_bytes == sizeof seed)
            memcpy(&s->seed_mem[k], &seed, sizeof seed);
        else
            memcpy(&s->seed_mem[k], &rounded, sizeof rounded);
        s->seeds[k] = &s->seed_mem[k];
    }
}

/* Masks first, if they count: the gradient begins with what they sum to. */
static pg_status find_shares(step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    const lane_job *any = NULL;
    pg_status st = PG_OK;
    if (pg__masks_count(t)) {
        pg__team_run(t->team, work_on_masks, s);
        PG_TRY(first_error(t, err));
    }
    for (size_t k = 0; k < s->n_lanes; k++)
        any = s->lanes[k].program ? &s->lanes[k] : any;
    if (any)
        make_seeds(s, any);
done:
    return st;
}

static pg_status cut_batch(step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    pg_status st = PG_OK;
    s->n_lanes = pg__lane_count(&t->cut);
    s->lanes = pg__mem_array(s->n_lanes, sizeof *s->lanes);
    s->seeds = pg__mem_array(t->n_outputs, sizeof *s->seeds);
    s->seed_mem = pg__mem_array(t->n_outputs, sizeof *s->seed_mem);
    s->shares = pg__mem_array(t->n_outputs, sizeof *s->shares);
    if (!s->lanes || !s->seeds || !s->seed_mem || !s->shares)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__states_reserve(t, s->batch->n_rows, err));
    for (size_t k = 0; k < s->n_lanes; k++) {
        lane_job *job = &s->lanes[k];
        job->lane = pg__lane_of(&t->cut, s->batch->n_rows, k);
        PG_TRY(pg__totals_alloc(t, &job->totals, err));
        job->mask_sums = pg__mem_array(t->n_outputs, sizeof *job->mask_sums);
        if (!job->mask_sums)
            PG_TRY(pg__nomem(err));
        if (job->lane.n == 0)
            continue;
        PG_TRY(pg__trainer_program(t, job->lane.n, s->pass, &job->program, err));
        PG_TRY(give_memory(t, &t->workers[job->lane.worker], job->program, err));
        if (!pg__masks_count(t) || s->pass == PG__PREDICTS)
            continue;
        PG_TRY(program_of(t, job->lane.n, s->pass, 1, &job->masks, err));
        PG_TRY(give_memory(t, &t->workers[job->lane.worker], job->masks, err));
    }
done:
    return st;
}

/* ---- what kernels make of parameters ---- */

typedef struct sharing {
    pg_trainer *t;
    const pg__program *program;
} sharing;

static void share_part(void *arg, size_t worker)
{
    const sharing *s = arg;
    pg__worker *w = &s->t->workers[worker];
    const pg__frame f = {.params = s->t->params.at, .scratch = w->scratch};
    w->st = pg__program_share(s->program, &f, worker, s->t->cut.n_workers);
}

/* By all workers, for every program of this step whose parameters have changed since. */
static pg_status share(step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    pg_status st = PG_OK;
    for (size_t b = 0; b < t->n_built; b++) {
        sharing one = {t, t->built[b].program};
        int used = 0;
        for (size_t k = 0; k < s->n_lanes; k++)
            used |= s->lanes[k].program == one.program || s->lanes[k].masks == one.program;
        if (!used || t->built[b].shared_at == t->version ||
            pg__program_shared_bytes(one.program) == 0)
            continue;
        for (size_t w = 0; w < t->cut.n_workers; w++)
            PG_TRY(give_memory(t, &t->workers[w], one.program, err));
        pg__team_run(t->team, share_part, &one);
        PG_TRY(first_error(t, err));
        t->built[b].shared_at = t->version;
    }
done:
    return st;
}

/* Rows of a replica that depend on each other are one lane, so a lane is a replica here. */
static pg_status move_averages(step *s)
{
    size_t n = 0, at = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < s->n_lanes; k++)
        n += s->lanes[k].program != NULL;
    for (size_t k = 0; k < s->n_lanes; k++) {
        const lane_job *job = &s->lanes[k];
        const pg__frame f = {.params = s->t->params.at,
                             .arena = s->t->workers[job->lane.worker].arena};
        if (job->program)
            PG_TRY(pg__move_averages(s->t, job->program, &f, at++, n));
    }
done:
    return st;
}

/* Losses and metrics are summed in the same tree as gradients. */
static void sum_totals(step *s, pg__totals *totals)
{
    for (size_t size = 1; size < s->n_lanes; size *= 2)
        for (size_t lo = 0; lo + size < s->n_lanes; lo += 2 * size)
            pg__totals_add(s->t, &s->lanes[lo].totals, &s->lanes[lo + size].totals);
    pg__totals_add(s->t, totals, &s->lanes[0].totals);
}

pg_status pg__trainer_step(pg_trainer *t, const pg__batch *b, pg__pass pass,
                           void *const *predictions, pg__totals *totals, pg_err *err)
{
    step s = {.t = t, .batch = b, .pass = pass, .predictions = predictions};
    pg_status st = PG_OK;
    t->grads = NULL;
    PG_TRY(cut_batch(&s, err));
    PG_TRY(share(&s, err));
    PG_TRY(find_shares(&s, err));
    pg__team_run(t->team, work_on_lanes, &s);
    PG_TRY(first_error(t, err));
    sum_totals(&s, totals);
    PG_TRY(pg__trainer_penalty(t, b->n_rows, totals, err));
    if (pass == PG__TRAINS) {
        PG_TRY(pg__trainer_update(t, err));
        PG_TRY(move_averages(&s));
        t->version++;
    }
done:
    for (size_t k = 0; s.lanes && k < s.n_lanes; k++) {
        pg__totals_free(&s.lanes[k].totals);
        pg__mem_free(s.lanes[k].mask_sums);
    }
    pg__mem_free(s.shares);
    pg__mem_free(s.lanes);
    pg__mem_free(s.seeds);
    pg__mem_free(s.seed_mem);
    return st;
}
