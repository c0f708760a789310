/* op_softmax.c - softmax over the last axis. */
#include "base/try.h"
#include "ops/rules.h"

pg_status pg__shape_softmax(const void *attrs, const pg__dims *const *in, size_t n_in,
                            pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in;
    if (in[0]->rank < 2)
        return pg_fail(err, PG_E_MISMATCH, "softmax needs two dimensions or more, has %s",
                       PG_SHAPE(in[0]));
    return pg__shape_like(in, 0, out);
}

pg_status pg__shape_softmax_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                                 pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__backward_softmax(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(
        pg__emit2(t, PG_OP_softmax_grad, NULL, pg__out(t, i, 0), pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
