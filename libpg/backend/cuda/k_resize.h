/* k_resize.h - larger images, and their gradients gathered for each cell of the smaller ones, a
 * thread for each unit of the result: a channel, or four of them where they can be divided so.
 * `channels`, images and indices count units. */
#ifndef PG_BACKEND_K_RESIZE_H
#define PG_BACKEND_K_RESIZE_H

#include "backend/cuda/k_index.h"
#include "ops/resize_geo.h"

typedef struct pgk_resize {
    pgk_real from, to;
    pgk_image image; /* of `to` */
    pgk_div factor[3];
    uint32_t channels, small[3], large[3];
    int wide;
    pg__resize_geo geo; /* for the shares */
} pgk_resize;
typedef pgk_resize pgk_resize_near, pgk_resize_mix, pgk_resize_near_grad, pgk_resize_mix_grad;

/* Where the channel of a pixel's image begins in images of such cells. */
PGK_FN uint64_t pgk_channel_at(const pgk_resize *r, const uint32_t cells[3], const pgk_pixel *p)
{
    return p->row * (cells[0] * cells[1] * cells[2] * r->channels) + p->channel;
}

/* ---- the nearest cell ---- */

PGK_FN void pgk_resize_near_at(const pgk_resize *r, uint64_t i)
{
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    const uint32_t a = (uint32_t)pgk_quotient(r->factor[0], p.at[0]);
    const uint32_t b = (uint32_t)pgk_quotient(r->factor[1], p.at[1]);
    const uint32_t c = (uint32_t)pgk_quotient(r->factor[2], p.at[2]);
    const uint32_t cell = pgk_cell_at(r->small, r->channels, a, b, c);
    float v[4];
    pgk_read(r->from, pgk_channel_at(r, r->small, &p) + cell, r->wide, v);
    pgk_write(r->to, i, r->wide, v);
}

PGK_FN void pgk_resize_near_grad_at(const pgk_resize *r, uint64_t i)
{
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    const uint64_t image = pgk_channel_at(r, r->large, &p);
    uint32_t from[3], to[3];
    float sum[4] = {0, 0, 0, 0}, v[4];
    for (unsigned k = 0; k < 3; k++) {
        from[k] = p.at[k] * (uint32_t)r->factor[k].by;
        to[k] = from[k] + (uint32_t)r->factor[k].by;
    }
    PGK_EACH_CELL(from, to)
    {
        pgk_read(r->from, image + pgk_cell_at(r->large, r->channels, a, b, c), r->wide, v);
        PGK_EACH_OF_4(k)
        sum[k] += v[k];
    }
    pgk_write(r->to, i, r->wide, sum);
}

/* ---- between the centres of cells ---- */

/* sum += share from[at]. What has no share is not read: it may be no number. */
PGK_FN void pgk_add_share(const pgk_resize *r, uint64_t at, float share, float sum[4])
{
    float v[4];
    pgk_read(r->from, at, r->wide, v);
    PGK_EACH_OF_4(k)
    sum[k] += share * v[k];
}

PGK_FN void pgk_resize_mix_at(const pgk_resize *r, uint64_t i)
{
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    const uint64_t image = pgk_channel_at(r, r->small, &p);
    const pg__resize_mix x = pg__resize_mix_of(&r->geo, 0, p.at[0]);
    const pg__resize_mix y = pg__resize_mix_of(&r->geo, 1, p.at[1]);
    const pg__resize_mix z = pg__resize_mix_of(&r->geo, 2, p.at[2]);
    float sum[4] = {0, 0, 0, 0};
    PGK_UNROLL
    for (unsigned corner = 0; corner < 8; corner++) {
        const unsigned a = corner >> 2, b = corner >> 1 & 1u, c = corner & 1u;
        const float share = x.share[a] * y.share[b] * z.share[c];
        const uint32_t cell = pgk_cell_at(r->small, r->channels, (uint32_t)x.cell[a],
                                          (uint32_t)y.cell[b], (uint32_t)z.cell[c]);
        if (share != 0)
            pgk_add_share(r, image + cell, share, sum);
    }
    pgk_write(r->to, i, r->wide, sum);
}

/* The share of a cell in index `at` of the larger axis k. */
PGK_FN float pgk_share(const pgk_resize *r, unsigned k, uint32_t at, uint32_t cell)
{
    const pg__resize_mix m = pg__resize_mix_of(&r->geo, k, at);
    return (m.cell[0] == cell ? m.share[0] : 0) + (m.cell[1] == cell ? m.share[1] : 0);
}

/* Those of the larger image that a cell can have a share in: along each axis its own, and half as
 * many on each side. */
PGK_FN void pgk_reach(const pgk_resize *r, const uint32_t cell[3], uint32_t from[3], uint32_t to[3])
{
    for (unsigned k = 0; k < 3; k++) {
        const uint32_t f = (uint32_t)r->factor[k].by, begin = cell[k] * f;
        const uint32_t half = f == 1 ? 0 : (f + 1) / 2, end = begin + f + half;
        from[k] = begin > half ? begin - half : 0;
        to[k] = end < r->large[k] ? end : r->large[k];
    }
}

PGK_FN void pgk_resize_mix_grad_at(const pgk_resize *r, uint64_t i)
{
    const pgk_pixel p = pgk_pixel_of(&r->image, i);
    const uint64_t image = pgk_channel_at(r, r->large, &p);
    uint32_t from[3], to[3];
    float sum[4] = {0, 0, 0, 0};
    pgk_reach(r, p.at, from, to);
    for (uint32_t a = from[0]; a < to[0]; a++)
        for (uint32_t b = from[1]; b < to[1]; b++) {
            const float line = pgk_share(r, 0, a, p.at[0]) * pgk_share(r, 1, b, p.at[1]);
            for (uint32_t c = from[2]; c < to[2] && line != 0; c++) {
                const float share = line * pgk_share(r, 2, c, p.at[2]);
                if (share != 0)
                    pgk_add_share(r, image + pgk_cell_at(r->large, r->channels, a, b, c), share,
                                  sum);
            }
        }
    pgk_write(r->to, i, r->wide, sum);
}

#endif
