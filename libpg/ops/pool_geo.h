/* pool_geo.h - the windows of a pooling operation: three spatial dimensions, unused ones of size 1
 * in front. */
#ifndef PG_OPS_POOL_GEO_H
#define PG_OPS_POOL_GEO_H

#include "ops/attrs.h"

typedef struct pg__pool_geo {
    size_t rows, channels, x[3], y[3], window[3], stride[3], before[3];
} pg__pool_geo;

static inline pg__pool_geo pg__pool_geo_of(const pg__pool_attrs *a, const pg__dims *x,
                                           const pg__dims *y)
{
    pg__pool_geo g = {.rows = (size_t)x->d[0], .channels = (size_t)x->d[x->rank - 1]};
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

/* The existing part of a window, from[i] .. to[i]; returns its number of cells. */
static inline size_t pg__pool_clip(const pg__pool_geo *g, const size_t at[3], size_t from[3],
                                   size_t to[3])
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

/* Offset of a cell's channels. */
static inline size_t pg__pool_cell(const pg__pool_geo *g, size_t a, size_t b, size_t c)
{
    return ((a * g->x[1] + b) * g->x[2] + c) * g->channels;
}

#define PG_EACH_CELL(g, from, to)                \
    for (size_t a = from[0]; a < to[0]; a++)     \
        for (size_t b = from[1]; b < to[1]; b++) \
            for (size_t c = from[2]; c < to[2]; c++)

#endif
