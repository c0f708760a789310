/* lstm.c - LSTM on a GPU, see ops/ref_lstm.c. */
#include "backend/cuda/recur.h"

#include "base/try.h"

enum { CELL = STATE + 1, STATES, GATES, CELLS };

static pg_status step(pg__recur_run *r)
{
    const pgk_lstm a = {.z = r->z,
                        .o = pg__recur_outputs(r),
                        .zx = r->v[ZX],
                        .h0 = r->v[H0],
                        .c0 = r->v[C0],
                        .gates = r->out[GATES],
                        .cells = r->out[CELLS],
                        .cell = r->out[CELL],
                        .product = pg__recur_has_state(r)};
    return PG_LAUNCH(r->d, lstm, &a, pg__recur_units(r));
}

static const pg__recur_cell forward = {.kind = PG_OP_lstm,
                                       .gates = 4,
                                       .states = STATES,
                                       .room = GATES,
                                       .cell = CELL,
                                       .products = GATES,
                                       .step = step};
PG_RECUR(lstm, forward);

/* ---- gradient ---- */

enum { DCELL = DSTATE + 1, G_STATES, G_GATES, G_CELLS };
enum { DKERNEL, DZX, DH0, DC0 };

static pg_status step_back(pg__recur_run *r)
{
    const pgk_lstm_grad a = {.z = r->z,
                             .in = pg__recur_incoming(r),
                             .gates = r->v[G_GATES],
                             .cells = r->v[G_CELLS],
                             .c0 = r->v[C0],
                             .dcell = r->v[DCELL],
                             .dc = r->out[DC0],
                             .dzx = r->out[DZX]};
    pg_status st = PG_OK;
    PG_TRY(PG_LAUNCH(r->d, lstm_grad, &a, pg__recur_units(r)));
    PG_TRY(pg__recur_multiply_back(r, a.dzx));
done:
    return st;
}

static const pg__recur_cell gradient = {.kind = PG_OP_lstm,
                                        .is_gradient = 1,
                                        .gates = 4,
                                        .states = G_STATES,
                                        .room = G_GATES,
                                        .cell = DCELL,
                                        .dzx = DZX,
                                        .dh0 = DH0,
                                        .dc0 = DC0,
                                        .step = step_back,
                                        .parameters = pg__recur_one_kernel};

PG_RECUR(lstm_grad, gradient);
