/* ref_activity.c - l1 sum |x| + l2 sum x^2, summed in double, and its gradient. */
#include "ops/real.h"

void PG_REF(activity)(PG_REF_ARGS)
{
    const pg__activity_attrs *a = attrs_;
    const real *x = pg__reals(&in[0]);
    double l1 = 0, l2 = 0;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t k = 0; k < in[0].n; k++) {
        l1 += fabs((double)x[k]);
        l2 += (double)x[k] * (double)x[k];
    }
    *pg__reals_out(&out[0]) = (real)(a->l1 * l1 + a->l2 * l2);
}

void PG_REF(activity_grad)(PG_REF_ARGS)
{
    const pg__activity_attrs *a = attrs_;
    const real *x = pg__reals(&in[0]);
    const real seed = *pg__reals(&in[1]), l1 = (real)a->l1 * seed, l2 = 2 * (real)a->l2 * seed;
    real *dx = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t k = 0; k < out[0].n; k++)
        dx[k] = l1 * (real)((x[k] > 0) - (x[k] < 0)) + l2 * x[k];
}
