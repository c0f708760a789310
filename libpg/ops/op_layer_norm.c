/* op_layer_norm.c - normalisation over the last axes: (x - mean) / sqrt(variance + epsilon), times
 * gamma, plus beta; the variance is the biased one. Mean and 1 / sqrt() are kept for the gradient.
 */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

/* x, gamma, beta (absent: not applied) */
pg_status pg__shape_layer_norm(const void *attrs, const pg__dims *const *in, size_t n_in,
                               pg__dims *out, pg_err *err)
{
    const pg__layer_norm_attrs *a = attrs;
    (void)n_in;
    if (a->n_axes < 1 || in[0]->rank <= a->n_axes)
        return pg_fail(err, PG_E_MISMATCH, "cannot normalise %u axes of %s", a->n_axes,
                       PG_SHAPE(in[0]));
    out[0] = *in[0];
    out[1] = pg__dims_of(in[0]->rank - a->n_axes, in[0]->d);
    out[2] = out[1];
    return PG_OK;
}

/* x, dy, gamma, mean, 1 / sqrt() -> dx, dgamma, dbeta */
pg_status pg__shape_layer_norm_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                                    pg__dims *out, pg_err *err)
{
    const pg__layer_norm_attrs *a = attrs;
    (void)n_in, (void)err;
    out[0] = *in[0];
    out[1] = pg__dims_of(a->n_axes, in[0]->d + (in[0]->rank - a->n_axes));
    out[2] = out[1];
    return PG_OK;
}

pg_status pg__backward_layer_norm(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val in[] = {pg__in(t, i, 0), pg__grad_of(t, i, 0), pg__in(t, i, 1), pg__out(t, i, 1),
                          pg__out(t, i, 2)};
    pg__val grads[3];
    pg_status st = PG_OK;
    if (in[1] == PG_NO_VAL)
        return PG_OK;
    PG_TRY(pg__emit(t, PG_OP_layer_norm_grad, i->attrs, in, 5, grads, err));
    for (size_t k = 0; k < 3; k++)
        if (pg__wants(t, i, k))
            PG_TRY(pg__give(t, i, k, grads[k], err));
done:
    return st;
}
