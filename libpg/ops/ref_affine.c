/* ref_affine.c - scale x + offset. */
#include "ops/real.h"

void PG_REF(affine)(PG_REF_ARGS)
{
    const pg__affine_attrs *a = attrs_;
    const real scale = (real)a->scale, offset = (real)a->offset;
    const real *x = pg__reals(&in[0]);
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t i = 0; i < out[0].n; i++)
        y[i] = scale * x[i] + offset;
}
