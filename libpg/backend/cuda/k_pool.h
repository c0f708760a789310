/* k_pool.h - maximum and average over windows, a thread for each element of the result. Gradients
 * are gathered: a cell of x visits the windows that contain it; if no cell is in two windows, a
 * window visits its cells. */
#ifndef PG_BACKEND_K_POOL_H
#define PG_BACKEND_K_POOL_H

#include "backend/cuda/k_index.h"

/* As ops/pool_geo.h. */
typedef struct pgk_windows {
    uint32_t channels, x[3], y[3], window[3], stride[3], before[3];
    int wide;
} pgk_windows;

typedef struct pgk_pool {
    pgk_real x, y;
    pgk_image image; /* of y */
    pgk_windows geo;
} pgk_pool;
typedef pgk_pool pgk_pool_max, pgk_pool_mean;

/* Where the image of a row begins. */
PGK_FN uint64_t pgk_image_at(uint64_t row, const uint32_t cells[3], uint32_t channels)
{
    return row * (cells[0] * cells[1] * cells[2] * channels);
}

PGK_FN uint32_t pgk_less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

PGK_FN uint32_t pgk_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The part of a window that exists; the number of its cells. */
PGK_FN uint32_t pgk_window(const pgk_windows *g, const uint32_t at[3], uint32_t from[3],
                           uint32_t to[3])
{
    uint32_t n = 1;
    for (unsigned k = 0; k < 3; k++) {
        const uint32_t start = at[k] * g->stride[k];
        from[k] = pgk_less(start, g->before[k]);
        to[k] = pgk_least(pgk_less(start + g->window[k], g->before[k]), g->x[k]);
        n *= pgk_less(to[k], from[k]);
    }
    return n;
}

/* ---- forward ---- */

PGK_FN void pgk_pool_max_at(const pgk_pool *p, uint64_t i)
{
    const pgk_windows *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t image = pgk_image_at(at.row, g->x, g->channels) + at.channel;
    float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, v[4];
    uint32_t from[3], to[3];
    (void)pgk_window(g, at.at, from, to);
    PGK_EACH_CELL(from, to)
    {
        pgk_read(p->x, image + pgk_cell_at(g->x, g->channels, a, b, c), g->wide, v);
        PGK_EACH_OF_4(k)
        top[k] = pgk_larger(v[k], top[k]);
    }
    pgk_write(p->y, i, g->wide, top);
}

/* Lines are summed separately, because a long sum loses small summands. */
PGK_FN void pgk_pool_mean_at(const pgk_pool *p, uint64_t i)
{
    const pgk_windows *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t image = pgk_image_at(at.row, g->x, g->channels) + at.channel;
    float sum[4] = {0, 0, 0, 0}, v[4];
    uint32_t from[3], to[3];
    const float n = (float)pgk_window(g, at.at, from, to);
    for (uint32_t a = from[0]; a < to[0]; a++)
        for (uint32_t b = from[1]; b < to[1]; b++) {
            float line[4] = {0, 0, 0, 0};
            for (uint32_t c = from[2]; c < to[2]; c++) {
                pgk_read(p->x, image + pgk_cell_at(g->x, g->channels, a, b, c), g->wide, v);
                PGK_EACH_OF_4(k)
                line[k] += v[k];
            }
            PGK_EACH_OF_4(k)
            sum[k] += line[k];
        }
    PGK_EACH_OF_4(k)
    sum[k] /= n;
    pgk_write(p->y, i, g->wide, sum);
}

/* ---- the largest cell of a window, the first of equals ---- */

PGK_FN void pgk_largest(const pgk_windows *g, pgk_real x, uint64_t image, const uint32_t at[3],
                        uint32_t best[4])
{
    float top[4], v[4];
    uint32_t from[3], to[3];
    (void)pgk_window(g, at, from, to);
    const uint32_t first = pgk_cell_at(g->x, g->channels, from[0], from[1], from[2]);
    pgk_read(x, image + first, g->wide, top);
    PGK_EACH_OF_4(k)
    best[k] = first;
    PGK_EACH_CELL(from, to)
    {
        const uint32_t cell = pgk_cell_at(g->x, g->channels, a, b, c);
        pgk_read(x, image + cell, g->wide, v);
        PGK_EACH_OF_4(k)
        {
            best[k] = v[k] > top[k] ? cell : best[k];
            top[k] = v[k] > top[k] ? v[k] : top[k];
        }
    }
}

/* Of each window and channel, by where the cell begins in its image. */
typedef struct pgk_pool_largest {
    pgk_real x, cells; /* cells: integers */
    pgk_image image;   /* of y */
    pgk_windows geo;
} pgk_pool_largest;

PGK_FN void pgk_pool_largest_at(const pgk_pool_largest *p, uint64_t i)
{
    const pgk_windows *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t image = pgk_image_at(at.row, g->x, g->channels) + at.channel;
    const unsigned n = g->wide ? 4 : 1;
    uint32_t best[4];
    pgk_largest(g, p->x, image, at.at, best);
    PGK_EACH_OF_4(k)
    if (k < n)
        pgk_set_int(p->cells, n * i + k, (int32_t)best[k]);
}

/* ---- gradients, of windows that have no cell in common ---- */

typedef struct pgk_pool_apart {
    pgk_real x, dy, dx;
    pgk_image image; /* of y */
    pgk_windows geo;
} pgk_pool_apart;

/* A window's cells, those up to the next window, and those in front of the first. */
PGK_FN void pgk_territory(const pgk_windows *g, const uint32_t at[3], uint32_t from[3],
                          uint32_t to[3])
{
    for (unsigned k = 0; k < 3; k++) {
        const uint32_t next = (at[k] + 1) * g->stride[k];
        from[k] = at[k] == 0 ? 0 : pgk_less(next - g->stride[k], g->before[k]);
        to[k] = pgk_least(pgk_less(next, g->before[k]), g->x[k]);
        to[k] = at[k] + 1 == g->y[k] ? g->x[k] : to[k];
    }
}

PGK_FN void pgk_pool_apart_at(const pgk_pool_apart *p, uint64_t i)
{
    const pgk_windows *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t image = pgk_image_at(at.row, g->x, g->channels) + at.channel;
    float dy[4], dx[4];
    uint32_t from[3], to[3], best[4];
    pgk_largest(g, p->x, image, at.at, best);
    pgk_read(p->dy, i, g->wide, dy);
    pgk_territory(g, at.at, from, to);
    PGK_EACH_CELL(from, to)
    {
        const uint32_t cell = pgk_cell_at(g->x, g->channels, a, b, c);
        PGK_EACH_OF_4(k)
        dx[k] = cell == best[k] ? dy[k] : 0;
        pgk_write(p->dx, image + cell, g->wide, dx);
    }
}

/* ---- gradients, of any windows ---- */

typedef struct pgk_pool_grad {
    pgk_real cells, dy, dx; /* cells: pool_largest's; of the maximum alone */
    pgk_image image;        /* of x */
    pgk_div stride[3];
    pgk_windows geo;
} pgk_pool_grad;
typedef pgk_pool_grad pgk_pool_max_grad, pgk_pool_mean_grad;

/* The windows that a cell is in, first[k] .. end[k]. */
PGK_FN void pgk_windows_of(const pgk_pool_grad *p, const uint32_t cell[3], uint32_t first[3],
                           uint32_t end[3])
{
    const pgk_windows *g = &p->geo;
    for (unsigned k = 0; k < 3; k++) {
        const uint32_t at = cell[k] + g->before[k], window = g->window[k];
        const uint32_t last = (uint32_t)pgk_quotient(p->stride[k], at);
        first[k] = at < window ? 0 : (uint32_t)pgk_quotient(p->stride[k], at - window) + 1;
        end[k] = pgk_least(last + 1, g->y[k]);
    }
}

PGK_FN void pgk_pool_max_grad_at(const pgk_pool_grad *p, uint64_t i)
{
    const pgk_windows *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t in_y = pgk_image_at(at.row, g->y, g->channels) + at.channel;
    const uint32_t cell = pgk_cell_at(g->x, g->channels, at.at[0], at.at[1], at.at[2]);
    const unsigned n = g->wide ? 4 : 1;
    float sum[4] = {0, 0, 0, 0}, dy[4];
    uint32_t first[3], end[3];
    pgk_windows_of(p, at.at, first, end);
    PGK_EACH_CELL(first, end)
    {
        const uint64_t window = in_y + pgk_cell_at(g->y, g->channels, a, b, c);
        pgk_read(p->dy, window, g->wide, dy);
        PGK_EACH_OF_4(k)
        if (k < n && (uint32_t)pgk_int(p->cells, n * window + k) == cell)
            sum[k] += dy[k];
    }
    pgk_write(p->dx, i, g->wide, sum);
}

PGK_FN void pgk_pool_mean_grad_at(const pgk_pool_grad *p, uint64_t i)
{
    const pgk_windows *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t in_y = pgk_image_at(at.row, g->y, g->channels) + at.channel;
    float sum[4] = {0, 0, 0, 0}, dy[4];
    uint32_t first[3], end[3], from[3], to[3];
    pgk_windows_of(p, at.at, first, end);
    PGK_EACH_CELL(first, end)
    {
        const uint32_t window[3] = {a, b, c};
        const float n = (float)pgk_window(g, window, from, to);
        pgk_read(p->dy, in_y + pgk_cell_at(g->y, g->channels, a, b, c), g->wide, dy);
        PGK_EACH_OF_4(k)
        sum[k] += dy[k] / n;
    }
    pgk_write(p->dx, i, g->wide, sum);
}

#endif
