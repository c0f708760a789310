/* ref_transpose.c - reorders axes, row by row of the result. */
#include "ops/real.h"
#include "ops/strides.h"

void PG_REF(transpose)(PG_REF_ARGS)
{
    const pg__transpose_attrs *a = attrs_;
    const pg__dims *x = in[0].shape, *s = out[0].shape;
    size_t stride[PG_MAX_RANK], step = 1;
    real *y = pg__reals_out(&out[0]);
    pg__rowwalk w = {.off = {0, 0}};
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint32_t i = x->rank; i-- > 0; step *= (size_t)x->d[i])
        stride[i] = step;
    for (uint32_t i = 0; i < s->rank; i++)
        w.stride[0][i] = stride[a->perm[i]];
    const size_t n = pg__last(s), last = s->rank ? w.stride[0][s->rank - 1] : 0;
    for (size_t r = pg__n_rows(s); r-- > 0; y += n, pg__rowwalk_next(&w, s)) {
        const real *from = pg__reals(&in[0]) + w.off[0];
        for (size_t i = 0; i < n; i++)
            y[i] = from[i * last];
    }
}
