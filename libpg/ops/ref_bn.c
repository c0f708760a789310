/* ref_bn.c - batch normalisation of rows x channels. Sums have thousands of terms, so they are kept
 * in double, for a few channels at a time. */
#include "ops/bn_real.h"

#define PIECE 32 /* channels: two cache lines of a row */

/* Weight of a row: `inner` rows share one number of the mask. */
static inline real weight(const real *mask, size_t row, size_t inner)
{
    return mask ? mask[row / inner] : 1;
}

static inline size_t rows_per_mask(const pg__arg *x, const pg__arg *mask)
{
    return mask && mask->p && mask->n ? pg__rows(x) / (size_t)mask->n : 1;
}

static double count_rows(const pg__arg *x, const real *mask, size_t inner)
{
    double n = 0;
    if (!mask)
        return (double)pg__rows(x);
    for (size_t r = 0; r < pg__rows(x); r++)
        n += weight(mask, r, inner);
    return n;
}

/* sum[c] += weight (x - from[c]), or its square. */
static inline void sum_piece(double *sum, const real *x, const double *from, size_t rows, size_t n,
                             size_t width, int square, const real *mask, size_t inner)
{
    for (size_t r = 0; r < rows; r++, x += width) {
        const double w = weight(mask, r, inner);
        for (size_t c = 0; c < n; c++) {
            const double d = (double)x[c] - from[c];
            sum[c] += w * (square ? d * d : d);
        }
    }
}

void PG_REF(bn_stats)(PG_REF_ARGS)
{
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const real *mask = n_in > 1 ? pg__reals(&in[1]) : NULL;
    const size_t inner = rows_per_mask(&in[0], n_in > 1 ? &in[1] : NULL);
    const double count = count_rows(&in[0], mask, inner);
    real *mean = pg__reals_out(&out[0]), *m2 = pg__reals_out(&out[1]), *n = pg__reals_out(&out[2]);
    PG_UNUSED(attrs_), PG_UNUSED(n_out);
    if (n)
        *n = (real)count;
    for (size_t at = 0; at < width; at += PIECE) {
        const size_t some = width - at < PIECE ? width - at : PIECE;
        double average[PIECE] = {0}, zero[PIECE] = {0}, squares[PIECE] = {0};
        sum_piece(average, pg__reals(&in[0]) + at, zero, rows, some, width, 0, mask, inner);
        for (size_t c = 0; c < some; c++)
            average[c] /= count;
        sum_piece(squares, pg__reals(&in[0]) + at, average, rows, some, width, 1, mask, inner);
        for (size_t c = 0; c < some; c++) {
            if (mean)
                mean[at + c] = (real)average[c];
            if (m2)
                m2[at + c] = (real)squares[c];
        }
    }
}

void PG_REF(bn_var)(PG_REF_ARGS)
{
    const pg__bn_attrs *a = attrs_;
    const real *m2 = pg__reals(&in[0]);
    const double by = pg__bn_divisor(a, (double)*pg__reals(&in[1]));
    real *v = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t c = 0; c < out[0].n; c++)
        v[c] = (real)((double)m2[c] / by);
}

/* Factor and summand of channels: y = (x - mean) scale + shift. */
static void scales_of(real *scale, real *shift, const pg__bn_attrs *a, const real *var,
                      const real *gamma, const real *beta, size_t at, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        scale[c] = (gamma ? gamma[at + c] : 1) / R(sqrt)(var[at + c] + (real)a->epsilon);
        shift[c] = beta ? beta[at + c] : 0;
    }
}

static const real *operand(const pg__arg *in, size_t n_in, size_t k)
{
    return k < n_in ? pg__reals(&in[k]) : NULL;
}

void PG_REF(bn_apply)(PG_REF_ARGS)
{
    const pg__bn_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const real *x = pg__reals(&in[0]), *mean = pg__reals(&in[1]), *var = pg__reals(&in[2]);
    const real *gamma = operand(in, n_in, 3), *beta = operand(in, n_in, 4);
    real *y = pg__reals_out(&out[0]), scale[PIECE], shift[PIECE];
    PG_UNUSED(n_out);
    for (size_t at = 0; at < width; at += PIECE) {
        const size_t some = width - at < PIECE ? width - at : PIECE;
        scales_of(scale, shift, a, var, gamma, beta, at, some);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < some; c++) {
                const size_t k = r * width + at + c;
                y[k] = pg__bn_result(a, (x[k] - mean[at + c]) * scale[c] + shift[c]);
            }
    }
}

void PG_REF(bn_sums)(PG_REF_ARGS)
{
    const pg__bn_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const real *mean = pg__reals(&in[2]), *var = pg__reals(&in[3]);
    const real *gamma = operand(in, n_in, 4), *beta = operand(in, n_in, 5);
    real *sum = pg__reals_out(&out[1]), *sum_x = pg__reals_out(&out[2]);
    real *to = pg__reals_out(&out[0]);
    real scale[PIECE], shift[PIECE];
    PG_UNUSED(n_out);
    for (size_t at = 0; at < width; at += PIECE) {
        const size_t some = width - at < PIECE ? width - at : PIECE;
        double s[PIECE] = {0}, sx[PIECE] = {0};
        scales_of(scale, shift, a, var, gamma, beta, at, some);
        for (size_t r = 0; r < rows; r++) {
            const real *x = pg__reals(&in[0]) + r * width + at;
            const real *dy = pg__reals(&in[1]) + r * width + at;
            for (size_t c = 0; c < some; c++) {
                const real z = (x[c] - mean[at + c]) * scale[c] + shift[c];
                const real d = pg__bn_through(a, z, dy[c]);
                s[c] += (double)d;
                sx[c] += (double)d * ((double)x[c] - (double)mean[at + c]);
                if (to)
                    to[r * width + at + c] = d;
            }
        }
        for (size_t c = 0; c < some; c++) {
            if (sum)
                sum[at + c] = (real)s[c];
            if (sum_x)
                sum_x[at + c] = (real)(sx[c] / sqrt((double)var[at + c] + a->epsilon));
        }
    }
}

void PG_REF(bn_dx)(PG_REF_ARGS)
{
    const pg__bn_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const real *mean = pg__reals(&in[2]), *var = pg__reals(&in[3]), *gamma = pg__reals(&in[4]);
    const real *sum = pg__reals(&in[5]), *sum_x = pg__reals(&in[6]);
    const real n = sum ? *pg__reals(&in[7]) : 1, *mask = sum ? pg__reals(&in[8]) : NULL;
    const real *beta = operand(in, n_in, 9);
    const size_t inner = rows_per_mask(&in[0], &in[8]);
    real scale[PIECE], shift[PIECE], all[PIECE] = {0}, slope[PIECE] = {0};
    PG_UNUSED(n_out);
    for (size_t at = 0; at < width; at += PIECE) {
        const size_t some = width - at < PIECE ? width - at : PIECE;
        scales_of(scale, shift, a, var, gamma, beta, at, some);
        for (size_t c = 0; sum && c < some; c++) {
            all[c] = sum[at + c] / n;
            slope[c] = sum_x[at + c] / R(sqrt)(var[at + c] + (real)a->epsilon) / n;
        }
        for (size_t r = 0; r < rows; r++) {
            const real *x = pg__reals(&in[0]) + r * width + at;
            const real *dy = pg__reals(&in[1]) + r * width + at;
            const real w = weight(mask, r, inner);
            real *dx = pg__reals_out(&out[0]) + r * width + at;
            for (size_t c = 0; c < some; c++) {
                const real from = x[c] - mean[at + c];
                const real d = pg__bn_through(a, from * scale[c] + shift[c], dy[c]);
                dx[c] = scale[c] * (d - w * (all[c] + from * slope[c]));
            }
        }
    }
}
