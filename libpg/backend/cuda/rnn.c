/* rnn.c - the simple recurrent cell on a GPU, see ops/ref_rnn.c. */
#include "backend/cuda/recur.h"

#include "base/try.h"

enum { STATES = STATE + 1 };

static pg_status step(pg__recur_run *r)
{
    const pgk_rnn a = {.z = r->z,
                       .o = pg__recur_outputs(r),
                       .zx = r->v[ZX],
                       .h0 = r->v[H0],
                       .product = pg__recur_has_state(r)};
    return PG_LAUNCH(r->d, rnn, &a, pg__recur_units(r));
}

static const pg__recur_cell forward = {.kind = PG_OP_rnn,
                                       .gates = 1,
                                       .states = STATES,
                                       .room = STATES,
                                       .products = STATES,
                                       .step = step};

PG_RECUR(rnn, forward);

/* ---- gradient ---- */

enum { G_STATES = DSTATE + 1 };
enum { DKERNEL, DZX, DH0 };

static pg_status step_back(pg__recur_run *r)
{
    const pgk_rnn_grad a = {
        .z = r->z, .in = pg__recur_incoming(r), .states = r->v[G_STATES], .dzx = r->out[DZX]};
    pg_status st = PG_OK;
    PG_TRY(PG_LAUNCH(r->d, rnn_grad, &a, pg__recur_units(r)));
    PG_TRY(pg__recur_multiply_back(r, a.dzx));
done:
    return st;
}

static const pg__recur_cell gradient = {.kind = PG_OP_rnn,
                                        .is_gradient = 1,
                                        .gates = 1,
                                        .states = G_STATES,
                                        .room = G_STATES,
                                        .dzx = DZX,
                                        .dh0 = DH0,
                                        .step = step_back,
                                        .parameters = pg__recur_one_kernel};

PG_RECUR(rnn_grad, gradient);
