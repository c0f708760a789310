/* ref_embedding.c - looking up rows, and summing their gradients in the order of the batch. An id
 * that is not in the table gives NaN, which nobody can overlook, and no gradient. */
#include "ops/real.h"

void PG_REF(embedding)(PG_REF_ARGS)
{
    const int32_t *ids = in[0].p;
    const size_t rows = (size_t)in[1].shape->d[0], n = pg__last(in[1].shape);
    const real *table = pg__reals(&in[1]);
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t i = 0; i < in[0].n; i++, y += n)
        if (ids[i] >= 0 && (size_t)ids[i] < rows)
            memcpy(y, table + (size_t)ids[i] * n, n * sizeof *y);
        else
            for (size_t k = 0; k < n; k++)
                y[k] = (real)NAN;
}

void PG_REF(embedding_dw)(PG_REF_ARGS)
{
    const int32_t *ids = in[0].p;
    const size_t rows = (size_t)out[0].shape->d[0], n = pg__last(out[0].shape);
    const real *dy = pg__reals(&in[1]);
    real *dw = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(dw, 0, rows * n * sizeof *dw);
    for (uint64_t i = 0; i < in[0].n; i++, dy += n) {
        if (ids[i] < 0 || (size_t)ids[i] >= rows)
            continue;
        real *to = dw + (size_t)ids[i] * n;
        for (size_t k = 0; k < n; k++)
            to[k] += dy[k];
    }
}
