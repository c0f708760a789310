/* ref_conv.c - convolutions, tap by tap: for every pair of cells that a kernel cell connects, a
 * small matrix product over channels, contiguous in the filters. */
#include "ops/act_real.h"

/* Three spatial dimensions, unused ones of size 1 in front; x is the convolution's operand. */
typedef struct geo {
    size_t rows, x[3], y[3], k[3], stride[3], dilation[3], before[3];
    size_t in, out, groups; /* channels */
} geo;

static geo geo_of(const pg__conv_attrs *a, const pg__arg *x, const pg__arg *y)
{
    geo g = {.rows = (size_t)x->shape->d[0],
             .in = pg__last(x->shape),
             .out = pg__last(y->shape),
             .groups = (size_t)a->groups};
    for (size_t i = 0; i < 3; i++) {
        const size_t unused = 3 - a->rank, from = i - unused;
        const int used = i >= unused;
        g.x[i] = used ? (size_t)x->shape->d[from + 1] : 1;
        g.y[i] = used ? (size_t)y->shape->d[from + 1] : 1;
        g.k[i] = used ? (size_t)a->kernel[from] : 1;
        g.stride[i] = used ? (size_t)a->stride[from] : 1;
        g.dilation[i] = used ? (size_t)a->dilation[from] : 1;
        g.before[i] = used ? (size_t)a->before[from] : 0;
    }
    return g;
}

/* One connected pair: channels of a cell of x, of a cell of y, and the kernel between them. */
typedef void (*tap_fn)(const geo *g, real *x, real *w, real *y);

/* The cell of x that kernel cell k of axis i reaches from cell at of y; 0 if it is in the
 * padding. */
static inline int reach(const geo *g, size_t i, size_t at, size_t k, size_t *cell)
{
    const size_t to = at * g->stride[i] + k * g->dilation[i];
    *cell = to - g->before[i];
    return to >= g->before[i] && *cell < g->x[i];
}

/* All taps of one cell of y. */
static inline void taps_of_cell(const geo *g, const size_t at[3], real *x, real *w, real *y,
                                tap_fn tap)
{
    size_t c[3];
    for (size_t k0 = 0; k0 < g->k[0]; k0++) {
        if (!reach(g, 0, at[0], k0, &c[0]))
            continue;
        for (size_t k1 = 0; k1 < g->k[1]; k1++) {
            if (!reach(g, 1, at[1], k1, &c[1]))
                continue;
            for (size_t k2 = 0; k2 < g->k[2]; k2++)
                if (reach(g, 2, at[2], k2, &c[2]))
                    tap(g, x + ((c[0] * g->x[1] + c[1]) * g->x[2] + c[2]) * g->in,
                        w + ((k0 * g->k[1] + k1) * g->k[2] + k2) * (g->in / g->groups) * g->out, y);
        }
    }
}

static inline void each_tap(const geo *g, real *x, real *w, real *y, tap_fn tap)
{
    size_t at[3];
    for (size_t r = 0; r < g->rows; r++, x += g->x[0] * g->x[1] * g->x[2] * g->in)
        for (at[0] = 0; at[0] < g->y[0]; at[0]++)
            for (at[1] = 0; at[1] < g->y[1]; at[1]++)
                for (at[2] = 0; at[2] < g->y[2]; at[2]++, y += g->out)
                    taps_of_cell(g, at, x, w, y, tap);
}

/* One channel per group and one filter: element by element. */
static inline int is_depthwise(const geo *g)
{
    return g->in == g->groups && g->out == g->groups;
}

static inline void tap_y(const geo *g, real *restrict x, real *restrict w, real *restrict y)
{
    const size_t in = g->in / g->groups, out = g->out / g->groups;
    for (size_t c = 0; is_depthwise(g) && c < g->out; c++)
        y[c] += x[c] * w[c];
    for (size_t q = 0; !is_depthwise(g) && q < g->groups; q++)
        for (size_t i = 0; i < in; i++)
            for (size_t o = 0; o < out; o++)
                y[q * out + o] += x[q * in + i] * w[i * g->out + q * out + o];
}

static inline void tap_x(const geo *g, real *restrict x, real *restrict w, real *restrict y)
{
    const size_t in = g->in / g->groups, out = g->out / g->groups;
    for (size_t c = 0; is_depthwise(g) && c < g->out; c++)
        x[c] += y[c] * w[c];
    for (size_t q = 0; !is_depthwise(g) && q < g->groups; q++)
        for (size_t i = 0; i < in; i++)
            x[q * in + i] += pg__dot(y + q * out, w + i * g->out + q * out, out);
}

static inline void tap_w(const geo *g, real *restrict x, real *restrict w, real *restrict y)
{
    const size_t in = g->in / g->groups, out = g->out / g->groups;
    for (size_t c = 0; is_depthwise(g) && c < g->out; c++)
        w[c] += x[c] * y[c];
    for (size_t q = 0; !is_depthwise(g) && q < g->groups; q++)
        for (size_t i = 0; i < in; i++)
            for (size_t o = 0; o < out; o++)
                w[i * g->out + q * out + o] += x[q * in + i] * y[q * out + o];
}

void PG_REF(conv)(PG_REF_ARGS)
{
    const geo g = geo_of(attrs_, &in[0], &out[0]);
    const real *b = n_in > 2 ? pg__reals(&in[2]) : NULL;
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_out);
    for (uint64_t k = 0; k < out[0].n; k += g.out)
        for (size_t o = 0; o < g.out; o++)
            y[k + o] = b ? b[o] : 0;
    each_tap(&g, in[0].p, in[1].p, y, tap_y);
}

void PG_REF(conv_norm)(PG_REF_ARGS)
{
    const pg__conv_norm_attrs *a = attrs_;
    const size_t width = pg__last(out[0].shape);
    const real *mean = pg__reals(&in[3]), *variance = pg__reals(&in[4]);
    const real *gamma = pg__reals(&in[5]), *beta = pg__reals(&in[6]);
    real *y = pg__reals_out(&out[0]);
    const real *plus = n_in > 7 ? pg__reals(&in[7]) : NULL;
    PG_REF(conv)(&a->conv, in, 3, out, n_out);
    for (uint64_t k = 0; k < out[0].n; k += width)
        for (size_t c = 0; c < width; c++) {
            const real scale = (gamma ? gamma[c] : 1) / R(sqrt)(variance[c] + (real)a->epsilon);
            const real v =
                (y[k + c] - mean[c]) * scale + (beta ? beta[c] : 0) + (plus ? plus[k + c] : 0);
            y[k + c] = a->has_act ? pg__act_value(v, &a->act) : v;
        }
}

void PG_REF(conv_dx)(PG_REF_ARGS)
{
    const geo g = geo_of(attrs_, &out[0], &in[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    each_tap(&g, out[0].p, in[1].p, in[0].p, tap_x);
}

void PG_REF(conv_dw)(PG_REF_ARGS)
{
    const geo g = geo_of(attrs_, &in[0], &in[1]);
    const real *dy = pg__reals(&in[1]);
    real *db = pg__reals_out(&out[1]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (out[0].p) {
        memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
        each_tap(&g, in[0].p, out[0].p, in[1].p, tap_w);
    }
    if (!db)
        return;
    memset(db, 0, g.out * sizeof *db);
    for (uint64_t k = 0; k < in[1].n; k += g.out)
        for (size_t o = 0; o < g.out; o++)
            db[o] += dy[k + o];
}
