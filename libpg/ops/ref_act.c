/* ref_act.c - activations and their slopes, element by element. */
#include "ops/act_real.h"

void PG_REF(act)(PG_REF_ARGS)
{
    const pg__act_attrs *a = attrs_;
    const real *x = pg__reals(&in[0]);
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t k = 0; k < out[0].n; k++)
        y[k] = pg__act_value(x[k], a);
}

void PG_REF(act_grad)(PG_REF_ARGS)
{
    const pg__act_attrs *a = attrs_;
    const real *v = pg__reals(&in[0]), *dy = pg__reals(&in[1]);
    real *dx = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t k = 0; k < out[0].n; k++)
        dx[k] = dy[k] * pg__act_slope(v[k], a);
}
