/* k_resize.h - larger images, and their gradients gathered for each cell of the smaller ones. */
#ifndef PG_BACKEND_K_RESIZE_H
#define PG_BACKEND_K_RESIZE_H

#include "backend/cuda/k_index.h"
#include "ops/resize_geo.h"

typedef struct pgk_resize {
    pgk_real from, to;
    pgk_image image; /* of `to` */
    pgk_div factor[3];
    pg__resize_geo geo;
} pgk_resize;
typedef pgk_resize pgk_resize_near, pgk_resize_mix, pgk_resize_near_grad, pgk_resize_mix_grad;

PGK_FN uint64_t pgk_small_cell(const pg__resize_geo *g, const pgk_pixel *p, size_t a, size_t b,
                               size_t c)
{
    const uint64_t cell = ((p->row * g->small[0] + a) * g->small[1] + b) * g->small[2] + c;
    return cell * g->channels + p->channel;
}

PGK_FN uint64_t pgk_large_cell(const pg__resize_geo *g, const pgk_pixel *p, size_t a, size_t b,
                               size_t c)
{
    const uint64_t line =
        (p->row * g->small[0] * g->factor[0] + a) * g->small[1] * g->factor[1] + b;
    return (line * g->small[2] * g->factor[2] + c) * g->channels + p->channel;
}

PGK_FN void pgk_resize_near_at(const pgk_resize *r, uint64_t i)
{
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    const size_t a = (size_t)pgk_quotient(r->factor[0], p.at[0]);
    const size_t b = (size_t)pgk_quotient(r->factor[1], p.at[1]);
    const size_t c = (size_t)pgk_quotient(r->factor[2], p.at[2]);
    pgk_set(r->to, i, pgk_get(r->from, pgk_small_cell(&r->geo, &p, a, b, c)));
}

/* What has no share is not read: it may be no number. */
PGK_FN void pgk_resize_mix_at(const pgk_resize *r, uint64_t i)
{
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    const pg__resize_mix x = pg__resize_mix_of(&r->geo, 0, p.at[0]);
    const pg__resize_mix y = pg__resize_mix_of(&r->geo, 1, p.at[1]);
    const pg__resize_mix z = pg__resize_mix_of(&r->geo, 2, p.at[2]);
    float sum = 0;
    for (unsigned corner = 0; corner < 8; corner++) {
        const unsigned a = corner >> 2, b = corner >> 1 & 1u, c = corner & 1u;
        const float share = x.share[a] * y.share[b] * z.share[c];
        if (share != 0)
            sum += share *
                   pgk_get(r->from, pgk_small_cell(&r->geo, &p, x.cell[a], y.cell[b], z.cell[c]));
    }
    pgk_set(r->to, i, sum);
}

PGK_FN void pgk_resize_near_grad_at(const pgk_resize *r, uint64_t i)
{
    const pg__resize_geo *g = &r->geo;
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    const size_t *f = g->factor;
    float sum = 0;
    for (size_t a = p.at[0] * f[0]; a < (p.at[0] + 1) * f[0]; a++)
        for (size_t b = p.at[1] * f[1]; b < (p.at[1] + 1) * f[1]; b++)
            for (size_t c = p.at[2] * f[2]; c < (p.at[2] + 1) * f[2]; c++)
                sum += pgk_get(r->from, pgk_large_cell(g, &p, a, b, c));
    pgk_set(r->to, i, sum);
}

/* The share of a cell in index `at` of the larger axis k. */
PGK_FN float pgk_resize_share(const pg__resize_geo *g, unsigned k, size_t at, size_t cell)
{
    const pg__resize_mix m = pg__resize_mix_of(g, k, at);
    return (m.cell[0] == cell ? m.share[0] : 0) + (m.cell[1] == cell ? m.share[1] : 0);
}

/* Those of the larger axis k that a cell can have a share in, from[k] .. to[k]: half a cell and a
 * half on each side of its centre. */
PGK_FN void pgk_resize_reach(const pg__resize_geo *g, const size_t cell[3], size_t from[3],
                             size_t to[3])
{
    for (unsigned k = 0; k < 3; k++) {
        const size_t f = g->factor[k], begin = cell[k] * f, all = g->small[k] * f;
        const size_t half = f == 1 ? 0 : (f + 1) / 2;
        from[k] = begin > half ? begin - half : 0;
        to[k] = begin + f + half < all ? begin + f + half : all;
    }
}

PGK_FN void pgk_resize_mix_grad_at(const pgk_resize *r, uint64_t i)
{
    const pg__resize_geo *g = &r->geo;
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    size_t from[3], to[3];
    float sum = 0;
    pgk_resize_reach(g, p.at, from, to);
    for (size_t a = from[0]; a < to[0]; a++)
        for (size_t b = from[1]; b < to[1]; b++) {
            const float plane =
                pgk_resize_share(g, 0, a, p.at[0]) * pgk_resize_share(g, 1, b, p.at[1]);
            for (size_t c = from[2]; c < to[2]; c++) {
                const float share = plane * pgk_resize_share(g, 2, c, p.at[2]);
                if (share != 0)
                    sum += share * pgk_get(r->from, pgk_large_cell(g, &p, a, b, c));
            }
        }
    pgk_set(r->to, i, sum);
}

#endif
