/* op_rnn.c - recurrent layers: lstm, gru, rnn (the simple cell), each the whole sequence at once.
 * The part before the recurrence, x W + b for every step, is a separate operation (dense), so that
 * it is one matrix product. Operands and results: pg__rnn_attrs. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rnn_room.h"
#include "ops/rules.h"

enum { ZX, KERNEL, BIAS, H0, C0, MASK, FACTORS, N_IN };

/* (rows, steps, gates * units) against kernel (units, gates * units) and a state (rows, units). */
static pg_status check(const pg__dims *const *in, size_t n_in, uint64_t gates, pg_err *err)
{
    const pg__dims *zx = in[ZX], *kernel = in[KERNEL];
    if (zx->rank != 3 || kernel->rank != 2 || n_in != N_IN || zx->d[1] == 0 ||
        kernel->d[1] != pg__dim_mul(gates, kernel->d[0]) || zx->d[2] != kernel->d[1])
        return pg_fail(err, PG_E_MISMATCH, "input %s does not fit the recurrent kernel %s",
                       PG_SHAPE(zx), PG_SHAPE(kernel));
    const pg__dims state = pg__dims_of(2, (const uint64_t[]){zx->d[0], kernel->d[0]});
    const pg__dims mask = pg__dims_of(2, zx->d);
    for (size_t k = H0; k <= C0; k++)
        if (in[k] && !pg__dims_fit(in[k], &state))
            return pg_fail(err, PG_E_MISMATCH, "the state is %s, expected %s", PG_SHAPE(in[k]),
                           PG_SHAPE(&state));
    if (in[MASK] && !pg__dims_fit(in[MASK], &mask))
        return pg_fail(err, PG_E_MISMATCH, "the mask is %s, expected %s", PG_SHAPE(in[MASK]),
                       PG_SHAPE(&mask));
    return PG_OK;
}

/* Outputs of all steps, of the last, final state. */
static void common_shapes(const pg__dims *const *in, pg__dims *all, pg__dims *state)
{
    *all = pg__dims_of(3, (const uint64_t[]){in[ZX]->d[0], in[ZX]->d[1], in[KERNEL]->d[0]});
    *state = pg__dims_of(2, (const uint64_t[]){in[ZX]->d[0], in[KERNEL]->d[0]});
}

/* y, last, state, cell state; kept: states, gates, cell states */
pg_status pg__shape_lstm(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                         pg_err *err)
{
    pg_status st = PG_OK;
    (void)attrs;
    PG_TRY(check(in, n_in, 4, err));
    common_shapes(in, &out[0], &out[1]);
    out[2] = out[3] = out[1];
    out[4] = out[6] = out[0];
    out[5] = *in[ZX];
done:
    return st;
}

/* y, last, state; kept: states, gates, the candidate's recurrent part */
pg_status pg__shape_gru(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                        pg_err *err)
{
    pg_status st = PG_OK;
    (void)attrs;
    PG_TRY(check(in, n_in, 3, err));
    common_shapes(in, &out[0], &out[1]);
    out[2] = out[1];
    out[3] = out[5] = out[0];
    out[4] = *in[ZX];
done:
    return st;
}

/* y, last, state; kept: states */
pg_status pg__shape_rnn(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                        pg_err *err)
{
    pg_status st = PG_OK;
    (void)attrs;
    PG_TRY(check(in, n_in, 1, err));
    common_shapes(in, &out[0], &out[1]);
    out[2] = out[1];
    out[3] = out[0];
done:
    return st;
}

/* Operands of all gradients: those of the operation, then the gradients of its first results, then
 * what was kept. Results: of the kernel; kept: of x W + b, of the states. */
pg_status pg__shape_lstm_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    out[0] = *in[KERNEL];
    out[1] = *in[ZX];
    out[2] = out[3] = pg__dims_of(2, (const uint64_t[]){in[ZX]->d[0], in[KERNEL]->d[0]});
    return PG_OK;
}

/* Kernel, recurrent bias; kept: x W + b, state, memory for one row of products. */
pg_status pg__shape_gru_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    out[0] = *in[KERNEL];
    out[1] = pg__dims_of(1, &in[KERNEL]->d[1]);
    out[2] = *in[ZX];
    out[3] = pg__dims_of(2, (const uint64_t[]){in[ZX]->d[0], in[KERNEL]->d[0]});
    out[4] = pg__dims_of(1, in[KERNEL]->d);
    return PG_OK;
}

/* Kernel; kept: x W + b, state. */
pg_status pg__shape_rnn_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    out[0] = *in[KERNEL];
    out[1] = *in[ZX];
    out[2] = pg__dims_of(2, (const uint64_t[]){in[ZX]->d[0], in[KERNEL]->d[0]});
    return PG_OK;
}

#define MAX_OPERANDS 14
#define MAX_RESULTS  5

/* n_read: results that have gradients; to[k]: the operand to which result k of `kind` belongs. */
static pg_status backward(pg__tape *t, const pg__inst *i, pg__op_kind kind, size_t n_read,
                          const size_t *to, pg_err *err)
{
    const pg__op *op = pg__op_of(kind);
    pg__val in[MAX_OPERANDS], grads[MAX_RESULTS];
    size_t n = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < N_IN; k++)
        in[n++] = pg__in(t, i, k);
    for (size_t k = 0; k < n_read; k++)
        in[n++] = pg__grad_of(t, i, k);
    for (size_t k = n_read; k < i->n_out; k++)
        in[n++] = pg__out(t, i, k);
    PG_TRY(pg__emit(t, kind, i->attrs, in, n, grads, err));
    for (size_t k = 0; k < op->n_out && to[k] < N_IN; k++)
        if (pg__wants(t, i, to[k]))
            PG_TRY(pg__give(t, i, to[k], grads[k], err));
done:
    return st;
}

pg_status pg__backward_lstm(pg__tape *t, const pg__inst *i, pg_err *err)
{
    static const size_t to[] = {KERNEL, ZX, H0, C0};
    return backward(t, i, PG_OP_lstm_grad, 4, to, err);
}

pg_status pg__backward_gru(pg__tape *t, const pg__inst *i, pg_err *err)
{
    static const size_t to[] = {KERNEL, BIAS, ZX, H0, N_IN};
    return backward(t, i, PG_OP_gru_grad, 3, to, err);
}

pg_status pg__backward_rnn(pg__tape *t, const pg__inst *i, pg_err *err)
{
    static const size_t to[] = {KERNEL, ZX, H0};
    return backward(t, i, PG_OP_rnn_grad, 3, to, err);
}

/* ---- what a library keeps ---- */

static int is_recurrent(const pg__inst *i)
{
    return i->op->kind == PG_OP_lstm || i->op->kind == PG_OP_gru || i->op->kind == PG_OP_rnn;
}

/* Numbers that are not per step are spread over the steps, and cost next to nothing. */
static void make_room(pg__tape *t, const pg__inst *i)
{
    const pg__rnn_room room = pg__rnn_room_of(i->op->kind);
    pg__dims *d = &t->values[pg__out(t, i, room.result)].shape;
    const uint64_t units = t->values[pg__in(t, i, KERNEL)].shape.d[0];
    const uint64_t lines = pg__dim_mul(d->d[0], d->d[1]);
    if (lines == 0 || lines >= PG_DIM_ANY)
        return;
    d->d[2] = room.to * units + (PG_RNN_ROOM_MORE + lines - 1) / lines;
}

void pg__rnn_make_room(pg__tape *t)
{
    if (t->n_forward == 0 || t->n_forward == t->n_insts)
        return;
    for (uint32_t k = 0; k < t->n_forward; k++) {
        const pg__inst *i = &t->insts[k];
        if (is_recurrent(i) &&
            pg__rnn_is_usual(i->op->kind, i->attrs, pg__in(t, i, MASK) != PG_NO_VAL,
                             pg__in(t, i, FACTORS) != PG_NO_VAL))
            make_room(t, i);
    }
}
