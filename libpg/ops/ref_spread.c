/* ref_spread.c - repeating, and summing what was repeated, row by row of the larger array. */
#include "ops/real.h"
#include "ops/strides.h"

void PG_REF(spread)(PG_REF_ARGS)
{
    const pg__dims *whole = out[0].shape;
    const size_t n = pg__last(whole), last = whole->rank ? whole->rank - 1 : 0;
    real *y = pg__reals_out(&out[0]);
    pg__rowwalk w = {.off = {0, 0}};
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    pg__strides(w.stride[0], whole, in[0].shape);
    for (size_t r = pg__n_rows(whole); r-- > 0; y += n, pg__rowwalk_next(&w, whole)) {
        const real *x = pg__reals(&in[0]) + w.off[0];
        if (w.stride[0][last])
            memcpy(y, x, n * sizeof *y);
        else
            for (size_t i = 0; i < n; i++)
                y[i] = *x;
    }
}

void PG_REF(sum_to)(PG_REF_ARGS)
{
    const pg__dims *whole = in[0].shape;
    const size_t n = pg__last(whole), last = whole->rank ? whole->rank - 1 : 0;
    const real *x = pg__reals(&in[0]);
    pg__rowwalk w = {.off = {0, 0}};
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    pg__strides(w.stride[0], whole, out[0].shape);
    for (size_t r = pg__n_rows(whole); r-- > 0; x += n, pg__rowwalk_next(&w, whole)) {
        real *y = pg__reals_out(&out[0]) + w.off[0];
        if (w.stride[0][last])
            for (size_t i = 0; i < n; i++)
                y[i] += x[i];
        else
            for (size_t i = 0; i < n; i++)
                *y += x[i];
    }
}
