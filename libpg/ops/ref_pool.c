/* ref_pool.c - pooling, window by window, all channels of a cell at once. */
#include "ops/real.h"

/* Three spatial dimensions, unused ones of size 1 in front. */
typedef struct geo {
    size_t rows, channels, x[3], y[3], window[3], stride[3], before[3];
} geo;

static geo geo_of(const pg__pool_attrs *a, const pg__dims *x, const pg__dims *y)
{
    geo g = {.rows = (size_t)x->d[0], .channels = pg__last(x)};
    for (size_t i = 0; i < 3; i++) {
        const size_t unused = 3 - a->rank, from = i - unused;
        const int used = i >= unused;
        g.x[i] = used ? (size_t)x->d[from + 1] : 1;
        g.y[i] = used ? (size_t)y->d[from + 1] : 1;
        g.window[i] = used ? (size_t)a->window[from] : 1;
        g.stride[i] = used && a->stride[from] ? (size_t)a->stride[from] : 1;
        g.before[i] = used ? (size_t)a->before[from] : 0;
        if (g.window[i] == 0)
            g.window[i] = g.x[i];
    }
    return g;
}

/* The part of a window that exists, from[i] .. to[i]; the number of its cells. */
static size_t clip(const geo *g, const size_t at[3], size_t from[3], size_t to[3])
{
    size_t n = 1;
    for (size_t i = 0; i < 3; i++) {
        const size_t start = at[i] * g->stride[i], end = start + g->window[i];
        from[i] = start > g->before[i] ? start - g->before[i] : 0;
        to[i] = end > g->before[i] ? end - g->before[i] : 0;
        if (to[i] > g->x[i])
            to[i] = g->x[i];
        n *= to[i] > from[i] ? to[i] - from[i] : 0;
    }
    return n;
}

/* What is done with one window: its n cells of x lie at cell(g, ...). */
typedef void (*window_fn)(const geo *g, const size_t from[3], const size_t to[3], size_t n,
                          const real *x, real *dx, real *y);

static inline void each_window(const geo *g, const real *x, real *dx, real *y, window_fn window)
{
    const size_t image = g->x[0] * g->x[1] * g->x[2] * g->channels;
    size_t at[3], from[3], to[3];
    for (size_t r = 0; r < g->rows; r++)
        for (at[0] = 0; at[0] < g->y[0]; at[0]++)
            for (at[1] = 0; at[1] < g->y[1]; at[1]++)
                for (at[2] = 0; at[2] < g->y[2]; at[2]++, y += g->channels) {
                    const size_t n = clip(g, at, from, to);
                    window(g, from, to, n, x ? x + r * image : NULL, dx ? dx + r * image : NULL, y);
                }
}

static inline size_t cell(const geo *g, size_t a, size_t b, size_t c)
{
    return ((a * g->x[1] + b) * g->x[2] + c) * g->channels;
}

#define EACH_CELL(g, from, to)                   \
    for (size_t a = from[0]; a < to[0]; a++)     \
        for (size_t b = from[1]; b < to[1]; b++) \
            for (size_t c = from[2]; c < to[2]; c++)

static void take_max(const geo *g, const size_t from[3], const size_t to[3], size_t n,
                     const real *x, real *dx, real *y)
{
    PG_UNUSED(n), PG_UNUSED(dx);
    for (size_t k = 0; k < g->channels; k++)
        y[k] = -INFINITY;
    EACH_CELL(g, from, to)
    {
        const real *v = x + cell(g, a, b, c);
        for (size_t k = 0; k < g->channels; k++)
            y[k] = v[k] > y[k] || isnan(v[k]) ? v[k] : y[k];
    }
}

static void take_mean(const geo *g, const size_t from[3], const size_t to[3], size_t n,
                      const real *x, real *dx, real *y)
{
    PG_UNUSED(dx);
    memset(y, 0, g->channels * sizeof *y);
    EACH_CELL(g, from, to)
    {
        const real *v = x + cell(g, a, b, c);
        for (size_t k = 0; k < g->channels; k++)
            y[k] += v[k];
    }
    for (size_t k = 0; k < g->channels; k++)
        y[k] /= (real)n;
}

/* The first of the largest cells takes it all. */
static void give_max(const geo *g, const size_t from[3], const size_t to[3], size_t n,
                     const real *x, real *dx, real *dy)
{
    PG_UNUSED(n);
    for (size_t k = 0; k < g->channels; k++) {
        size_t best = cell(g, from[0], from[1], from[2]) + k;
        EACH_CELL(g, from, to)
        if (x[cell(g, a, b, c) + k] > x[best])
            best = cell(g, a, b, c) + k;
        dx[best] += dy[k];
    }
}

static void give_mean(const geo *g, const size_t from[3], const size_t to[3], size_t n,
                      const real *x, real *dx, real *dy)
{
    PG_UNUSED(x);
    EACH_CELL(g, from, to)
    {
        real *v = dx + cell(g, a, b, c);
        for (size_t k = 0; k < g->channels; k++)
            v[k] += dy[k] / (real)n;
    }
}

void PG_REF(pool)(PG_REF_ARGS)
{
    const pg__pool_attrs *a = attrs_;
    const geo g = geo_of(a, in[0].shape, out[0].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    each_window(&g, in[0].p, NULL, out[0].p, a->max ? take_max : take_mean);
}

void PG_REF(pool_grad)(PG_REF_ARGS)
{
    const pg__pool_attrs *a = attrs_;
    const geo g = geo_of(a, out[0].shape, in[1].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    each_window(&g, in[0].p, out[0].p, in[1].p, a->max ? give_max : give_mean);
}
