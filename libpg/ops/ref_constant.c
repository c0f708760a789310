/* ref_constant.c - numbers known beforehand. */
#include "ops/real.h"

void PG_REF(constant)(PG_REF_ARGS)
{
    const pg__constant_attrs *a = attrs_;
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(in), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t i = 0; i < out[0].n; i++)
        y[i] = (real)a->values[i];
}
