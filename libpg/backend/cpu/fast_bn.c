/* fast_bn.c - batch normalisation, which memory limits. Rows are processed in place, up to PIECE
 * channels of them; several rows of few channels count as one long row. Sums are floats over a few
 * rows and doubles over those. Variances need one pass: each block's is about its own mean, and
 * they are merged as by Chan, Golub and LeVeque. The plain C references handle masks.
 *
 * An activation after it is part of the loops. If its slope is expensive, the gradient through it
 * is computed a few rows at a time, and added while it is in the nearest cache. */
#include "backend/cpu/act_vec.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/vec.h"

#define PIECE 512 /* channels */
#define BLOCK 32  /* rows whose sums are floats */
#define SOME  4   /* rows that are taken at once */

/* rows x columns numbers, `step` from row to row. A column is a channel of one of `fold` rows that
 * are side by side; the remaining rows are `rest`. */
typedef struct grid {
    size_t rows, columns, step, channels, fold, rest;
} grid;

/* The piece of `width` channels that begins at channel `at`; pieces are about equal. */
static grid grid_of(size_t rows, size_t width, size_t at)
{
    const size_t pieces = (width + PIECE - 1) / PIECE;
    const size_t even = ((width + pieces - 1) / pieces + 15) / 16 * 16;
    const size_t some = width - at < even ? width - at : even;
    const size_t fold = pieces == 1 ? PIECE / width : 1;
    return (grid){rows / fold, fold * some, fold * width, some, fold, rows % fold};
}

static size_t some_of(size_t rows)
{
    return rows < SOME ? rows : SOME;
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
    const double all = m->n + n, share = n / all, both = m->n * share;
    PG_EACH
    for (size_t c = 0; c < columns; c++) {
        const double d = (double)mean[c] - m->mean[c];
        m->mean[c] += d * share;
        m->m2[c] += (double)m2[c] + d * d * both;
    }
    m->n = all;
}

/* Adds 8 rows to the statistics of the `before` ones. */
static void add_eight(float *mean, float *m2, size_t before, const float *x, size_t step, size_t n)
{
    const float share = 8.0f / (float)(before + 8), both = (float)before * share;
    const float *p = x + step, *q = p + step, *r = q + step, *s = r + step, *t = s + step,
                *u = t + step, *v = u + step;
    PG_EACH
    for (size_t i = 0; i < n; i++) {
        const float own =
            (((x[i] + p[i]) + (q[i] + r[i])) + ((s[i] + t[i]) + (u[i] + v[i]))) * 0.125f;
        const float a = x[i] - own, b = p[i] - own, c = q[i] - own, d = r[i] - own, e = s[i] - own,
                    f = t[i] - own, g = u[i] - own, h = v[i] - own, far = own - mean[i];
        const float squares =
            ((a * a + b * b) + (c * c + d * d)) + ((e * e + f * f) + (g * g + h * h));
        mean[i] += far * share;
        m2[i] += squares + far * far * both;
    }
}

/* Adds rows one by one. */
static void add_rows(float *mean, float *m2, size_t before, const float *x, size_t rows,
                     size_t step, size_t n)
{
    for (size_t r = 0; r < rows; r++, x += step) {
        const float share = 1.0f / (float)(before + r + 1), both = (float)(before + r) * share;
        PG_EACH
        for (size_t i = 0; i < n; i++) {
            const float far = x[i] - mean[i];
            mean[i] += far * share;
            m2[i] += far * far * both;
        }
    }
}

static void add_block(moments *m, const float *x, size_t rows, const grid *g)
{
    _Alignas(64) float mean[PIECE], m2[PIECE];
    size_t r = 0;
    memset(mean, 0, g->columns * sizeof *mean);
    memset(m2, 0, g->columns * sizeof *m2);
    for (; r + 8 <= rows; r += 8)
        add_eight(mean, m2, r, x + r * g->step, g->step, g->columns);
    add_rows(mean, m2, r, x + r * g->step, rows - r, g->step, g->columns);
    merge(m, (double)rows, mean, m2, g->columns);
}

/* The moments of channels, from those of their columns and of rows that filled no long row. */
static void fold_columns(moments *to, const moments *m, const grid *g, const float *rest)
{
    const float none[PIECE] = {0};
    for (size_t f = 0; m->n > 0 && f < g->fold; f++) {
        const double *mean = m->mean + f * g->channels, *m2 = m->m2 + f * g->channels;
        const double all = to->n + m->n, share = m->n / all, both = to->n * share;
        PG_EACH
        for (size_t c = 0; c < g->channels; c++) {
            const double d = mean[c] - to->mean[c];
            to->mean[c] += d * share;
            to->m2[c] += m2[c] + d * d * both;
        }
        to->n = all;
    }
    for (size_t r = 0; r < g->rest; r++)
        merge(to, 1, rest + r * g->channels, none, g->channels);
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
    for (size_t at = 0, some; at < width; at += some) {
        const grid g = grid_of(rows, width, at);
        const float *x = (const float *)in[0].p + at;
        moments columns = {.n = 0}, m = {.n = 0};
        for (size_t r = 0; r < g.rows; r += BLOCK)
            add_block(&columns, x + r * g.step, g.rows - r < BLOCK ? g.rows - r : BLOCK, &g);
        fold_columns(&m, &columns, &g, x + g.rows * g.step);
        some = g.channels;
        for (size_t c = 0; mean && c < some; c++)
            mean[at + c] = m.n > 0 ? (float)m.mean[c] : NAN;
        for (size_t c = 0; m2 && c < some; c++)
            m2[at + c] = (float)m.m2[c];
    }
}

/* ---- normalising ---- */

/* What the loops know about an activation; CLIP: ReLU that is 0 below 0, and may have a maximum. */
enum { NO_ACT, CLIP, ANY_RELU, OTHER };
typedef struct squash {
    int how;
    const pg__act_attrs *act;
    pg__act_consts k;
} squash;

static squash squash_of(const pg__bn_attrs *a)
{
    const pg__act_attrs *act = &a->act;
    const int is_clip = act->b == 0 && act->c == 0;
    const int how = !a->has_act                ? NO_ACT
                    : act->kind != PG_ACT_RELU ? OTHER
                    : is_clip                  ? CLIP
                                               : ANY_RELU;
    return (squash){how, act, pg__act_consts_of(act)};
}

/* z = (x - mean) scale + shift, by column. */
typedef struct scales {
    _Alignas(64) float mean[PIECE];
    float scale[PIECE], shift[PIECE];
} scales;

static void scales_of(scales *s, const grid *g, size_t at, const float *means, const float *vars,
                      float eps, const float *gamma, const float *beta)
{
    memcpy(s->mean, means + at, g->channels * sizeof *s->mean);
    for (size_t c = 0; c < g->channels; c++)
        s->scale[c] = (gamma ? gamma[at + c] : 1) / sqrtf(vars[at + c] + eps);
    for (size_t c = 0; c < g->channels; c++)
        s->shift[c] = beta ? beta[at + c] : 0;
    repeat(s->mean, g);
    repeat(s->scale, g);
    repeat(s->shift, g);
}

/* NaN stays. */
PG_INLINE float clip(float z, float top)
{
    const float y = z < 0 ? 0 : z;
    return y > top ? top : y;
}

static void apply_row(const squash *a, const float *x, const scales *s, float *y, size_t n)
{
    const pg__act_consts k = a->k;
#define Z ((x[i] - s->mean[i]) * s->scale[i] + s->shift[i])
#define DO_EACH(value)             \
    PG_EACH                        \
    for (size_t i = 0; i < n; i++) \
    y[i] = (value)
#define DO(kind) DO_EACH(pg__vact(kind, Z, k))
    switch (a->how) {
    case NO_ACT: DO_EACH(Z); break;
    case CLIP: DO_EACH(clip(Z, k.a)); break;
    default: PG_FOR_ACT(a->act->kind, DO)
    }
#undef DO
#undef DO_EACH
#undef Z
}

void PG_FAST_FN(bn_apply)(PG_REF_ARGS)
{
    const pg__bn_attrs *attrs = attrs_;
    const squash a = squash_of(attrs);
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const float *gamma = n_in > 3 ? in[3].p : NULL, *beta = n_in > 4 ? in[4].p : NULL;
    scales s;
    PG_UNUSED(n_out);
    for (size_t at = 0, some; at < width; at += some) {
        const grid g = grid_of(rows, width, at);
        const float *x = (const float *)in[0].p + at;
        float *y = (float *)out[0].p + at;
        scales_of(&s, &g, at, in[1].p, in[2].p, (float)attrs->epsilon, gamma, beta);
        for (size_t r = 0; r < g.rows; r++, x += g.step, y += g.step)
            apply_row(&a, x, &s, y, g.columns);
        apply_row(&a, x, &s, y, g.rest * g.channels);
        some = g.channels;
    }
}

/* ---- gradient ---- */

/* The part of dy that comes through the activation. */
PG_INLINE float through(const int how, pg__act_consts k, float z, float dy)
{
    return how == CLIP       ? (((z > 0) & (z < k.a)) ? dy : 0)
           : how == ANY_RELU ? dy * pg__vrelu_slope(z, k)
                             : dy;
}

/* The same for a row, if the slope is expensive. */
static void through_row(const squash *a, const float *x, const float *dy, const scales *s, float *d,
                        size_t n)
{
    const pg__act_consts k = a->k;
#define DO(kind)                                                         \
    PG_EACH                                                              \
    for (size_t i = 0; i < n; i++) {                                     \
        const float z = (x[i] - s->mean[i]) * s->scale[i] + s->shift[i]; \
        d[i] = dy[i] * pg__vact_slope_of_argument(kind, z, k);           \
    }
    PG_FOR_ACT(a->act->kind, DO)
#undef DO
}

/* Adds the sums of dy and of dy (x - mean) over some rows. */
PG_INLINE void sum_by(const int how, pg__act_consts k, const float *x, size_t step, const float *dy,
                      size_t dy_step, const scales *c, size_t rows, size_t n, float *sum,
                      float *sum_x)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *x0 = x + r * step, *x1 = x0 + step, *x2 = x1 + step, *x3 = x2 + step;
        const float *y0 = dy + r * dy_step, *y1 = y0 + dy_step, *y2 = y1 + dy_step,
                    *y3 = y2 + dy_step;
        PG_EACH
        for (size_t i = 0; i < n; i++) {
            const float t0 = x0[i] - c->mean[i], t1 = x1[i] - c->mean[i];
            const float t2 = x2[i] - c->mean[i], t3 = x3[i] - c->mean[i];
            const float d0 = through(how, k, t0 * c->scale[i] + c->shift[i], y0[i]);
            const float d1 = through(how, k, t1 * c->scale[i] + c->shift[i], y1[i]);
            const float d2 = through(how, k, t2 * c->scale[i] + c->shift[i], y2[i]);
            const float d3 = through(how, k, t3 * c->scale[i] + c->shift[i], y3[i]);
            sum[i] += (d0 + d1) + (d2 + d3);
            sum_x[i] += (d0 * t0 + d1 * t1) + (d2 * t2 + d3 * t3);
        }
    }
    for (; r < rows; r++) {
        PG_EACH
        for (size_t i = 0; i < n; i++) {
            const float t = x[r * step + i] - c->mean[i];
            const float d = through(how, k, t * c->scale[i] + c->shift[i], dy[r * dy_step + i]);
            sum[i] += d;
            sum_x[i] += d * t;
        }
    }
}

/* Where a gradient's numbers come from, and where the gradient through the activation goes, if
 * wanted. */
typedef struct gradient {
    squash act;
    const float *x, *dy;
    float *d;
    scales s;
    float room[SOME * PIECE];
} gradient;

/* The sums of `rows` rows that begin at `from`, added to doubles. */
static void sum_block(gradient *g, size_t from, size_t rows, size_t step, size_t n, double *sum,
                      double *sum_x)
{
    const float *x = g->x + from, *dy = g->dy + from;
    const squash *a = &g->act;
    _Alignas(64) float s[PIECE], sx[PIECE];
    memset(s, 0, n * sizeof *s);
    memset(sx, 0, n * sizeof *sx);
    switch (a->how) {
    case NO_ACT: sum_by(NO_ACT, a->k, x, step, dy, step, &g->s, rows, n, s, sx); break;
    case CLIP: sum_by(CLIP, a->k, x, step, dy, step, &g->s, rows, n, s, sx); break;
    case ANY_RELU: sum_by(ANY_RELU, a->k, x, step, dy, step, &g->s, rows, n, s, sx); break;
    default:
        for (size_t r = 0; r < rows; r += SOME) {
            const size_t some = some_of(rows - r), at = r * step, to_step = g->d ? step : n;
            float *d = g->d ? g->d + from + at : g->room;
            for (size_t k = 0; k < some; k++)
                through_row(a, x + at + k * step, dy + at + k * step, &g->s, d + k * to_step, n);
            sum_by(NO_ACT, a->k, x + at, step, d, to_step, &g->s, some, n, s, sx);
        }
    }
    PG_EACH
    for (size_t i = 0; i < n; i++) {
        sum[i] += (double)s[i];
        sum_x[i] += (double)sx[i];
    }
}

/* The sums of channels from those of their columns. */
static void fold_sums(double *sum, const grid *g)
{
    for (size_t i = g->channels; i < g->columns; i += g->channels) {
        PG_EACH
        for (size_t c = 0; c < g->channels; c++)
            sum[c] += sum[i + c];
    }
}

void PG_FAST_FN(bn_sums)(PG_REF_ARGS)
{
    const pg__bn_attrs *attrs = attrs_;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const float *vars = in[3].p, *gamma = n_in > 4 ? in[4].p : NULL;
    const float *beta = n_in > 5 ? in[5].p : NULL;
    float *sums = out[1].p, *sums_x = out[2].p;
    gradient k;
    k.act = squash_of(attrs);
    if (out[0].p && k.act.how != OTHER) { /* nobody wants that */
        PG_REF(bn_sums)(attrs_, in, n_in, out, n_out);
        return;
    }
    for (size_t at = 0, some; at < width; at += some) {
        const grid g = grid_of(rows, width, at);
        double sum[PIECE] = {0}, sum_x[PIECE] = {0};
        k.x = (const float *)in[0].p + at;
        k.dy = (const float *)in[1].p + at;
        k.d = out[0].p ? (float *)out[0].p + at : NULL;
        scales_of(&k.s, &g, at, in[2].p, vars, (float)attrs->epsilon, gamma, beta);
        for (size_t r = 0; r < g.rows; r += BLOCK)
            sum_block(&k, r * g.step, g.rows - r < BLOCK ? g.rows - r : BLOCK, g.step, g.columns,
                      sum, sum_x);
        sum_block(&k, g.rows * g.step, g.rest > 0, 0, g.rest * g.channels, sum, sum_x);
        fold_sums(sum, &g);
        fold_sums(sum_x, &g);
        some = g.channels;
        for (size_t c = 0; sums && c < some; c++)
            sums[at + c] = (float)sum[c];
        for (size_t c = 0; sums_x && c < some; c++)
            sums_x[at + c] = (float)(sum_x[c] / sqrt((double)vars[at + c] + attrs->epsilon));
    }
}

/* dx = scale dy - all - (x - mean) slope; the factors of every column, and room for a row. */
typedef struct factors {
    squash act;
    scales s;
    _Alignas(64) float all[PIECE];
    float slope[PIECE], room[PIECE];
} factors;

PG_INLINE void dx_by(const int how, const float *x, const float *dy, const factors *k, float *dx,
                     size_t n)
{
    const pg__act_consts c = k->act.k;
    PG_EACH
    for (size_t i = 0; i < n; i++) {
        const float t = x[i] - k->s.mean[i];
        const float d = through(how, c, t * k->s.scale[i] + k->s.shift[i], dy[i]);
        dx[i] = k->s.scale[i] * (d - (k->all[i] + t * k->slope[i]));
    }
}

static void dx_row(factors *k, const float *x, const float *dy, float *dx, size_t n)
{
    switch (k->act.how) {
    case NO_ACT: dx_by(NO_ACT, x, dy, k, dx, n); break;
    case CLIP: dx_by(CLIP, x, dy, k, dx, n); break;
    case ANY_RELU: dx_by(ANY_RELU, x, dy, k, dx, n); break;
    default: through_row(&k->act, x, dy, &k->s, k->room, n); dx_by(NO_ACT, x, k->room, k, dx, n);
    }
}

void PG_FAST_FN(bn_dx)(PG_REF_ARGS)
{
    const pg__bn_attrs *attrs = attrs_;
    const float eps = (float)attrs->epsilon;
    const size_t rows = pg__rows(&in[0]), width = pg__last(in[0].shape);
    const float *vars = in[3].p, *beta = n_in > 9 ? in[9].p : NULL;
    const float *sum = in[5].p, *sum_x = in[6].p, n = sum ? *(const float *)in[7].p : 1;
    factors k = {.act = squash_of(attrs)};
    if (in[8].p) {
        PG_REF(bn_dx)(attrs_, in, n_in, out, n_out);
        return;
    }
    for (size_t at = 0, some; at < width; at += some) {
        const grid g = grid_of(rows, width, at);
        const float *x = (const float *)in[0].p + at, *dy = (const float *)in[1].p + at;
        float *dx = (float *)out[0].p + at;
        scales_of(&k.s, &g, at, in[2].p, vars, eps, in[4].p, beta);
        for (size_t c = 0; sum && c < g.channels; c++) {
            k.all[c] = sum[at + c] / n;
            k.slope[c] = sum_x[at + c] / sqrtf(vars[at + c] + eps) / n;
        }
        repeat(k.all, &g);
        repeat(k.slope, &g);
        for (size_t r = 0; r < g.rows; r++, x += g.step, dy += g.step, dx += g.step)
            dx_row(&k, x, dy, dx, g.columns);
        dx_row(&k, x, dy, dx, g.rest * g.channels);
        some = g.channels;
    }
}
