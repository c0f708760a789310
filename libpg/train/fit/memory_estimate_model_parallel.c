/* memory_estimate_model_parallel.c - see memory_estimate_model_parallel.h. Counts by GPU: two
 * devices on one share its memory. */
#include "train/fit/memory_estimate_model_parallel.h"

#include "base/try.h"
#include "train/step/step.h"

/* The entry of device d's GPU in f, added if it is new. */
static pg_device_forecast *part_of(pg_forecast *f, const pg_trainer *t, size_t d)
{
    for (size_t k = 0; k < d; k++)
        if (t->devs.devices[k].ordinal == t->devs.devices[d].ordinal)
            return part_of(f, t, k);
    for (size_t k = 0; k < f->n_parts; k++)
        if (f->parts[k].device == t->devs.placed_on.v[d])
            return &f->parts[k];
    f->parts[f->n_parts].device = t->devs.placed_on.v[d];
    return &f->parts[f->n_parts++];
}

static pg_status add_free(pg_forecast *f, pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < t->devs.n_devices; d++) {
        pg_device_forecast *part = part_of(f, t, d);
        uint64_t is_free = 0, all = 0;
        if (part->room > 0)
            continue;
        PG_TRY(t->devs.backend->memory(t->devs.devices[d].dev, &is_free, &all, err));
        part->room = is_free;
        f->available += is_free;
    }
done:
    return st;
}

static size_t n_slots(const pg_trainer *t)
{
    size_t n = 0;
    for (size_t s = 0; s < PG_MAX_SLOTS; s++)
        n += t->vars.slots[s].mem != NULL;
    return n;
}

/* Memory that device d holds already will be reused. */
static void add_filled(pg_forecast *f, const pg_trainer *t)
{
    for (size_t d = 0; d < t->devs.n_devices; d++) {
        pg_device_forecast *part = part_of(f, t, d);
        uint64_t flats = 1 + n_slots(t);
        for (size_t k = 0; k < PG_MAX_PARTIALS; k++)
            flats += t->pool.workers[0].grads[k].mem != NULL;
        part->room += flats * pg__mp_bytes(t, d) + t->pool.workers[d].scratch.n_bytes +
                      (d == 0 ? t->pool.arenas[0].n_bytes : t->pool.workers[d].arena.n_bytes);
        for (size_t i = 0; i < t->programs.n_built; i++)
            part->room += pg__program_shared_on(t->programs.built[i].program, (uint32_t)d);
    }
}

typedef struct needs {
    uint64_t arena, scratch, shared;
} needs;

/* The maximum over the lanes' programs, which run one after the other. */
static pg_status plan(needs *n, pg_trainer *t, uint64_t n_rows, size_t device, pg_err *err)
{
    const pg__program *last = NULL;
    pg_status st = PG_OK;
    for (size_t k = 0; k < pg__lane_count(&t->pool.cut); k++) {
        const pg__lane lane = pg__lane_of(&t->pool.cut, n_rows, k);
        const pg__program *p = NULL;
        if (lane.n == 0)
            continue;
        PG_TRY(pg__trainer_program(t, lane.n, PG_TRAINS, &p, err));
        const uint64_t stage = device == 0 ? pg__upload_bytes(t, p, lane.n) : 0;
        const uint64_t arena = pg__program_arena_on(p, (uint32_t)device) + stage;
        const uint64_t scratch = pg__program_scratch_on(p, (uint32_t)device);
        n->arena = arena > n->arena ? arena : n->arena;
        n->scratch = scratch > n->scratch ? scratch : n->scratch;
        n->shared += p != last ? pg__program_shared_on(p, (uint32_t)device) : 0;
        last = p;
    }
done:
    return st;
}

pg_status pg__memory_estimate_mp(pg_forecast *f, pg_trainer *t, size_t batch_size, uint64_t n_flats,
                                 size_t n_programs, pg_err *err)
{
    const uint64_t rows =
        t->loop.part_rows && t->loop.part_rows < batch_size ? t->loop.part_rows : batch_size;
    pg_status st = PG_OK;
    *f = (pg_forecast){.n_devices = t->devs.n_devices, .batch_size = batch_size};
    for (size_t d = 0; d < t->devs.n_devices; d++) {
        const uint64_t flat = pg__mp_bytes(t, d);
        pg_device_forecast *part = part_of(f, t, d);
        needs n = {0};
        PG_TRY(plan(&n, t, rows, d, err));
        f->weights += flat;
        f->gradients += n_flats * flat;
        f->optimizer += n_slots(t) * flat;
        f->activations += n.arena;
        f->workspace += n.scratch + n_programs * n.shared;
        part->activations += n.arena;
        part->total +=
            (1 + n_flats + n_slots(t)) * flat + n.arena + n.scratch + n_programs * n.shared;
    }
    f->total = f->weights + f->gradients + f->optimizer + f->activations + f->workspace;
    PG_TRY(add_free(f, t, err));
    add_filled(f, t);
    f->largest_batch = pg__memory_estimate_grows(f);
done:
    return st;
}

int pg__memory_estimate_fits(const pg_forecast *f, uint64_t spare)
{
    for (size_t k = 0; k < f->n_parts; k++) {
        const uint64_t room = f->parts[k].room;
        if (f->parts[k].total > room - (spare ? room / spare : 0))
            return 0;
    }
    return 1;
}

size_t pg__memory_estimate_grows(const pg_forecast *f)
{
    size_t least = SIZE_MAX;
    for (size_t k = 0; k < f->n_parts; k++) {
        const pg_device_forecast *p = &f->parts[k];
        const uint64_t fixed = p->total - p->activations;
        if (p->room <= fixed)
            return 0;
        const double n = (double)(p->room - fixed) / (double)(p->activations ? p->activations : 1) *
                         (double)f->batch_size;
        least = n < (double)least ? (size_t)n : least;
    }
    return least;
}

pg_status pg__memory_estimate_refuse(const pg_forecast *f, pg_err *err)
{
    const pg_device_forecast *p = f->parts;
    while (p->total <= p->room)
        p++;
    (void)pg_fail(err, PG_E_NOMEM,
                  "%s: out of memory: its layers and a batch of %zu need %s, it has %s for "
                  "them",
                  p->device, f->batch_size, pg__size_text_of(p->total).s,
                  pg__size_text_of(p->room).s);
    pg_err_do(err, PG_DO_SMALLER_BATCH, NULL);
    if (f->largest_batch > 0)
        pg_err_arg(err, "batch_size", "%zu", f->largest_batch);
    pg_err_arg(err, "place", "true");
    return PG_E_NOMEM;
}
