/* resize_geo.h - the cells of the smaller image from which a cell of the larger one is made: three
 * spatial dimensions, unused ones of size 1 in front. */
#ifndef PG_OPS_RESIZE_GEO_H
#define PG_OPS_RESIZE_GEO_H

#include "ops/real.h"

typedef struct pg__resize_geo {
    size_t rows, channels, small[3], factor[3];
    int bilinear;
} pg__resize_geo;

static inline pg__resize_geo pg__resize_geo_of(const pg__resize_attrs *a, const pg__dims *small)
{
    pg__resize_geo g;
    g.rows = (size_t)small->d[0];
    g.channels = pg__last(small);
    g.bilinear = a->bilinear;
    for (size_t i = 0; i < 3; i++) {
        const size_t unused = 3 - a->rank;
        g.small[i] = i >= unused ? (size_t)small->d[i - unused + 1] : 1;
        g.factor[i] = i >= unused ? (size_t)a->factor[i - unused] : 1;
    }
    return g;
}

/* The cells from which index `at` of the larger axis i is made. */
typedef struct pg__resize_mix {
    size_t cell[2];
    real share[2];
} pg__resize_mix;

PG_SHARED pg__resize_mix pg__resize_mix_of(const pg__resize_geo *g, size_t i, size_t at)
{
    const size_t last = g->small[i] - 1;
    pg__resize_mix m = {{at / g->factor[i], at / g->factor[i]}, {1, 0}};
    if (!g->bilinear || g->factor[i] == 1)
        return m;
    const real from =
        ((real)at + (real)0.5) / (real)g->factor[i] - (real)0.5; /* centre to centre */
    const real low = from < 0 ? 0 : R(floor)(from);
    m.cell[0] = (size_t)low;
    m.cell[1] = m.cell[0] < last ? m.cell[0] + 1 : last;
    m.share[1] = from < 0 ? 0 : from - low;
    m.share[0] = 1 - m.share[1];
    return m;
}

#endif
