/* scaling_time.c - times steps of a device of this machine without changing anything: as in
 * alone.c, but kernels prepare the weights anew in each step, as they do after an update. The
 * update is that of real training, on a copy.
 *
 * Cores share caches and memory, so devices that compute at the same time are timed at the same
 * time, as replicas of one process. The time before and after the lanes is taken from a single
 * device: replicas share that work, while each process does its own. */
#include "train/plan/scaling_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/fit/fit.h"
#include "train/model/model.h"
#include "train/step/step.h"

enum { MAX_STEPS = 60, MIN_STEPS = 3, UPDATES = 5 };
static const double max_seconds = 0.7;

/* ---- steps ---- */

typedef struct sample {
    double head;                        /* until the first lane begins */
    double lanes, left[PG_MAX_BUCKETS]; /* from then until the end of all lanes, and until each
                                           bucket is complete */
    double rest;
    int was_seen; /* lanes were timed */
} sample;

/* The times of all lanes of the slowest device. If lanes were not timed, everything counts as
 * computing, and all buckets are complete only at its end. */
static sample take_sample(const pg_trainer *t, uint64_t n_rows, double began, double ended)
{
    const size_t n_lanes = pg__lane_count(&t->pool.cut);
    sample s = {.lanes = 0};
    double first = ended, last = began;
    for (size_t r = 0; r < t->pool.cut.n_replicas; r++) {
        double begin = ended;
        for (size_t k = 0; k < n_lanes; k++)
            if (pg__lane_of(&t->pool.cut, n_rows, k).replica == r &&
                t->report.timeline->lanes[k].end > 0)
                begin = fmin(begin, t->report.timeline->lanes[k].begin);
        first = fmin(first, begin);
        for (size_t k = 0; k < n_lanes; k++) {
            const pg__lane_times *at = &t->report.timeline->lanes[k];
            if (pg__lane_of(&t->pool.cut, n_rows, k).replica != r || at->end <= 0)
                continue;
            s.was_seen = 1;
            last = fmax(last, at->end);
            s.lanes = fmax(s.lanes, at->end - begin);
            for (size_t b = 0; b < t->sums.n_buckets; b++)
                s.left[b] = fmax(s.left[b], at->left[b] - begin);
        }
    }
    if (s.was_seen) {
        s.head = first - began;
        s.rest = ended - last;
        return s;
    }
    s.lanes = ended - began;
    for (size_t b = 0; b < t->sums.n_buckets; b++)
        s.left[b] = s.lanes;
    return s;
}

static pg_status one_step(pg_trainer *t, const pg__batch *b, pg__totals *totals, sample *out,
                          pg_err *err)
{
    const double began = pg__now();
    pg_status st = PG_OK;
    memset(t->report.timeline->lanes, 0,
           pg__lane_count(&t->pool.cut) * sizeof *t->report.timeline->lanes);
    pg__totals_clear(t, totals);
    t->vars.version++; /* as after an update */
    pg__devices_mirrored(t);
    PG_TRY(pg__trainer_step(t, b, PG_TRAINS, NULL, totals, err));
    *out = take_sample(t, b->n_rows, began, pg__now());
done:
    return st;
}

#define BY(member)                                                 \
    static int by_##member(const void *a, const void *b)           \
    {                                                              \
        const sample *x = a, *y = b;                               \
        return x->member < y->member ? -1 : x->member > y->member; \
    }
BY(head)
BY(rest)
BY(lanes)

/* Medians, after a warm-up step that allocates memory and compiles programs. A GPU needs two: the
 * second is recorded. */
static pg_status time_steps(pg_trainer *t, const pg__batch *b, sample *out, pg_err *err)
{
    const size_t warm = t->devs.backend->host_memory ? 1 : 2;
    pg__totals totals = {0};
    sample all[MAX_STEPS], first;
    size_t n = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__totals_alloc(t, &totals, err));
    for (size_t k = 0; k < warm; k++)
        PG_TRY(one_step(t, b, &totals, &first, err));
    const double began = pg__now();
    for (; n < MAX_STEPS && (n < MIN_STEPS || pg__now() - began < max_seconds); n++)
        PG_TRY(one_step(t, b, &totals, &all[n], err));
    qsort(all, n, sizeof *all, by_head);
    const double head = all[n / 2].head;
    qsort(all, n, sizeof *all, by_rest);
    const double rest = all[n / 2].rest;
    qsort(all, n, sizeof *all, by_lanes);
    *out = all[n / 2];
    out->head = head;
    out->rest = rest;
done:
    pg__totals_free(&totals);
    return st;
}

/* ---- the update ---- */

static int smaller_first(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double v[UPDATES])
{
    qsort(v, UPDATES, sizeof *v, smaller_first);
    return v[UPDATES / 2];
}

static void nothing(void *arg, size_t worker)
{
    (void)arg, (void)worker;
}

typedef struct times {
    double update, reduce, meet; /* reduce: sums of lanes; meet: workers meeting without work */
} times;

/* Call it after a step, which leaves its gradients. */
static pg_status time_updates(pg_trainer *t, times *out, pg_err *err)
{
    double updates[UPDATES], sums[UPDATES], meetings[UPDATES];
    pg_status st = PG_OK;
    for (size_t k = 0; k < UPDATES; k++) {
        double clock = pg__now();
        updates[k] = meetings[k] = t->report.spent.reduce = 0;
        PG_TRY(pg__trainer_update(t, err));
        if (!t->devs.backend->host_memory)
            PG_TRY(pg__with_message(t, t->devs.backend->sync(t->devs.dev), err));
        pg__lap(&clock, &updates[k]);
        sums[k] = t->report.spent.reduce;
        updates[k] -= sums[k];
        pg__thread_pool_run(t->pool.threads, nothing, NULL);
        pg__lap(&clock, &meetings[k]);
    }
    *out = (times){median(updates), median(sums), median(meetings)};
done:
    return st;
}

/* Times real updates and undoes them. */
static pg_status try_updates(pg_trainer *t, times *out, pg_err *err)
{
    const pg__optimizer optimizer = t->compiled.optimizer;
    const pg__loss_scale scale = t->compiled.scale;
    const int stops = t->loop.stops_on_nan, found = t->loop.nan_found;
    pg__snapshot *before = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__snapshot_take(&before, t, 1, err));
    t->loop.is_trial = t->loop.stops_on_nan = t->loop.nan_found = 0;
    st = time_updates(t, out, err);
    t->loop.is_trial = 1;
    t->loop.stops_on_nan = stops;
    t->loop.nan_found = found;
    t->compiled.optimizer = optimizer;
    t->compiled.scale = scale;
    const pg_status whole = pg__snapshot_restore(before, t, st == PG_OK ? err : NULL);
    st = st == PG_OK ? whole : st;
done:
    pg__snapshot_drop(before);
    pg__snapshot_forget(t);
    return st;
}

/* ---- devices ---- */

/* Programs depend on whether lanes meet, and other devices cut batches differently, so a trial has
 * programs of its own. */
static void drop_programs(pg_trainer *t)
{
    for (size_t i = 0; i < t->programs.n_built; i++) {
        pg__program_free(t->programs.built[i].program);
        pg__mem_free(t->programs.built[i].inputs);
    }
    pg__mem_free(t->programs.built);
    t->programs.built = NULL;
    t->programs.n_built = t->programs.cap_built = 0;
}

static pg_status staff(pg_trainer *t, const pg__trial *what, size_t n_devices, pg_err *err)
{
    pg__workers_stop(t);
    drop_programs(t);
    pg__states_free(t); /* the number of rows differs */
    t->pool.cut.n_replicas = n_devices;
    t->pool.cut.first_here = t->pool.cut.n_here = 0;
    t->pool.cut.n_workers = n_devices * what->n_threads;
    t->pool.cut.n_lanes = what->n_lanes;
    if (what->n_lanes && n_devices < what->n_devices)
        t->pool.cut.n_lanes = what->n_lanes > what->n_devices ? what->n_lanes / what->n_devices : 1;
    return pg__workers_start(t, err);
}

/* Fills in what is known of a device's program without running it. */
static pg_status look_at_program(pg__timed *out, pg_trainer *t, uint64_t n_rows, pg_err *err)
{
    const pg__program *p = NULL;
    pg_status st = PG_OK;
    for (size_t k = 0; k < pg__lane_count(&t->pool.cut); k++) {
        const pg__lane lane = pg__lane_of(&t->pool.cut, n_rows, k);
        if (lane.n == 0)
            continue;
        PG_TRY(pg__trainer_program(t, lane.n, PG_TRAINS, &p, err));
        out->flops += pg__program_flops(p);
    }
done:
    return st;
}

/* What devices exchange in a step: gradients; losses and metrics, a few numbers; moving averages;
 * and, if all are normalised together, the data of each meeting. */
static pg_status fill_load(pg__timed *out, pg_trainer *t, const pg__trial *what, pg_err *err)
{
    const size_t each = t->devs.backend->real_bytes, n_lanes = pg__lane_count(&t->pool.cut);
    const pg__program *p = NULL;
    pg__load *l = &out->load;
    pg_status st = PG_OK;
    l->n = t->sums.n_buckets;
    for (size_t k = 0; k < l->n; k++) {
        const pg__bucket *b = &t->sums.buckets[k];
        l->bytes[k] = (double)((t->vars.offsets[b->end] - t->vars.offsets[b->first]) * each);
    }
    l->n_small = 1 + (t->net.built_params.n_moving > 0);
    for (size_t i = 0; i < t->net.built_params.n_moving; i++)
        l->small_bytes += (double)(t->vars.n_elems[t->net.built_params.moving[i].param] * each);
    if (!t->net.couples_rows || !t->net.bn_sync)
        return PG_OK;
    PG_TRY(pg__trainer_program(
        t, pg__lane_of(&t->pool.cut, what->n_rows * what->n_devices, n_lanes - 1).n, PG_TRAINS, &p,
        err));
    const size_t n = pg__program_n_meetings(p);
    l->n_small += (double)n;
    l->small_bytes += (double)(n * pg__program_meeting_elems(p) * n_lanes / what->n_devices) *
                      (double)sizeof(double);
done:
    return st;
}

static pg_status forecast(pg__timed *out, pg_trainer *t, const pg__trial *what, pg_err *err)
{
    const pg__beside beside = {.n_buffers = PG_PREFETCH_BATCHES, .n_programs = 1};
    pg_status st = PG_OK;
    PG_TRY(pg__memory_estimate_of(&out->forecast, t, (size_t)what->n_rows, &beside, err));
    PG_TRY(look_at_program(out, t, what->n_rows, err));
done:
    return st;
}

/* Runs steps on so many devices, whose workers exist. */
static pg_status run_some(pg_trainer *t, const pg__feed *f, const pg__trial *what, size_t n_devices,
                          sample *steps, times *updates, pg_err *err)
{
    const size_t n_rows = n_devices * (size_t)what->n_rows;
    pg__batch b = {.n_rows = 0};
    pg__timeline line = {pg__mem_array(pg__lane_count(&t->pool.cut), sizeof *line.lanes)};
    pg_status st = PG_OK;
    if (!line.lanes)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__feed_read_first(f, n_rows, &b, err));
    t->report.timeline = &line;
    PG_TRY(time_steps(t, &b, steps, err));
    if (updates)
        PG_TRY(try_updates(t, updates, err));
done:
    t->report.timeline = NULL;
    pg__mem_free(line.lanes);
    pg__batch_free(&b, t);
    return st;
}

/* alone, u: of one device; all, v: of all at once, which stretch its times. A process updates all
 * variables, whereas the devices here shared one set. One thread of a process sums for all its
 * threads. */
static void fill_pace(pg__pace *p, const pg__trial *what, const sample *alone, const times *u,
                      const sample *all, const times *v)
{
    const double stretch = alone->lanes > 0 ? all->lanes / alone->lanes : 1;
    const double head = alone->head * stretch, n = (double)what->n_devices;
    p->compute = head + all->lanes;
    for (size_t k = 0; k < PG_MAX_BUCKETS; k++)
        p->ready[k] = head + all->left[k];
    p->rest = alone->rest;
    p->reduce = u->reduce;
    p->sum = what->n_threads > 1 ? u->reduce * (double)what->n_threads * stretch : 0;
    p->update = fmax(u->update, n * (v->update - v->meet));
}

static pg_status run_trial(pg__timed *out, pg_trainer *t, const pg__feed *f, const pg__trial *what,
                           int with_update, pg_err *err)
{
    sample alone, all;
    times u = {0}, v = {0};
    pg_status st = PG_OK;
    PG_TRY(staff(t, what, 1, err));
    PG_TRY(forecast(out, t, what, err));
    PG_TRY(run_some(t, f, what, 1, &alone, with_update ? &u : NULL, err));
    all = alone;
    if (what->n_devices > 1) {
        PG_TRY(staff(t, what, what->n_devices, err));
        PG_TRY(run_some(t, f, what, what->n_devices, &all, with_update ? &v : NULL, err));
    }
    fill_pace(&out->pace, what, &alone, &u, &all, &v);
    PG_TRY(fill_load(out, t, what, err));
    out->load.goes_along = all.was_seen && !t->pool.cut.n_lanes &&
                           !(t->net.couples_rows && t->net.bn_sync) &&
                           (what->on_cpus || t->sums.facts.tunes);
done:
    return st;
}

pg_status pg__scaling_time(pg__timed *out, pg_trainer *t, const pg__feed *f, const pg__trial *what,
                           int with_update, pg_err *err)
{
    const pg__cut all = t->pool.cut;
    const pg__spent spent = t->report.spent;
    pg__built *built = t->programs.built;
    const size_t n_built = t->programs.n_built, cap_built = t->programs.cap_built;
    void **states = t->loop.states;
    const uint64_t state_rows = t->loop.state_rows;
    t->programs.built = NULL;
    t->programs.n_built = t->programs.cap_built = 0;
    t->loop.states = NULL;
    t->loop.state_rows = 0;
    *out = (pg__timed){.flops = 0};
    t->loop.is_trial = 1;
    pg__buckets_cut_for(t, what->on_cpus);
    pg_status st = run_trial(out, t, f, what, with_update, err);
    pg__workers_stop(t);
    drop_programs(t);
    pg__states_free(t);
    t->loop.states = states;
    t->loop.state_rows = state_rows;
    t->programs.built = built;
    t->programs.n_built = n_built;
    t->programs.cap_built = cap_built;
    t->sums.n_buckets = 0; /* this trainer's may differ */
    t->loop.is_trial = 0;
    t->report.spent = spent;
    t->pool.cut = all;
    t->vars.grads = NULL;
    const pg_status whole = pg__workers_start(t, st == PG_OK ? err : NULL);
    return st == PG_OK ? whole : st;
}
