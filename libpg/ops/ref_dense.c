/* ref_dense.c - matrix products, row by row. */
#include "ops/real.h"

/* y[m x n] = x[m x k] w[k x n] + b */
void PG_REF(dense)(PG_REF_ARGS)
{
    const size_t m = pg__rows(&in[0]), k = pg__last(in[0].shape), n = pg__last(in[1].shape);
    const real *x = pg__reals(&in[0]), *w = pg__reals(&in[1]);
    const real *b = n_in > 2 ? pg__reals(&in[2]) : NULL;
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_out);
    for (size_t r = 0; r < m; r++, x += k, y += n) {
        for (size_t j = 0; j < n; j++)
            y[j] = b ? b[j] : 0;
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++)
                y[j] += x[p] * w[p * n + j];
    }
}

/* dx[m x k] = dy[m x n] w' */
void PG_REF(dense_dx)(PG_REF_ARGS)
{
    const size_t m = pg__rows(&in[0]), n = pg__last(in[0].shape), k = (size_t)in[1].shape->d[0];
    const real *dy = pg__reals(&in[0]), *w = pg__reals(&in[1]);
    real *dx = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < m; r++, dy += n, dx += k)
        for (size_t p = 0; p < k; p++) {
            real sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += dy[j] * w[p * n + j];
            dx[p] = sum;
        }
}

/* dw[k x n] = x' dy, db[n] = column sums of dy */
void PG_REF(dense_dw)(PG_REF_ARGS)
{
    const size_t m = pg__rows(&in[0]), k = pg__last(in[0].shape), n = pg__last(in[1].shape);
    const real *x = pg__reals(&in[0]), *dy = pg__reals(&in[1]);
    real *dw = pg__reals_out(&out[0]), *db = pg__reals_out(&out[1]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (dw)
        memset(dw, 0, k * n * sizeof *dw);
    if (db)
        memset(db, 0, n * sizeof *db);
    for (size_t r = 0; r < m; r++, x += k, dy += n) {
        for (size_t p = 0; dw && p < k; p++)
            for (size_t j = 0; j < n; j++)
                dw[p * n + j] += x[p] * dy[j];
        for (size_t j = 0; db && j < n; j++)
            db[j] += dy[j];
    }
}
