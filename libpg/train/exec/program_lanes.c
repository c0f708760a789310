/* program_lanes.c - runs several lanes of equal rows at once, call by call.
 *
 * Their values are contiguous, lane after lane. So an operation whose bits for a row do not depend
 * on other rows, and whose weights exceed the cache, is one call for all; other operations are
 * called lane by lane. Gradients of parameters are summed at once, while they are in the cache:
 * lanes need no gradients of their own. */
#include "train/exec/program_impl.h"

#include "base/mem.h"
#include "base/try.h"

static uint64_t whole(uint64_t n_bytes)
{
    return (n_bytes + PG_ALIGN - 1) / PG_ALIGN * PG_ALIGN;
}

static uint64_t bytes_of(const pg__program *p, pg__val v)
{
    const pg__value *value = &p->model.tape.values[v];
    return pg__dims_elems(&value->shape) * pg__elem_bytes(value->elem, p->backend->real_bytes);
}

static size_t n_elems(const pg__program *p, pg__val v)
{
    return (size_t)pg__dims_elems(&p->model.tape.values[v].shape);
}

static pg__where place_of(const pg__program *p, const pg__step_call *c, uint32_t k)
{
    const pg__val v = p->operands[c->first + k];
    return v == PG_NO_VAL ? PG_NOWHERE : p->homes[v].place;
}

/* Is it a gradient that can be summed at once? */
static int is_summed(const pg__program *p, const pg__step_call *c, uint32_t k)
{
    const pg__val v = p->operands[c->first + k];
    return place_of(p, c, k) == PG_IN_GRAD && p->kept[p->homes[v].at].place == PG_NOWHERE;
}

/* Gradients that are read again, or come from several calls, are summed at the end. */
static void find_kept(pg__program *p)
{
    p->lane_bytes = p->arena_bytes;
    for (size_t i = 0; i < p->model.n_params; i++)
        p->kept[i] = (pg__home){PG_NOWHERE, 0, 0};
    for (size_t i = 0; i < p->n_calls; i++)
        for (uint32_t k = 0; k < p->calls[i].n; k++) {
            const pg__val v = p->operands[p->calls[i].first + k];
            if (!is_summed(p, &p->calls[i], k) ||
                (k >= p->calls[i].n_in && p->settled[p->homes[v].at] == i + 1))
                continue;
            const uint64_t n = whole(bytes_of(p, v));
            p->kept[p->homes[v].at] = (pg__home){PG_IN_ARENA, p->lane_bytes, n};
            p->lane_bytes += n;
        }
}

/* Bytes of a call's gradients that are summed right after it. */
static uint64_t sums_of(const pg__program *p, const pg__step_call *c)
{
    uint64_t n = 0;
    for (uint32_t k = c->n_in; k < c->n; k++)
        if (is_summed(p, c, k))
            n += whole(bytes_of(p, p->operands[c->first + k]));
    return n;
}

/* Are all operands and results of the call contiguous, lane after lane? */
static int lies_in_one_piece(const pg__program *p, const pg__step_call *c)
{
    for (uint32_t k = 0; k < c->n; k++) {
        const pg__where w = place_of(p, c, k);
        const pg__val v = p->operands[c->first + k];
        if (w == PG_IN_ARENA && p->homes[v].each != bytes_of(p, v))
            return 0;
        if (w != PG_IN_ARENA && w != PG_IN_INPUT && w != PG_IN_PARAM && w != PG_NOWHERE &&
            !is_summed(p, c, k))
            return 0;
    }
    return 1;
}

static pg_status join_call(pg__program *p, pg__step_call *c, size_t n, pg_err *err)
{
    size_t scratch = 0;
    if (!c->kernel || !p->backend->prepare_lanes || !lies_in_one_piece(p, c))
        return PG_OK;
    const pg_status st = p->backend->prepare_lanes(&c->lanes, p->dev, c->kernel, n, &scratch, err);
    p->scratch_bytes = scratch > p->scratch_bytes ? scratch : p->scratch_bytes;
    return st;
}

pg_status pg__program_join_lanes(pg__program *p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    p->n_lanes = 1;
    if (n < 2 || p->apart || p->n_devices > 1 || !p->backend->host_memory)
        return PG_OK;
    p->kept = pg__mem_array(p->model.n_params, sizeof *p->kept);
    if (!p->kept)
        return pg__nomem(err);
    find_kept(p);
    for (size_t i = 0; i < p->n_calls; i++) {
        pg__step_call *c = &p->calls[i];
        const uint64_t bytes = sums_of(p, c);
        c->gives_gradients = bytes > 0;
        PG_TRY(join_call(p, c, n, err));
        if (!c->lanes && bytes > p->sum_bytes)
            p->sum_bytes = bytes;
    }
    p->n_lanes = n;
done:
    return st;
}

size_t pg__program_lanes(const pg__program *p)
{
    return p->n_lanes;
}

/* Partial sums that wait for their second half: one for each level of the tree. */
uint64_t pg__program_lanes_bytes(const pg__program *p)
{
    uint64_t n = p->n_lanes * p->lane_bytes;
    for (size_t k = p->n_lanes; k > 1; k /= 2)
        n += p->sum_bytes;
    return n;
}

/* ---- running them ---- */

/* The lanes of a run, and the memory of their sums. */
typedef struct run {
    const pg__program *p;
    const pg__frame *const *f;
    const pg__step_call *c;
} run;

/* into: where gradients go; NULL: to their usual place. */
static pg_status run_one(const run *r, size_t lane, char *into)
{
    const pg__frame *f = r->f[lane];
    pg__call_bind(r->p, f, r->c);
    for (uint32_t k = r->c->n_in; into && k < r->c->n; k++) {
        if (!is_summed(r->p, r->c, k))
            continue;
        f->args[k] = f->args[k] ? into : NULL;
        into += whole(bytes_of(r->p, r->p->operands[r->c->first + k]));
    }
    return pg__call_do(r->p, f, r->c, r->c->kernel, 1);
}

/* into += from */
static pg_status add(const run *r, char *into, const char *from)
{
    const pg__program *p = r->p;
    const pg__frame *f = r->f[0];
    pg_status st = PG_OK;
    for (uint32_t k = r->c->n_in; k < r->c->n && st == PG_OK; k++) {
        const pg__val v = p->operands[r->c->first + k];
        if (!is_summed(p, r->c, k))
            continue;
        void *own = pg__home_at(f, p->homes[v], NULL);
        if (own)
            st = p->backend->flat.accumulate(f->dev, into ? into : own, from, n_elems(p, v));
        into += into ? whole(bytes_of(p, v)) : 0;
        from += whole(bytes_of(p, v));
    }
    return st;
}

/* Lanes [lo, lo + n), a complete subtree. Recurses as deep as the tree. */
static pg_status run_tree(const run *r, size_t lo, size_t n, char *into, char *spare)
{
    pg_status st = PG_OK;
    if (n == 1)
        return run_one(r, lo, into);
    PG_TRY(run_tree(r, lo, n / 2, into, spare));
    PG_TRY(run_tree(r, lo + n / 2, n / 2, spare, spare + r->p->sum_bytes));
    PG_TRY(add(r, into, spare));
done:
    return st;
}

static pg_status run_each(const run *r)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < r->p->n_lanes && st == PG_OK; k++)
        st = run_one(r, k, NULL);
    return st;
}

/* Sums the gradients that lanes kept. */
static pg_status sum_kept(const pg__program *p, const pg__frame *const *f)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < p->model.n_params && st == PG_OK; i++) {
        if (p->kept[i].place == PG_NOWHERE || !f[0]->grads[i])
            continue;
        const pg__val v = p->model.tape.values[p->model.params[i].value].grad;
        for (size_t size = 1; size < p->n_lanes; size *= 2)
            for (size_t lo = 0; lo < p->n_lanes && st == PG_OK; lo += 2 * size)
                st = p->backend->flat.accumulate(
                    f[0]->dev, pg__home_at(f[lo], p->kept[i], f[0]->arena),
                    pg__home_at(f[lo + size], p->kept[i], f[0]->arena), n_elems(p, v));
        if (st == PG_OK)
            st = p->backend->copy(f[0]->dev, f[0]->grads[i],
                                  pg__home_at(f[0], p->kept[i], f[0]->arena),
                                  (size_t)bytes_of(p, v));
    }
    return st;
}

pg_status pg__program_run_lanes(const pg__program *p, const pg__frame *const *f, size_t *at,
                                int *meets)
{
    char *spare = (char *)f[0]->arena + p->n_lanes * p->lane_bytes;
    *meets = 0;
    for (; *at < p->n_calls; (*at)++) {
        const run r = {p, f, &p->calls[*at]};
        pg_status st;
        if (!r.c->kernel) {
            *meets = 1;
            return PG_OK;
        }
        if (r.c->lanes) {
            pg__call_bind(p, f[0], r.c);
            st = pg__call_do(p, f[0], r.c, r.c->lanes, p->n_lanes);
        } else {
            st = r.c->gives_gradients ? run_tree(&r, 0, p->n_lanes, NULL, spare) : run_each(&r);
        }
        if (st != PG_OK)
            return st;
    }
    return sum_kept(p, f);
}
