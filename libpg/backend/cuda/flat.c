/* flat.c - updates, sums and norms of flat memory, by kernels over all of it. Sums are floats over
 * chunks of a length that follows from that of the memory, and double over the chunks' sums, in
 * their order. */
#include "backend/cuda/flat.h"

#include "base/mem.h"
#include "base/try.h"

#define CHUNK     4096u /* numbers, at least */
#define MAX_PARTS 2048u /* chunks */
#define MANY      4096u /* variables that have room from the beginning */

struct pg__flat {
    void *parts; /* of the device */
    float *host; /* where they are fetched to */
    void *norms; /* of the device: squares, then scales, of up to n_norms variables */
    size_t n_norms;
};

/* Memory for more than MANY variables is asked for when they are clipped first, which waits for all
 * work of the device: perhaps for a sum whose other ranks never come. */
static pg_status make_room(pg__flat *f, pg__rt *rt, size_t n, pg_err *err)
{
    void *norms = NULL;
    if (n <= f->n_norms)
        return PG_OK;
    const pg_status st = pg__rt_alloc(rt, &norms, 2 * n * sizeof(double), err);
    if (st != PG_OK)
        return st;
    if (f->norms)
        pg__rt_free(rt, f->norms);
    f->norms = norms;
    f->n_norms = n;
    return PG_OK;
}

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
    PG_TRY(make_room(f, rt, MANY, err));
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
    if (f->norms)
        pg__rt_free(rt, f->norms);
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

pg_status pg__cuda_update(pg__dev *d, pg__optimizer_kind kind, const pg__update *u, void *w,
                          const void *g, void *const *slots, size_t n)
{
    static const size_t n_slots[PG_N_OPTIMIZERS + 1] = {
#define PG_OPTIMIZER(name, slots) slots,
#include "ops/optimizers.def"
#undef PG_OPTIMIZER
    };
    pgk_update a = {.rates = pg__rates_of(u), .w = w, .g = g};
    for (size_t k = 0; k < n_slots[kind]; k++)
        a.s[k] = slots[k];
    a.s[PG_SLOT_AVERAGE] = slots[PG_SLOT_AVERAGE];
    switch (kind) {
#define PG_OPTIMIZER(name, slots) \
    case PG_OPT_##name:           \
        return PG_LAUNCH(d, update_##name, &a, n);
#include "ops/optimizers.def"
#undef PG_OPTIMIZER
    case PG_N_OPTIMIZERS: break;
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

/* Queues the sums of chunks; *n of them lie in the device's parts then. */
static pg_status square(pg__dev *d, const void *g, size_t n, uint64_t *n_parts)
{
    const pgk_squares a = {.g = {pg__cuda_const(g), PGK_F32},
                           .parts = {d->flat->parts, PGK_F32},
                           .n = n,
                           .chunk = chunk_for(n)};
    *n_parts = (a.n + a.chunk - 1) / a.chunk;
    return PG_LAUNCH(d, squares, &a, *n_parts);
}

static pg_status penalise(pg__dev *d, void *g, const void *w, size_t n, double l1, double l2,
                          uint64_t *n_parts)
{
    const pgk_regularise a = {.g = {g, PGK_F32},
                              .w = {pg__cuda_const(w), PGK_F32},
                              .parts = {d->flat->parts, PGK_F32},
                              .n = n,
                              .chunk = chunk_for(n),
                              .l1 = (float)l1,
                              .l2 = (float)l2};
    *n_parts = (a.n + a.chunk - 1) / a.chunk;
    return PG_LAUNCH(d, regularise, &a, *n_parts);
}

pg_status pg__cuda_squares(pg__dev *d, const void *g, size_t n, double *sum)
{
    uint64_t n_parts;
    const pg_status st = square(d, g, n, &n_parts);
    return st == PG_OK && n_parts > 0 ? add_parts(d, n_parts, sum) : st;
}

pg_status pg__cuda_regularise(pg__dev *d, void *g, const void *w, size_t n, double l1, double l2,
                              double *penalty)
{
    uint64_t n_parts;
    const pg_status st = penalise(d, g, w, n, l1, l2, &n_parts);
    return st == PG_OK && n_parts > 0 && penalty ? add_parts(d, n_parts, penalty) : st;
}

/* ---- of all variables: sums stay in the device's memory ---- */

static pg_status sum_parts(pg__dev *d, uint64_t n_parts, void *sum, size_t slot, int adds)
{
    const pgk_add_parts a = {
        .parts = {d->flat->parts, PGK_F32}, .sum = sum, .n = n_parts, .slot = slot, .adds = adds};
    return PG_LAUNCH(d, add_parts, &a, 1);
}

pg_status pg__cuda_penalty_of_all(pg__dev *d, const pg__piece *w, size_t n, void *sum)
{
    uint64_t n_parts;
    pg_status st = pg__rt_clear(d->rt, sum, sizeof(double), &d->failure);
    for (size_t i = 0; i < n && st == PG_OK; i++) {
        if (!w[i].p || (w[i].l1 == 0 && w[i].l2 == 0))
            continue;
        PG_TRY(penalise(d, NULL, w[i].p, w[i].n, w[i].l1, w[i].l2, &n_parts));
        PG_TRY(sum_parts(d, n_parts, sum, 0, 1));
    }
done:
    return st;
}

static pg_status find_scales(pg__dev *d, const pg__piece *g, size_t n, const pg__norm_limits *l,
                             void *squares, void *scales)
{
    const pgk_clip_scales a = {.squares = squares, .scales = scales, .n = n, .limits = *l};
    uint64_t n_parts;
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++) {
        n_parts = 0;
        if (g[i].p)
            PG_TRY(square(d, g[i].p, g[i].n, &n_parts));
        PG_TRY(sum_parts(d, n_parts, squares, i, 0));
    }
    PG_TRY(PG_LAUNCH(d, clip_scales, &a, 1));
done:
    return st;
}

pg_status pg__cuda_clip_all(pg__dev *d, const pg__piece *g, size_t n, const pg__norm_limits *l,
                            double limit)
{
    const int by_norm = l->each > 0 || l->together > 0;
    pg_status st = make_room(d->flat, d->rt, n, &d->failure);
    double *squares = d->flat->norms, *scales = squares ? squares + n : NULL;
    if (st == PG_OK && by_norm)
        st = find_scales(d, g, n, l, squares, scales);
    for (size_t i = 0; i < n && st == PG_OK; i++) {
        const pgk_clip a = {.g = {g[i].p, PGK_F32},
                            .found = by_norm ? scales + i : NULL,
                            .scale = 1,
                            .limit = (float)limit};
        if (g[i].p)
            st = PG_LAUNCH(d, clip, &a, g[i].n);
    }
    return st;
}
