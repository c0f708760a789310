/* ref_pool.c - pooling, window by window, all channels of a cell at once. */
#include "ops/pool_geo.h"
#include "ops/real.h"

/* Processes one window: its n cells of x are at pg__pool_cell(). */
typedef void (*window_fn)(const pg__pool_geo *g, const size_t from[3], const size_t to[3], size_t n,
                          const real *x, real *dx, real *y);

static inline void each_window(const pg__pool_geo *g, const real *x, real *dx, real *y,
                               window_fn window)
{
    const size_t image = g->x[0] * g->x[1] * g->x[2] * g->channels;
    size_t at[3], from[3], to[3];
    for (size_t r = 0; r < g->rows; r++)
        for (at[0] = 0; at[0] < g->y[0]; at[0]++)
            for (at[1] = 0; at[1] < g->y[1]; at[1]++)
                for (at[2] = 0; at[2] < g->y[2]; at[2]++, y += g->channels) {
                    const size_t n = pg__pool_clip(g, at, from, to);
                    window(g, from, to, n, x ? x + r * image : NULL, dx ? dx + r * image : NULL, y);
                }
}

static void take_max(const pg__pool_geo *g, const size_t from[3], const size_t to[3], size_t n,
                     const real *x, real *dx, real *y)
{
    PG_UNUSED(n), PG_UNUSED(dx);
    for (size_t k = 0; k < g->channels; k++)
        y[k] = -INFINITY;
    PG_EACH_CELL(g, from, to)
    {
        const real *v = x + pg__pool_cell(g, a, b, c);
        for (size_t k = 0; k < g->channels; k++)
            y[k] = v[k] > y[k] || isnan(v[k]) ? v[k] : y[k];
    }
}

static void take_mean(const pg__pool_geo *g, const size_t from[3], const size_t to[3], size_t n,
                      const real *x, real *dx, real *y)
{
    PG_UNUSED(dx);
    memset(y, 0, g->channels * sizeof *y);
    PG_EACH_CELL(g, from, to)
    {
        const real *v = x + pg__pool_cell(g, a, b, c);
        for (size_t k = 0; k < g->channels; k++)
            y[k] += v[k];
    }
    for (size_t k = 0; k < g->channels; k++)
        y[k] /= (real)n;
}

/* The first of the largest cells gets the whole gradient. */
static void give_max(const pg__pool_geo *g, const size_t from[3], const size_t to[3], size_t n,
                     const real *x, real *dx, real *dy)
{
    PG_UNUSED(n);
    for (size_t k = 0; k < g->channels; k++) {
        size_t best = pg__pool_cell(g, from[0], from[1], from[2]) + k;
        PG_EACH_CELL(g, from, to)
        if (x[pg__pool_cell(g, a, b, c) + k] > x[best])
            best = pg__pool_cell(g, a, b, c) + k;
        dx[best] += dy[k];
    }
}

static void give_mean(const pg__pool_geo *g, const size_t from[3], const size_t to[3], size_t n,
                      const real *x, real *dx, real *dy)
{
    PG_UNUSED(x);
    PG_EACH_CELL(g, from, to)
    {
        real *v = dx + pg__pool_cell(g, a, b, c);
        for (size_t k = 0; k < g->channels; k++)
            v[k] += dy[k] / (real)n;
    }
}

void PG_REF(pool)(PG_REF_ARGS)
{
    const pg__pool_attrs *a = attrs_;
    const pg__pool_geo g = pg__pool_geo_of(a, in[0].shape, out[0].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    each_window(&g, in[0].p, NULL, out[0].p, a->max ? take_max : take_mean);
}

void PG_REF(pool_grad)(PG_REF_ARGS)
{
    const pg__pool_attrs *a = attrs_;
    const pg__pool_geo g = pg__pool_geo_of(a, out[0].shape, in[1].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    each_window(&g, in[0].p, out[0].p, in[1].p, a->max ? give_max : give_mean);
}
