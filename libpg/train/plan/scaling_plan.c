/* scaling_plan.c - pg_fit_plan(): chooses the numbers of devices, times what they need, and makes
 * the rows of the plan. CPU devices are processes of an MPI job; one host is filled before the
 * next. As many devices of a host as this machine has cores for are timed at the same time; if a
 * host has more devices than cores, the devices share them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/fit/fit.h"
#include "train/plan/scaling_time.h"
#include "train/step/step.h"

enum { MAX_ROWS = 32 };

/* Defaults for links that the caller neither describes nor measures: seconds, bytes per second.
 * "DEFAULTS OF --plan" in pg-cluster(7) lists them and says where the last one comes from. */
static const double default_latency = 10e-6;
static const double default_cpu_latency = 5e-6, default_cpu_rate = 3e9;   /* inside a host */
static const double default_gpu_latency = 10e-6, default_gpu_rate = 20e9; /* inside a host */
static const double default_share_rate = 1.5e9; /* of the pieces of a sharded optimizer state */

static const char checked[] = "pg-cluster(7) says how accurate they were";

/* One number of devices. */
typedef struct entry {
    size_t n_devices, n_hosts, per_host; /* per_host: of the host with most */
    size_t at_once;                      /* devices timed together */
    uint64_t rows;
    int is_timed;
    pg__timed timed;
} entry;

typedef struct planning {
    pg_trainer *t;
    pg__fit_run run;
    pg_plan_opts o; /* with defaults in place of 0 */
    size_t n_cores; /* of this machine that the trainer uses */
    size_t n_threads, batch_size;
    int is_here; /* this machine has devices of that kind */
    entry entries[MAX_ROWS];
    size_t n;
    double faster; /* speed relative to the timed device */
    pg_plan *out;
} planning;

/* ---- options ---- */

static double or_else(double v, double otherwise)
{
    return v > 0 ? v : otherwise;
}

static pg_status check_trainer(pg_trainer *t, const pg_fit_opts *fit, pg_err *err)
{
    if (t->ranks) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "a plan is made by one process that is not part of a job");
        return pg__ranks_agree(t->ranks, PG_E_UNSUPPORTED, err);
    }
    if (t->devs.assigned.n_devices > 0)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "a plan with layers on devices of their own (place) is not supported");
    if (fit->accumulate > 1)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "a plan of several batches per update is not supported");
    if (!t->devs.backend->host_memory && t->pool.cut.n_replicas > 1) {
        (void)pg_fail(err, PG_E_UNSUPPORTED, "a plan is made with one GPU, not with several");
        pg_err_set(err, "devices", "%s:0", pg__gpu_name());
        return PG_E_UNSUPPORTED;
    }
    return PG_OK;
}

/* The caller must give what this machine cannot measure. */
static pg_status check_devices(const planning *p, pg_err *err)
{
    const pg_plan_opts *o = &p->o;
    const int given = o->speedup > 0 || o->flops > 0;
    if (o->gpus && !p->is_here && !given) {
        (void)pg_fail(err, PG_E_ARG,
                      "gpus: there is no GPU here to time, so give its speed: speedup=X times "
                      "as fast as this CPU, or flops=RATE");
        pg_err_set(err, "devices", "%s:0", pg__gpu_name());
        pg_err_arg(err, "note", "where there is one, or speedup=20");
        return PG_E_ARG;
    }
    if (!o->gpus && !p->t->devs.backend->host_memory) {
        (void)pg_fail(err, PG_E_ARG, "CPU devices cannot be timed on a GPU");
        pg_err_set(err, "devices", "cpu:0");
        pg_err_arg(err, "note", ", or gpus=N");
        return PG_E_ARG;
    }
    if (o->gpus && o->cores)
        return pg_fail(err, PG_E_ARG, "cores: belong to cpus, not to gpus");
    if (o->hosts > 1 && o->bandwidth <= 0) {
        (void)pg_fail(err, PG_E_ARG, "hosts: give the speed of the link between them");
        pg_err_hint(err, "link=100Gbit; mpirun on two of them measures it");
        return PG_E_ARG;
    }
    if (p->n_threads > p->n_cores) {
        (void)pg_fail(err, PG_E_ARG, "a device of %zu cores cannot be timed here, with %zu in use",
                      p->n_threads, p->n_cores);
        pg_err_hint(err, "cores=%zu,speedup=%g", p->n_cores * o->per_host,
                    (double)p->n_threads / (double)p->n_cores);
        return PG_E_ARG;
    }
    return o->hosts > ((size_t)1 << 20) / o->per_host
               ? pg_fail(err, PG_E_ARG, "%zu hosts of %zu devices are more than a plan can have",
                         o->hosts, o->per_host)
               : PG_OK;
}

static pg_status take_opts(planning *p, const pg_plan_opts *given, pg_err *err)
{
    pg_plan_opts *o = &p->o;
    pg_trainer *t = p->t;
    *o = *given;
    o->hosts = o->hosts ? o->hosts : 1;
    o->per_host = o->per_host ? o->per_host : 1;
    p->is_here = o->gpus == !t->devs.backend->host_memory;
    p->n_cores = t->pool.cut.n_workers;
    p->n_threads = p->n_cores;
    if (!o->gpus) {
        const size_t cores = o->cores ? o->cores : p->n_cores;
        p->n_threads = cores > o->per_host ? cores / o->per_host : 1;
    }
    const pg_status st = check_devices(p, err);
    if (st != PG_OK)
        return st;
    if (!o->gpus)
        o->cores = o->cores ? o->cores : p->n_cores;
    o->latency = or_else(o->latency, default_latency);
    o->inner_latency =
        or_else(o->inner_latency, o->gpus ? default_gpu_latency : default_cpu_latency);
    o->inner_bandwidth = or_else(o->inner_bandwidth, o->gpus ? default_gpu_rate : default_cpu_rate);
    return PG_OK;
}

/* ---- rows ---- */

/* Rows of the device with most. */
static uint64_t most_rows(const planning *p, size_t n_devices)
{
    pg__cut cut = p->t->pool.cut;
    uint64_t most = 0, n = 0;
    size_t replica = 0;
    cut.n_replicas = cut.n_workers = n_devices;
    cut.first_here = cut.n_here = 0;
    for (size_t k = 0; k < pg__lane_count(&cut); k++) {
        const pg__lane lane = pg__lane_of(&cut, p->batch_size, k);
        n = lane.replica == replica ? n + lane.n : lane.n;
        replica = lane.replica;
        most = n > most ? n : most;
    }
    return most;
}

static void add_entry(planning *p, size_t n_devices)
{
    entry *e = &p->entries[p->n++];
    const size_t room = p->n_cores / p->n_threads;
    *e = (entry){.n_devices = n_devices};
    e->per_host = n_devices < p->o.per_host ? n_devices : p->o.per_host;
    e->n_hosts = (n_devices + p->o.per_host - 1) / p->o.per_host;
    e->at_once = p->o.gpus ? 1 : e->per_host < room ? e->per_host : room;
    e->rows = p->o.weak ? p->batch_size : most_rows(p, n_devices);
}

static void note(pg_plan *out, const char *text)
{
    if (out->n_notes < sizeof out->notes / sizeof *out->notes)
        (void)snprintf(out->notes[out->n_notes++], sizeof *out->notes, "%s", text);
}

/* 1, 2, 4, ..., and all devices, but at most as many as there are rows, or lanes. */
static void list_entries(planning *p)
{
    const size_t all = p->o.hosts * p->o.per_host;
    const size_t most_of_batch = p->o.weak ? all : p->batch_size;
    const size_t lanes = p->t->pool.cut.n_lanes ? p->t->pool.cut.n_lanes : all;
    const size_t most = lanes < most_of_batch ? lanes : most_of_batch;
    char text[160];
    for (size_t n = 1; n < all && n <= most; n *= 2)
        add_entry(p, n);
    if (all <= most) {
        add_entry(p, all);
    } else {
        (void)snprintf(text, sizeof text,
                       "%zu devices are more than there are %s to give them: %zu", all,
                       most == lanes ? "lanes" : "rows in a batch", most);
        note(p->out, text);
    }
}

/* Of neighbouring entries with equal at_once, times only the first, the last and the middle one;
 * the others are interpolated. */
static void choose_timed(planning *p)
{
    for (size_t i = 0, end; i < p->n; i = end) {
        for (end = i + 1; end < p->n && p->entries[end].at_once == p->entries[i].at_once; end++)
            ;
        p->entries[i].is_timed = p->entries[end - 1].is_timed = 1;
        p->entries[i + (end - 1 - i) / 2].is_timed = 1;
    }
}

static int is_like(const entry *a, const entry *b)
{
    return a->at_once == b->at_once && a->rows == b->rows;
}

/* ---- timing ---- */

/* Number of lanes of the devices that are timed together. */
static size_t lanes_of(const planning *p, const entry *e)
{
    const size_t n = p->t->pool.cut.n_lanes;
    if (n == 0)
        return 0;
    const size_t share = n / e->n_devices * e->at_once;
    return share > e->at_once ? share : e->at_once;
}

/* The update does not depend on rows, so it is timed once for each value of at_once. */
static pg_status time_entries(planning *p, pg_err *err)
{
    const entry *with_update = NULL, *same = NULL;
    pg_status st = PG_OK;
    for (size_t i = 0; i < p->n; i++) {
        entry *e = &p->entries[i];
        if (!e->is_timed)
            continue;
        same = NULL;
        for (size_t k = 0; k < i; k++)
            same = p->entries[k].is_timed && is_like(&p->entries[k], e) ? &p->entries[k] : same;
        if (same) {
            e->timed = same->timed;
            continue;
        }
        const pg__trial trial = {e->at_once, p->n_threads, lanes_of(p, e), e->rows, !p->o.gpus};
        const int is_first = !with_update || with_update->at_once != e->at_once;
        PG_TRY(pg__scaling_time(&e->timed, p->t, &p->run.train, &trial, is_first, err));
        with_update = is_first ? e : with_update;
        e->timed.pace.update = with_update->timed.pace.update;
        e->timed.pace.reduce = with_update->timed.pace.reduce;
        e->timed.pace.sum = with_update->timed.pace.sum;
    }
done:
    return st;
}

static uint64_t between(uint64_t a, uint64_t b, double f)
{
    return (uint64_t)((double)a + f * ((double)b - (double)a));
}

static void fill_between(entry *e, const entry *a, const entry *b)
{
    const double ra = (double)a->rows, rb = (double)b->rows, r = (double)e->rows;
    const double f = ra != rb ? (r - ra) / (rb - ra) : 0;
    e->timed = a->timed;
    e->timed.pace = pg__pace_between(&a->timed.pace, ra, &b->timed.pace, rb, r);
    e->timed.flops = a->timed.flops + f * (b->timed.flops - a->timed.flops);
    pg_forecast *to = &e->timed.forecast;
    to->activations = between(a->timed.forecast.activations, b->timed.forecast.activations, f);
    to->workspace = between(a->timed.forecast.workspace, b->timed.forecast.workspace, f);
    to->data = between(a->timed.forecast.data, b->timed.forecast.data, f);
}

static void fill_in(planning *p)
{
    for (size_t i = 0; i < p->n; i++) {
        size_t a = i, b = i;
        if (p->entries[i].is_timed)
            continue;
        while (!p->entries[a].is_timed)
            a--;
        while (!p->entries[b].is_timed)
            b++;
        fill_between(&p->entries[i], &p->entries[a], &p->entries[b]);
    }
}

/* ---- the rows of the plan ---- */

static pg_plan_row row_of(const planning *p, const entry *e)
{
    const pg_plan_opts *o = &p->o;
    const pg__layout layout = {.n_hosts = e->n_hosts,
                               .per_host = e->per_host,
                               .outer = {o->latency, o->bandwidth},
                               .inner = {o->inner_latency, o->inner_bandwidth},
                               .by_cores = !o->gpus};
    const double busy =
        o->gpus ? 1
                : (double)(e->per_host * p->n_threads) / (double)o->cores; /* threads per core */
    const double f = busy > 1 ? busy : 1;
    const pg_forecast *m = &e->timed.forecast;
    pg__layout shared = layout;
    pg__pace pace = e->timed.pace;
    pg__load load = e->timed.load;
    if (o->gpus && e->n_hosts == 1) /* in one process */
        load.n_small = load.small_bytes = 0;
    pg__pace_stretch(&pace, f / p->faster);
    shared.inner.latency *= f; /* the same cores move the data */
    shared.inner.bandwidth /= f;
    const pg__parts_of_step s = pg__step_on(&shared, &pace, &load);
    load.is_sharded = 1;
    load.sums_whole = pg__opt_shard_whole_sums(&p->t->compiled);
    load.in_tree = p->t->pool.cut.n_lanes > 0;
    load.share_rate = load.in_tree ? 0 : default_share_rate / f;
    const double sharded = o->gpus ? 0 : pg__step_on(&shared, &pace, &load).all;
    const uint64_t memory = m->weights + m->gradients + m->optimizer + m->activations +
                            m->workspace + m->data + (o->gpus ? 0 : m->process);
    const uint64_t sums = o->gpus ? 0 : pg__sums_bytes(p->t, e->n_devices, 0);
    const uint64_t sums_of_shards = o->gpus ? 0 : pg__sums_bytes(p->t, e->n_devices, 1);
    return (pg_plan_row){
        .n_devices = e->n_devices,
        .n_hosts = e->n_hosts,
        .rows = e->rows,
        .step = s.all,
        .compute = s.compute,
        .exchange = s.exchange,
        .shown = s.shown,
        .update = s.update,
        .step_sharded = sharded,
        .rest = s.rest,
        .samples_per_second =
            (double)(o->weak ? p->batch_size * e->n_devices : p->batch_size) / s.all,
        .memory = memory + sums,
        .memory_sharded = memory - m->optimizer + m->optimizer / e->n_devices + sums_of_shards,
        .measured = e->is_timed};
}

static void fill_rows(planning *p)
{
    const entry *first = &p->entries[0];
    const uint64_t process =
        first->timed.forecast.process; /* later values include memory that trials left */
    pg_plan *out = p->out;
    p->faster = or_else(p->o.speedup, 1);
    if (p->o.flops > 0)
        p->faster = p->o.flops * first->timed.pace.compute / first->timed.flops;
    p->o.speedup = p->faster;
    for (size_t i = 0; i < p->n; i++) {
        pg_plan_row *r = &out->rows[out->n_rows++];
        p->entries[i].timed.forecast.process = process;
        *r = row_of(p, &p->entries[i]);
        r->efficiency =
            r->samples_per_second / (double)r->n_devices / out->rows[0].samples_per_second;
    }
    out->pays_up_to = pg__pays_up_to(out->rows, out->n_rows);
}

static void add_notes(const planning *p)
{
    char text[200];
    if (pg__exceeds_one(p->out->rows, p->out->n_rows))
        note(p->out,
             "efficiency above 100 %: other programs disturbed the steps timed here, or the "
             "batch of one device is larger than its caches; measure again");
    if (p->o.gpus && !p->is_here)
        note(p->out,
             "times are those of this machine's CPU divided by the given factor: with few rows "
             "a GPU loses more");
    if (p->o.gpus && p->o.hosts > 1)
        note(p->out, "GPUs of several machines: such a plan was never compared with a measurement");
    const size_t room = p->n_cores / p->n_threads;
    if (!p->o.gpus && p->o.per_host > room && p->o.per_host * p->n_threads <= p->o.cores) {
        (void)snprintf(text, sizeof text,
                       "%zu devices were timed together; more of them would lose time by sharing "
                       "memory, which is not included",
                       room);
        note(p->out, text);
    }
    if (!p->o.gpus && p->o.per_host * p->n_threads > p->o.cores) {
        (void)snprintf(text, sizeof text, "%zu devices share %zu cores of a host", p->o.per_host,
                       p->o.cores);
        note(p->out, text);
    }
}

static pg_status make_plan(planning *p, pg_err *err)
{
    const pg__load *load = &p->entries[0].timed.load;
    pg_status st = PG_OK;
    p->batch_size = p->o.batch_size ? p->o.batch_size : p->run.opts->batch_size;
    PG_TRY(pg__feed_batch_size(p->t, p->batch_size, &p->batch_size, err));
    list_entries(p);
    choose_timed(p);
    PG_TRY(time_entries(p, err));
    fill_in(p);
    if (p->o.flops > 0 && p->entries[0].timed.flops <= 0)
        PG_FAIL(PG_E_ARG, "flops: this model has no products to count: give speedup");
    fill_rows(p);
    add_notes(p);
    p->out->batch_size = p->batch_size;
    p->out->threads = p->is_here && !p->o.gpus ? p->n_threads : 0;
    p->out->n_buckets = load->n;
    for (size_t k = 0; k < load->n; k++)
        p->out->buckets[k] = (uint64_t)load->bytes[k];
    p->out->used = p->o;
    p->out->checked = checked;
done:
    return st;
}

pg_status pg_fit_plan(pg_plan *out, pg_trainer *t, pg_data *data, const pg_fit_opts *opts,
                      const pg_plan_opts *devices, pg_err *err)
{
    pg_fit_opts fit = *opts;
    pg_plan plan = {.n_rows = 0};
    planning *p = pg__mem_array(1, sizeof *p);
    pg_status st = PG_OK;
    if (!p)
        return pg__nomem(err);
    fit.callbacks = NULL;
    fit.n_callbacks = 0;
    fit.resume_file = NULL;
    fit.resume = fit.profile = 0;
    p->t = t;
    p->out = &plan;
    p->run = (pg__fit_run){.t = t,
                           .data = data,
                           .opts = &fit,
                           .has_val = fit.validation != NULL || fit.validation_split != 0};
    PG_TRY(check_trainer(t, &fit, err));
    PG_TRY(take_opts(p, devices, err));
    st = pg__fit_open(&p->run, err);
    if (st == PG_OK)
        st = make_plan(p, err);
    pg__fit_close(&p->run);
    PG_TRY(pg__with_message(t, st, err));
    *out = plan;
done:
    pg__mem_free(p);
    return st;
}
