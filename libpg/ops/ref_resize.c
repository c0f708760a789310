/* ref_resize.c - larger images. Every cell of the result is a weighted sum of at most two cells
 * along each axis; the gradient goes back by the same weights. */
#include "ops/resize_geo.h"

/* One cell of the larger image; back: spreads its gradient over the smaller image's. */
static void one_cell(const pg__resize_geo *g, const size_t at[3], real *small, real *large,
                     int back)
{
    const pg__resize_mix m[3] = {pg__resize_mix_of(g, 0, at[0]), pg__resize_mix_of(g, 1, at[1]),
                                 pg__resize_mix_of(g, 2, at[2])};
    for (unsigned corner = 0; corner < 8; corner++) {
        const unsigned a = corner >> 2, b = corner >> 1 & 1u, c = corner & 1u;
        const real share = m[0].share[a] * m[1].share[b] * m[2].share[c];
        real *s =
            small + ((m[0].cell[a] * g->small[1] + m[1].cell[b]) * g->small[2] + m[2].cell[c]) *
                        g->channels;
        if (share == 0)
            continue;
        for (size_t k = 0; k < g->channels; k++)
            if (back)
                s[k] += share * large[k];
            else
                large[k] += share * s[k];
    }
}

static void each_cell(const pg__resize_geo *g, real *small, real *large, int back)
{
    const size_t image = g->small[0] * g->small[1] * g->small[2] * g->channels;
    size_t at[3];
    for (size_t r = 0; r < g->rows; r++, small += image)
        for (at[0] = 0; at[0] < g->small[0] * g->factor[0]; at[0]++)
            for (at[1] = 0; at[1] < g->small[1] * g->factor[1]; at[1]++)
                for (at[2] = 0; at[2] < g->small[2] * g->factor[2]; at[2]++, large += g->channels)
                    one_cell(g, at, small, large, back);
}

void PG_REF(resize)(PG_REF_ARGS)
{
    const pg__resize_geo g = pg__resize_geo_of(attrs_, in[0].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    each_cell(&g, in[0].p, out[0].p, 0);
}

void PG_REF(resize_grad)(PG_REF_ARGS)
{
    const pg__resize_geo g = pg__resize_geo_of(attrs_, out[0].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    each_cell(&g, out[0].p, in[0].p, 1);
}
