/* model_parallel.c - see model_parallel.h. Each device's variables are contiguous in its own
 * memory, in model order; a flat in host memory has all of them in model order, so that saved files
 * do not depend on the placement. */
#include "train/step/model_parallel.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/devices.h"
#include "train/step/optimizer_shard.h"

static uint64_t room_of(const pg__trainer_vars *vars, size_t i)
{
    return vars->offsets[i + 1] - vars->offsets[i];
}

pg_status pg__mp_plan(pg_trainer *t, pg_err *err)
{
    if (!t->devs.is_split)
        return PG_OK;
    t->vars.part_of = pg__mem_array(t->vars.n_params, sizeof *t->vars.part_of);
    t->vars.part_at = pg__mem_array(t->vars.n_params, sizeof *t->vars.part_at);
    t->vars.part_elems = pg__mem_array(t->devs.n_devices, sizeof *t->vars.part_elems);
    t->devs.parts = pg__mem_array(t->devs.n_devices, sizeof *t->devs.parts);
    if (!t->vars.part_of || !t->vars.part_at || !t->vars.part_elems || !t->devs.parts)
        return pg__nomem(err);
    for (size_t i = 0; i < t->vars.n_params; i++) {
        const size_t d = t->net.built_params.params[i].device;
        t->vars.part_of[i] = d;
        t->vars.part_at[i] = t->vars.part_elems[d];
        t->vars.part_elems[d] += room_of(&t->vars, i);
    }
    return PG_OK;
}

void pg__mp_free(pg_trainer *t)
{
    pg__mem_free(t->vars.part_of);
    pg__mem_free(t->vars.part_at);
    pg__mem_free(t->vars.part_elems);
    pg__mem_free(t->devs.parts);
}

pg__dev *pg__param_dev(const pg_trainer *t, size_t param)
{
    return t->devs.is_split ? t->devs.devices[t->vars.part_of[param]].dev : t->devs.dev;
}

uint64_t pg__mp_bytes(const pg_trainer *t, size_t device)
{
    const uint64_t n =
        t->devs.is_split ? t->vars.part_elems[device] : t->vars.offsets[t->vars.n_params];
    return n * t->devs.backend->real_bytes;
}

/* ---- flats ---- */

pg_status pg__mp_alloc(pg_trainer *t, pg__flat *f, pg_err *err)
{
    pg_status st = PG_OK;
    f->parts = pg__mem_array(t->devs.n_devices, sizeof *f->parts);
    if (!f->parts)
        return pg__nomem(err);
    for (size_t d = 0; d < t->devs.n_devices; d++)
        PG_TRY(t->devs.backend->alloc(t->devs.devices[d].dev, &f->parts[d],
                                      (size_t)pg__mp_bytes(t, d), err));
    for (size_t i = 0; i < t->vars.n_params; i++)
        f->at[i] =
            (char *)f->parts[t->vars.part_of[i]] + t->vars.part_at[i] * t->devs.backend->real_bytes;
    f->mem = f->parts[0];
done:
    return st;
}

void pg__mp_release(pg__trainer_devs *devs, pg__flat *f)
{
    for (size_t d = 0; d < devs->n_devices; d++)
        if (f->parts[d])
            devs->backend->free(devs->devices[d].dev, f->parts[d]);
    pg__mem_free(f->parts);
}

/* One piece for the whole flat if it is not divided, else a piece for each variable. */
static size_t n_pieces(const pg_trainer *t)
{
    return t->devs.is_split ? t->vars.n_params : t->vars.n_params > 0;
}

static size_t bytes_of(const pg_trainer *t, size_t piece)
{
    const uint64_t n =
        t->devs.is_split ? room_of(&t->vars, piece) : t->vars.offsets[t->vars.n_params];
    return (size_t)n * t->devs.backend->real_bytes;
}

pg_status pg__flat_get(pg_trainer *t, void *to, const pg__flat *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < n_pieces(t); i++) {
        pg__dev *dev = pg__param_dev(t, i);
        st =
            t->devs.backend->get(dev, (char *)to + t->vars.offsets[i] * t->devs.backend->real_bytes,
                                 f->at[i], bytes_of(t, i));
        PG_TRY(pg__device_failed(&t->devs, dev, st, err));
    }
done:
    return st;
}

pg_status pg__flat_put(pg_trainer *t, pg__flat *f, uint64_t at, const void *from, size_t n,
                       pg_err *err)
{
    pg_status st = PG_OK;
    if (pg__opt_shard_is(t, f)) {
        pg__opt_shard_put(t, f, at, from, n);
        return PG_OK;
    }
    for (size_t i = 0; i < n_pieces(t); i++) {
        const uint64_t begin = t->vars.offsets[i] * t->devs.backend->real_bytes,
                       end = begin + bytes_of(t, i);
        const uint64_t lo = begin > at ? begin : at, hi = end < at + n ? end : at + n;
        pg__dev *dev = pg__param_dev(t, i);
        if (lo >= hi)
            continue;
        st = t->devs.backend->put(dev, (char *)f->at[i] + (lo - begin),
                                  (const char *)from + (lo - at), (size_t)(hi - lo));
        PG_TRY(pg__device_failed(&t->devs, dev, st, err));
    }
done:
    return st;
}

pg_status pg__mp_add(pg_trainer *t, pg__flat *a, const pg__flat *b)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < t->devs.n_devices && st == PG_OK; d++)
        if (t->vars.part_elems[d] > 0)
            st = t->devs.backend->flat.accumulate(t->devs.devices[d].dev, a->parts[d], b->parts[d],
                                                  (size_t)t->vars.part_elems[d]);
    return st;
}

pg_status pg__mp_squares(pg_trainer *t, const pg__flat *a, double *sum)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < t->devs.n_devices && st == PG_OK; d++)
        if (t->vars.part_elems[d] > 0)
            st = t->devs.backend->flat.squares(t->devs.devices[d].dev, a->parts[d],
                                               (size_t)t->vars.part_elems[d], sum);
    return st;
}

pg_status pg__mp_scale(pg_trainer *t, pg__flat *a, double by)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < t->devs.n_devices && st == PG_OK; d++)
        if (t->vars.part_elems[d] > 0)
            st = t->devs.backend->flat.clip(t->devs.devices[d].dev, a->parts[d],
                                            (size_t)t->vars.part_elems[d], by, 0);
    return st;
}

/* One sum over everything nearly always decides; if it is not finite, untrained variables may be
 * the reason. */
pg_status pg__grads_finite(pg_trainer *t, pg__dev *dev, const pg__flat *grads, int *finite)
{
    const size_t n = (size_t)t->vars.offsets[t->vars.n_params];
    double sum = 0;
    pg_status st = t->devs.is_split ? pg__mp_squares(t, grads, &sum)
                                    : t->devs.backend->flat.squares(dev, grads->mem, n, &sum);
    const int all = isfinite(sum);
    sum = 0;
    for (size_t i = 0; i < t->vars.n_params && !all && st == PG_OK; i++)
        if (t->vars.trained[i])
            st = t->devs.backend->flat.squares(t->devs.is_split ? pg__param_dev(t, i) : dev,
                                               grads->at[i], t->vars.n_elems[i], &sum);
    *finite = all || isfinite(sum);
    return st;
}

/* ---- what a step runs on ---- */

void pg__mp_equip(pg_trainer *t, void *arena)
{
    for (size_t d = 0; t->devs.is_split && d < t->devs.n_devices; d++)
        t->devs.parts[d] =
            (pg__frame_part){t->pool.workers[d].dev, d == 0 ? arena : t->pool.workers[d].arena.mem,
                             t->pool.workers[d].scratch.mem};
}
