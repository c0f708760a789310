/* fast_bn.c - batch normalisation, bound by memory. Rows are taken as they lie, up to PIECE
 * channels of them; several rows of few channels count as one long row. Sums are floats over a few
 * rows and double over those; variances come from one reading: each block's about its own mean,
 * merged as Chan, Golub and LeVeque do. Masks are left to the plain answers. */
#include "backend/cpu/fast.h"

#define PIECE 512 /* channels */
#define BLOCK 32  /* rows whose sums are floats */

/* rows x columns numbers, `step` from row to row. A column is a channel of one of `fold` rows that
 * stand side by side; the rows that are left over are `rest`. */
typedef struct grid {
    size_t rows, columns, step, channels, fold, rest;
} grid;

/* The piece of `width` channels that begins at channel `at`. */
static grid grid_of(size_t rows, size_t width, size_t at)
{
    const size_t some = width - at < PIECE ? width - at : PIECE;
    const size_t fold = width < 64 && width > 0 ? PIECE / width : 1;
    return (grid){rows / fold, fold * some, fold * width, some, fold, rows % fold};
}

/* Repeats the first n numbers over all columns. */
static void repeat(float *v, const grid *g)
{
    for (size_t i = g->channels; i < g->columns; i++)
        v[i] = v[i - g->channels];
}

/* ---- statistics ---- */

typedef struct moments {
    double n, mean[PIECE], m2[PIECE];
} moments;

/* Adds a block of n rows: its mean and its squared distances from that. */
static void merge(moments *m, double n, const float *mean, const float *m2, size_t columns)
{
    const double all = m->n + n, share = n / all, both = m->n * n / all;
    PG_EACH
    for (size_t c = 0; c < columns; c++) {
        const double d = (double)mean[c] - m->mean[c];
        m->mean[c] += d * share;
        m->m2[c] += (double)m2[c] + d * d * both;
    }
    m->n = all;
}

static void add_block(moments *m, const float *x, size_t rows, const grid *g)
{
    const size_t n = g->columns, step = g->step;
    const float share = 1.0f / (float)rows;
    float mean[PIECE], m2[PIECE];
    size_t r = 0;
    memset(mean, 0, n * sizeof *mean);
    memset(m2, 0, n * sizeof *m2);
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * step, *b = a + step, *c = b + step, *d = c + step;
        PG_EACH
        for (size_t i = 0; i < n; i++)
            mean[i] += (a[i] + b[i]) + (c[i] + d[i]);
    }
    for (; r < rows; r++)
        PG_EACH
    for (size_t i = 0; i < n; i++)
        mean[i] += x[r * step + i];
    PG_EACH
    for (size_t i = 0; i < n; i++)
        mean[i] *= share;
    for (r = 0; r + 2 <= rows; r += 2) {
        const float *a = x + r * step, *b = a + step;
        PG_EACH
        for (size_t i = 0; i < n; i++) {
            const float p = a[i] - mean[i], q = b[i] - mean[i];
            m2[i] += p * p + q * q;
        }
    }
    for (; r < rows; r++)
        PG_EACH
    for (size_t i = 0; i < n; i++)
        m2[i] += (x[r * step + i] - mean[i]) * (x[r * step + i] - mean[i]);
    merge(m, (double)rows, mean, m2, n);
}

/* Moments of one channel from those of its columns, and from rows that filled no long row. */
static void fold_channel(const moments *m, const grid *g, const float *rest, size_t c, double *mean,
                         double *m2)
{
    double n = 0, at = 0, squares = 0;
    for (size_t f = 0; f < g->fold + g->rest; f++) {
        const int whole = f < g->fold;
        const size_t column = (whole ? f : f - g->fold) * g->channels + c;
        const double k = whole ? m->n : 1,
                     d = (whole ? m->mean[column] : (double)rest[column]) - at;
        if (k == 0)
            continue;
        at += d * k / (n + k);
        squares += (whole ? m->m2[column] : 0) + d * d * n * k / (n + k);
        n += k;
    }
    *mean = n > 0 ? at : NAN;
    *m2 = squares;
}

void PG_FAST_FN(bn_stats)(PG_REF_ARGS)
{
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    float *mean = out[0].p, *m2 = out[1].p, *n = out[2].p;
    if (n_in > 1 && in[1].p) {
        PG_REF(bn_stats)(attrs_, in, n_in, out, n_out);
        return;
    }
    if (n)
        *n = (float)rows;
    for (size_t at = 0; at < width; at += PIECE) {
        const grid g = grid_of(rows, width, at);
        const float *x = (const float *)in[0].p + at;
        moments m = {.n = 0};
        for (size_t r = 0; r < g.rows; r += BLOCK)
            add_block(&m, x + r * g.step, g.rows - r < BLOCK ? g.rows - r : BLOCK, &g);
        for (size_t c = 0; c < g.channels; c++) {
            double average, squares;
            fold_channel(&m, &g, x + g.rows * g.step, c, &average, &squares);
            if (mean)
                mean[at + c] = (float)average;
            if (m2)
                m2[at + c] = (float)squares;
        }
    }
}

/* ---- normalising ---- */

static void apply_row(const float *x, const float *mean, const float *scale, const float *shift,
                      float *y, size_t n)
{
    PG_EACH
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

void PG_FAST_FN(bn_apply)(PG_REF_ARGS)
{
    const float eps = (float)((const pg__bn_attrs *)attrs_)->epsilon;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const float *means = in[1].p, *vars = in[2].p;
    const float *gamma = n_in > 3 ? in[3].p : NULL, *beta = n_in > 4 ? in[4].p : NULL;
    float mean[PIECE], scale[PIECE], shift[PIECE];
    PG_UNUSED(n_out);
    for (size_t at = 0; at < width; at += PIECE) {
        const grid g = grid_of(rows, width, at);
        const float *x = (const float *)in[0].p + at;
        float *y = (float *)out[0].p + at;
        for (size_t c = 0; c < g.channels; c++) {
            mean[c] = means[at + c];
            scale[c] = (gamma ? gamma[at + c] : 1) / sqrtf(vars[at + c] + eps);
            shift[c] = beta ? beta[at + c] : 0;
        }
        repeat(mean, &g);
        repeat(scale, &g);
        repeat(shift, &g);
        for (size_t r = 0; r < g.rows; r++, x += g.step, y += g.step)
            apply_row(x, mean, scale, shift, y, g.columns);
        apply_row(x, mean, scale, shift, y, g.rest * g.channels);
    }
}

/* ---- gradient ---- */

/* Adds the sums of dy and of dy (x - mean) over some rows. */
static void sum_block(const float *x, const float *dy, const float *mean, size_t rows, size_t step,
                      size_t n, double *sum, double *sum_x)
{
    float s[PIECE], sx[PIECE];
    size_t r = 0;
    memset(s, 0, n * sizeof *s);
    memset(sx, 0, n * sizeof *sx);
    for (; r + 2 <= rows; r += 2) {
        const float *a = x + r * step, *b = a + step, *da = dy + r * step, *db = da + step;
        PG_EACH
        for (size_t i = 0; i < n; i++) {
            s[i] += da[i] + db[i];
            sx[i] += da[i] * (a[i] - mean[i]) + db[i] * (b[i] - mean[i]);
        }
    }
    for (; r < rows; r++)
        PG_EACH
    for (size_t i = 0; i < n; i++) {
        s[i] += dy[r * step + i];
        sx[i] += dy[r * step + i] * (x[r * step + i] - mean[i]);
    }
    PG_EACH
    for (size_t i = 0; i < n; i++) {
        sum[i] += (double)s[i];
        sum_x[i] += (double)sx[i];
    }
}

void PG_FAST_FN(bn_sums)(PG_REF_ARGS)
{
    const double eps = ((const pg__bn_attrs *)attrs_)->epsilon;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const float *means = in[2].p, *vars = in[3].p;
    float *sums = out[0].p, *sums_x = out[1].p, mean[PIECE];
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t at = 0; at < width; at += PIECE) {
        const grid g = grid_of(rows, width, at);
        const float *x = (const float *)in[0].p + at, *dy = (const float *)in[1].p + at;
        double sum[PIECE] = {0}, sum_x[PIECE] = {0};
        memcpy(mean, means + at, g.channels * sizeof *mean);
        repeat(mean, &g);
        for (size_t r = 0; r < g.rows; r += BLOCK)
            sum_block(x + r * g.step, dy + r * g.step, mean,
                      g.rows - r < BLOCK ? g.rows - r : BLOCK, g.step, g.columns, sum, sum_x);
        const size_t done = g.rows * g.step;
        sum_block(x + done, dy + done, mean, g.rest > 0, 0, g.rest * g.channels, sum, sum_x);
        for (size_t c = 0; c < g.channels; c++) {
            double s = 0, sx = 0;
            for (size_t i = c; i < g.columns; i += g.channels) {
                s += sum[i];
                sx += sum_x[i];
            }
            if (sums)
                sums[at + c] = (float)s;
            if (sums_x)
                sums_x[at + c] = (float)(sx / sqrt((double)vars[at + c] + eps));
        }
    }
}

/* dx = scale dy - all - (x - mean) slope; the factors of every column. */
typedef struct factors {
    float mean[PIECE], scale[PIECE], all[PIECE], slope[PIECE];
} factors;

static void dx_row(const float *x, const float *dy, const factors *k, float *dx, size_t n)
{
    PG_EACH
    for (size_t i = 0; i < n; i++)
        dx[i] = k->scale[i] * (dy[i] - (k->all[i] + (x[i] - k->mean[i]) * k->slope[i]));
}

void PG_FAST_FN(bn_dx)(PG_REF_ARGS)
{
    const float eps = (float)((const pg__bn_attrs *)attrs_)->epsilon;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const float *means = in[2].p, *vars = in[3].p, *gamma = in[4].p;
    const float *sum = in[5].p, *sum_x = in[6].p, n = sum ? *(const float *)in[7].p : 1;
    factors k = {.all = {0}, .slope = {0}};
    if (in[8].p) {
        PG_REF(bn_dx)(attrs_, in, n_in, out, n_out);
        return;
    }
    for (size_t at = 0; at < width; at += PIECE) {
        const grid g = grid_of(rows, width, at);
        const float *x = (const float *)in[0].p + at, *dy = (const float *)in[1].p + at;
        float *dx = (float *)out[0].p + at;
        for (size_t c = 0; c < g.channels; c++) {
            const float rstd = 1 / sqrtf(vars[at + c] + eps);
            k.mean[c] = means[at + c];
            k.scale[c] = (gamma ? gamma[at + c] : 1) * rstd;
            k.all[c] = sum ? sum[at + c] / n : 0;
            k.slope[c] = sum ? rstd * sum_x[at + c] / n : 0;
        }
        repeat(k.mean, &g);
        repeat(k.scale, &g);
        repeat(k.all, &g);
        repeat(k.slope, &g);
        for (size_t r = 0; r < g.rows; r++, x += g.step, dy += g.step, dx += g.step)
            dx_row(x, dy, &k, dx, g.columns);
        dx_row(x, dy, &k, dx, g.rest * g.channels);
    }
}
