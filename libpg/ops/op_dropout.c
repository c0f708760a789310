/* op_dropout.c - dropout. It is linear in x, and which elements are kept is a function of seed,
 * step and place, so the gradient is the same operation again. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_dropout(const void *attrs, const pg__dims *const *in, size_t n_in,
                            pg__dims *out, pg_err *err)
{
    const pg__dropout_attrs *a = attrs;
    int fits = in[0]->rank == a->noise.rank;
    (void)n_in;
    for (uint32_t i = 0; fits && i < a->noise.rank; i++)
        fits = a->noise.d[i] == 1 || pg__dim_fits(a->noise.d[i], in[0]->d[i]);
    if (!fits)
        return pg_fail(err, PG_E_MISMATCH, "noise %s does not fit the input %s",
                       PG_SHAPE(&a->noise), PG_SHAPE(in[0]));
    return pg__shape_like(in, 0, out);
}

pg_status pg__backward_dropout(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit2(t, PG_OP_dropout, i->attrs, pg__grad_of(t, i, 0), pg__in(t, i, 1), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
