/* k_pool.h - maximum and average over windows, a thread for each element of the result. Gradients
 * are gathered: a cell of x looks at the windows it is in. */
#ifndef PG_BACKEND_K_POOL_H
#define PG_BACKEND_K_POOL_H

#include "backend/cuda/k_index.h"
#include "ops/pool_geo.h"

typedef struct pgk_pool {
    pgk_real x, y;
    pgk_image image; /* of y */
    pg__pool_geo geo;
} pgk_pool;
typedef pgk_pool pgk_pool_max, pgk_pool_mean;

/* Where the images of a row begin. */
PGK_FN uint64_t pgk_pool_image(const pg__pool_geo *g, uint64_t row, const size_t cells[3])
{
    return row * cells[0] * cells[1] * cells[2] * g->channels;
}

PGK_FN void pgk_pool_max_at(const pgk_pool *p, uint64_t i)
{
    const pg__pool_geo *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t image = pgk_pool_image(g, at.row, g->x) + at.channel;
    float top = -INFINITY;
    size_t from[3], to[3];
    (void)pg__pool_clip(g, at.at, from, to);
    PG_EACH_CELL(g, from, to)
    top = pgk_larger(pgk_get(p->x, image + pg__pool_cell(g, a, b, c)), top);
    pgk_set(p->y, i, top);
}

PGK_FN void pgk_pool_mean_at(const pgk_pool *p, uint64_t i)
{
    const pg__pool_geo *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t image = pgk_pool_image(g, at.row, g->x) + at.channel;
    float sum = 0;
    size_t from[3], to[3];
    const size_t n = pg__pool_clip(g, at.at, from, to);
    for (size_t a = from[0]; a < to[0]; a++)
        for (size_t b = from[1]; b < to[1]; b++) {
            float line = 0; /* apart, because a long sum forgets small summands */
            for (size_t c = from[2]; c < to[2]; c++)
                line += pgk_get(p->x, image + pg__pool_cell(g, a, b, c));
            sum += line;
        }
    pgk_set(p->y, i, sum / (float)n);
}

typedef struct pgk_pool_grad {
    pgk_real x, dy, dx; /* x: of the maximum alone */
    pgk_image image;    /* of x */
    pgk_div stride[3];
    pg__pool_geo geo;
} pgk_pool_grad;
typedef pgk_pool_grad pgk_pool_max_grad, pgk_pool_mean_grad;

/* The windows that a cell is in, first[i] .. end[i]. */
PGK_FN void pgk_pool_windows(const pgk_pool_grad *p, const size_t cell[3], size_t first[3],
                             size_t end[3])
{
    const pg__pool_geo *g = &p->geo;
    for (unsigned i = 0; i < 3; i++) {
        const size_t at = cell[i] + g->before[i];
        const size_t last = (size_t)pgk_quotient(p->stride[i], at);
        first[i] =
            at < g->window[i] ? 0 : (size_t)pgk_quotient(p->stride[i], at - g->window[i]) + 1;
        end[i] = last < g->y[i] ? last + 1 : g->y[i];
    }
}

/* Is the cell the first of the largest in its window? */
PGK_FN int pgk_pool_is_first(const pgk_pool_grad *p, uint64_t image, size_t cell,
                             const size_t window[3])
{
    const pg__pool_geo *g = &p->geo;
    size_t from[3], to[3];
    (void)pg__pool_clip(g, window, from, to);
    size_t best = pg__pool_cell(g, from[0], from[1], from[2]);
    float top = pgk_get(p->x, image + best);
    PG_EACH_CELL(g, from, to)
    {
        const size_t other = pg__pool_cell(g, a, b, c);
        const float v = pgk_get(p->x, image + other);
        best = v > top ? other : best;
        top = v > top ? v : top;
    }
    return best == cell;
}

PGK_FN void pgk_pool_max_grad_at(const pgk_pool_grad *p, uint64_t i)
{
    const pg__pool_geo *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t in_x = pgk_pool_image(g, at.row, g->x) + at.channel;
    const uint64_t in_y = pgk_pool_image(g, at.row, g->y) + at.channel;
    const size_t cell = pg__pool_cell(g, at.at[0], at.at[1], at.at[2]);
    float sum = 0;
    size_t first[3], end[3];
    pgk_pool_windows(p, at.at, first, end);
    PG_EACH_CELL(g, first, end)
    {
        const size_t window[3] = {a, b, c};
        if (pgk_pool_is_first(p, in_x, cell, window))
            sum += pgk_get(p->dy, in_y + ((a * g->y[1] + b) * g->y[2] + c) * g->channels);
    }
    pgk_set(p->dx, i, sum);
}

PGK_FN void pgk_pool_mean_grad_at(const pgk_pool_grad *p, uint64_t i)
{
    const pg__pool_geo *g = &p->geo;
    const pgk_pixel at = pgk_pixel_of(&p->image, i);
    const uint64_t in_y = pgk_pool_image(g, at.row, g->y) + at.channel;
    float sum = 0;
    size_t first[3], end[3], from[3], to[3];
    pgk_pool_windows(p, at.at, first, end);
    PG_EACH_CELL(g, first, end)
    {
        const size_t window[3] = {a, b, c};
        const size_t n = pg__pool_clip(g, window, from, to);
        sum += pgk_get(p->dy, in_y + ((a * g->y[1] + b) * g->y[2] + c) * g->channels) / (float)n;
    }
    pgk_set(p->dx, i, sum);
}

#endif
