/* op_reshape.c - the same elements with another shape: no work, because the result shares the
 * operand's memory. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_reshape(const void *attrs, const pg__dims *const *in, size_t n_in,
                            pg__dims *out, pg_err *err)
{
    const pg__reshape_attrs *a = attrs;
    const uint64_t from = pg__dims_elems(in[0]), to = pg__dims_elems(&a->to);
    (void)n_in;
    if (from != PG_DIM_ANY && to != PG_DIM_ANY && from != to)
        return pg_fail(err, PG_E_MISMATCH, "cannot reshape %s to %s", PG_SHAPE(in[0]),
                       PG_SHAPE(&a->to));
    *out = a->to;
    return PG_OK;
}

pg_status pg__backward_reshape(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__reshape_attrs back;
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    back.to = t->values[pg__in(t, i, 0)].shape;
    PG_TRY(pg__emit1(t, PG_OP_reshape, &back, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
