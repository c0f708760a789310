/* flat.c - updates, sums and norms of flat memory, by kernels over all of it. Sums are floats over
 * chunks of a length that follows from that of the memory, and double over the chunks' sums, in
 * their order. */
#include "backend/cuda/flat.h"

#include "base/mem.h"
#include "base/try.h"

#define CHUNK     4096u /* numbers, at least */
#define MAX_PARTS 2048u /* chunks */

struct pg__flat {
    void *parts; /* of the device */
    float *host; /* where they are fetched to */
};

pg_status pg__flat_open(pg__flat **out, pg__rt *rt, pg_err *err)
{
    pg_status st = PG_OK;
    void *host = NULL;
    pg__flat *f = pg__mem_array(1, sizeof *f);
    if (!f)
        return pg__nomem(err);
    PG_TRY(pg__rt_alloc(rt, &f->parts, MAX_PARTS * sizeof(float), err));
    PG_TRY(pg__rt_host_alloc(rt, &host, MAX_PARTS * sizeof(float), err));
    f->host = host;
    *out = f;
    f = NULL;
done:
    pg__flat_close(f, rt);
    return st;
}

void pg__flat_close(pg__flat *f, pg__rt *rt)
{
    if (!f)
        return;
    if (f->host)
        pg__rt_host_free(rt, f->host);
    if (f->parts)
        pg__rt_free(rt, f->parts);
    pg__mem_free(f);
}

pg_status pg__cuda_accumulate(pg__dev *d, void *into, const void *from, size_t n)
{
    const pgk_accumulate a = {.into = {into, PGK_F32}, .from = {pg__cuda_const(from), PGK_F32}};
    return PG_LAUNCH(d, accumulate, &a, n);
}

pg_status pg__cuda_blend(pg__dev *d, void *into, double keep, const void *from, double take,
                         size_t n)
{
    const pgk_blend a = {.into = {into, PGK_F32},
                         .from = {pg__cuda_const(from), PGK_F32},
                         .keep = (float)keep,
                         .take = (float)take};
    return PG_LAUNCH(d, blend, &a, n);
}

pg_status pg__cuda_clip(pg__dev *d, void *g, size_t n, double scale, double limit)
{
    const pgk_clip a = {.g = {g, PGK_F32}, .scale = (float)scale, .limit = (float)limit};
    return PG_LAUNCH(d, clip, &a, n);
}

pg_status pg__cuda_update(pg__dev *d, pg__optimiser_kind kind, const pg__update *u, void *w,
                          const void *g, void *const *slots, size_t n)
{
    static const size_t n_slots[PG__N_OPTIMISERS + 1] = {
#define PG_OPTIMISER(name, slots) slots,
#include "ops/optimisers.def"
#undef PG_OPTIMISER
    };
    pgk_update a = {.rates = pg__rates_of(u), .w = w, .g = g};
    for (size_t k = 0; k < n_slots[kind]; k++)
        a.s[k] = slots[k];
    switch (kind) {
#define PG_OPTIMISER(name, slots) \
    case PG__OPT_##name:          \
        return PG_LAUNCH(d, update_##name, &a, n);
#include "ops/optimisers.def"
#undef PG_OPTIMISER
    case PG__N_OPTIMISERS: break;
    }
    return pg_fail(&d->failure, PG_E_ARG, "no such update rule: %d", (int)kind);
}

/* ---- sums ---- */

static uint64_t chunk_for(size_t n)
{
    const uint64_t least = ((uint64_t)n + MAX_PARTS - 1) / MAX_PARTS;
    return least > CHUNK ? least : CHUNK;
}

/* Fetches the sums of n chunks and adds them to *sum. */
static pg_status add_parts(pg__dev *d, uint64_t n, double *sum)
{
    pg_status st = PG_OK;
    PG_TRY(
        pg__rt_get(d->rt, d->flat->host, d->flat->parts, (size_t)n * sizeof(float), &d->failure));
    PG_TRY(pg__rt_sync(d->rt, &d->failure));
    for (uint64_t i = 0; i < n; i++)
        *sum += (double)d->flat->host[i];
done:
    return st;
}

pg_status pg__cuda_squares(pg__dev *d, const void *g, size_t n, double *sum)
{
    const pgk_squares a = {.g = {pg__cuda_const(g), PGK_F32},
                           .parts = {d->flat->parts, PGK_F32},
                           .n = n,
                           .chunk = chunk_for(n)};
    const uint64_t n_parts = (a.n + a.chunk - 1) / a.chunk;
    const pg_status st = PG_LAUNCH(d, squares, &a, n_parts);
    return st == PG_OK && n_parts > 0 ? add_parts(d, n_parts, sum) : st;
}

pg_status pg__cuda_regularise(pg__dev *d, void *g, const void *w, size_t n, double l1, double l2,
                              double *penalty)
{
    const pgk_regularise a = {.g = {g, PGK_F32},
                              .w = {pg__cuda_const(w), PGK_F32},
                              .parts = {d->flat->parts, PGK_F32},
                              .n = n,
                              .chunk = chunk_for(n),
                              .l1 = (float)l1,
                              .l2 = (float)l2};
    const uint64_t n_parts = (a.n + a.chunk - 1) / a.chunk;
    const pg_status st = PG_LAUNCH(d, regularise, &a, n_parts);
    return st == PG_OK && n_parts > 0 ? add_parts(d, n_parts, penalty) : st;
}
