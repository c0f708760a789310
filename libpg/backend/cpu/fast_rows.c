/* fast_rows.c - normalisations of rows of the last axes: softmax, layer normalisation. */
#include "backend/cpu/fast.h"

void PG_FAST_FN(softmax)(PG_REF_ARGS)
{
    const size_t rows = pg__rows(&in[0]), n = pg__last(in[0].shape);
    const float *x = in[0].p;
    float *y = out[0].p;
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        const float top = pg__row_max(x, n);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t k = 0; k < n; k++) {
            const float e = pg__vexp_down(x[k] - top);
            y[k] = e;
            sum += e;
        }
        const float share = 1 / sum;
        PG_EACH
        for (size_t k = 0; k < n; k++)
            y[k] *= share;
    }
}

void PG_FAST_FN(softmax_grad)(PG_REF_ARGS)
{
    const size_t rows = pg__rows(&in[0]), n = pg__last(in[0].shape);
    const float *y = in[0].p, *dy = in[1].p;
    float *dx = out[0].p;
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (size_t k = 0; k < n; k++)
            dot += dy[k] * y[k];
        PG_EACH
        for (size_t k = 0; k < n; k++)
            dx[k] = y[k] * (dy[k] - dot);
    }
}

/* ---- layer normalisation ---- */

static float squared_distances(const float *x, float mean, size_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t k = 0; k < n; k++)
        sum += (x[k] - mean) * (x[k] - mean);
    return sum;
}

static void normalise(const float *x, float mean, float scale, const float *gamma,
                      const float *beta, float *y, size_t n)
{
    if (gamma && beta)
        PG_EACH
    for (size_t k = 0; k < n; k++)
        y[k] = (x[k] - mean) * scale * gamma[k] + beta[k];
    else for (size_t k = 0; k < n; k++) y[k] =
        (x[k] - mean) * scale * (gamma ? gamma[k] : 1) + (beta ? beta[k] : 0);
}

void PG_FAST_FN(layer_norm)(PG_REF_ARGS)
{
    const pg__layer_norm_attrs *a = attrs_;
    const size_t rows = (size_t)out[1].n, n = rows > 0 ? (size_t)(in[0].n / rows) : 0;
    const float *x = in[0].p;
    float *y = out[0].p, *means = out[1].p, *scales = out[2].p;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++, x += n) {
        const float mean = pg__row_sum(x, n) / (float)n;
        const float var = squared_distances(x, mean, n) / (float)n;
        means[r] = mean;
        scales[r] = 1 / sqrtf(var + (float)a->epsilon);
        if (y)
            normalise(x, mean, scales[r], in[1].p, in[2].p, y + r * n, n);
    }
}

/* With h = (x - mean) scale and g = gamma dy: dx = scale (g - mean(g) - h mean(g h)). */
static void row_gradient(const float *x, const float *dy, const float *gamma, float mean,
                         float scale, size_t n, float *dx)
{
    float sum = 0, dot = 0;
    if (n == 1) { /* as the plain answer does */
        dx[0] = 0 * dy[0];
        return;
    }
#pragma omp simd reduction(+ : sum, dot)
    for (size_t k = 0; k < n; k++) {
        const float g = dy[k] * gamma[k];
        sum += g;
        dot += g * (x[k] - mean);
    }
    const float all = sum / (float)n, slope = dot * scale * scale / (float)n;
    PG_EACH
    for (size_t k = 0; k < n; k++)
        dx[k] = scale * (dy[k] * gamma[k] - all - (x[k] - mean) * slope);
}

static void add_row(const float *x, const float *dy, float mean, float scale, size_t n,
                    float *dgamma, float *dbeta)
{
    PG_EACH
    for (size_t k = 0; k < n; k++) {
        dgamma[k] += dy[k] * ((x[k] - mean) * scale);
        dbeta[k] += dy[k];
    }
}

void PG_FAST_FN(layer_norm_grad)(PG_REF_ARGS)
{
    const size_t n = (size_t)out[1].n, rows = n > 0 ? (size_t)(in[0].n / n) : 0;
    const float *x = in[0].p, *dy = in[1].p, *gamma = in[2].p, *means = in[3].p, *scales = in[4].p;
    float *dx = out[0].p, *dgamma = out[1].p, *dbeta = out[2].p;
    if (!gamma || !dgamma || !dbeta || !dx) { /* rarely left out */
        PG_REF(layer_norm_grad)(attrs_, in, n_in, out, n_out);
        return;
    }
    memset(dgamma, 0, n * sizeof *dgamma);
    memset(dbeta, 0, n * sizeof *dbeta);
    for (size_t r = 0; r < rows; r++, x += n, dy += n, dx += n) {
        row_gradient(x, dy, gamma, means[r], scales[r], n, dx);
        add_row(x, dy, means[r], scales[r], n, dgamma, dbeta);
    }
}
