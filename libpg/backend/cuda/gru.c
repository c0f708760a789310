/* gru.c - GRU on a GPU, see ops/ref_gru.c. A reset gate that acts before the product needs a second
 * product in every step, of the reset state with the candidate's columns. */
#include "backend/cuda/recur.h"

#include "base/try.h"

enum { STATES = STATE + 1, GATES, PARTS };

static uint64_t gates_of(const pg__cuda_inst *i)
{
    return ((const pg__rnn_attrs *)i->attrs)->reset_after ? 3 : 2;
}

PG_CUDA_PREPARE(prepare)
{
    pg__recur *k = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_new(&k, i, gates_of(i), err));
    PG_TRY(pg__recur_plan_forward(k, i->dev, needs, err));
    *state = k;
    k = NULL;
done:
    pg__recur_release(k);
    return st;
}

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

static pg_status run(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared)
{
    pg__recur_run r;
    pg_status st = PG_OK;
    (void)shared;
    PG_TRY(pg__recur_begin(&r, d, state, args, scratch));
    const pgk_real *out = r.v + r.k->n_in;
    pgk_gru a = {.o = {out[STATES], out[Y], out[LAST], out[STATE]},
                 .zx = r.v[ZX],
                 .bias = r.v[BIAS],
                 .h0 = r.v[H0],
                 .gates = out[GATES],
                 .parts = out[PARTS],
                 .reset = pg__recur_scratch(&r, r.k->reset_at)};
    for (uint64_t s = 0; s < r.z.steps; s++) {
        pg__recur_at(&r, s);
        PG_TRY(pg__recur_multiply(&r, out[STATES], out[GATES]));
        a.z = r.z;
        a.product = pg__recur_has_state(&r);
        if (!r.z.attrs.reset_after)
            PG_TRY(reset(&r, &a));
        PG_TRY(PG_LAUNCH(d, gru, &a, pg__recur_units(&r)));
    }
done:
    return st;
}
const pg__cuda_op pg__cuda_gru = {.prepare = prepare, .release = pg__recur_release, .run = run};

/* ---- gradient ---- */

enum { G_STATES = DSTATE + 1, G_GATES, G_PARTS };
enum { DKERNEL, DBIAS, DZX, DH0 };

PG_CUDA_PREPARE(prepare_grad)
{
    pg__recur *k = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_new(&k, i, gates_of(i), err));
    PG_TRY(pg__recur_plan_backward(k, i->dev, needs, err));
    const uint64_t all = k->z.rows * k->z.steps;
    k->reset_at = pg__cuda_reserve(
        needs, (size_t)(k->reset ? k->z.rows * k->z.units : all * k->z.width) * sizeof(float));
    k->bias = pg__columns_new(all, k->z.width, needs);
    *state = k;
    k = NULL;
done:
    pg__recur_release(k);
    return st;
}

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

/* Kernel and bias. */
static pg_status parameters(pg__recur_run *r, const pgk_gru_grad *a)
{
    const pg__recur *k = r->k;
    const pgk_real *out = r->v + k->n_in;
    const int after = r->z.attrs.reset_after;
    const uint64_t n = r->z.units;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_kernel(r, a->states, after ? a->products : a->dzx, out[DKERNEL].p));
    if (!after && out[DKERNEL].p) {
        PG_TRY(pg__recur_befores(r, a->states, a->gates, 2));
        PG_TRY(pg__blas_run(r->d, k->reset_kernel, r->scratch + k->copies,
                            pg__past(a->dzx, 2 * n).p, pg__past(out[DKERNEL], 2 * n).p, NULL,
                            r->scratch));
    }
    if (after && out[DBIAS].p)
        PG_TRY(pg__columns_run(r->d, &k->bias, a->products, out[DBIAS].p, r->scratch));
    else if (out[DBIAS].p)
        PG_TRY(pg__rt_clear(r->d->rt, out[DBIAS].p, (size_t)r->z.width * sizeof(float),
                            &r->d->failure));
done:
    return st;
}

static pg_status run_grad(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    pg__recur_run r;
    pg_status st = PG_OK;
    (void)shared;
    PG_TRY(pg__recur_begin(&r, d, state, args, scratch));
    const pgk_real *out = r.v + r.k->n_in, work = pg__recur_scratch(&r, r.k->reset_at);
    const int after = r.z.attrs.reset_after;
    pgk_gru_grad a = {.in = pg__recur_incoming(&r, out[DH0]),
                      .states = r.v[G_STATES],
                      .h0 = r.v[H0],
                      .gates = r.v[G_GATES],
                      .parts = r.v[G_PARTS],
                      .dzx = out[DZX],
                      .products = work,
                      .reset = work};
    for (uint64_t s = r.z.steps; s-- > 0;) {
        pg__recur_at(&r, s);
        a.z = r.z;
        PG_TRY(PG_LAUNCH(d, gru_grad, &a, pg__recur_units(&r)));
        if (!after)
            PG_TRY(reset_back(&r, &a));
        PG_TRY(pg__recur_multiply_back(&r, after ? work : out[DZX], out[DH0]));
    }
    PG_TRY(pg__recur_finish(&r, out[DH0]));
    PG_TRY(parameters(&r, &a));
done:
    return st;
}
const pg__cuda_op pg__cuda_gru_grad = {
    .prepare = prepare_grad, .release = pg__recur_release, .run = run_grad};
