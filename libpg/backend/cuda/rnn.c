/* rnn.c - the simple recurrent cell on a GPU, see ops/ref_rnn.c. */
#include "backend/cuda/recur.h"

#include "base/try.h"

enum { STATES = STATE + 1 };

PG_CUDA_PREPARE(prepare)
{
    pg__recur *k = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_new(&k, i, 1, err));
    PG_TRY(pg__recur_plan_forward(k, i->dev, needs, err));
    *state = k;
    k = NULL;
done:
    pg__recur_release(k);
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
    pgk_rnn a = {.o = {out[STATES], out[Y], out[LAST], out[STATE]}, .zx = r.v[ZX], .h0 = r.v[H0]};
    for (uint64_t s = 0; s < r.z.steps; s++) {
        pg__recur_at(&r, s);
        PG_TRY(pg__recur_multiply(&r, out[STATES], out[STATES]));
        a.z = r.z;
        a.product = pg__recur_has_state(&r);
        PG_TRY(PG_LAUNCH(d, rnn, &a, pg__recur_units(&r)));
    }
done:
    return st;
}
const pg__cuda_op pg__cuda_rnn = {.prepare = prepare, .release = pg__recur_release, .run = run};

/* ---- gradient ---- */

enum { G_STATES = DSTATE + 1 };
enum { DKERNEL, DZX, DH0 };

PG_CUDA_PREPARE(prepare_grad)
{
    pg__recur *k = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_new(&k, i, 1, err));
    PG_TRY(pg__recur_plan_backward(k, i->dev, needs, err));
    *state = k;
    k = NULL;
done:
    pg__recur_release(k);
    return st;
}

static pg_status run_grad(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    pg__recur_run r;
    pg_status st = PG_OK;
    (void)shared;
    PG_TRY(pg__recur_begin(&r, d, state, args, scratch));
    const pgk_real *out = r.v + r.k->n_in;
    pgk_rnn_grad a = {
        .in = pg__recur_incoming(&r, out[DH0]), .states = r.v[G_STATES], .dzx = out[DZX]};
    for (uint64_t s = r.z.steps; s-- > 0;) {
        pg__recur_at(&r, s);
        a.z = r.z;
        PG_TRY(PG_LAUNCH(d, rnn_grad, &a, pg__recur_units(&r)));
        PG_TRY(pg__recur_multiply_back(&r, out[DZX], out[DH0]));
    }
    PG_TRY(pg__recur_finish(&r, out[DH0]));
    PG_TRY(pg__recur_kernel(&r, r.v[G_STATES], out[DZX], out[DKERNEL].p));
done:
    return st;
}
const pg__cuda_op pg__cuda_rnn_grad = {
    .prepare = prepare_grad, .release = pg__recur_release, .run = run_grad};
