/* ref_softmax.c - softmax row by row, after subtracting the largest argument. */
#include "ops/real.h"

void PG_REF(softmax)(PG_REF_ARGS)
{
    const size_t rows = pg__rows(&in[0]), n = pg__last(in[0].shape);
    const real *x = pg__reals(&in[0]);
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        real top = x[0], sum = 0;
        for (size_t k = 1; k < n; k++)
            top = x[k] > top ? x[k] : top;
        for (size_t k = 0; k < n; k++)
            sum += y[k] = R(exp)(x[k] - top);
        for (size_t k = 0; k < n; k++)
            y[k] /= sum;
    }
}

/* dx = y (dy - sum(dy y)) */
void PG_REF(softmax_grad)(PG_REF_ARGS)
{
    const size_t rows = pg__rows(&in[0]), n = pg__last(in[0].shape);
    const real *y = pg__reals(&in[0]), *dy = pg__reals(&in[1]);
    real *dx = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        real dot = 0;
        for (size_t k = 0; k < n; k++)
            dot += dy[k] * y[k];
        for (size_t k = 0; k < n; k++)
            dx[k] = y[k] * (dy[k] - dot);
    }
}
