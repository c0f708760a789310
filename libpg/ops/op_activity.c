/* op_activity.c - activity_regularizer: adds a layer's output to the loss. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_activity(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    (void)attrs, (void)in, (void)n_in, (void)err;
    *out = (pg__dims){.rank = 0};
    return PG_OK;
}

pg_status pg__shape_activity_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                                  pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__backward_activity(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit2(t, PG_OP_activity_grad, i->attrs, pg__in(t, i, 0), pg__in(t, i, 1), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
