/* ref_layer_norm.c - normalisation row by row, in two passes over each. */
#include "ops/real.h"

void PG_REF(layer_norm)(PG_REF_ARGS)
{
    const pg__layer_norm_attrs *a = attrs_;
    const size_t rows = (size_t)out[1].n, n = rows > 0 ? (size_t)(in[0].n / rows) : 0;
    const real *x = pg__reals(&in[0]), *gamma = pg__reals(&in[1]), *beta = pg__reals(&in[2]);
    real *y = pg__reals_out(&out[0]), *means = pg__reals_out(&out[1]);
    real *scales = pg__reals_out(&out[2]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++, x += n) {
        real mean = 0, var = 0;
        for (size_t k = 0; k < n; k++)
            mean += x[k];
        mean /= (real)n;
        for (size_t k = 0; k < n; k++)
            var += (x[k] - mean) * (x[k] - mean);
        const real scale = 1 / R(sqrt)(var / (real)n + (real)a->epsilon);
        for (size_t k = 0; y && k < n; k++)
            y[r * n + k] = (x[k] - mean) * scale * (gamma ? gamma[k] : 1) + (beta ? beta[k] : 0);
        means[r] = mean;
        scales[r] = scale;
    }
}

/* With h = (x - mean) scale and g = gamma dy: dx = scale (g - mean(g) - h mean(g h)). Of one number
 * that is 0, which a fused multiplication would miss by a rounding, and Adam's step is no smaller
 * for it. */
static void row_gradient(const real *x, const real *dy, const real *gamma, real mean, real scale,
                         size_t n, real *dx)
{
    real sum = 0, dot = 0;
    if (n == 1) {
        dx[0] = 0 * dy[0];
        return;
    }
    for (size_t k = 0; k < n; k++) {
        const real g = dy[k] * (gamma ? gamma[k] : 1);
        sum += g;
        dot += g * (x[k] - mean) * scale;
    }
    sum /= (real)n;
    dot /= (real)n;
    for (size_t k = 0; k < n; k++)
        dx[k] = scale * (dy[k] * (gamma ? gamma[k] : 1) - sum - (x[k] - mean) * scale * dot);
}

void PG_REF(layer_norm_grad)(PG_REF_ARGS)
{
    const size_t n = (size_t)out[1].n, rows = n > 0 ? (size_t)(in[0].n / n) : 0;
    const real *x = pg__reals(&in[0]), *dy = pg__reals(&in[1]), *gamma = pg__reals(&in[2]);
    const real *means = pg__reals(&in[3]), *scales = pg__reals(&in[4]);
    real *dx = pg__reals_out(&out[0]);
    real *dgamma = pg__reals_out(&out[1]), *dbeta = pg__reals_out(&out[2]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (dgamma)
        memset(dgamma, 0, n * sizeof *dgamma);
    if (dbeta)
        memset(dbeta, 0, n * sizeof *dbeta);
    for (size_t r = 0; r < rows; r++, x += n, dy += n) {
        if (dx)
            row_gradient(x, dy, gamma, means[r], scales[r], n, dx + r * n);
        for (size_t k = 0; dgamma && k < n; k++)
            dgamma[k] += dy[k] * (x[k] - means[r]) * scales[r];
        for (size_t k = 0; dbeta && k < n; k++)
            dbeta[k] += dy[k];
    }
}
