/* op_resize.c - enlarges images by whole factors. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_resize(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    const pg__resize_attrs *a = attrs;
    (void)n_in;
    if (in[0]->rank != a->rank + 2)
        return pg_fail(err, PG_E_MISMATCH, "input %s does not have %u spatial dimensions",
                       PG_SHAPE(in[0]), a->rank);
    *out = *in[0];
    for (uint32_t i = 0; i < a->rank; i++)
        out->d[i + 1] = pg__dim_mul(out->d[i + 1], a->factor[i]);
    return PG_OK;
}

pg_status pg__shape_resize_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                                pg__dims *out, pg_err *err)
{
    const pg__resize_attrs *a = attrs;
    (void)n_in, (void)err;
    *out = *in[0];
    for (uint32_t i = 0; i < a->rank; i++)
        out->d[i + 1] /= a->factor[i];
    return PG_OK;
}

pg_status pg__backward_resize(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit1(t, PG_OP_resize_grad, i->attrs, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
