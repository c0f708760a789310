/* ref_resize.c - larger images. Every cell of the result is a weighted sum of at most two cells
 * along each axis; the gradient goes back by the same weights. */
#include "ops/real.h"

typedef struct geo {
    size_t rows, channels, small[3], factor[3];
    int bilinear;
} geo;

static geo geo_of(const pg__resize_attrs *a, const pg__dims *small)
{
    geo g = {.rows = (size_t)small->d[0], .channels = pg__last(small), .bilinear = a->bilinear};
    for (size_t i = 0; i < 3; i++) {
        const size_t unused = 3 - a->rank;
        g.small[i] = i >= unused ? (size_t)small->d[i - unused + 1] : 1;
        g.factor[i] = i >= unused ? (size_t)a->factor[i - unused] : 1;
    }
    return g;
}

/* The cells that index `at` of the larger axis i is made of. */
typedef struct mix {
    size_t cell[2];
    real share[2];
} mix;

static mix mix_of(const geo *g, size_t i, size_t at)
{
    const size_t last = g->small[i] - 1;
    mix m = {{at / g->factor[i], at / g->factor[i]}, {1, 0}};
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

/* One cell of the larger image; back: its gradient is spread over the smaller image's. */
static void one_cell(const geo *g, const size_t at[3], real *small, real *large, int back)
{
    const mix m[3] = {mix_of(g, 0, at[0]), mix_of(g, 1, at[1]), mix_of(g, 2, at[2])};
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

static void each_cell(const geo *g, real *small, real *large, int back)
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
    const geo g = geo_of(attrs_, in[0].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    each_cell(&g, in[0].p, out[0].p, 0);
}

void PG_REF(resize_grad)(PG_REF_ARGS)
{
    const geo g = geo_of(attrs_, out[0].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    each_cell(&g, out[0].p, in[0].p, 1);
}
