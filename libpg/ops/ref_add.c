/* ref_add.c - the sum of two values. */
#include "ops/real.h"

void PG_REF(add)(PG_REF_ARGS)
{
    const real *a = pg__reals(&in[0]), *b = pg__reals(&in[1]);
    real *sum = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t k = 0; k < out[0].n; k++)
        sum[k] = a[k] + b[k];
}
