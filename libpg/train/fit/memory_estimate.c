/* memory_estimate.c - how much memory a run will need: by its plan (arenas of lanes, scratch of
 * workers, gradients, slots, batches), plus the memory that the process holds already. */
#include "train/fit/memory_estimate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/fit/memory_estimate_model_parallel.h"
#include "train/step/step.h"

/* Pages of code, of threads' stacks and of the C library's heaps that only a running step touches:
 * measured, 7 to 9 MB for all models tried. */
#define RUNNING_BYTES 8000000u

/* Resident bytes of this process, 0 if unknown. */
static uint64_t resident(void)
{
    unsigned long long all = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    const long page = sysconf(_SC_PAGESIZE);
    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &all, &pages) != 2)
        pages = 0;
    fclose(f);
    return page > 0 ? pages * (uint64_t)page : 0;
}

static uint64_t flat_bytes(const pg_trainer *t)
{
    return t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes;
}

/* Buffers that a worker with n lanes sums in: one, or one per open subtree of the tree. */
static uint64_t partials_of(const pg_trainer *t, size_t n_lanes)
{
    uint64_t n = 1;
    if (t->loop.part_rows > 0) /* the sum of a lane's earlier parts, beside the current one */
        return n_lanes > 0 ? n_lanes + 1 : 0;
    for (size_t k = n_lanes; t->pool.cut.n_lanes && k > 1; k /= 2)
        n++;
    return n_lanes > 0 ? n : 0;
}

static uint64_t batch_bytes(const pg_trainer *t, const pg__program *p, uint64_t lane_rows,
                            uint64_t n_rows)
{
    const pg__lowered *m = pg__program_model(p);
    uint64_t n = 0;
    for (size_t k = 0; k < t->net.n_inputs; k++)
        n += pg__dims_elems(&m->tape.values[m->inputs[k]].shape);
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        const pg__value *target = pg__program_target(p, k);
        n += target ? pg__dims_elems(&target->shape) : 0;
    }
    return n / lane_rows * n_rows * t->devs.backend->real_bytes;
}

typedef struct needs {
    uint64_t *arenas;  /* per lane where lanes meet, else per worker */
    uint64_t *scratch; /* per worker */
    size_t *n_lanes;   /* per worker */
    uint64_t shared;   /* what kernels prepare from the weights, on each device */
} needs;

static pg_status plan_lanes(pg_forecast *out, pg_trainer *t, size_t batch_size, needs *n,
                            pg_err *err)
{
    const uint64_t rows = t->loop.part_rows && t->loop.part_rows < batch_size
                              ? t->loop.part_rows
                              : (uint64_t)batch_size;
    const pg__program *p = NULL, *last = NULL;
    const size_t n_lanes = pg__lane_count(&t->pool.cut);
    pg__lane *lanes = pg__mem_array(n_lanes, sizeof *lanes);
    pg_status st = PG_OK;
    if (!lanes)
        return pg__nomem(err);
    for (size_t k = 0; k < n_lanes; k++)
        lanes[k] = pg__lane_of(&t->pool.cut, rows, k);
    for (size_t k = 0; k < n_lanes; k++) {
        const pg__lane lane = lanes[k];
        const size_t at = pg__lanes_sync_bn(t) ? k : lane.worker;
        if (lane.n == 0 || lane.worker == PG_NO_WORKER)
            continue;
        PG_TRY(pg__trainer_program(t, lane.n, PG_TRAINS, &p, err));
        const size_t together = pg__program_lanes(p);
        const int joined =
            together > 1 && t->loop.part_rows == 0 && pg__lanes_alike(lanes, n_lanes, k, together);
        if (joined && k % together > 0)
            continue;
        const uint64_t arena = joined ? pg__program_lanes_bytes(p)
                                      : pg__program_arena_bytes(p) + pg__upload_bytes(t, p, lane.n);
        const uint64_t scratch = pg__program_scratch_bytes(p);
        n->arenas[at] = arena > n->arenas[at] ? arena : n->arenas[at];
        n->scratch[lane.worker] =
            scratch > n->scratch[lane.worker] ? scratch : n->scratch[lane.worker];
        n->n_lanes[lane.worker]++;
        n->shared += p != last ? pg__program_shared_bytes(p) : 0;
        last = p;
        if (out->data == 0 && t->devs.backend->host_memory)
            out->data = batch_bytes(t, p, lane.n, batch_size);
    }
done:
    pg__mem_free(lanes);
    return st;
}

static uint64_t shared_bytes(const pg_trainer *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t->programs.n_built; i++)
        n += pg__program_shared_bytes(t->programs.built[i].program);
    return n;
}

/* Memory that the trainer holds already: weights, slots and prepared kernels from the start, and
 * the memory of earlier steps. */
static uint64_t filled_bytes(const pg_forecast *f, pg_trainer *t)
{
    uint64_t n = f->weights + f->optimizer + shared_bytes(t) + pg__sums_held(t);
    for (size_t k = 0; k < t->pool.cut.n_workers + t->pool.cut.n_lanes; k++)
        n += t->pool.arenas[k].n_bytes;
    for (size_t w = 0; w < t->pool.n_threads; w++) {
        n += t->pool.workers[w].scratch.n_bytes;
        for (size_t k = 0; k < PG_MAX_PARTIALS; k++)
            n += t->pool.workers[w].grads[k].mem ? f->weights : 0;
    }
    return n;
}

/* GPUs have copies of the variables, and buffers for sums of gradients from other GPUs. */
static void add_copies(pg_forecast *out, const pg_trainer *t)
{
    if (t->devs.n_devices < 2)
        return;
    out->weights *= t->devs.n_devices;
    out->optimizer *= t->devs.n_devices;
    out->gradients += t->devs.n_devices * flat_bytes(t);
    out->available *= t->devs.n_devices;
}

static void add_up(pg_forecast *out, pg_trainer *t, const needs *n, size_t n_programs)
{
    for (size_t k = 0; k < t->pool.cut.n_workers + t->pool.cut.n_lanes; k++)
        out->activations += n->arenas[k];
    for (size_t w = 0; w < t->pool.cut.n_workers; w++) {
        out->workspace += n->scratch[w] * (t->pool.n_threads / t->pool.cut.n_workers);
        out->gradients += partials_of(t, n->n_lanes[w]) * flat_bytes(t);
    }
    out->gradients += pg__sums_needed(t);
    out->workspace +=
        t->devs.backend->host_memory ? n->shared : n->shared * t->devs.n_devices * n_programs;
    for (size_t s = 0; s < PG_MAX_SLOTS; s++)
        if (t->vars.slots[s].mem) {
            const uint64_t own = pg__is_sharded(t->ranks) ? pg__opt_shard_bytes(t) : flat_bytes(t);
            out->optimizer += own;
            out->optimizer_elsewhere += flat_bytes(t) - own;
        }
    add_copies(out, t);
    out->total = out->weights + out->gradients + out->optimizer + out->activations +
                 out->workspace + out->data;
}

/* Assumes that the memory that depends on the batch is proportional to its rows. */
static size_t largest(const pg_forecast *f, pg_trainer *t)
{
    const uint64_t growing = f->activations + f->data,
                   room = f->available + f->process + filled_bytes(f, t);
    const uint64_t fixed = f->total - growing;
    if (growing == 0)
        return f->batch_size;
    if (room <= fixed)
        return 0;
    return (size_t)((double)(room - fixed) / (double)growing * (double)f->batch_size);
}

static pg_status forecast(pg_forecast *out, pg_trainer *t, size_t batch_size,
                          const pg__beside *beside, pg_err *err)
{
    const size_t n_arenas = t->pool.cut.n_workers + t->pool.cut.n_lanes;
    if (t->devs.is_split)
        return pg__memory_estimate_mp(out, t, batch_size,
                                      partials_of(t, pg__lane_count(&t->pool.cut)),
                                      beside->n_programs, err);
    pg_forecast f = {.n_devices = t->pool.cut.n_replicas,
                     .batch_size = batch_size,
                     .weights = flat_bytes(t),
                     .workspace = t->devs.backend->host_memory ? beside->n_copied : 0};
    needs n = {pg__mem_array(n_arenas, sizeof *n.arenas),
               pg__mem_array(t->pool.cut.n_workers, sizeof *n.scratch),
               pg__mem_array(t->pool.cut.n_workers, sizeof *n.n_lanes), 0};
    uint64_t all = 0;
    pg_status st = PG_OK;
    if (!n.arenas || !n.scratch || !n.n_lanes)
        PG_TRY(pg__nomem(err));
    PG_TRY(t->devs.backend->memory(t->devs.dev, &f.available, &all, err));
    PG_TRY(plan_lanes(&f, t, batch_size, &n, err));
    f.data *= beside->n_buffers;
    add_up(&f, t, &n, beside->n_programs);
    const uint64_t now = resident(), filled = filled_bytes(&f, t);
    if (t->devs.backend->host_memory) /* process memory is not device memory */
        f.process = (now > filled ? now - filled : 0) + RUNNING_BYTES;
    f.total += f.process;
    f.largest_batch = largest(&f, t);
    *out = f;
done:
    pg__mem_free(n.arenas);
    pg__mem_free(n.scratch);
    pg__mem_free(n.n_lanes);
    return st;
}

/* Memory is not proportional to the batch: the workspaces of libraries vary. So the largest batch
 * is planned, without running it, and corrected while that changes much. A fiftieth is left for
 * memory that libraries take at first use, and for fragmentation. */
static void try_largest(pg_forecast *f, pg_trainer *t, const pg__beside *beside)
{
    const uint64_t room = f->available - f->available / 50 + filled_bytes(f, t);
    size_t fits = 0, too_many = f->batch_size, next = f->largest_batch ? f->largest_batch : 1;
    for (int k = 0; k < 8 && next > fits + fits / 50 && fits + 1 < too_many; k++) {
        pg_forecast g;
        next = next < too_many ? next : too_many - 1;
        if (forecast(&g, t, next, beside, NULL) != PG_OK) {
            too_many = next;
            next = fits + (too_many - fits) / 2;
            continue;
        }
        if (t->devs.is_split ? pg__memory_estimate_fits(&g, 50) : g.total <= room)
            fits = next;
        else
            too_many = next;
        if (t->devs.is_split) {
            next = g.largest_batch;
            continue;
        }
        g.available = room - (filled_bytes(&g, t) < room ? filled_bytes(&g, t) : room);
        next = largest(&g, t);
    }
    f->largest_batch = fits;
}

pg_status pg__memory_estimate_of(pg_forecast *out, pg_trainer *t, size_t batch_size,
                                 const pg__beside *beside, pg_err *err)
{
    pg_forecast f;
    const pg_status st = forecast(&f, t, batch_size, beside, err);
    if (st != PG_OK)
        return st;
    const int fits = t->devs.is_split ? pg__memory_estimate_fits(&f, 0)
                                      : f.total <= f.available + filled_bytes(&f, t);
    if (!t->devs.backend->host_memory && !fits)
        try_largest(&f, t, beside);
    for (size_t i = 0; i < t->vars.n_params; i++)
        f.checkpoint += t->vars.weights[i].n_bytes;
    const uint64_t state = f.optimizer + f.optimizer_elsewhere;
    f.checkpoint_full = f.checkpoint + (f.weights ? state / f.weights * f.checkpoint : 0);
    *out = f;
    return PG_OK;
}

pg_status pg__memory_estimate_check(pg_trainer *t, const pg_forecast *f, pg_err *err)
{
    if (t->devs.is_split)
        return pg__memory_estimate_fits(f, 0) ? PG_OK : pg__memory_estimate_refuse(f, err);
    const uint64_t has = f->process + filled_bytes(f, t); /* everything, for a rank without rows */
    const uint64_t more = f->total > has ? f->total - has : 0;
    char layer[300], batch[80];
    if (more <= f->available)
        return PG_OK;
    pg__name_largest_layer(t, layer, sizeof layer);
    (void)snprintf(batch, sizeof batch, "with this model the largest batch is %zu",
                   f->largest_batch);
    (void)pg_fail(err, PG_E_NOMEM, "%s: out of memory: a batch of %zu needs %s%s, %s are free; %s",
                  t->devs.backend->host_memory ? t->devs.backend->name : t->devs.device_names,
                  f->batch_size, pg__size_text_of(more).s, layer, pg__size_text_of(f->available).s,
                  f->largest_batch > 0 ? batch : "this model has no room for a batch of 1");
    if (f->largest_batch > 0) {
        pg_err_do(err, PG_DO_SMALLER_BATCH, NULL);
        pg_err_arg(err, "batch_size", "%zu", f->largest_batch);
        pg_err_arg(err, "accumulate", "%zu",
                   (f->batch_size + f->largest_batch - 1) / f->largest_batch);
        pg_err_arg(err, "rows", "%zu", f->batch_size);
    }
    return PG_E_NOMEM;
}
