/* op_act.c - activations, element by element. Most gradients are cheapest to compute from the
 * result; pg__act_needs_x() lists those that need the argument. Formulas: keras/activations.py of
 * 2.15 and 3.6. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_like(const pg__dims *const *in, size_t k, pg__dims *out)
{
    *out = *in[k];
    return PG_OK;
}

pg_status pg__shape_act(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                        pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__shape_act_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 1, out);
}

/* act_grad(x or y, dy): both have the result's shape. */
pg_status pg__backward_act(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val from = pg__act_needs_x(i->attrs) ? pg__in(t, i, 0) : pg__out(t, i, 0);
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit2(t, PG_OP_act_grad, i->attrs, from, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
