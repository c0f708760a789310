/* step.c - one batch, cut by cut.c: each worker runs its lanes forward and backward, then all
 * workers sum and apply gradients, each for its range of the parameters. Lanes that are normalised
 * together advance together, from meeting to meeting (sync_bn.c). */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/all_reduce.h"
#include "train/step/buckets.h"
#include "train/step/cut.h"
#include "train/step/devices.h"
#include "train/step/jobs.h"
#include "train/step/mixed.h"
#include "train/step/model_parallel.h"
#include "train/step/out_of_memory.h"
#include "train/step/ranks_devices.h"
#include "train/step/ranks_step.h"
#include "train/step/spectral.h"
#include "train/step/states.h"
#include "train/step/update.h"
#include "train/step/upload.h"

static pg_status first_error(const pg_trainer *t, pg_err *err)
{
    for (size_t w = 0; w < t->pool.n_threads; w++)
        if (t->pool.workers[w].st != PG_OK && t->pool.workers[w].err.code == PG_OK)
            return t->devs.is_split ? pg__with_message(t, t->pool.workers[w].st, err)
                                    : pg__device_failed(&t->devs, t->pool.workers[w].dev,
                                                        t->pool.workers[w].st, err);
        else if (t->pool.workers[w].st != PG_OK) {
            if (err)
                *err = t->pool.workers[w].err;
            return t->pool.workers[w].st;
        }
    return PG_OK;
}

/* ---- before and after ---- */

/* Nothing in it outlives a step, so the device need not hold the old one beside the new one. */
static pg_status grow(pg__trainer_devs *devs, size_t device, pg__memory *m, uint64_t n, pg_err *err)
{
    pg__dev *dev = devs->devices[device].dev;
    void *more = NULL;
    if (n <= m->n_bytes && m->mem)
        return PG_OK;
    devs->backend->free(dev, m->mem);
    *m = (pg__memory){NULL, 0, device};
    const pg_status st = devs->backend->alloc(dev, &more, (size_t)n, err);
    if (st == PG_OK)
        *m = (pg__memory){more, n, device};
    return st;
}

/* Allocates what a worker needs for a program. */
static pg_status equip(pg__trainer_devs *devs, pg__worker *w, const pg__program *p, pg_err *err)
{
    const size_t n = pg__program_n_args(p);
    pg_status st = PG_OK;
    PG_TRY(grow(devs, w->device, &w->scratch, pg__program_scratch_on(p, (uint32_t)w->device), err));
    if (devs->is_split && w->device > 0)
        PG_TRY(grow(devs, w->device, &w->arena, pg__program_arena_on(p, (uint32_t)w->device), err));
    if (n <= w->n_args && w->args)
        return PG_OK;
    pg__mem_free(w->args);
    w->args = pg__mem_array(n, sizeof *w->args);
    w->n_args = n;
    if (!w->args)
        PG_TRY(pg__nomem(err));
done:
    return st;
}

static pg_status give_memory(pg_trainer *t, pg__job *job, pg_err *err)
{
    const uint64_t bytes = pg__upload_at(job) + pg__upload_bytes(t, job->program, job->lane.n);
    pg_status st = PG_OK;
    PG_TRY(grow(&t->devs, t->pool.workers[job->lane.worker].device, job->arena, bytes, err));
    for (size_t w = job->lane.worker; w < t->pool.n_threads; w += t->pool.cut.n_workers) {
        PG_TRY(equip(&t->devs, &t->pool.workers[w], job->program, err));
        if (job->masks)
            PG_TRY(equip(&t->devs, &t->pool.workers[w], job->masks, err));
    }
    pg__mp_equip(t, job->arena->mem);
done:
    return st;
}

static void set_seed(pg__step *s, size_t k, double seed)
{
    const float rounded = (float)seed;
    if (s->t->devs.backend->real_bytes == sizeof seed)
        memcpy(&s->seed_mem[k], &seed, sizeof seed);
    else
        memcpy(&s->seed_mem[k], &rounded, sizeof rounded);
    s->seeds[k] = &s->seed_mem[k];
}

/* Derivative of the batch's loss with respect to one term: weight / number of terms in the whole
 * batch, or of those that count. */
static void make_seeds(pg__step *s, const pg__job *job)
{
    const pg_trainer *t = s->t;
    const double scale = pg__loss_scale_now(&t->compiled);
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        const pg__value *v = pg__program_loss_value(job->program, k);
        const uint64_t terms = v ? pg__dims_elems(&v->shape) / job->lane.n * s->batch->n_rows : 1;
        s->shares[k] = v ? pg__loss_share(t, &s->sums[k], k) : 1;
        const double mean = t->compiled.objectives[k].loss.sums ? 1 : (double)terms;
        const double seed = t->compiled.loss_weights[k] / mean / s->shares[k];
        set_seed(s, k, seed * scale);
    }
    set_seed(s, t->net.n_outputs,
             scale * (t->net.rules->activity_per_row ? 1 / (double)s->batch->n_rows : 1));
}

/* any: a job of this rank with rows, or NULL. */
static void count_terms(pg__step *s, const pg__job *any)
{
    const pg_trainer *t = s->t;
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        const pg__value *v = any ? pg__program_loss_value(any->program, k) : NULL;
        for (size_t i = 0; i < s->n_jobs; i++)
            pg__mask_sum_add(&s->sums[k], &s->jobs[i].mask_sums[k]);
        if (v)
            pg__shares_add(t, s->batch, k,
                           pg__dims_elems(&v->shape) / any->lane.n * s->batch->n_here, &s->sums[k]);
    }
}

/* Runs masks first, if they count: the backward pass starts from their sums. */
static pg_status find_shares(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    const pg__job *any = NULL;
    pg_status st = PG_OK;
    if (pg__masks_count(t)) {
        pg__thread_pool_run(t->pool.threads, pg__work_on_masks, s);
        PG_TRY(first_error(t, err));
    }
    for (size_t k = 0; k < s->n_jobs; k++)
        any = s->jobs[k].program ? &s->jobs[k] : any;
    if (pg__shares_count(t, s->batch)) {
        count_terms(s, any);
        PG_TRY(pg__ranks_masks(t, s->sums, err));
    }
    if (any)
        make_seeds(s, any);
done:
    return st;
}

/* Prepares the memory of all jobs, and decides how their gradients are summed. */
static pg_status prepare(pg__step *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < s->n_jobs; k++)
        if (s->jobs[k].program && s->jobs[k].place == 0)
            PG_TRY(give_memory(s->t, &s->jobs[k], err));
    pg__sums_plan(s);
    PG_TRY(pg__sums_begin(s, err));
done:
    return st;
}

/* ---- what kernels make of parameters ---- */

typedef struct sharing {
    pg_trainer *t;
    const pg__program *program;
    size_t device;
} sharing;

static pg_status share_some(const sharing *s, const pg__worker *w, size_t part, size_t n_parts)
{
    const pg__frame f = {.params = pg__params_on(s->t, s->device)->at,
                         .scratch = w->scratch.mem,
                         .args = w->args,
                         .parts = s->t->devs.parts,
                         .dev = w->dev};
    return pg__program_share(s->program, &f, part, n_parts);
}

static void share_part(void *arg, size_t worker)
{
    const sharing *s = arg;
    pg__worker *w = &s->t->pool.workers[worker];
    w->st = share_some(s, w, worker, s->t->pool.n_threads);
}

/* On a device with its own memory, its first queue prepares everything. */
static pg_status share_on_device(const sharing *s, pg_err *err)
{
    const pg__worker *w = s->t->pool.workers;
    while (w->device != s->device)
        w++;
    return pg__with_message(s->t, share_some(s, w, 0, 1), err);
}

/* All workers prepare kernels, for every program of this step whose parameters have changed since.
 */
static pg_status share(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    pg_status st = PG_OK;
    for (size_t b = 0; b < t->programs.n_built; b++) {
        sharing one = {t, t->programs.built[b].program, t->programs.built[b].device};
        int used = 0;
        for (size_t k = 0; k < s->n_jobs; k++)
            used |= s->jobs[k].program == one.program || s->jobs[k].masks == one.program;
        if (!used || t->programs.built[b].shared_at == t->vars.version ||
            pg__program_shared_bytes(one.program) == 0)
            continue;
        for (size_t w = 0; w < t->pool.n_threads; w++)
            if (t->devs.is_split || t->pool.workers[w].device == one.device)
                PG_TRY(equip(&t->devs, &t->pool.workers[w], one.program, err));
        if (t->devs.backend->host_memory) {
            pg__thread_pool_run(t->pool.threads, share_part, &one);
            PG_TRY(first_error(t, err));
        } else {
            PG_TRY(share_on_device(&one, err));
        }
        t->programs.built[b].shared_at = t->vars.version;
    }
done:
    return st;
}

/* Puts in place the states from other devices than the first. */
static pg_status land_states(const pg__step *s, pg_err *err)
{
    const pg_trainer *t = s->t;
    pg_status st = PG_OK;
    for (size_t k = 0; k < s->n_lanes && st == PG_OK; k++) {
        const pg__job *job = &s->jobs[s->part * s->n_lanes + k];
        if (job->frame.kept)
            st = pg__states_land(t, job->frame.states, job->lane.n, job->frame.kept);
    }
    return pg__device_failed(&t->devs, t->devs.dev, st, err);
}

int pg__speaks(const pg__step *s, const pg__job *job)
{
    const pg__job *first = &s->jobs[s->part * s->n_lanes];
    if (!job->program)
        return 0;
    for (const pg__job *j = first; j < job; j++)
        if (j->program && pg__same_statistics(&s->t->net, &j->lane, &job->lane))
            return 0;
    return 1;
}

/* Where a job's statistics for the moving averages lie, which differs from job to job. */
static void find_moving(const pg__step *s, const pg__job *job, const void **found)
{
    const pg__frame f = {.params = s->t->vars.params.at,
                         .arena = job->arena->mem,
                         .lane = job->place,
                         .n_lanes = job->n_together,
                         .parts = s->t->devs.parts,
                         .dev = s->t->pool.workers[job->lane.worker].dev};
    for (size_t i = 0; i < s->t->net.built_params.n_moving; i++)
        found[i] = pg__program_moving(job->program, &f, i);
}

static pg_status move_averages(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    size_t n = 0, at = 0;
    const pg__job *jobs = &s->jobs[s->part * s->n_lanes];
    pg_status st = PG_OK;
    if (t->ranks)
        return pg__ranks_averages(s, err);
    for (size_t k = 0; k < s->n_lanes; k++)
        n += (size_t)pg__speaks(s, &jobs[k]);
    for (size_t k = 0; k < s->n_lanes; k++) {
        if (!pg__speaks(s, &jobs[k]))
            continue;
        find_moving(s, &jobs[k], s->found);
        PG_TRY(pg__move_averages(t, t->pool.workers[jobs[k].lane.worker].dev, s->found, at++, n));
    }
done:
    return st;
}

/* Sums losses and metrics like gradients: the parts of a lane in their order, then the lanes in the
 * tree. */
static void sum_lanes(pg__step *s)
{
    for (size_t size = 1; size < s->n_lanes; size *= 2)
        for (size_t lo = 0; lo + size < s->n_lanes; lo += 2 * size)
            pg__totals_add(s->t, &s->jobs[lo].totals, &s->jobs[lo + size].totals);
}

static pg_status sum_totals(pg__step *s, pg__totals *totals, pg_err *err)
{
    const int by_rank =
        s->t->pool.cut.n_lanes == 0; /* each rank's sum over its lanes is exchanged */
    pg_status st = PG_OK;
    for (size_t k = s->n_lanes; k < s->n_jobs; k++)
        pg__totals_add(s->t, &s->jobs[k % s->n_lanes].totals, &s->jobs[k].totals);
    if (s->n_jobs == 0)
        goto done;
    if (by_rank)
        sum_lanes(s);
    if (s->t->ranks && !s->t->loop.is_trial)
        PG_TRY(pg__ranks_totals(s, err));
    if (!by_rank)
        sum_lanes(s);
    pg__totals_end_batch(s->t, &s->jobs[0].totals);
    pg__totals_add(s->t, totals, &s->jobs[0].totals);
done:
    return st;
}

/* If the host cannot read a device's memory: the part's lanes have queued the copies. */
static pg_status read_results(pg__step *s, pg_err *err)
{
    if (s->t->devs.backend->host_memory)
        return PG_OK;
    pg__thread_pool_run(s->t->pool.threads, pg__work_on_results, s);
    return first_error(s->t, err);
}

/* Part by part: forward, and in training backward. */
static pg_status run_parts(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    const int in_buckets = s->plan->way == PG_SUM_GROUP_BUCKETS;
    pg_status st = PG_OK;
    for (; s->part < s->n_parts; s->part++) {
        pg__sync_bn_clear(&s->sync_bn);
        t->sums.is_summing = in_buckets;
        pg__thread_pool_run(t->pool.threads, pg__work_on_lanes, s);
        PG_TRY(first_error(t, err));
        if (in_buckets && !s->plan->overlaps)
            PG_TRY(pg__buckets_follow(s, err));
        PG_TRY(pg__devices_join(t, err));
        PG_TRY(land_states(s, err));
        PG_TRY(pg__ranks_states(s, err));
        if (s->pass == PG_TRAINS && !in_buckets)
            PG_TRY(move_averages(s, err));
        if (s->part + 1 < s->n_parts)
            PG_TRY(read_results(s, err));
    }
    pg__sums_began(s);
done:
    return st;
}

/* The caller may free the batch, which devices may still be reading. */
static void finish_work(const pg_trainer *t)
{
    for (size_t w = 0; t->pool.threads && w < t->pool.n_threads; w++)
        (void)t->devs.backend->sync(t->pool.workers[w].dev);
}

pg_status pg__trainer_step(pg_trainer *t, const pg__batch *b, pg__pass pass,
                           void *const *predictions, pg__totals *totals, pg_err *err)
{
    pg__trace *const trace = t->report.trace;
    pg__step *s = NULL;
    double penalty = 0, clock = pg__trace_begin(trace);
    pg_status st = PG_OK;
    t->vars.grads = NULL;
    if (!t->pool.threads)
        PG_FAIL(PG_E_NOMEM, "the trainer's threads were lost in an earlier failed run; reopen it");
    if (pass == PG_TRAINS)
        PG_TRY(pg__normalise_kernels(t, err));
    PG_TRY(pg__devices_mirror(t, err));
    PG_TRY(pg__step_cut(&s, t, b, pass, err));
    s->predictions = predictions;
    PG_TRY(prepare(s, err));
    PG_TRY(share(s, err));
    PG_TRY(pg__devices_settle(&t->devs, err));
    PG_TRY(pg__trainer_penalty(t, &penalty, err)); /* of the weights before the update */
    PG_TRY(find_shares(s, err));
    pg__trace_end(trace, 0, clock, PG_TRACE_PREPARE, 0, 0);
    clock = pg__trace_begin(trace);
    PG_TRY(run_parts(s, err));
    pg__trace_end(trace, 0, clock, pass == PG_TRAINS ? PG_TRACE_PASSES : PG_TRACE_FORWARD, 0, 0);
    if (pass == PG_TRAINS) {
        PG_TRY(pg__trainer_update(t, err));
        t->vars.version++;
        if (!t->vars.has_constraints)
            pg__devices_mirrored(t);
    }
    if (s->part > 0) { /* while the device runs the update */
        s->part--;
        PG_TRY(read_results(s, err));
    }
    clock = pg__trace_begin(trace);
    PG_TRY(pg__trainer_penalty_read(t, &penalty, err));
    PG_TRY(sum_totals(s, totals, err));
    pg__trace_end(trace, 0, clock, PG_TRACE_LOSS, 0, 0);
    totals->penalty_sum += penalty * (double)b->n_rows;
    totals->n_rows += b->n_rows;
done:
    if (st != PG_OK) {
        pg__all_reduce_drop(t);
        finish_work(t);
        pg__steps_drop(&t->programs);
    }
    st = pg__ranks_blame(t->ranks, st, err);
    return pg__explain_out_of_memory(t, b->n_rows, st, err);
}
