/* warp_geo.h - the cells of an image from which a cell of the moved one is made. Source for what
 * lies beyond the edges: TensorFlow's ImageProjectiveTransformV3, as Keras calls it; of the places:
 * the matrices of keras/layers/preprocessing of 2.15 and 3.6. Compiles for host and device. */
#ifndef PG_OPS_WARP_GEO_H
#define PG_OPS_WARP_GEO_H

#include "ops/real.h"

/* Cell (x, y) of the result comes from (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]). */
typedef struct pg__warp_matrix {
    real m[6];
} pg__warp_matrix;

/* from: height and width; dx, dy: the drawn numbers. */
PG_SHARED pg__warp_matrix pg__warp_matrix_of(const pg__warp_attrs *a, const uint32_t from[2],
                                             real dx, real dy)
{
    const real h = (real)from[0], w = (real)from[1];
    pg__warp_matrix r = {{1, 0, 0, 0, 1, 0}};
    switch (a->kind) {
    case PG_WARP_SHIFT:
        r.m[2] = -dx * w;
        r.m[5] = -dy * h;
        break;
    case PG_WARP_TURN: {
        const real c = R(cos)(dx), s = R(sin)(dx);
        r.m[0] = r.m[4] = c;
        r.m[1] = -s;
        r.m[3] = s;
        r.m[2] = ((w - 1) - (c * (w - 1) - s * (h - 1))) / 2;
        r.m[5] = ((h - 1) - (s * (w - 1) + c * (h - 1))) / 2;
        break;
    }
    case PG_WARP_ZOOM:
        r.m[0] = dx;
        r.m[4] = dy;
        r.m[2] = (w - 1) / 2 * (1 - dx);
        r.m[5] = (h - 1) / 2 * (1 - dy);
        break;
    case PG_WARP_FLIP:
        r.m[0] = dx < (real)0.5 ? -1 : 1;
        r.m[4] = dy < (real)0.5 ? -1 : 1;
        r.m[2] = dx < (real)0.5 ? w - 1 : 0;
        r.m[5] = dy < (real)0.5 ? h - 1 : 0;
        break;
    case PG_WARP_CROP: { /* rounding may have reached the bound of the drawn numbers */
        const real most_x = w - (real)a->size[1], most_y = h - (real)a->size[0];
        const real x = R(floor)(dx), y = R(floor)(dy);
        r.m[2] = x < most_x ? x : most_x;
        r.m[5] = y < most_y ? y : most_y;
        break;
    }
    }
    return r;
}

/* A place on an axis of n cells, brought back from beyond the edges. */
PG_SHARED real pg__warp_back(pg__warp_fill fill, real at, uint32_t n)
{
    const real last = (real)(n - 1), twice = (real)2 * (real)n;
    if (fill == PG_FILL_CONSTANT)
        return at;
    if (n <= 1)
        return 0;
    if (fill == PG_FILL_REFLECT && at < 0) {
        if (at < twice)
            at += twice * R(trunc)(-at / twice);
        at = at < -(real)n ? at + twice : -at - 1;
    } else if (fill == PG_FILL_REFLECT && at > last) {
        at -= twice * R(trunc)(at / twice);
        at = at >= (real)n ? twice - at - 1 : at;
    } else if (fill == PG_FILL_WRAP && at < 0) {
        at += (real)n * (R(trunc)(-at / last) + 1);
    } else if (fill == PG_FILL_WRAP && at > last) {
        at -= (real)n * R(trunc)(at / last);
    }
    return at < 0 ? 0 : at > last ? last : at;
}

/* Up to two cells along an axis; -1: beyond the edges. */
typedef struct pg__warp_cells {
    int64_t at[2];
    real share[2];
} pg__warp_cells;

PG_SHARED int64_t pg__warp_inside(real at, uint32_t n)
{
    return at >= 0 && at < (real)n ? (int64_t)at : -1;
}

PG_SHARED pg__warp_cells pg__warp_cells_at(const pg__warp_attrs *a, real at, uint32_t n)
{
    const real place = pg__warp_back(a->fill, at, n), low = R(floor)(place);
    pg__warp_cells c;
    if (a->nearest) {
        c.at[0] = c.at[1] = pg__warp_inside(R(round)(place), n);
        c.share[0] = 1;
        c.share[1] = 0;
        return c;
    }
    c.at[0] = pg__warp_inside(low, n);
    c.at[1] = pg__warp_inside(low + 1, n);
    c.share[1] = place - low;
    c.share[0] = 1 - c.share[1];
    return c;
}

#endif
