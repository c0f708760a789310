/* jobs.c - running lanes: one by one from beginning to end, several at once, all of a part from
 * meeting to meeting, or one by several devices. */
#include "train/step/jobs.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/buckets.h"
#include "train/step/devices.h"
#include "train/step/graph_capture.h"
#include "train/step/profiled.h"
#include "train/step/ranks_step.h"
#include "train/step/states.h"
#include "train/step/timeline.h"
#include "train/step/upload.h"

/* The lane's rows of an array of the batch. */
static const void *rows_of(const pg__step *s, const void *batch, const pg__dims *lane_dims,
                           pg__elem elem, uint64_t first)
{
    const size_t bytes = pg__elem_bytes(elem, s->t->devs.backend->real_bytes);
    const uint64_t row = pg__dims_elems(lane_dims) / lane_dims->d[0];
    return batch ? (const char *)batch + first * row * bytes : NULL;
}

/* Pointers of a frame: inputs, targets, weights, the last two again in the host's memory, seeds. */
size_t pg__job_n_pointers(const pg__trainer_net *net)
{
    return net->n_inputs + 5 * net->n_outputs + 1;
}

static void bind_rows(const pg__step *s, const pg__job *job, pg__lane_frame *lf)
{
    const pg_trainer *t = s->t;
    const pg__lowered *m = pg__program_model(job->program);
    const void **inputs = job->pointers;
    const void **targets = inputs + t->net.n_inputs, **weights = targets + t->net.n_outputs;
    lf->rows = inputs;
    for (size_t k = 0; k < t->net.n_inputs; k++) {
        const pg__value *v = &m->tape.values[m->inputs[k]];
        inputs[k] = rows_of(s, s->batch->inputs[k], &v->shape, v->elem, job->at_row);
    }
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        const pg__value *target = pg__program_target(job->program, k);
        const pg__value *loss = pg__program_loss_value(job->program, k);
        if (!target)
            continue;
        targets[k] = rows_of(s, s->batch->targets[k], &target->shape, target->elem, job->at_row);
        weights[k] = rows_of(s, s->batch->weights[k], &loss->shape, PG_ELEM_REAL, job->at_row);
    }
    lf->f.inputs = inputs;
    lf->f.targets = targets;
    lf->f.weights = weights;
    memcpy(weights + t->net.n_outputs, targets, 2 * t->net.n_outputs * sizeof *targets);
    lf->host = (pg__rows){weights + t->net.n_outputs, weights + 2 * t->net.n_outputs};
}

#define LOW(n)  ((int32_t)(uint32_t)(n))
#define HIGH(n) ((int32_t)(uint32_t)((n) >> 32))

static pg_status open_frame(const pg__step *s, pg__job *job, const pg__worker *w)
{
    const pg_trainer *t = s->t;
    pg__lane_frame *lf = &job->frame;
    const uint64_t uncounted = t->net.rules->keras3 ? t->compiled.scale.n_skipped : 0;
    const uint64_t n_steps = t->compiled.optimizer.iterations + uncounted;
    const void **seeds = job->pointers + t->net.n_inputs + 4 * t->net.n_outputs;
    const int32_t numbers[PG_STEP_N] = {LOW(t->loop.seed),    HIGH(t->loop.seed),
                                        LOW(n_steps),         HIGH(n_steps),
                                        LOW(job->lane.first), HIGH(job->lane.first)};
    memcpy(job->numbers, numbers, sizeof numbers);
    *lf = (pg__lane_frame){.seeds = seeds};
    lf->states = job->states;
    lf->staged = lf->states + t->net.built_params.n_states;
    for (size_t k = 0; k <= t->net.n_outputs; k++)
        lf->seeds[k] = s->seeds[k];
    pg__states_bind(t, job->first_in_part, lf->states);
    lf->f =
        (pg__frame){.params = pg__params_on(s->t, w->device)->at,
                    .seeds = lf->seeds,
                    .step = job->numbers,
                    .states = lf->states,
                    .arena = job->arena->mem,
                    .scratch = w->scratch.mem,
                    .lane = job->place,
                    .n_lanes = job->n_together,
                    .args = w->args,
                    .parts = t->devs.parts,
                    .dev = w->dev,
                    .watch = t->loop.watch,
                    .profile = pg__profile_of(&t->report, w, s->pass),
                    .trace = pg__trace_of_worker(t->report.trace, (size_t)(w - t->pool.workers))};
    bind_rows(s, job, lf);
    return pg__upload_in(t, job);
}

void pg__job_close(pg__job *job)
{
    pg__mem_free(job->frame.kept);
    job->frame.kept = NULL;
}

/* ---- a lane from its beginning to its end ---- */

static pg_status begin_lane(const pg__step *s, pg__job *job, pg__worker *w, pg_err *err)
{
    pg_status st = PG_OK;
    job->at = 0;
    job->grads = NULL;
    if (!job->program)
        return PG_OK;
    PG_TRY(open_frame(s, job, w));
    if (s->pass == PG_TRAINS && job->place == 0)
        PG_TRY(pg__partials_begin(s->t, w, &job->grads, err));
    const pg__job *first = job - job->place;
    job->frame.f.grads = first->grads ? first->grads->at : NULL;
done:
    return st;
}

/* Copies a lane's predictions to their rows of the batch. */
static pg_status keep_predictions(const pg__step *s, const pg__job *job)
{
    const pg_trainer *t = s->t;
    const pg__lowered *m = pg__program_model(job->program);
    pg_status st = PG_OK;
    for (size_t k = 0; k < t->net.n_outputs && st == PG_OK; k++) {
        const pg__value *v = &m->tape.values[m->outputs[k]];
        const size_t each = pg__elem_bytes(v->elem, t->devs.backend->real_bytes);
        const size_t n = (size_t)pg__dims_elems(&v->shape) * each;
        st = t->devs.backend->get(pg__program_prediction_dev(job->program, &job->frame.f, k),
                                  (char *)s->predictions[k] + n / job->lane.n * job->at_row,
                                  pg__program_prediction(job->program, &job->frame.f, k), n);
    }
    return st;
}

static pg_status add_results(const pg__step *s, pg__job *job, pg_err *err)
{
    return pg__result_add(s->t, job->program, &job->frame.f, job->landing, &job->frame.host,
                          s->shares, s->batch->n_rows, &job->totals, err);
}

static pg_status end_lane(const pg__step *s, pg__job *job, pg__worker *w, pg_err *err)
{
    pg_trainer *t = s->t;
    pg_status st = PG_OK;
    if (job->program) {
        PG_TRY(pg__states_keep(t, job->program, &job->frame.f, job->arena->device,
                               job->frame.states, job->lane.n, &job->frame.kept, err));
        PG_TRY(pg__result_fetch(t, job->landing, job->program, &job->frame.f, err));
        if (t->devs.backend->host_memory)
            PG_TRY(add_results(s, job, err));
        if (s->predictions)
            PG_TRY(keep_predictions(s, job));
    }
    if (s->pass == PG_TRAINS && job->place == 0)
        PG_TRY(pg__partials_end(t, w, (size_t)(job - s->jobs) % s->n_lanes, job->n_together,
                                job->is_last, job->grads, err));
done:
    return st;
}

/* The worker's jobs in this part of the batch, one after the other, then NULL; *at is 0 at first.
 */
static pg__job *next_job(const pg__step *s, size_t worker, size_t *at)
{
    while (*at < s->n_lanes) {
        pg__job *job = &s->jobs[s->part * s->n_lanes + (*at)++];
        if (job->lane.worker == worker)
            return job;
    }
    return NULL;
}

/* Runs the lane (the first of lanes run at once: all of them) from job->at to the next meeting or
 * the end. */
static pg_status run_on(pg__job *job, int *meets)
{
    const pg__frame *f[PG_MAX_TOGETHER];
    pg_status st;
    *meets = 0;
    if (job->n_together == 1)
        return pg__program_run(job->program, &job->frame.f, &job->at, meets);
    if (job->place > 0) {
        *meets = job->at < pg__program_n_calls(job->program);
        return PG_OK;
    }
    for (size_t k = 0; k < job->n_together; k++)
        f[k] = &job[k].frame.f;
    st = pg__program_run_lanes(job->program, f, &job->at, meets);
    for (size_t k = 1; k < job->n_together; k++)
        job[k].at = job->at;
    return st;
}

static pg_status run_lanes(const pg__step *s, pg__job *job, pg__worker *w, pg_err *err)
{
    int meets;
    pg_status st = PG_OK;
    for (size_t k = 0; k < job->n_together; k++)
        PG_TRY(begin_lane(s, &job[k], w, err));
    PG_TRY(run_on(job, &meets));
    for (size_t k = 0; k < job->n_together; k++)
        PG_TRY(end_lane(s, &job[k], w, err));
done:
    for (size_t k = 0; k < job->n_together; k++)
        pg__job_close(&job[k]);
    return st;
}

static pg_status run_lane(const pg__step *s, pg__job *job, pg__worker *w, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(begin_lane(s, job, w, err));
    if (s->plan->overlaps && s->plan->way == PG_SUM_GROUP_BUCKETS)
        PG_TRY(pg__buckets_run(s->t, w, job, err));
    else if (s->plan->overlaps && job->program)
        PG_TRY(pg__sums_run(s, job));
    else if (s->t->report.timeline && job->program)
        PG_TRY(pg__timeline_run(s, job, w));
    else if (job->program)
        PG_TRY(pg__graph_capture_run(&s->t->devs, w, job->program, &job->frame.f, NULL));
    PG_TRY(end_lane(s, job, w, err));
done:
    if (s->t->devs.backend->host_memory)
        pg__job_close(job);
    return st;
}

#define VISIT(s, job, which)                                                          \
    {                                                                                 \
        .program = (job)->program, .frame = &(job)->frame.f, .at = (job)->at,         \
        .index = pg__first_lane((s)->t) + (size_t)((job) - (s)->jobs) % (s)->n_lanes, \
        .lane = &(job)->lane, .meeting = which                                        \
    }

/* Runs to the next meeting and puts the lane's statistics on the board. */
static pg_status run_to_meeting(pg__step *s, pg__job *job, size_t meeting)
{
    int meets = 0;
    pg_status st = PG_OK;
    if (!job->program)
        return PG_OK;
    PG_TRY(run_on(job, &meets));
    if (meets)
        st = pg__sync_bn_bring(&s->sync_bn, &s->t->devs, &(pg__visit)VISIT(s, job, meeting));
done:
    return st;
}

static pg_status take_from_meeting(pg__step *s, pg__job *job, size_t meeting)
{
    if (!job->program)
        return PG_OK;
    const pg_status st = pg__sync_bn_take(&s->sync_bn, s->t, &(pg__visit)VISIT(s, job, meeting));
    job->at++;
    return st;
}

/* All lanes of a part at once. A worker that fails still comes to every meeting: the others wait
 * for it there. */
static void run_together(pg__step *s, size_t worker)
{
    pg__worker *w = &s->t->pool.workers[worker];
    pg__job *job;
    for (size_t at = 0; (job = next_job(s, worker, &at)) && w->st == PG_OK;)
        w->st = begin_lane(s, job, w, &w->err);
    for (size_t m = 0; m <= s->n_meetings; m++) {
        for (size_t at = 0; (job = next_job(s, worker, &at)) && w->st == PG_OK;)
            w->st = run_to_meeting(s, job, m);
        if (m == s->n_meetings)
            break;
        pg__thread_pool_barrier(s->t->pool.threads);
        if (s->t->ranks && s->t->net.bn_sync) {
            if (worker == 0)
                s->met = pg__ranks_sync_bn(s, m, &s->why);
            pg__thread_pool_barrier(s->t->pool.threads);
            w->st = w->st == PG_OK ? s->met : w->st;
            w->err = s->met != PG_OK ? s->why : w->err;
        }
        for (size_t at = 0; (job = next_job(s, worker, &at)) && w->st == PG_OK;)
            w->st = take_from_meeting(s, job, m);
    }
    for (size_t at = 0; (job = next_job(s, worker, &at)) && w->st == PG_OK;)
        w->st = end_lane(s, job, w, &w->err);
}

/* Runs a lane's frame with the thread's own scratch memory. */
static pg_status run_member(const pg__step *s, pg__job *job, uint32_t device, const pg__worker *w)
{
    pg__frame f = job->frame.f;
    f.scratch = w->scratch.mem;
    f.args = w->args;
    f.dev = w->dev;
    f.trace = pg__trace_of_worker(s->t->report.trace, (size_t)(w - s->t->pool.workers));
    return pg__program_run_part(job->program, &f, device, s->t->pool.threads, job->done);
}

/* Several devices share the work of a lane: the first opens and ends it. */
static void run_shared(pg__step *s, size_t thread)
{
    pg__thread_pool *threads = s->t->pool.threads;
    const size_t device = thread / s->t->pool.cut.n_workers,
                 worker = thread % s->t->pool.cut.n_workers;
    pg__worker *w = &s->t->pool.workers[thread];
    pg__job *job;
    for (size_t at = 0; (job = next_job(s, worker, &at));) {
        if (device == 0) {
            if (w->st == PG_OK)
                w->st = begin_lane(s, job, w, &w->err);
            pg__thread_pool_raise(threads, &job->opened, w->st == PG_OK ? 1 : 2);
        } else {
            pg__thread_pool_await(threads, &job->opened, 1);
        }
        if (job->opened == 1 && job->program) {
            const pg_status st = run_member(s, job, (uint32_t)device, w);
            w->st = w->st == PG_OK ? st : w->st;
        }
        pg__thread_pool_add(threads, &job->members);
        if (device > 0)
            continue;
        pg__thread_pool_await(threads, &job->members, s->t->devs.assigned.n_devices);
        if (w->st == PG_OK)
            w->st = end_lane(s, job, w, &w->err);
    }
}

void pg__work_on_lanes(void *arg, size_t worker)
{
    pg__step *s = arg;
    pg__worker *w = &s->t->pool.workers[worker];
    pg__job *job;
    w->st = PG_OK;
    w->err = (pg_err){0};
    if (s->part == 0)
        pg__partials_reset(w);
    if (s->t->devs.assigned.n_devices > 1 && !s->t->devs.is_split)
        run_shared(s, worker);
    else if (s->n_meetings > 0)
        run_together(s, worker);
    else
        for (size_t at = 0; (job = next_job(s, worker, &at)) && w->st == PG_OK;)
            if (job->n_together == 1)
                w->st = run_lane(s, job, w, &w->err);
            else if (job->place == 0)
                w->st = run_lanes(s, job, w, &w->err);
}

void pg__work_on_results(void *arg, size_t worker)
{
    pg__step *s = arg;
    pg__worker *w = &s->t->pool.workers[worker];
    pg__job *job;
    w->st = PG_OK;
    for (size_t k = worker; k < s->t->pool.n_threads && w->st == PG_OK;
         k += s->t->pool.cut.n_workers)
        w->st = s->t->devs.backend->sync(s->t->pool.workers[k].dev);
    for (size_t at = 0; (job = next_job(s, worker, &at)) && w->st == PG_OK;)
        if (job->program)
            w->st = add_results(s, job, &w->err);
}

static pg_status sum_masks(const pg__step *s, pg__job *job, const pg__worker *w, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(open_frame(s, job, w));
    PG_TRY(pg__masks_add(s->t, job->masks, &job->frame.f, job->mask_sums, err));
done:
    pg__job_close(job);
    return st;
}

void pg__work_on_masks(void *arg, size_t worker)
{
    pg__step *s = arg;
    pg__worker *w = &s->t->pool.workers[worker];
    w->st = PG_OK;
    w->err = (pg_err){0};
    for (size_t k = 0; k < s->n_jobs && w->st == PG_OK; k++)
        if (s->jobs[k].masks && s->jobs[k].lane.worker == worker)
            w->st = sum_masks(s, &s->jobs[k], w, &w->err);
}
