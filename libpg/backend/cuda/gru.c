/* gru.c - GRU on a GPU, see ops/ref_gru.c. A reset gate that acts before the product needs a second
 * product in every step, of the reset state with the candidate's columns. */
#include "backend/cuda/recur.h"

#include "base/try.h"

enum { STATES = STATE + 1, GATES, PARTS };

/* The candidate's product, of the state times the reset gate. */
static pg_status reset(pg__recur_run *r, const pgk_gru *a)
{
    const pgk_real kernel = pg__past(r->v[KERNEL], 2 * r->z.units);
    const pgk_real to = pg__past(a->parts, r->z.s * r->z.units);
    pg_status st = PG_OK;
    PG_TRY(PG_LAUNCH(r->d, gru_reset, a, pg__recur_units(r)));
    if (a->product)
        PG_TRY(pg__blas_run(r->d, r->k->reset, a->reset.p, kernel.p, to.p, NULL, r->scratch));
done:
    return st;
}

static pg_status step(pg__recur_run *r)
{
    const pgk_gru a = {.z = r->z,
                       .o = pg__recur_outputs(r),
                       .zx = r->v[ZX],
                       .bias = r->v[BIAS],
                       .h0 = r->v[H0],
                       .gates = r->out[GATES],
                       .parts = r->out[PARTS],
                       .reset = pg__recur_scratch(r, r->k->reset_at),
                       .product = pg__recur_has_state(r)};
    pg_status st = PG_OK;
    if (!r->z.attrs.reset_after)
        PG_TRY(reset(r, &a));
    PG_TRY(PG_LAUNCH(r->d, gru, &a, pg__recur_units(r)));
done:
    return st;
}

static const pg__recur_cell forward = {.kind = PG_OP_gru,
                                       .gates = 3,
                                       .has_reset = 1,
                                       .states = STATES,
                                       .room = GATES,
                                       .products = GATES,
                                       .step = step};

PG_RECUR(gru, forward);

/* ---- gradient ---- */

enum { G_STATES = DSTATE + 1, G_GATES, G_PARTS };
enum { DKERNEL, DBIAS, DZX, DH0 };

/* dz of the reset gates, which act before the product, and their part of dh. */
static pg_status reset_back(pg__recur_run *r, const pgk_gru_grad *a)
{
    const uint64_t n = r->z.units;
    const pgk_real dz = pg__past(a->dzx, r->z.t * r->z.width + 2 * n);
    const pgk_real kernel = pg__past(r->v[KERNEL], 2 * n);
    pg_status st = PG_OK;
    if (!pg__recur_has_state(r))
        return PG_OK;
    PG_TRY(pg__blas_run(r->d, r->k->reset, dz.p, kernel.p, a->reset.p, NULL, r->scratch));
    PG_TRY(PG_LAUNCH(r->d, gru_reset_grad, a, pg__recur_units(r)));
done:
    return st;
}

static pg_status step_back(pg__recur_run *r)
{
    const int after = r->z.attrs.reset_after;
    const pgk_real work = pg__recur_scratch(r, r->k->reset_at);
    const pgk_gru_grad a = {.z = r->z,
                            .in = pg__recur_incoming(r),
                            .states = r->v[G_STATES],
                            .h0 = r->v[H0],
                            .gates = r->v[G_GATES],
                            .parts = r->v[G_PARTS],
                            .dzx = r->out[DZX],
                            .products = work,
                            .reset = work};
    pg_status st = PG_OK;
    PG_TRY(PG_LAUNCH(r->d, gru_grad, &a, pg__recur_units(r)));
    if (!after)
        PG_TRY(reset_back(r, &a));
    PG_TRY(pg__recur_multiply_back(r, after ? work : a.dzx));
done:
    return st;
}

/* The candidate's columns of the kernel, where the reset gate acts before its product. */
static pg_status candidate(pg__recur_run *r)
{
    const pg__recur *k = r->k;
    const uint64_t n = r->z.units;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_befores(r, r->v[G_GATES], 2));
    PG_TRY(pg__blas_run(r->d, k->reset_kernel, r->scratch + k->copies,
                        pg__past(r->out[DZX], 2 * n).p, pg__past(r->out[DKERNEL], 2 * n).p, NULL,
                        r->scratch));
done:
    return st;
}

/* Kernel and bias. */
static pg_status parameters(pg__recur_run *r)
{
    const int after = r->z.attrs.reset_after;
    const pgk_real work = pg__recur_scratch(r, r->k->reset_at);
    void *dbias = r->out[DBIAS].p;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_kernel(r, after ? work : r->out[DZX]));
    if (!after && r->out[DKERNEL].p)
        PG_TRY(candidate(r));
    if (after && dbias)
        PG_TRY(pg__columns_run(r->d, &r->k->bias, work, dbias, r->scratch));
    else if (dbias)
        PG_TRY(pg__rt_clear(r->d->rt, dbias, (size_t)r->z.width * sizeof(float), &r->d->failure));
done:
    return st;
}

static const pg__recur_cell gradient = {.kind = PG_OP_gru,
                                        .is_gradient = 1,
                                        .gates = 3,
                                        .has_reset = 1,
                                        .states = G_STATES,
                                        .room = G_GATES,
                                        .dzx = DZX,
                                        .dh0 = DH0,
                                        .dbias = DBIAS,
                                        .step = step_back,
                                        .parameters = parameters};

PG_RECUR(gru_grad, gradient);
