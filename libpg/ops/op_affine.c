/* op_affine.c - scale x + offset, element by element. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_affine(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__backward_affine(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__affine_attrs back = {((const pg__affine_attrs *)i->attrs)->scale, 0};
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit1(t, PG_OP_affine, &back, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
