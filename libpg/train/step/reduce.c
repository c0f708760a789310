/* reduce.c - sums gradients in the order of the tree of lanes.h, whichever worker computed them. */
#include "base/mem.h"
#include "base/try.h"
#include "train/step/devices.h"
#include "train/step/model_parallel.h"

void pg__partials_reset(pg__worker *w)
{
    w->n_partials = w->n_spare = 0;
    for (size_t k = 0; k < PG_MAX_PARTIALS; k++)
        if (w->grads[k].mem)
            w->spare[w->n_spare++] = &w->grads[k];
}

pg_status pg__partials_begin(pg_trainer *t, pg__worker *w, pg__flat **out, pg_err *err)
{
    pg_status st = PG_OK;
    if (w->n_spare == 0) {
        size_t k = 0;
        while (k < PG_MAX_PARTIALS && w->grads[k].mem)
            k++;
        if (k == PG_MAX_PARTIALS)
            PG_FAIL(PG_E_LIMIT, "more partial sums than %d", PG_MAX_PARTIALS);
        PG_TRY(pg__flat_alloc_on(t, &w->grads[k], w->device, err));
        w->spare[w->n_spare++] = &w->grads[k];
    }
    *out = w->spare[--w->n_spare];
done:
    return st;
}

/* a += b for elements [from, to), on a's device; a lane without rows adds nothing. */
static pg_status add(pg_trainer *t, pg__dev *dev, pg__flat **a, pg__flat *b, uint64_t from,
                     uint64_t to)
{
    const size_t bytes = t->devs.backend->real_bytes;
    pg_status st = PG_OK;
    if (!*a) {
        *a = b;
        return PG_OK;
    }
    if (!b)
        return PG_OK;
    if ((*a)->parts) /* divided flats are summed whole, in place */
        return from < to ? pg__mp_add(t, *a, b) : PG_OK;
    PG_TRY(pg__flat_on(&t->devs, (*a)->device, b, from, to, &b, NULL));
    st = t->devs.backend->flat.accumulate(dev, (char *)(*a)->mem + from * bytes,
                                          (const char *)b->mem + from * bytes, (size_t)(to - from));
done:
    return st;
}

static pg__partial *partial_at(pg__worker *w, size_t lo, size_t size)
{
    for (size_t k = 0; k < w->n_partials; k++)
        if (w->partials[k].lo == lo && w->partials[k].size == size)
            return &w->partials[k];
    return NULL;
}

/* Merges another partial of the worker into p. */
static pg_status take_in(pg_trainer *t, pg__worker *w, pg__partial *p, pg__partial *other)
{
    const int is_left = other->lo < p->lo || other->lo == p->lo; /* an earlier part comes first */
    pg__flat *a = is_left ? other->grads : p->grads, *b = is_left ? p->grads : other->grads;
    const pg_status st = a ? add(t, w->dev, &a, b, 0, t->vars.offsets[t->vars.n_params]) : PG_OK;
    if (a && b)
        w->spare[w->n_spare++] = b;
    p->lo = is_left ? other->lo : p->lo;
    p->grads = a ? a : b;
    *other = w->partials[--w->n_partials];
    return st;
}

/* The parts of a lane are added one by one; whole lanes merge like a binary counter, two halves of
 * a subtree into one. */
pg_status pg__partials_end(pg_trainer *t, pg__worker *w, size_t lane, size_t n_lanes, int is_last,
                           pg__flat *grads, pg_err *err)
{
    pg__partial p = {lane, n_lanes, is_last, grads}, *other = partial_at(w, lane, n_lanes);
    pg_status st = PG_OK;
    if (other)
        PG_TRY(take_in(t, w, &p, other));
    for (; (other = partial_at(w, p.lo ^ p.size, p.size)) && is_last && other->is_whole;
         p.size *= 2)
        PG_TRY(take_in(t, w, &p, other));
    if (w->n_partials == PG_MAX_PARTIALS)
        PG_FAIL(PG_E_LIMIT, "more than %d sums of gradients at once: fewer lanes need fewer",
                PG_MAX_PARTIALS);
    w->partials[w->n_partials++] = p;
done:
    return st;
}

#define EVERYWHERE SIZE_MAX

/* device: the one it must lie on, or EVERYWHERE. */
static const pg__partial *find(const pg__trainer_pool *pool, size_t device, size_t lo, size_t size)
{
    for (size_t w = 0; w < pool->cut.n_workers; w++)
        for (size_t k = 0; k < pool->workers[w].n_partials; k++) {
            if (device != EVERYWHERE && pool->workers[w].device != device)
                break;
            const pg__partial *p = &pool->workers[w].partials[k];
            if (p->lo == lo && p->size == size)
                return p;
        }
    return NULL;
}

/* Recurses as deep as the tree, at most ten levels. */
static pg_status sum(pg_trainer *t, size_t device, size_t lo, size_t size, uint64_t from,
                     uint64_t to, pg__flat **out)
{
    const pg__partial *p = find(&t->pool, device, lo, size);
    pg__flat *right = NULL;
    pg_status st = PG_OK;
    *out = p ? p->grads : NULL;
    if (p || size == 1)
        return PG_OK;
    PG_TRY(sum(t, device, lo, size / 2, from, to, out));
    PG_TRY(sum(t, device, lo + size / 2, size / 2, from, to, &right));
    if (*out)
        PG_TRY(add(t, t->devs.devices[(*out)->device].dev, out, right, from, to));
    else
        *out = right;
done:
    return st;
}

int pg__partials_any(const pg__trainer_pool *pool)
{
    for (size_t w = 0; w < pool->cut.n_workers; w++)
        for (size_t k = 0; k < pool->workers[w].n_partials; k++)
            if (pool->workers[w].partials[k].grads)
                return 1;
    return 0;
}

pg_status pg__partials_sum(pg_trainer *t, uint64_t from, uint64_t to, pg__flat **out)
{
    return sum(t, EVERYWHERE, 0, pg__tree_top(pg__lane_count(&t->pool.cut)), from, to, out);
}

pg_status pg__partials_sum_on(pg_trainer *t, size_t device, pg__flat **out)
{
    return sum(t, device, 0, pg__tree_top(pg__lane_count(&t->pool.cut)), 0,
               t->vars.offsets[t->vars.n_params], out);
}
