/* bn_real.h - the divisor of a variance, and the activation after a normalisation, for the plain C
 * references and the GPU. */
#ifndef PG_OPS_BN_REAL_H
#define PG_OPS_BN_REAL_H

#include "ops/act_real.h"

PG_SHARED double pg__bn_divisor(const pg__bn_attrs *a, double n)
{
    const int sample = a->correction == PG_BN_SAMPLE || a->correction == PG_BN_TWICE;
    const int layer = a->correction == PG_BN_LAYER || a->correction == PG_BN_TWICE;
    const double by = sample ? (n > 2 ? n - 1 : 1) : n;
    return layer ? by * ((n - (1 + a->epsilon)) / n) : by;
}

/* The result, from the normalised x with gamma and beta. */
PG_SHARED real pg__bn_result(const pg__bn_attrs *a, real z)
{
    return a->has_act ? pg__act_value(z, &a->act) : z;
}

/* Its gradient, from that of the result. */
PG_SHARED real pg__bn_through(const pg__bn_attrs *a, real z, real dy)
{
    return a->has_act ? dy * pg__act_slope_of_argument(z, &a->act) : dy;
}

#endif
