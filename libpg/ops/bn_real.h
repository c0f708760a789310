/* bn_real.h - what a variance is divided by, for the plain answers and the GPU. */
#ifndef PG_OPS_BN_REAL_H
#define PG_OPS_BN_REAL_H

#include "ops/real.h"

PG_SHARED double pg__bn_divisor(const pg__bn_attrs *a, double n)
{
    const int sample = a->correction == PG__BN_SAMPLE || a->correction == PG__BN_TWICE;
    const int layer = a->correction == PG__BN_LAYER || a->correction == PG__BN_TWICE;
    const double by = sample ? (n > 2 ? n - 1 : 1) : n;
    return layer ? by * ((n - (1 + a->epsilon)) / n) : by;
}

#endif
