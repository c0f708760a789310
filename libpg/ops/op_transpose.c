/* op_transpose.c - reorders axes. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_transpose(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    const pg__transpose_attrs *a = attrs;
    unsigned seen = 0;
    (void)n_in;
    *out = *in[0];
    for (uint32_t i = 0; i < out->rank; i++) {
        if (a->perm[i] >= out->rank || (seen & 1u << a->perm[i]))
            return pg_fail(err, PG_E_MISMATCH, "not an order of the axes of %s", PG_SHAPE(in[0]));
        seen |= 1u << a->perm[i];
        out->d[i] = in[0]->d[a->perm[i]];
    }
    return PG_OK;
}

pg_status pg__backward_transpose(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__transpose_attrs *a = i->attrs;
    pg__transpose_attrs back = {.perm = {0}};
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    for (uint32_t k = 0; k < t->values[pg__in(t, i, 0)].shape.rank; k++)
        back.perm[a->perm[k]] = k;
    PG_TRY(pg__emit1(t, PG_OP_transpose, &back, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
