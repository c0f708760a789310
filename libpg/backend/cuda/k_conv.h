/* k_conv.h - convolutions cell by cell, over kernels as Keras has them: for convolutions of each
 * channel separately, where neighbouring threads process neighbouring channels and little else can
 * be gained, and for any shape that a library does not support. */
#ifndef PG_BACKEND_K_CONV_H
#define PG_BACKEND_K_CONV_H

#include "backend/cuda/pgk.h"

/* Three spatial dimensions, unused ones of size 1 in front. No array has 2^31 elements. */
typedef struct pgk_geo {
    uint32_t x[3], y[3], k[3], stride[3], dilation[3], before[3];
    uint32_t in, out, n_in, n_out; /* channels of x, of y, and those of a group */
    uint32_t cells;                /* of y, in all rows */
} pgk_geo;

/* A cell of an array of `of` cells in each row. */
typedef struct pgk_cell {
    uint32_t row, at[3];
} pgk_cell;

PGK_FN pgk_cell pgk_cell_of(uint32_t n, const uint32_t of[3])
{
    pgk_cell c;
    uint32_t rest = n / of[2];
    c.at[2] = n - rest * of[2];
    n = rest / of[1];
    c.at[1] = rest - n * of[1];
    c.row = n / of[0];
    c.at[0] = n - c.row * of[0];
    return c;
}

/* The cell of x that kernel cell k of an axis meets from cell y; none: 2^32 - 1. */
PGK_FN uint32_t pgk_meets(const pgk_geo *g, int axis, uint32_t y, uint32_t k)
{
    const uint32_t to = y * g->stride[axis] + k * g->dilation[axis], x = to - g->before[axis];
    return to >= g->before[axis] && x < g->x[axis] ? x : UINT32_MAX;
}

/* The cell of y from which kernel cell k of an axis meets cell x; none: 2^32 - 1. */
PGK_FN uint32_t pgk_met_by(const pgk_geo *g, int axis, uint32_t x, uint32_t k)
{
    const uint32_t to = x + g->before[axis], from = k * g->dilation[axis];
    const uint32_t y = to < from ? UINT32_MAX : (to - from) / g->stride[axis];
    return y < g->y[axis] && y * g->stride[axis] + from == to ? y : UINT32_MAX;
}

/* The cell of a row that kernel cell (k0, k1, k2) pairs with cell c: of x from one of y, or back.
 */
PGK_FN uint32_t pgk_pair(const pgk_geo *g, const pgk_cell *c, const uint32_t k[3], int back)
{
    uint32_t cell = 0;
    for (int axis = 0; axis < 3; axis++) {
        const uint32_t at = back ? pgk_met_by(g, axis, c->at[axis], k[axis])
                                 : pgk_meets(g, axis, c->at[axis], k[axis]);
        if (at == UINT32_MAX)
            return UINT32_MAX;
        cell = cell * (back ? g->y : g->x)[axis] + at;
    }
    return cell;
}

#define PGK_EACH_TAP(g, k, tap)                                        \
    for (uint32_t k[3] = {0, 0, 0}, tap = 0; k[0] < (g)->k[0]; k[0]++) \
        for (k[1] = 0; k[1] < (g)->k[1]; k[1]++)                       \
            for (k[2] = 0; k[2] < (g)->k[2]; k[2]++, tap++)

/* y, one element: cell by cell of the kernel, channel by channel of the group. */
typedef struct pgk_conv_y {
    pgk_real x, w, bias, y;
    pgk_geo g;
} pgk_conv_y;

PGK_FN void pgk_conv_y_at(const pgk_conv_y *a, uint64_t i)
{
    const pgk_geo *g = &a->g;
    const uint32_t n = (uint32_t)i / g->out, o = (uint32_t)i - n * g->out;
    const pgk_cell c = pgk_cell_of(n, g->y);
    const uint32_t from = o / g->n_out * g->n_in, n_x = g->x[0] * g->x[1] * g->x[2];
    float sum = a->bias.p ? pgk_get(a->bias, o) : 0;
    PGK_EACH_TAP(g, k, tap)
    {
        const uint32_t cell = pgk_pair(g, &c, k, 0);
        for (uint32_t q = 0; cell != UINT32_MAX && q < g->n_in; q++)
            sum += pgk_get(a->x, (c.row * n_x + cell) * g->in + from + q) *
                   pgk_get(a->w, (tap * g->n_in + q) * g->out + o);
    }
    pgk_set(a->y, i, sum);
}

/* x's gradient, one element. */
typedef struct pgk_conv_x {
    pgk_real y, w, x;
    pgk_geo g;
} pgk_conv_x;

PGK_FN void pgk_conv_x_at(const pgk_conv_x *a, uint64_t i)
{
    const pgk_geo *g = &a->g;
    const uint32_t n = (uint32_t)i / g->in, q = (uint32_t)i - n * g->in;
    const pgk_cell c = pgk_cell_of(n, g->x);
    const uint32_t group = q / g->n_in, from = group * g->n_out;
    const uint32_t n_y = g->y[0] * g->y[1] * g->y[2];
    float sum = 0;
    PGK_EACH_TAP(g, k, tap)
    {
        const uint32_t cell = pgk_pair(g, &c, k, 1);
        const uint32_t w = (tap * g->n_in + q - group * g->n_in) * g->out + from;
        for (uint32_t o = 0; cell != UINT32_MAX && o < g->n_out; o++)
            sum += pgk_get(a->y, (c.row * n_y + cell) * g->out + from + o) * pgk_get(a->w, w + o);
    }
    pgk_set(a->x, i, sum);
}

/* Parts of the kernel's gradient, `parts` of each element: each is over every parts-th cell of y.
 */
typedef struct pgk_conv_w {
    pgk_real x, y, part;
    uint32_t parts;
    uint32_t n_w; /* elements of the kernel */
    pgk_geo g;
} pgk_conv_w;

PGK_FN void pgk_conv_w_at(const pgk_conv_w *a, uint64_t i)
{
    const pgk_geo *g = &a->g;
    const uint32_t part = (uint32_t)(i / a->n_w), e = (uint32_t)(i - (uint64_t)part * a->n_w);
    const uint32_t line = e / g->out, o = e - line * g->out, tap = line / g->n_in;
    const uint32_t q = o / g->n_out * g->n_in + line - tap * g->n_in;
    const uint32_t n_x = g->x[0] * g->x[1] * g->x[2];
    const pgk_cell k = pgk_cell_of(tap, g->k);
    float sum = 0;
    for (uint32_t n = part; n < g->cells; n += a->parts) {
        const pgk_cell c = pgk_cell_of(n, g->y);
        const uint32_t cell = pgk_pair(g, &c, k.at, 0);
        if (cell != UINT32_MAX)
            sum += pgk_get(a->x, ((uint64_t)c.row * n_x + cell) * g->in + q) *
                   pgk_get(a->y, (uint64_t)n * g->out + o);
    }
    pgk_set(a->part, i, sum);
}

#endif
